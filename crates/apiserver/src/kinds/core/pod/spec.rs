//! Validation of the specs of Pods and Pod templates (`ValidatePodSpec`, `ValidatePodTemplateSpec`).

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use settled_apimachinery::unstructured::{field, given, integer, items, string};
use settled_apimachinery::validation;

use crate::kinds::check::{Check, Form, join, same, validate_label_selector, validate_labels};
use crate::kinds::core::pod::containers::{
    check_host_port_conflicts, validate_container_common, validate_lifecycle_and_probes,
};
use crate::kinds::core::pod::volumes::validate_volumes;

const RESTART: [&str; 3] = ["Always", "OnFailure", "Never"];

const DNS: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];

/// A template: what a workload's Pods are made of.
pub(crate) fn validate_pod_template_spec(check: &mut Check, template: &Value, at: &str) {
    let metadata = field(template, "metadata");
    validate_labels(check, &join(at, "labels"), metadata, "labels");
    crate::metadata::validate_annotations(
        metadata.get("annotations"),
        &join(at, "annotations"),
        &mut check.causes,
    );
    validate_pod_spec(check, field(template, "spec"), None, &join(at, "spec"));
    if !items(field(template, "spec"), "ephemeralContainers").is_empty() {
        check.forbidden(
            join(at, "spec.ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        );
    }
}

pub(crate) fn validate_pod_spec(check: &mut Check, spec: &Value, pod: Option<&str>, at: &str) {
    let volumes = validate_volumes(check, spec, pod, &join(at, "volumes"));
    let list = join(at, "containers");
    let containers = items(spec, "containers");
    if containers.is_empty() {
        check.required(list.as_str(), "");
    }
    let mut names = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let at = format!("{list}[{index}]");
        validate_container_common(check, container, &volumes, &at);
        let name = string(container, "name");
        if !names.insert(name) {
            check.duplicate(join(&at, "name"), &name.into());
        }
        validate_lifecycle_and_probes(check, container, &at);
        if let Some(policy) = given(container, "restartPolicy") {
            let known = policy.as_str().unwrap_or_default();
            if !RESTART.contains(&known) {
                check.not_supported(join(&at, "restartPolicy"), policy, &RESTART);
            }
        }
    }
    check_host_port_conflicts(check, containers, &list);
    let list = join(at, "initContainers");
    for (index, container) in items(spec, "initContainers").iter().enumerate() {
        let at = format!("{list}[{index}]");
        validate_container_common(check, container, &volumes, &at);
        let always = string(container, "restartPolicy") == "Always";
        let name = string(container, "name");
        if !names.insert(name) && !name.is_empty() {
            check.duplicate(join(&at, "name"), &name.into());
        }
        check_host_port_conflicts(check, std::slice::from_ref(container), &list);
        if always {
            validate_lifecycle_and_probes(check, container, &at);
        } else {
            for probe in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if given(container, probe).is_some() {
                    check.forbidden(
                        join(&at, probe),
                        "may not be set for init containers without restartPolicy=Always",
                    );
                }
            }
        }
    }
    check.word(&join(at, "restartPolicy"), string(spec, "restartPolicy"), &RESTART);
    check.word(&join(at, "dnsPolicy"), string(spec, "dnsPolicy"), &DNS);
    validate_labels(check, &join(at, "nodeSelector"), spec, "nodeSelector");
    validate_affinity(check, spec, at);
    validate_topology_spread_constraints(check, spec, at);
    for (name, form) in [
        ("serviceAccountName", validation::is_dns1123_subdomain as Form),
        ("nodeName", validation::is_dns1123_subdomain),
        ("hostname", validation::is_dns1123_label),
        ("subdomain", validation::is_dns1123_label),
        ("priorityClassName", validation::is_dns1123_subdomain),
        ("runtimeClassName", validation::is_dns1123_subdomain),
    ] {
        let value = string(spec, name);
        if !value.is_empty() {
            check.form(&join(at, name), value, form);
        }
        // Between the names of the node and of the host.
        if name == "nodeName"
            && let Some(seconds) = integer(spec, "activeDeadlineSeconds")
        {
            for message in validation::is_in_range(seconds, 1, i64::from(i32::MAX)) {
                check.invalid(join(at, "activeDeadlineSeconds"), &seconds.into(), &message);
            }
        }
        if name == "subdomain" {
            validate_tolerations(check, spec, at);
        }
    }
    if let Some(policy) = given(spec, "preemptionPolicy")
        && !["PreemptLowerPriority", "Never"].contains(&policy.as_str().unwrap_or_default())
    {
        check.not_supported(join(at, "preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
    }
}

fn validate_tolerations(check: &mut Check, spec: &Value, at: &str) {
    for (index, toleration) in items(spec, "tolerations").iter().enumerate() {
        let at = format!("{at}.tolerations[{index}]");
        let [key, operator, value, effect] =
            ["key", "operator", "value", "effect"].map(|name| string(toleration, name));
        if !key.is_empty() {
            check.form(&join(&at, "key"), key, validation::is_qualified_name);
        } else if operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            check.invalid(join(&at, "operator"), &operator.into(), detail);
        }
        if given(toleration, "tolerationSeconds").is_some() && effect != "NoExecute" {
            check.invalid(
                join(&at, "effect"),
                &effect.into(),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            );
        }
        match operator {
            "" | "Equal" => {
                let wrong = validation::is_valid_label_value(value);
                if !wrong.is_empty() {
                    check.invalid(join(&at, "operator"), &value.into(), &wrong.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    check.invalid(
                        join(&at, "operator"),
                        &value.into(),
                        "value must be empty when `operator` is 'Exists'",
                    );
                }
            }
            "Lt" | "Gt" => {
                check.not_supported(join(&at, "operator"), &operator.into(), &["Equal", "Exists", "Lt", "Gt"])
            }
            _ => check.not_supported(join(&at, "operator"), &operator.into(), &["Equal", "Exists"]),
        }
        const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if !effect.is_empty() && !EFFECTS.contains(&effect) {
            check.not_supported(join(&at, "effect"), &effect.into(), &EFFECTS);
        }
    }
}

fn validate_affinity(check: &mut Check, spec: &Value, at: &str) {
    let affinity = field(spec, "affinity");
    for kind in ["podAffinity", "podAntiAffinity"] {
        let lists = field(affinity, kind);
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        let mut term = |at: String, term: &Value| {
            validate_label_selector(check, &join(&at, "labelSelector"), field(term, "labelSelector"));
            let key = string(term, "topologyKey");
            if key.is_empty() {
                check.required(join(&at, "topologyKey"), "can not be empty");
            }
            check.form(&join(&at, "topologyKey"), key, validation::is_qualified_name);
        };
        for (index, item) in items(lists, required).iter().enumerate() {
            term(format!("{at}.affinity.{kind}.{required}[{index}]"), item);
        }
        for (index, item) in items(lists, preferred).iter().enumerate() {
            term(
                format!("{at}.affinity.{kind}.{preferred}[{index}].podAffinityTerm"),
                field(item, "podAffinityTerm"),
            );
        }
    }
}

fn validate_topology_spread_constraints(check: &mut Check, spec: &Value, at: &str) {
    for (index, constraint) in items(spec, "topologySpreadConstraints").iter().enumerate() {
        let at = format!("{at}.topologySpreadConstraints[{index}]");
        let skew = integer(constraint, "maxSkew").unwrap_or_default();
        if skew <= 0 {
            check.invalid(join(&at, "maxSkew"), &skew.into(), "must be greater than zero");
        }
        let key = string(constraint, "topologyKey");
        if key.is_empty() {
            check.required(join(&at, "topologyKey"), "can not be empty");
        }
        let action = string(constraint, "whenUnsatisfiable");
        if !["DoNotSchedule", "ScheduleAnyway"].contains(&action) {
            check.not_supported(
                join(&at, "whenUnsatisfiable"),
                &action.into(),
                &["DoNotSchedule", "ScheduleAnyway"],
            );
        }
        validate_label_selector(check, &join(&at, "labelSelector"), field(constraint, "labelSelector"));
    }
}

/// Whether two templates are the same.
pub(crate) fn same_template(new: &Value, old: &Value) -> bool {
    same(Some(field(new, "template")), Some(field(old, "template")))
}

/// The labels of a template, as Go shows them.
pub(crate) fn template_labels(spec: &Value) -> Option<&Map<String, Value>> {
    field(field(field(spec, "template"), "metadata"), "labels").as_object()
}

//! Validation of Pods and Pod templates.

use std::collections::{BTreeSet, HashSet};

use serde_json::{Map, Value};
use settled_apimachinery::quantity::Quantity;
use settled_apimachinery::unstructured::{entries, field, given, integer, items, string};
use settled_apimachinery::validation;

use super::check::{Check, Form, join, labels, same, selector};

const RESTART: [&str; 3] = ["Always", "OnFailure", "Never"];
const DNS: [&str; 4] = ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(super) fn pod(check: &mut Check, new: &Value, old: Option<&Value>) {
    let spec = field(new, "spec");
    let name = string(field(new, "metadata"), "name");
    pod_spec(check, spec, Some(name), "spec");
    if string(spec, "serviceAccountName").is_empty() {
        for (v, volume) in items(spec, "volumes").iter().enumerate() {
            for (s, source) in items(field(volume, "projected"), "sources").iter().enumerate() {
                if given(source, "serviceAccountToken").is_some() {
                    check.forbidden(
                        format!("spec.volumes[{v}].projected.sources[{s}].serviceAccountToken"),
                        "must not be specified when serviceAccountName is not set",
                    );
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        for (index, container) in items(spec, list).iter().enumerate() {
            let image = string(container, "image");
            if image.trim() != image {
                let at = format!("spec.{list}[{index}].image");
                check.invalid(at, &image.into(), "must not have leading or trailing whitespace");
            }
        }
    }
    if let Some(old) = old {
        changed(check, spec, field(old, "spec"));
    }
}

const CHANGEABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// What of a Pod may change: images, deadlines, more tolerations, fewer gates.
fn changed(check: &mut Check, new: &Value, old: &Value) {
    for list in ["containers", "initContainers"] {
        let at = join("spec", list);
        if items(new, list).len() != items(old, list).len() {
            check.forbidden(at, "pod updates may not add or remove containers");
            return;
        }
        for (index, container) in items(new, list).iter().enumerate() {
            if string(container, "image").is_empty() {
                check.required(format!("{at}[{index}].image"), "");
            }
        }
    }
    let deadline = "activeDeadlineSeconds";
    match (integer(new, deadline), integer(old, deadline)) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            check.invalid(
                "spec.activeDeadlineSeconds",
                &new.into(),
                "must be between 0 and 2147483647, inclusive",
            );
            return;
        }
        (Some(new), Some(old)) if old < new => {
            check.invalid(
                "spec.activeDeadlineSeconds",
                &new.into(),
                "must be less than or equal to previous value",
            );
            return;
        }
        (None, Some(_)) => check.invalid(
            "spec.activeDeadlineSeconds",
            &Value::Null,
            "must not update from a positive integer to nil value",
        ),
        _ => {}
    }
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Value::Object(map) = &mut toleration
            && map.get("effect").and_then(Value::as_str) == Some("NoExecute")
        {
            map.remove("tolerationSeconds");
        }
        toleration.to_string()
    };
    // By their texts: there may be very many.
    let kept: HashSet<String> = items(new, "tolerations").iter().map(without_seconds).collect();
    if items(old, "tolerations").iter().any(|old| !kept.contains(&without_seconds(old))) {
        check.forbidden(
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
        );
    }
    let gates: HashSet<String> = items(old, "schedulingGates").iter().map(Value::to_string).collect();
    let is_new = |gate: &Value| !gates.contains(&gate.to_string());
    if let Some(index) = items(new, "schedulingGates").iter().position(is_new) {
        check.forbidden(
            format!("spec.schedulingGates[{index}]"),
            "only deletion is allowed, but found new scheduling gate",
        );
    }
    let mut munged = new.clone();
    let Some(fields) = munged.as_object_mut() else { return };
    for list in ["containers", "initContainers"] {
        let images = items(old, list).iter().map(|container| container.get("image"));
        let containers = fields.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (container, image) in containers.zip(images) {
            if let Value::Object(container) = container {
                restore(container, "image", image);
            }
        }
    }
    let mut kept = vec![deadline, "tolerations", "schedulingGates"];
    if integer(old, "terminationGracePeriodSeconds").is_some_and(|seconds| seconds < 0)
        && integer(new, "terminationGracePeriodSeconds") == Some(1)
    {
        kept.push("terminationGracePeriodSeconds");
    }
    if !gates.is_empty() {
        // A Pod that is held back may be steered: to fewer nodes.
        let kept_labels = entries(old, "nodeSelector")
            .all(|(key, value)| field(new, "nodeSelector").get(key) == Some(value));
        if !kept_labels {
            check.invalid_shown(
                "spec.nodeSelector",
                &field(new, "nodeSelector").to_string(),
                "only additions are allowed to spec.nodeSelector (no mutations or deletions)",
            );
        }
        kept.extend(["nodeSelector", "affinity"]);
    }
    for name in kept {
        restore(fields, name, old.get(name));
    }
    if munged != *old {
        check.forbidden("spec", CHANGEABLE);
    }
}

fn restore(fields: &mut Map<String, Value>, name: &str, old: Option<&Value>) {
    match old {
        Some(old) => drop(fields.insert(name.to_owned(), old.clone())),
        None => drop(fields.remove(name)),
    }
}

/// A template: what a workload's Pods are made of.
pub(super) fn template(check: &mut Check, template: &Value, at: &str) {
    let metadata = field(template, "metadata");
    labels(check, &join(at, "labels"), metadata, "labels");
    crate::metadata::validate_annotations(
        metadata.get("annotations"),
        &join(at, "annotations"),
        &mut check.causes,
    );
    pod_spec(check, field(template, "spec"), None, &join(at, "spec"));
    if !items(field(template, "spec"), "ephemeralContainers").is_empty() {
        check.forbidden(
            join(at, "spec.ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        );
    }
}

fn pod_spec(check: &mut Check, spec: &Value, pod: Option<&str>, at: &str) {
    let volumes = volumes(check, spec, pod, &join(at, "volumes"));
    let list = join(at, "containers");
    let containers = items(spec, "containers");
    if containers.is_empty() {
        check.required(list.as_str(), "");
    }
    let mut names = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let at = format!("{list}[{index}]");
        common(check, container, &volumes, &at);
        let name = string(container, "name");
        if !names.insert(name) {
            check.duplicate(join(&at, "name"), &name.into());
        }
        lifecycle_and_probes(check, container, &at);
        if let Some(policy) = given(container, "restartPolicy") {
            let known = policy.as_str().unwrap_or_default();
            if !RESTART.contains(&known) {
                check.not_supported(join(&at, "restartPolicy"), policy, &RESTART);
            }
        }
    }
    host_ports(check, containers, &list);
    let list = join(at, "initContainers");
    for (index, container) in items(spec, "initContainers").iter().enumerate() {
        let at = format!("{list}[{index}]");
        common(check, container, &volumes, &at);
        let always = string(container, "restartPolicy") == "Always";
        let name = string(container, "name");
        if !names.insert(name) && !name.is_empty() {
            check.duplicate(join(&at, "name"), &name.into());
        }
        host_ports(check, std::slice::from_ref(container), &list);
        if always {
            lifecycle_and_probes(check, container, &at);
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
    labels(check, &join(at, "nodeSelector"), spec, "nodeSelector");
    affinity(check, spec, at);
    spread(check, spec, at);
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
            tolerations(check, spec, at);
        }
    }
    if let Some(policy) = given(spec, "preemptionPolicy")
        && !["PreemptLowerPriority", "Never"].contains(&policy.as_str().unwrap_or_default())
    {
        check.not_supported(join(at, "preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
    }
}

/// The volumes, and the names of those that are right.
fn volumes<'a>(check: &mut Check, spec: &'a Value, pod: Option<&str>, at: &str) -> BTreeSet<&'a str> {
    let mut right = BTreeSet::new();
    for (index, volume) in items(spec, "volumes").iter().enumerate() {
        let at = format!("{at}[{index}]");
        let before = check.causes.len();
        source(check, volume, pod, &at);
        let name = string(volume, "name");
        check.required_form(&join(&at, "name"), name, validation::is_dns1123_label);
        if right.contains(name) {
            check.duplicate(join(&at, "name"), &name.into());
        }
        if check.causes.len() == before {
            right.insert(name);
        }
    }
    right
}

/// What a volume may be, in the order of upstream's checks, and the field that it can't be without.
const SOURCES: [(&str, &[&str]); 14] = [
    ("emptyDir", &[]),
    ("hostPath", &["path"]),
    ("secret", &["secretName"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("rbd", &[]),
    ("downwardAPI", &[]),
    ("configMap", &["name"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("projected", &[]),
    ("csi", &["driver"]),
    ("ephemeral", &[]),
    ("image", &[]),
];

fn source(check: &mut Check, volume: &Value, pod: Option<&str>, at: &str) {
    let mut one = false;
    for (name, needed) in SOURCES {
        let Some(source) = given(volume, name) else { continue };
        let at = join(at, name);
        if one {
            check.forbidden(at, "may not specify more than 1 volume type");
            continue;
        }
        one = true;
        for needed in needed {
            if string(source, needed).is_empty() {
                check.required(join(&at, needed), "");
            }
        }
        if let Some(mode) = integer(source, "defaultMode").filter(|mode| !(0..=0o777).contains(mode)) {
            let detail = "must be a number between 0 and 0777 (octal), both inclusive";
            check.invalid(join(&at, "defaultMode"), &mode.into(), detail);
        }
        match name {
            "hostPath" => host_path(check, source, &at),
            "secret" | "configMap" => {
                for (index, item) in items(source, "items").iter().enumerate() {
                    key_to_path(check, item, &format!("{at}.items[{index}]"));
                }
            }
            "ephemeral" => {
                if given(source, "volumeClaimTemplate").is_none() {
                    check.required(join(&at, "volumeClaimTemplate"), "");
                } else {
                    let claim = field(field(source, "volumeClaimTemplate"), "spec");
                    super::resources::claim_spec(check, claim, &join(&at, "volumeClaimTemplate.spec"));
                }
                if let Some(pod) = pod.filter(|pod| !pod.is_empty()) {
                    let claim = format!("{pod}-{}", string(volume, "name"));
                    for message in validation::is_dns1123_subdomain(&claim) {
                        let detail = format!("PVC name {claim:?}: {message}");
                        check.invalid(at.replace(".ephemeral", ".name"), field(volume, "name"), &detail);
                    }
                }
            }
            _ => {}
        }
    }
}

fn host_path(check: &mut Check, source: &Value, at: &str) {
    let path = string(source, "path");
    if path.split('/').any(|part| part == "..") {
        check.invalid(join(at, "path"), &path.into(), "must not contain '..'");
    }
    const TYPES: [&str; 8] =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    if !path.is_empty() && !TYPES.contains(&string(source, "type")) {
        check.not_supported(join(at, "type"), field(source, "type"), &TYPES);
    }
}

fn key_to_path(check: &mut Check, item: &Value, at: &str) {
    if string(item, "key").is_empty() {
        check.required(join(at, "key"), "");
    }
    let path = string(item, "path");
    if path.is_empty() {
        check.required(join(at, "path"), "");
    } else {
        if path.starts_with('/') {
            check.invalid(join(at, "path"), &path.into(), "must be a relative path");
        }
        if path.split('/').any(|part| part == "..") {
            check.invalid(join(at, "path"), &path.into(), "must not contain '..'");
        }
    }
    if let Some(mode) = integer(item, "mode").filter(|mode| !(0..=0o777).contains(mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        check.invalid(join(at, "mode"), &mode.into(), detail);
    }
}

/// What every container has to be.
fn common(check: &mut Check, container: &Value, volumes: &BTreeSet<&str>, at: &str) {
    check.required_form(&join(at, "name"), string(container, "name"), validation::is_dns1123_label);
    if string(container, "image").is_empty() {
        check.required(join(at, "image"), "");
    }
    let policy = string(container, "terminationMessagePolicy");
    check.word(&join(at, "terminationMessagePolicy"), policy, &["File", "FallbackToLogsOnError"]);
    ports(check, items(container, "ports"), &join(at, "ports"));
    environment(check, container, at);
    let mut paths = BTreeSet::new();
    for (index, mount) in items(container, "volumeMounts").iter().enumerate() {
        let at = format!("{at}.volumeMounts[{index}]");
        let name = string(mount, "name");
        if name.is_empty() {
            check.required(join(&at, "name"), "");
        }
        if !volumes.contains(name) {
            check.not_found(join(&at, "name"), &name.into());
        }
        let path = string(mount, "mountPath");
        if path.is_empty() {
            check.required(join(&at, "mountPath"), "");
        }
        if !paths.insert(path) {
            check.invalid(join(&at, "mountPath"), &path.into(), "must be unique");
        }
        if !string(mount, "subPathExpr").is_empty() && !string(mount, "subPath").is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            check.invalid(join(&at, "subPathExpr"), field(mount, "subPathExpr"), detail);
        }
    }
    check.word(
        &join(at, "imagePullPolicy"),
        string(container, "imagePullPolicy"),
        &["Always", "IfNotPresent", "Never"],
    );
    resources(check, field(container, "resources"), &join(at, "resources"));
    let security = field(container, "securityContext");
    if field(security, "allowPrivilegeEscalation") == &Value::Bool(false)
        && field(security, "privileged") == &Value::Bool(true)
    {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        check.invalid(join(at, "securityContext"), security, detail);
    }
}

fn ports(check: &mut Check, ports: &[Value], at: &str) {
    let mut names = BTreeSet::new();
    for (index, port) in ports.iter().enumerate() {
        let at = format!("{at}[{index}]");
        let name = string(port, "name");
        if !name.is_empty() {
            let wrong = validation::is_valid_port_name(name);
            if wrong.is_empty() && !names.insert(name) {
                check.duplicate(join(&at, "name"), &name.into());
            }
            for message in wrong {
                check.invalid(join(&at, "name"), &name.into(), &message);
            }
        }
        match integer(port, "containerPort").unwrap_or_default() {
            0 => check.required(join(&at, "containerPort"), ""),
            number => {
                for message in validation::is_valid_port_num(number) {
                    check.invalid(join(&at, "containerPort"), &number.into(), &message);
                }
            }
        }
        if let Some(number) = integer(port, "hostPort").filter(|number| *number != 0) {
            for message in validation::is_valid_port_num(number) {
                check.invalid(join(&at, "hostPort"), &number.into(), &message);
            }
        }
        check.word(&join(&at, "protocol"), string(port, "protocol"), &PROTOCOLS);
    }
}

/// A port of the node is used once.
fn host_ports(check: &mut Check, containers: &[Value], at: &str) {
    let mut used = BTreeSet::new();
    for (c, container) in containers.iter().enumerate() {
        for (p, port) in items(container, "ports").iter().enumerate() {
            let Some(number) = integer(port, "hostPort").filter(|number| *number != 0) else { continue };
            let place = format!("{}/{}/{number}", string(port, "protocol"), string(port, "hostIP"));
            if !used.insert(place.clone()) {
                check.duplicate(format!("{at}[{c}].ports[{p}].hostPort"), &place.into());
            }
        }
    }
}

fn environment(check: &mut Check, container: &Value, at: &str) {
    for (index, variable) in items(container, "env").iter().enumerate() {
        let at = format!("{at}.env[{index}]");
        check.required_form(
            &join(&at, "name"),
            string(variable, "name"),
            validation::is_relaxed_env_var_name,
        );
        let Some(from) = given(variable, "valueFrom") else { continue };
        let at = join(&at, "valueFrom");
        let mut sources = 0;
        for name in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
            let Some(source) = given(from, name) else { continue };
            sources += 1;
            let at = join(&at, name);
            match name {
                "fieldRef" if string(source, "fieldPath").is_empty() => {
                    check.required(join(&at, "fieldPath"), "");
                }
                "resourceFieldRef" if string(source, "resource").is_empty() => {
                    check.required(join(&at, "resource"), "");
                }
                "configMapKeyRef" | "secretKeyRef" => {
                    check.form(&join(&at, "name"), string(source, "name"), validation::is_dns1123_subdomain);
                    check.required_form(
                        &join(&at, "key"),
                        string(source, "key"),
                        validation::is_config_map_key,
                    );
                }
                _ => {}
            }
        }
        if sources == 0 {
            let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
            check.invalid(at.as_str(), &"".into(), detail);
        } else if !string(variable, "value").is_empty() {
            check.invalid(at.as_str(), &"".into(), "may not be specified when `value` is not empty");
        } else if sources > 1 {
            check.invalid(at.as_str(), &"".into(), "may not have more than one field specified at a time");
        }
    }
    for (index, from) in items(container, "envFrom").iter().enumerate() {
        let list = join(at, "envFrom");
        let at = format!("{list}[{index}]");
        let mut sources = 0;
        for name in ["configMapRef", "secretRef"] {
            if let Some(source) = given(from, name) {
                sources += 1;
                check.required_form(
                    &format!("{at}.{name}.name"),
                    string(source, "name"),
                    validation::is_dns1123_subdomain,
                );
            }
        }
        if sources == 0 {
            check.invalid(list, &"".into(), "must specify one of: `configMapRef` or `secretRef`");
        } else if sources > 1 {
            check.invalid(list, &"".into(), "may not have more than one field specified at a time");
        }
    }
}

/// Resources of a container: of known names, not negative, requests within limits.
fn resources(check: &mut Check, resources: &Value, at: &str) {
    let standard =
        |name: &str| ["cpu", "memory", "ephemeral-storage"].contains(&name) || name.starts_with("hugepages-");
    let mut amounts = |list: &str| {
        for (name, value) in entries(resources, list) {
            let at = format!("{at}.{list}[{name}]");
            check.form(&at, name, validation::is_qualified_name);
            let parts = name.split('/').count();
            if parts == 1 && !standard(name) {
                let known = ["storage", "pods", "services", "secrets", "configmaps"].contains(&name.as_str());
                if !known && validation::is_qualified_name(name).is_empty() {
                    let detail = "must be a standard resource type or fully qualified";
                    check.invalid(at.as_str(), &name.as_str().into(), detail);
                }
                check.invalid(
                    at.as_str(),
                    &name.as_str().into(),
                    "must be a standard resource for containers",
                );
            } else if parts > 1
                && !name.contains("kubernetes.io/")
                && (parts > 2 || name.starts_with("requests."))
            {
                check.invalid(
                    at.as_str(),
                    &name.as_str().into(),
                    "doesn't follow extended resource name standard",
                );
            }
            let Some(quantity) = Quantity::from_value(value) else { continue };
            if quantity.is_negative() {
                check.invalid(at.as_str(), value, "must be greater than or equal to 0");
            }
            if name.contains('/') && quantity.milli_value() % 1000 != 0 {
                check.invalid(at.as_str(), value, "must be an integer");
            }
        }
    };
    amounts("limits");
    amounts("requests");
    for (name, value) in entries(resources, "requests") {
        let limit = field(field(resources, "limits"), name);
        let (Some(request), Some(bound)) = (Quantity::from_value(value), Quantity::from_value(limit)) else {
            continue;
        };
        let at = join(at, "requests");
        if request != bound && (name.contains('/') || name.starts_with("hugepages-")) {
            let detail = format!("must be equal to {name} limit of {}", limit.as_str().unwrap_or_default());
            check.invalid(at, value, &detail);
        } else if request > bound {
            let detail = format!(
                "must be less than or equal to {name} limit of {}",
                limit.as_str().unwrap_or_default()
            );
            check.invalid(at, value, &detail);
        }
    }
}

fn lifecycle_and_probes(check: &mut Check, container: &Value, at: &str) {
    let lifecycle = field(container, "lifecycle");
    for hook in ["postStart", "preStop"] {
        if let Some(handler) = given(lifecycle, hook) {
            handle(
                check,
                handler,
                &format!("{at}.lifecycle.{hook}"),
                &["exec", "httpGet", "tcpSocket", "sleep"],
            );
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = given(container, name) else { continue };
        let at = join(at, name);
        handle(check, probe, &at, &["exec", "httpGet", "tcpSocket", "grpc"]);
        for number in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            check.not_negative(&at, probe, number);
        }
        if let Some(seconds) = integer(probe, "terminationGracePeriodSeconds").filter(|seconds| *seconds <= 0)
        {
            check.invalid(
                join(&at, "terminationGracePeriodSeconds"),
                &seconds.into(),
                "must be greater than 0",
            );
        }
        if name != "readinessProbe"
            && let Some(threshold) = integer(probe, "successThreshold").filter(|threshold| *threshold != 1)
        {
            check.invalid(join(&at, "successThreshold"), &threshold.into(), "must be 1");
        }
        if name == "readinessProbe" && given(probe, "terminationGracePeriodSeconds").is_some() {
            check.invalid(
                join(&at, "terminationGracePeriodSeconds"),
                field(probe, "terminationGracePeriodSeconds"),
                "must not be set for readinessProbes",
            );
        }
    }
}

fn handle(check: &mut Check, handler: &Value, at: &str, kinds: &[&str]) {
    let mut one = false;
    for kind in kinds {
        let Some(action) = given(handler, kind) else { continue };
        let at = join(at, kind);
        if one {
            check.forbidden(at, "may not specify more than 1 handler type");
            continue;
        }
        one = true;
        match *kind {
            "exec" if items(action, "command").is_empty() => {
                check.required(join(&at, "command"), "");
            }
            "httpGet" | "tcpSocket" => {
                if *kind == "httpGet" && string(action, "path").is_empty() {
                    check.required(join(&at, "path"), "");
                }
                port_or_name(check, field(action, "port"), &join(&at, "port"));
                if *kind == "httpGet" {
                    check.word(&join(&at, "scheme"), string(action, "scheme"), &["HTTP", "HTTPS"]);
                }
            }
            "grpc" => {
                let number = integer(action, "port").unwrap_or_default();
                for message in validation::is_valid_port_num(number) {
                    check.invalid(join(&at, "port"), &number.into(), &message);
                }
            }
            _ => {}
        }
    }
    if !one {
        check.required(at, "must specify a handler type");
    }
}

/// The number of a port, or the name of one.
pub(super) fn port_or_name(check: &mut Check, value: &Value, at: &str) {
    let wrong = match value {
        Value::String(name) => validation::is_valid_port_name(name),
        number => validation::is_valid_port_num(number.as_i64().unwrap_or_default()),
    };
    for message in wrong {
        check.invalid(at, value, &message);
    }
}

fn tolerations(check: &mut Check, spec: &Value, at: &str) {
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

fn affinity(check: &mut Check, spec: &Value, at: &str) {
    let affinity = field(spec, "affinity");
    for kind in ["podAffinity", "podAntiAffinity"] {
        let lists = field(affinity, kind);
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        let mut term = |at: String, term: &Value| {
            selector(check, &join(&at, "labelSelector"), field(term, "labelSelector"));
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

fn spread(check: &mut Check, spec: &Value, at: &str) {
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
        selector(check, &join(&at, "labelSelector"), field(constraint, "labelSelector"));
    }
}

/// Whether two templates are the same.
pub(super) fn same_template(new: &Value, old: &Value) -> bool {
    same(Some(field(new, "template")), Some(field(old, "template")))
}

/// The labels of a template, as Go shows them.
pub(super) fn template_labels(spec: &Value) -> Option<&Map<String, Value>> {
    field(field(field(spec, "template"), "metadata"), "labels").as_object()
}

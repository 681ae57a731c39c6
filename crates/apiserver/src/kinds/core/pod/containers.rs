//! Validation of containers: ports, environment, resources, probes and lifecycle hooks.

use std::collections::BTreeSet;

use serde_json::Value;
use settled_apimachinery::quantity::Quantity;
use settled_apimachinery::unstructured::{entries, field, given, integer, items, string};
use settled_apimachinery::validation;

use crate::kinds::check::{Check, join};

const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

/// What every container has to be.
pub(crate) fn validate_container_common(
    check: &mut Check,
    container: &Value,
    volumes: &BTreeSet<&str>,
    at: &str,
) {
    check.required_form(&join(at, "name"), string(container, "name"), validation::is_dns1123_label);
    if string(container, "image").is_empty() {
        check.required(join(at, "image"), "");
    }
    let policy = string(container, "terminationMessagePolicy");
    check.word(&join(at, "terminationMessagePolicy"), policy, &["File", "FallbackToLogsOnError"]);
    validate_container_ports(check, items(container, "ports"), &join(at, "ports"));
    validate_env(check, container, at);
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
    validate_resource_requirements(check, field(container, "resources"), &join(at, "resources"));
    let security = field(container, "securityContext");
    if field(security, "allowPrivilegeEscalation") == &Value::Bool(false)
        && field(security, "privileged") == &Value::Bool(true)
    {
        let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        check.invalid(join(at, "securityContext"), security, detail);
    }
}

fn validate_container_ports(check: &mut Check, ports: &[Value], at: &str) {
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
pub(crate) fn check_host_port_conflicts(check: &mut Check, containers: &[Value], at: &str) {
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

fn validate_env(check: &mut Check, container: &Value, at: &str) {
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
fn validate_resource_requirements(check: &mut Check, resources: &Value, at: &str) {
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

pub(crate) fn validate_lifecycle_and_probes(check: &mut Check, container: &Value, at: &str) {
    let lifecycle = field(container, "lifecycle");
    for hook in ["postStart", "preStop"] {
        if let Some(handler) = given(lifecycle, hook) {
            validate_handler(
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
        validate_handler(check, probe, &at, &["exec", "httpGet", "tcpSocket", "grpc"]);
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

fn validate_handler(check: &mut Check, handler: &Value, at: &str, kinds: &[&str]) {
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
                validate_port_num_or_name(check, field(action, "port"), &join(&at, "port"));
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
pub(crate) fn validate_port_num_or_name(check: &mut Check, value: &Value, at: &str) {
    let wrong = match value {
        Value::String(name) => validation::is_valid_port_name(name),
        number => validation::is_valid_port_num(number.as_i64().unwrap_or_default()),
    };
    for message in wrong {
        check.invalid(at, value, &message);
    }
}

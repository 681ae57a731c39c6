//! Validation of the kinds that run no Pods and have no file of their own.

use std::net::IpAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use settled_apimachinery::quantity::Quantity;
use settled_apimachinery::unstructured::{entries, field, given, integer, items, string};
use settled_apimachinery::validation;

use super::check::{Check, at_most_all, join, positive_or_percent, same, selector};
use super::pair;

/// What a ConfigMap or Secret may hold, in bytes.
const MOST: usize = 1024 * 1024;

pub(super) fn namespace(check: &mut Check, namespace: &Value) {
    for finalizer in items(field(namespace, "spec"), "finalizers") {
        check.form("spec.finalizers", finalizer.as_str().unwrap_or_default(), validation::is_qualified_name);
        check.standard_finalizer("spec.finalizers", finalizer);
    }
}

/// How many bytes base64 stands for.
fn decoded_len(text: &str) -> usize {
    let letters = text.bytes().filter(|byte| !matches!(byte, b'=' | b'\r' | b'\n')).count();
    letters * 3 / 4
}

/// What may not change once `immutable` is set.
fn immutable(check: &mut Check, new: &Value, old: Option<&Value>, names: &[&str]) {
    let Some(old) = old.filter(|old| field(old, "immutable") == &Value::Bool(true)) else { return };
    let detail = "field is immutable when `immutable` is set";
    if field(new, "immutable") != &Value::Bool(true) {
        check.forbidden("immutable", detail);
    }
    for name in names {
        if !same(given(new, name), given(old, name)) {
            check.forbidden(*name, detail);
        }
    }
}

pub(super) fn config_map(check: &mut Check, new: &Value, old: Option<&Value>) {
    immutable(check, new, old, &["data", "binaryData"]);
    let mut size = 0;
    for (key, value) in entries(new, "data") {
        let at = format!("data[{key}]");
        check.form(&at, key, validation::is_config_map_key);
        if field(new, "binaryData").get(key).is_some() {
            check.invalid(at, &key.as_str().into(), "duplicate of key present in binaryData");
        }
        size += value.as_str().unwrap_or_default().len();
    }
    for (key, value) in entries(new, "binaryData") {
        check.form(&format!("binaryData[{key}]"), key, validation::is_config_map_key);
        size += decoded_len(value.as_str().unwrap_or_default());
    }
    if size > MOST {
        check.too_long("", MOST);
    }
}

pub(super) fn secret(check: &mut Check, new: &Value, old: Option<&Value>) {
    if let Some(old) = old {
        check.immutable("type", given(new, "type"), given(old, "type"));
    }
    immutable(check, new, old, &["data"]);
    let mut size = 0;
    for (key, value) in entries(new, "data") {
        check.form(&format!("data[{key}]"), key, validation::is_config_map_key);
        size += decoded_len(value.as_str().unwrap_or_default());
    }
    if size > MOST {
        check.too_long("data", MOST);
    }
    let has = |key: &str| field(new, "data").get(key).is_some();
    let mut needs = |keys: &[&str]| {
        for key in keys {
            if !has(key) {
                check.required(format!("data[{key}]"), "");
            }
        }
    };
    match string(new, "type") {
        "kubernetes.io/service-account-token" => {
            let annotations = field(field(new, "metadata"), "annotations");
            let key = "kubernetes.io/service-account.name";
            if string(annotations, key).is_empty() {
                check.required(format!("metadata.annotations[{key}]"), "");
            }
        }
        "kubernetes.io/dockercfg" => {
            needs(&[".dockercfg"]);
            configuration(check, new, ".dockercfg");
        }
        "kubernetes.io/dockerconfigjson" => {
            needs(&[".dockerconfigjson"]);
            configuration(check, new, ".dockerconfigjson");
        }
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => {
            needs(&["username", "password"])
        }
        "kubernetes.io/ssh-auth" => needs(&["ssh-privatekey"]),
        "kubernetes.io/tls" => needs(&["tls.crt", "tls.key"]),
        _ => {}
    }
}

/// What a Secret holds under a key.
fn held(secret: &Value, key: &str) -> Option<Vec<u8>> {
    let text = field(secret, "data").get(key)?.as_str()?;
    let text: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    BASE64_STANDARD.decode(text).ok()
}

/// Credentials of registries are a JSON object.
fn configuration(check: &mut Check, secret: &Value, key: &str) {
    let Some(bytes) = held(secret, key) else { return };
    if let Some(why) = crate::decode::no_object(&bytes) {
        check.invalid(format!("data[{key}]"), &"<secret contents redacted>".into(), &why);
    }
}

/// What a Secret for TLS holds that can't be used.
pub(super) fn certificate_warning(secret: &Value) -> Option<String> {
    if string(secret, "type") != "kubernetes.io/tls" {
        return None;
    }
    let [certificate, key] = ["tls.crt", "tls.key"].map(|name| held(secret, name).unwrap_or_default());
    pair::wrong(&certificate, &key)
}

const ACCESS: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(super) fn claim_spec(check: &mut Check, spec: &Value, at: &str) {
    let modes = items(spec, "accessModes");
    if modes.is_empty() {
        check.required(join(at, "accessModes"), "at least 1 access mode is required");
    }
    selector(check, &join(at, "selector"), field(spec, "selector"));
    for mode in modes {
        if !ACCESS.contains(&mode.as_str().unwrap_or_default()) {
            check.not_supported(join(at, "accessModes"), mode, &ACCESS);
        }
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        check.forbidden(join(at, "accessModes"), "may not use ReadWriteOncePod with other access modes");
    }
    let place = join(at, "resources[storage]");
    let storage = field(field(field(spec, "resources"), "requests"), "storage");
    match Quantity::from_value(storage) {
        None => check.required(place, ""),
        Some(size) if size.is_negative() || size.is_zero() => {
            check.invalid(place, storage, "must be greater than zero")
        }
        Some(_) => {}
    }
    let class = string(spec, "storageClassName");
    if !class.is_empty() {
        check.form(&join(at, "storageClassName"), class, validation::is_dns1123_subdomain);
    }
    if let Some(mode) = given(spec, "volumeMode")
        && !["Block", "Filesystem"].contains(&mode.as_str().unwrap_or_default())
    {
        check.not_supported(join(at, "volumeMode"), mode, &["Block", "Filesystem"]);
    }
}

pub(super) fn claim(check: &mut Check, new: &Value, old: Option<&Value>) {
    let spec = field(new, "spec");
    claim_spec(check, spec, "spec");
    let Some(old) = old else { return };
    let before = field(old, "spec");
    let bound = string(field(new, "status"), "phase") == "Bound";
    let without = |spec: &Value| {
        let mut spec = spec.clone();
        if string(before, "volumeName").is_empty() {
            remove(&mut spec, "volumeName");
        }
        if bound {
            remove(&mut spec, "volumeAttributesClassName");
            if let Some(requests) = spec.pointer_mut("/resources/requests") {
                remove(requests, "storage");
            }
        }
        // The class may be told later, where there was none.
        if given(before, "storageClassName").is_none() {
            remove(&mut spec, "storageClassName");
        }
        spec
    };
    if without(spec) != without(before) {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        check.forbidden("spec", detail);
    }
    let storage = |object: &Value, list: &str| Quantity::from_value(field(field(object, list), "storage"));
    let size = storage(field(spec, "resources"), "requests");
    let size_before = storage(field(before, "resources"), "requests");
    let capacity = storage(field(old, "status"), "capacity").unwrap_or_else(|| Quantity::from(0));
    if let (Some(size), Some(size_before)) = (size, size_before)
        && size < size_before
        && size <= capacity
    {
        check.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity");
    }
    check.immutable("volumeMode", given(spec, "volumeMode"), given(before, "volumeMode"));
}

fn remove(value: &mut Value, name: &str) {
    if let Value::Object(fields) = value {
        fields.remove(name);
    }
}

/// What of a PersistentVolume's spec is not where its data lies.
const NOT_SOURCE: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

pub(super) fn volume(check: &mut Check, new: &Value, old: Option<&Value>) {
    let spec = field(new, "spec");
    let modes = items(spec, "accessModes");
    if modes.is_empty() {
        check.required("spec.accessModes", "");
    }
    for mode in modes {
        if !ACCESS.contains(&mode.as_str().unwrap_or_default()) {
            check.not_supported("spec.accessModes", mode, &ACCESS);
        }
    }
    if entries(spec, "capacity").next().is_none() {
        check.required("spec.capacity", "");
    }
    let capacity = field(spec, "capacity");
    if field(capacity, "storage").is_null() || entries(spec, "capacity").count() > 1 {
        check.not_supported("spec.capacity", capacity, &["storage"]);
    }
    const POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
    let policy = string(spec, "persistentVolumeReclaimPolicy");
    if !policy.is_empty() && !POLICIES.contains(&policy) {
        check.not_supported("spec.persistentVolumeReclaimPolicy", &policy.into(), &POLICIES);
    }
    let sources = |spec: &Value| -> Vec<(String, Value)> {
        let fields = spec.as_object().into_iter().flatten();
        fields
            .filter(|(name, value)| !NOT_SOURCE.contains(&name.as_str()) && value.is_object())
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    let found = sources(spec);
    if found.is_empty() {
        check.required("spec", "must specify a volume type");
    }
    let Some(old) = old else { return };
    let mut now = found;
    let before = sources(field(old, "spec"));
    if let (Some((_, csi)), Some((_, known))) =
        (now.iter_mut().find(|(name, _)| name == "csi"), before.iter().find(|(name, _)| name == "csi"))
        && given(known, "controllerExpandSecretRef").is_none()
    {
        remove(csi, "controllerExpandSecretRef");
    }
    if now != before {
        check.forbidden(
            "spec.persistentvolumesource",
            "spec.persistentvolumesource is immutable after creation",
        );
    }
    let old = field(old, "spec");
    check.immutable("volumeMode", given(spec, "volumeMode"), given(old, "volumeMode"));
}

pub(super) fn role(check: &mut Check, namespaced: bool, new: &Value) {
    for (index, rule) in items(new, "rules").iter().enumerate() {
        let at = format!("rules[{index}]");
        if items(rule, "verbs").is_empty() {
            check.required(join(&at, "verbs"), "verbs must contain at least one value");
        }
        let [groups, resources, names, urls] =
            ["apiGroups", "resources", "resourceNames", "nonResourceURLs"].map(|name| items(rule, name));
        if !urls.is_empty() {
            let shown = Value::from(urls.to_vec());
            let at = join(&at, "nonResourceURLs");
            if namespaced {
                check.invalid(at.as_str(), &shown, "namespaced rules cannot apply to non-resource URLs");
            }
            if !groups.is_empty() || !resources.is_empty() || !names.is_empty() {
                check.invalid(
                    at,
                    &shown,
                    "rules cannot apply to both regular resources and non-resource URLs",
                );
            }
            continue;
        }
        if groups.is_empty() {
            check.required(join(&at, "apiGroups"), "resource rules must supply at least one api group");
        }
        if resources.is_empty() {
            check.required(join(&at, "resources"), "resource rules must supply at least one resource");
        }
    }
    if let Some(rule) = given(new, "aggregationRule") {
        let at = "aggregationRule.clusterRoleSelectors";
        let selectors = items(rule, "clusterRoleSelectors");
        if selectors.is_empty() {
            check.required(at, "at least one clusterRoleSelector required if aggregationRule is non-nil");
        }
        for (index, chosen) in selectors.iter().enumerate() {
            selector(check, &format!("{at}[{index}]"), chosen);
        }
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";

pub(super) fn role_binding(check: &mut Check, namespaced: bool, new: &Value, old: Option<&Value>) {
    let role = field(new, "roleRef");
    let [group, kind, name] = ["apiGroup", "kind", "name"].map(|name| string(role, name));
    if group != RBAC {
        check.not_supported("roleRef.apiGroup", &group.into(), &[RBAC]);
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&kind) {
        check.not_supported("roleRef.kind", &kind.into(), kinds);
    }
    check.required_form("roleRef.name", name, validation::is_path_segment_name);
    for (index, subject) in items(new, "subjects").iter().enumerate() {
        let at = format!("subjects[{index}]");
        let [group, kind, name] = ["apiGroup", "kind", "name"].map(|name| string(subject, name));
        if name.is_empty() {
            check.required(join(&at, "name"), "");
        }
        match kind {
            "ServiceAccount" => {
                if !name.is_empty() {
                    check.form(&join(&at, "name"), name, validation::is_dns1123_subdomain);
                }
                if !group.is_empty() {
                    check.not_supported(join(&at, "apiGroup"), &group.into(), &[""]);
                }
                if !namespaced && string(subject, "namespace").is_empty() {
                    check.required(join(&at, "namespace"), "");
                }
            }
            "User" | "Group" => {
                if group != RBAC {
                    check.not_supported(join(&at, "apiGroup"), &group.into(), &[RBAC]);
                }
            }
            _ => check.not_supported(join(&at, "kind"), &kind.into(), &["ServiceAccount", "User", "Group"]),
        }
    }
    if let Some(old) = old
        && field(old, "roleRef") != role
    {
        let [group, kind, name] = [group, kind, name].map(Value::from);
        let shown = format!("{{\"APIGroup\":{group},\"Kind\":{kind},\"Name\":{name}}}");
        check.invalid_shown("roleRef", &shown, "cannot change roleRef");
    }
}

pub(super) fn ingress(check: &mut Check, new: &Value) {
    let spec = field(new, "spec");
    let rules = items(spec, "rules");
    let fallback = given(spec, "defaultBackend");
    if rules.is_empty() && fallback.is_none() {
        check.invalid_shown("spec", "null", "either `defaultBackend` or `rules` must be specified");
    }
    if let Some(fallback) = fallback {
        backend(check, fallback, "spec.defaultBackend");
    }
    for (index, rule) in rules.iter().enumerate() {
        let at = format!("spec.rules[{index}]");
        let host = string(rule, "host");
        if host.parse::<IpAddr>().is_ok() {
            check.invalid(join(&at, "host"), &host.into(), "must be a DNS name, not an IP address");
        } else if host.contains('*') {
            check.form(&join(&at, "host"), host, validation::is_wildcard_dns1123_subdomain);
        } else if !host.is_empty() {
            check.form(&join(&at, "host"), host, validation::is_dns1123_subdomain);
        }
        let Some(http) = given(rule, "http") else { continue };
        let paths = items(http, "paths");
        if paths.is_empty() {
            check.required(join(&at, "http.paths"), "");
        }
        for (index, path) in paths.iter().enumerate() {
            http_path(check, path, &format!("{at}.http.paths[{index}]"));
        }
    }
    for (index, tls) in items(spec, "tls").iter().enumerate() {
        let at = format!("spec.tls[{index}]");
        for (index, host) in items(tls, "hosts").iter().enumerate() {
            let host = host.as_str().unwrap_or_default();
            let form = if host.contains('*') {
                validation::is_wildcard_dns1123_subdomain
            } else {
                validation::is_dns1123_subdomain
            };
            check.form(&format!("{at}.hosts[{index}]"), host, form);
        }
        let secret = string(tls, "secretName");
        if !secret.is_empty() {
            check.form(&join(&at, "secretName"), secret, validation::is_dns1123_subdomain);
        }
    }
    if let Some(class) = given(spec, "ingressClassName").and_then(Value::as_str) {
        check.form("spec.ingressClassName", class, validation::is_dns1123_subdomain);
    }
}

fn http_path(check: &mut Check, value: &Value, at: &str) {
    let Some(kind) = given(value, "pathType") else {
        check.required(join(at, "pathType"), "pathType must be specified");
        return;
    };
    let path = string(value, "path");
    let place = join(at, "path");
    match kind.as_str().unwrap_or_default() {
        "Exact" | "Prefix" => {
            if !path.starts_with('/') {
                check.invalid(place.as_str(), &path.into(), "must be an absolute path");
            }
            for part in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.contains(part) {
                    check.invalid(place.as_str(), &path.into(), &format!("must not contain '{part}'"));
                }
            }
            for end in ["/..", "/."] {
                if path.ends_with(end) {
                    check.invalid(place.as_str(), &path.into(), &format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" => {
            if !path.is_empty() && !path.starts_with('/') {
                check.invalid(place, &path.into(), "must be an absolute path");
            }
        }
        _ => check.not_supported(join(at, "pathType"), kind, &["Exact", "ImplementationSpecific", "Prefix"]),
    }
    backend(check, field(value, "backend"), &join(at, "backend"));
}

fn backend(check: &mut Check, backend: &Value, at: &str) {
    match (given(backend, "resource"), given(backend, "service")) {
        (Some(_), Some(_)) => check.invalid(at, &"".into(), "cannot set both resource and service backends"),
        (None, None) => check.invalid(at, &"".into(), "resource or service backend is required"),
        (Some(resource), None) => {
            for name in ["kind", "name"] {
                check.required_form(
                    &format!("{at}.resource.{name}"),
                    string(resource, name),
                    validation::is_path_segment_name,
                );
            }
        }
        (None, Some(service)) => {
            check.required_form(
                &join(at, "service.name"),
                string(service, "name"),
                validation::is_dns1123_label,
            );
            let port = field(service, "port");
            let (name, number) = (string(port, "name"), integer(port, "number").unwrap_or_default());
            match (name.is_empty(), number == 0) {
                (false, false) => check.invalid(at, &"".into(), "cannot set both port name & port number"),
                (false, true) => {
                    check.form(&join(at, "service.port.name"), name, validation::is_valid_port_name)
                }
                (true, false) => {
                    for message in validation::is_valid_port_num(number) {
                        check.invalid(join(at, "service.port.number"), &number.into(), &message);
                    }
                }
                (true, true) => check.required(at, "port name or number is required"),
            }
        }
    }
}

pub(super) fn disruption_budget(check: &mut Check, new: &Value) {
    let spec = field(new, "spec");
    let both = ["minAvailable", "maxUnavailable"].map(|name| given(spec, name));
    if let [Some(_), Some(_)] = both {
        let part = |name: &str| field(spec, name).to_string();
        let shown = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            part("minAvailable"),
            part("selector"),
            part("maxUnavailable"),
            part("unhealthyPodEvictionPolicy")
        );
        check.invalid_shown("spec", &shown, "minAvailable and maxUnavailable cannot be both set");
    }
    for (name, value) in ["minAvailable", "maxUnavailable"].into_iter().zip(both) {
        if let Some(value) = value {
            positive_or_percent(check, &join("spec", name), value);
            at_most_all(check, &join("spec", name), value);
        }
    }
    selector(check, "spec.selector", field(spec, "selector"));
    if let Some(policy) = given(spec, "unhealthyPodEvictionPolicy")
        && !["AlwaysAllow", "IfHealthyBudget"].contains(&policy.as_str().unwrap_or_default())
    {
        check.not_supported("spec.unhealthyPodEvictionPolicy", policy, &["AlwaysAllow", "IfHealthyBudget"]);
    }
}

pub(super) fn autoscaler(check: &mut Check, new: &Value) {
    let spec = field(new, "spec");
    let least = integer(spec, "minReplicas");
    if let Some(least) = least.filter(|least| *least < 1) {
        check.invalid("spec.minReplicas", &least.into(), "must be greater than or equal to 1");
    }
    let most = integer(spec, "maxReplicas").unwrap_or_default();
    if most == 0 {
        check.required("spec.maxReplicas", "must be set and greater than 0");
    } else if most < 0 {
        check.invalid("spec.maxReplicas", &most.into(), "must be greater than or equal to 1");
    }
    if least.is_some_and(|least| most < least) {
        check.invalid("spec.maxReplicas", &most.into(), "must be greater than or equal to `minReplicas`");
    }
    let target = field(spec, "scaleTargetRef");
    for name in ["kind", "name"] {
        check.required_form(
            &format!("spec.scaleTargetRef.{name}"),
            string(target, name),
            validation::is_path_segment_name,
        );
    }
    let version = string(target, "apiVersion");
    let core = version == "v1" && string(target, "kind") == "ReplicationController";
    if !version.contains('/') && !core {
        check.invalid("spec.scaleTargetRef.apiVersion", &version.into(), "apiVersion must specify API group");
    }
    let outside = |metric: &Value| ["Object", "External"].contains(&string(metric, "type"));
    if least == Some(0) && !items(spec, "metrics").iter().any(outside) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        check.forbidden("spec.metrics", detail);
    }
}

pub(super) fn lease(check: &mut Check, new: &Value) {
    let spec = field(new, "spec");
    if let Some(seconds) = integer(spec, "leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        check.invalid("spec.leaseDurationSeconds", &seconds.into(), "must be greater than 0");
    }
    if let Some(count) = integer(spec, "leaseTransitions").filter(|count| *count < 0) {
        check.invalid("spec.leaseTransitions", &count.into(), "must be greater than or equal to 0");
    }
    if !string(spec, "preferredHolder").is_empty() && string(spec, "strategy").is_empty() {
        check.forbidden("spec.preferredHolder", "may only be specified if `strategy` is defined");
    }
}

/// The priority classes that the system has.
const SYSTEM: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

pub(super) fn priority_class(check: &mut Check, new: &Value, old: Option<&Value>) {
    let value = integer(new, "value").unwrap_or_default();
    if let Some(old) = old {
        if Some(value) != integer(old, "value") {
            check.forbidden("value", "may not be changed in an update.");
        }
        check.immutable("preemptionPolicy", given(new, "preemptionPolicy"), given(old, "preemptionPolicy"));
        return;
    }
    let name = string(field(new, "metadata"), "name");
    if name.starts_with("system-") {
        let known = SYSTEM.iter().find(|(known, _)| *known == name);
        let why = match known {
            None => format!("{name} is not a known system priority class"),
            Some((_, wanted)) if *wanted != value => {
                format!("value of {name} PriorityClass must be {wanted}")
            }
            Some(_) if field(new, "globalDefault") == &Value::Bool(true) => {
                format!("globalDefault of {name} PriorityClass must be false")
            }
            Some(_) => return,
        };
        let detail = format!(
            "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
        );
        check.forbidden("metadata.name", &detail);
    } else if value > 1_000_000_000 {
        check.forbidden("value", "maximum allowed value of a user defined priority is 1000000000");
    }
    let policy = string(new, "preemptionPolicy");
    check.word("preemptionPolicy", policy, &["PreemptLowerPriority", "Never"]);
}

pub(super) fn storage_class(check: &mut Check, new: &Value, old: Option<&Value>) {
    if let Some(old) = old {
        for name in ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"] {
            check.immutable(name, given(new, name), given(old, name));
        }
        return;
    }
    check.required_form(
        "provisioner",
        &string(new, "provisioner").to_lowercase(),
        validation::is_qualified_name,
    );
    for (name, words) in [
        ("reclaimPolicy", &["Delete", "Retain"] as &[&str]),
        ("volumeBindingMode", &["Immediate", "WaitForFirstConsumer"]),
    ] {
        if let Some(word) = given(new, name)
            && !words.contains(&word.as_str().unwrap_or_default())
        {
            check.not_supported(name, word, words);
        }
    }
}

pub(super) fn endpoint_slice(check: &mut Check, new: &Value, old: Option<&Value>) {
    const TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
    check.word("addressType", string(new, "addressType"), &TYPES);
    for (index, endpoint) in items(new, "endpoints").iter().enumerate() {
        if items(endpoint, "addresses").is_empty() {
            check.required(format!("endpoints[{index}].addresses"), "must contain at least 1 address");
        }
    }
    if let Some(old) = old {
        check.immutable("addressType", given(new, "addressType"), given(old, "addressType"));
    }
}

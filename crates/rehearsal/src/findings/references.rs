//! References: names of objects and keys that manifests expect to exist.

use serde_json::Value;

use super::fields::{each, pod_spec, text};
use super::state::State;
use super::{Check, Finding, Manifest, Severity};

/// A field of a Pod's spec with a reference: where, to which kind, the member with the name, and that with a key.
struct Reference {
    pattern: &'static str,
    kind: &'static str,
    name: &'static str,
    key: Option<&'static str>,
    /// Kinds without a namespace.
    is_cluster_scoped: bool,
}

const fn to(kind: &'static str, pattern: &'static str, name: &'static str) -> Reference {
    Reference { pattern, kind, name, key: None, is_cluster_scoped: false }
}

const fn with_key(kind: &'static str, pattern: &'static str) -> Reference {
    Reference { pattern, kind, name: "name", key: Some("key"), is_cluster_scoped: false }
}

/// References in the spec of a Pod, but for those of containers.
const OF_PODS: [Reference; 10] = [
    to("ConfigMap", "volumes[].configMap", "name"),
    to("Secret", "volumes[].secret", "secretName"),
    to("ConfigMap", "volumes[].projected.sources[].configMap", "name"),
    to("Secret", "volumes[].projected.sources[].secret", "name"),
    to("PersistentVolumeClaim", "volumes[].persistentVolumeClaim", "claimName"),
    to("Secret", "volumes[].csi.nodePublishSecretRef", "name"),
    to("Secret", "imagePullSecrets[]", "name"),
    to("ServiceAccount", "", "serviceAccountName"),
    Reference {
        pattern: "",
        kind: "PriorityClass",
        name: "priorityClassName",
        key: None,
        is_cluster_scoped: true,
    },
    Reference {
        pattern: "",
        kind: "RuntimeClass",
        name: "runtimeClassName",
        key: None,
        is_cluster_scoped: true,
    },
];

/// References in containers.
const OF_CONTAINERS: [Reference; 4] = [
    with_key("ConfigMap", "env[].valueFrom.configMapKeyRef"),
    with_key("Secret", "env[].valueFrom.secretKeyRef"),
    to("ConfigMap", "envFrom[].configMapRef", "name"),
    to("Secret", "envFrom[].secretRef", "name"),
];

/// References of other kinds.
const OF_KINDS: [(&str, Reference); 12] = [
    ("Ingress", to("Service", "spec.rules[].http.paths[].backend.service", "name")),
    ("Ingress", to("Service", "spec.defaultBackend.service", "name")),
    ("Ingress", to("Secret", "spec.tls[]", "secretName")),
    ("StatefulSet", to("Service", "spec", "serviceName")),
    (
        "StatefulSet",
        Reference {
            pattern: "spec.volumeClaimTemplates[].spec",
            kind: "StorageClass",
            name: "storageClassName",
            key: None,
            is_cluster_scoped: true,
        },
    ),
    (
        "PersistentVolumeClaim",
        Reference {
            pattern: "spec",
            kind: "StorageClass",
            name: "storageClassName",
            key: None,
            is_cluster_scoped: true,
        },
    ),
    ("HTTPRoute", to("Service", "spec.rules[].backendRefs[]", "name")),
    ("GRPCRoute", to("Service", "spec.rules[].backendRefs[]", "name")),
    ("TCPRoute", to("Service", "spec.rules[].backendRefs[]", "name")),
    ("TLSRoute", to("Service", "spec.rules[].backendRefs[]", "name")),
    ("ServiceAccount", to("Secret", "imagePullSecrets[]", "name")),
    (
        "Ingress",
        Reference {
            pattern: "spec",
            kind: "IngressClass",
            name: "ingressClassName",
            key: None,
            is_cluster_scoped: true,
        },
    ),
];

/// A reference of a manifest to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Referred {
    /// The kind of the object.
    pub kind: &'static str,
    /// Its namespace; empty for a kind without one.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The field with the name.
    pub field: String,
    /// The keys that it must have, each with the field that names it.
    pub keys: Vec<(String, String)>,
}

/// What a manifest needs besides itself: what Pods cannot start without, what Ingresses and routes lead to.
#[must_use]
pub fn references(manifest: &Manifest) -> Vec<Referred> {
    references_of(manifest, &manifest.object())
}

fn references_of(manifest: &Manifest, object: &Value) -> Vec<Referred> {
    let mut found = Vec::new();
    let mut follow = |base: &str, reference| follow((manifest, object), base, reference, &mut found);
    if let Some(spec) = pod_spec(&manifest.kind) {
        for reference in &OF_PODS {
            follow(spec, reference);
        }
        for containers in ["containers[]", "initContainers[]"] {
            for reference in &OF_CONTAINERS {
                follow(&format!("{spec}.{containers}"), reference);
            }
        }
    }
    for (_, reference) in OF_KINDS.iter().filter(|(kind, _)| *kind == manifest.kind) {
        follow("", reference);
    }
    found
}

/// Checks the references of a manifest.
pub(super) fn check(index: usize, manifest: &Manifest, state: &State, findings: &mut Vec<Finding>) {
    let object = &manifest.object();
    for Referred { kind, namespace, name, field, keys } in references_of(manifest, object) {
        if missing(index, kind, &namespace, &name, &field, state, findings) {
            continue;
        }
        for (field, key) in keys {
            if state.has_key(kind, &namespace, &name, &key) == Some(false) {
                let message = format!("{kind} {name:?} has no key {key:?}");
                findings.push(Finding::new(Severity::Error, Check::MissingKey, Some(index), &field, message));
            }
        }
    }
    owners(index, object, state, findings);
    match &*manifest.kind {
        "HorizontalPodAutoscaler" => {
            each(object, "spec.scaleTargetRef", |path, target| {
                scale_target(index, manifest, path, target, state, findings)
            });
        }
        "RoleBinding" | "ClusterRoleBinding" => {
            each(object, "roleRef", |path, role| {
                let Some((kind, name)) = text(role, "kind").zip(text(role, "name")) else { return };
                let namespace = if kind == "Role" { &*manifest.namespace } else { "" };
                missing(index, kind, namespace, name, &format!("{path}.name"), state, findings);
            });
            each(object, "subjects[]", |path, subject| {
                let Some(name) =
                    text(subject, "name").filter(|_| text(subject, "kind") == Some("ServiceAccount"))
                else {
                    return;
                };
                let namespace = text(subject, "namespace").unwrap_or(&manifest.namespace);
                missing(index, "ServiceAccount", namespace, name, &format!("{path}.name"), state, findings);
            });
        }
        _ => {}
    }
}

fn scale_target(
    index: usize,
    manifest: &Manifest,
    path: &str,
    target: &Value,
    state: &State,
    findings: &mut Vec<Finding>,
) {
    if let Some((kind, name)) = text(target, "kind").zip(text(target, "name")) {
        missing(index, kind, &manifest.namespace, name, &format!("{path}.name"), state, findings);
    }
}

/// Follows one reference, wherever it is below `base`.
fn follow(
    (manifest, object): (&Manifest, &Value),
    base: &str,
    reference: &Reference,
    found: &mut Vec<Referred>,
) {
    let Reference { pattern, kind, name: member, key, is_cluster_scoped } = reference;
    let separator = if base.is_empty() || pattern.is_empty() { "" } else { "." };
    each(object, &format!("{base}{separator}{pattern}"), |path, place| {
        let Some(name) = text(place, member) else { return };
        if place.get("optional") == Some(&Value::Bool(true)) {
            return;
        }
        // A backend of another kind, or in another namespace.
        if text(place, "kind").is_some_and(|other| other != *kind) {
            return;
        }
        let namespace = text(place, "namespace").unwrap_or(&manifest.namespace);
        let namespace = if *is_cluster_scoped { "" } else { namespace };
        let keys = key.and_then(|key| text(place, key)).into_iter().map(|key| (format!("{path}.key"), key));
        let items = place.get("items").and_then(Value::as_array).into_iter().flatten().enumerate();
        let items = items
            .filter_map(|(number, item)| Some((format!("{path}.items[{number}].key"), text(item, "key")?)));
        found.push(Referred {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            field: format!("{path}.{member}"),
            keys: keys.chain(items).map(|(field, key)| (field, key.to_owned())).collect(),
        });
    });
}

/// Owners that do not exist: the garbage collector deletes the object.
fn owners(index: usize, object: &Value, state: &State, findings: &mut Vec<Finding>) {
    each(object, "metadata.ownerReferences[]", |path, owner| {
        let Some(((kind, name), uid)) = text(owner, "kind").zip(text(owner, "name")).zip(text(owner, "uid"))
        else {
            return;
        };
        if state.has_uid(kind, uid) != Some(false) {
            return;
        }
        let message = format!(
            "there is no {kind} {name:?} with the UID {uid}: the garbage collector deletes this object"
        );
        let field = format!("{path}.uid");
        let finding = Finding::new(Severity::Error, Check::MissingReference, Some(index), &field, message);
        findings.push(
            finding
                .remedy("leave out ownerReferences: the UID of an owner is known once it has been created"),
        );
    });
}

/// Adds a finding if the object is not there.
fn missing(
    index: usize,
    kind: &str,
    namespace: &str,
    name: &str,
    field: &str,
    state: &State,
    findings: &mut Vec<Finding>,
) -> bool {
    if state.has(kind, namespace, name) != Some(false) {
        return false;
    }
    let place = if namespace.is_empty() { String::new() } else { format!(" in namespace {namespace}") };
    let message = format!("there is no {kind} {name:?}{place}");
    // Pods start without these.
    let severity = match (kind, field.rsplit('.').next().unwrap_or_default()) {
        ("Secret", _) if field.contains("imagePullSecrets") => Severity::Warning,
        // Only the DNS names of its Pods are missing.
        ("Service", "serviceName") => Severity::Note,
        ("IngressClass", _) => Severity::Warning,
        _ => Severity::Error,
    };
    let mut finding = Finding::new(severity, Check::MissingReference, Some(index), field, message);
    if let Some(similar) = similar(name, &state.names(kind, namespace)) {
        finding = finding.remedy(format!("there is a {kind} {similar:?}"));
    }
    findings.push(finding);
    true
}

/// The name that was probably meant.
pub(super) fn similar<'n>(name: &str, names: &[&'n str]) -> Option<&'n str> {
    let distance = |other: &str| edits(name.as_bytes(), other.as_bytes());
    let closest = names.iter().min_by_key(|other| distance(other))?;
    (distance(closest) <= (name.len() / 3).clamp(1, 3)).then_some(*closest)
}

/// Levenshtein's distance.
fn edits(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, byte) in one.iter().enumerate() {
        let mut before = index;
        if let Some(first) = row.first_mut() {
            *first = index + 1;
        }
        for column in 0..other.len() {
            let (Some(&above), Some(&left)) = (row.get(column + 1), row.get(column)) else { break };
            let replaced = before + usize::from(other.get(column) != Some(byte));
            before = above;
            if let Some(cell) = row.get_mut(column + 1) {
                *cell = replaced.min(above + 1).min(left + 1);
            }
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_names_are_few_edits_away() {
        assert_eq!(similar("web-config", &["web-confg", "other"]), Some("web-confg"));
        assert_eq!(similar("web", &["database"]), None);
        assert_eq!(edits(b"kitten", b"sitting"), 3);
        assert_eq!(edits(b"", b"abc"), 3);
    }
}

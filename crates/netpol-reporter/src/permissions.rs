//! Permissions of the reporter, as RBAC objects: it reads policies and what says the provider, and writes status and reports.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use settled_netpol::profile::{Detect, DetectOption, Profiles, VersionFrom};

use crate::{CONTROLLER, Config, report};

/// The name of the Lease with leader election.
pub const LEASE: &str = CONTROLLER;

/// A ServiceAccount in a namespace, with what the reporter needs with this configuration, and nothing else. The rules for detection follow
/// the profiles: they are absent if the providers are given.
#[must_use]
pub fn objects(config: &Config, namespace: &str) -> Vec<Value> {
    let metadata = |namespace: Option<&str>| {
        let labels = json!({"app.kubernetes.io/name": CONTROLLER});
        match namespace {
            Some(namespace) => json!({"name": CONTROLLER, "namespace": namespace, "labels": labels}),
            None => json!({"name": CONTROLLER, "labels": labels}),
        }
    };
    let role =
        |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": CONTROLLER});
    let subjects = json!([{"kind": "ServiceAccount", "name": CONTROLLER, "namespace": namespace}]);
    let lease = json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]});
    let named = |mut rule: Value, verbs: Value, name: Option<&str>| {
        rule["verbs"] = verbs;
        if let Some(name) = name {
            rule["resourceNames"] = json!([name]);
        }
        rule
    };
    vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(Some(namespace))}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata(None),
            "rules": rules(config),
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": metadata(None),
            "roleRef": role("ClusterRole"), "subjects": subjects,
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata(Some(namespace)),
            "rules": [
                named(lease.clone(), json!(["create"]), None),
                named(lease, json!(["get", "update", "patch"]), Some(LEASE)),
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata(Some(namespace)),
            "roleRef": role("Role"), "subjects": subjects,
        }),
    ]
}

/// The rules that hold in all namespaces.
fn rules(config: &Config) -> Vec<Value> {
    let rule = |group: &str, resources: &[&str], verbs: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": verbs});
    let mut rules = vec![
        rule("networking.k8s.io", &["networkpolicies"], &["get", "list", "watch"]),
        rule("networking.k8s.io", &["networkpolicies/status"], &["patch"]),
        rule(report::GROUP, &[report::PLURAL], &["get", "list", "watch", "create", "delete"]),
        rule(report::GROUP, &[&format!("{}/status", report::PLURAL)], &["patch"]),
        rule("events.k8s.io", &["events"], &["create", "patch"]),
    ];
    if config.providers.is_empty() {
        rules.extend(detection_rules(&config.profiles));
    }
    rules
}

/// What profiles ask for.
fn detection_rules(profiles: &Profiles) -> Vec<Value> {
    let mut workloads = BTreeSet::new();
    let mut objects: BTreeMap<(String, String), BTreeSet<&str>> = BTreeMap::new();
    let mut config_maps = BTreeSet::new();
    let (mut crds, mut kubelets) = (false, false);
    for profile in profiles.iter() {
        for entry in &profile.detect {
            match entry {
                Detect::Workload { kind, version, .. } => {
                    workloads.insert(format!("{}s", kind.to_lowercase()));
                    match version {
                        VersionFrom::Kubelet => kubelets = true,
                        VersionFrom::Object { api_version, kind, name, .. } => {
                            let (group, version) =
                                api_version.split_once('/').unwrap_or(("", api_version.as_str()));
                            let kind = kube::core::GroupVersionKind::gvk(group, version, kind);
                            let plural = kube::core::ApiResource::from_gvk(&kind).plural;
                            objects.entry((group.to_owned(), plural)).or_default().insert(name.as_str());
                        }
                        VersionFrom::Tag
                        | VersionFrom::Label(_)
                        | VersionFrom::Annotation(_)
                        | VersionFrom::None => {}
                    }
                }
                Detect::Crd { .. } => crds = true,
            }
        }
        let options = profile.options.values().flat_map(|option| &option.detect);
        config_maps.extend(options.filter_map(|entry| match entry {
            DetectOption::ConfigMap { name, .. } => Some(name.as_str()),
            DetectOption::Argument { .. } => None,
        }));
    }
    let mut rules = Vec::new();
    if !workloads.is_empty() {
        rules.push(json!({"apiGroups": ["apps"], "resources": workloads, "verbs": ["list", "watch"]}));
    }
    if crds {
        rules.push(json!({
            "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["list", "watch"],
        }));
    }
    if kubelets {
        rules.push(json!({"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}));
    }
    for ((group, resource), names) in objects {
        rules.push(json!({
            "apiGroups": [group], "resources": [resource], "resourceNames": names, "verbs": ["get"],
        }));
    }
    if !config_maps.is_empty() {
        rules.push(json!({
            "apiGroups": [""], "resources": ["configmaps"], "resourceNames": config_maps, "verbs": ["get"],
        }));
    }
    rules
}

//! Roles: users write spec, the controllers write status, and agents write their own Node, Lease and the status of their Host.

use serde_json::{Value, json};

use crate::inventory::Kind;
use crate::types::GROUP;

/// Group of the agents: each is a user of its own, `system:node:NAME`, as kubelets are.
pub const AGENTS: &str = "system:nodes";
/// ServiceAccount and namespace of the controllers.
pub const CONTROLLERS: (&str, &str) = ("settled-machines", "settled-system");

/// The roles and their bindings.
#[must_use]
pub fn objects() -> Vec<Value> {
    let all: Vec<&str> = Kind::ALL.iter().map(|kind| kind.plural()).collect();
    let status: Vec<String> = Kind::ALL
        .iter()
        .filter(|kind| **kind != Kind::MachineClass)
        .map(|kind| format!("{}/status", kind.plural()))
        .collect();
    let finalizers: Vec<String> = ["clusters", "machines", "machinesets", "machinedeployments"]
        .iter()
        .map(|name| format!("{name}/finalizers"))
        .collect();
    let read = ["get", "list", "watch"];
    let write = ["create", "update", "patch", "delete"];
    let edit = [read.as_slice(), write.as_slice(), &["deletecollection"]].concat();
    let reported = [status.as_slice(), finalizers.as_slice()].concat();
    let editor = json!([
        {"apiGroups": [GROUP], "resources": all, "verbs": edit},
        {"apiGroups": [GROUP], "resources": ["machinesets/scale", "machinedeployments/scale"], "verbs": ["get", "update", "patch"]},
        {"apiGroups": [GROUP], "resources": status, "verbs": ["get"]},
    ]);
    let viewer = json!([
        {"apiGroups": [GROUP], "resources": all, "verbs": read},
        {"apiGroups": [GROUP], "resources": status, "verbs": ["get"]},
    ]);
    let controllers = json!([
        {"apiGroups": [GROUP], "resources": all, "verbs": read},
        // Sets and deployments make and change objects of the API; finalizers and owner references are metadata.
        {"apiGroups": [GROUP], "resources": ["clusters", "hosts", "machines", "machinesets", "machinedeployments"], "verbs": ["create", "update", "patch", "delete"]},
        {"apiGroups": [GROUP], "resources": reported, "verbs": ["get", "update", "patch"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]},
        {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["get", "update", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": read},
        {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list", "watch", "create", "update", "patch"]},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    ]);
    vec![
        role(
            "settled-machines-edit",
            &[
                ("rbac.authorization.k8s.io/aggregate-to-admin", "true"),
                ("rbac.authorization.k8s.io/aggregate-to-edit", "true"),
            ],
            &editor,
        ),
        role("settled-machines-view", &[("rbac.authorization.k8s.io/aggregate-to-view", "true")], &viewer),
        role("settled-machines-controller", &[], &controllers),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "settled-machines-controller"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "settled-machines-controller"},
            "subjects": [{"kind": "ServiceAccount", "name": CONTROLLERS.0, "namespace": CONTROLLERS.1}],
        }),
    ]
}

fn role(name: &str, labels: &[(&str, &str)], rules: &Value) -> Value {
    let mut role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": name}, "rules": rules,
    });
    for (key, value) in labels {
        role["metadata"]["labels"][*key] = (*value).into();
    }
    role
}

/// What the agent of one host may do: its own Node, its own Lease, and the status of its own Host, if it has one.
#[must_use]
pub fn agent(node: &str, host: Option<(&str, &str)>) -> Vec<Value> {
    let name = format!("settled-agent:{node}");
    let subject = json!([{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": format!("system:node:{node}")}]);
    let node_rules = json!([
        // A name cannot be required of a creation: the API server has no way to say so.
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["nodes"], "resourceNames": [node], "verbs": ["get", "update", "patch"]},
        {"apiGroups": [""], "resources": ["nodes/status"], "resourceNames": [node], "verbs": ["get", "update", "patch"]},
    ]);
    let lease_rules = json!([
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [node], "verbs": ["get", "update", "patch"]},
    ]);
    let mut objects = vec![
        role(&name, &[], &node_rules),
        binding("ClusterRole", &name, None, &subject),
        in_namespace(&name, "kube-node-lease", &lease_rules),
        binding("Role", &name, Some("kube-node-lease"), &subject),
    ];
    if let Some((namespace, host)) = host {
        let rules = json!([
            {"apiGroups": [GROUP], "resources": ["hosts"], "resourceNames": [host], "verbs": ["get"]},
            {"apiGroups": [GROUP], "resources": ["hosts/status"], "resourceNames": [host], "verbs": ["get", "update", "patch"]},
        ]);
        let name = format!("settled-agent:{host}");
        objects.push(in_namespace(&name, namespace, &rules));
        objects.push(binding("Role", &name, Some(namespace), &subject));
    }
    objects
}

fn in_namespace(name: &str, namespace: &str, rules: &Value) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": {"name": name, "namespace": namespace}, "rules": rules,
    })
}

fn binding(kind: &str, name: &str, namespace: Option<&str>, subjects: &Value) -> Value {
    let mut binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": if namespace.is_some() { "RoleBinding" } else { "ClusterRoleBinding" },
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": subjects,
    });
    if let Some(namespace) = namespace {
        binding["metadata"]["namespace"] = namespace.into();
    }
    binding
}

//! Kinds of a cluster, in the order in which they are created.

use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};

/// `apiVersion` of the kinds of clusters.
pub const API_VERSION: &str = "cluster.settled.dev/v1alpha1";

/// The kinds that a cluster may consist of: each one after those that it refers to.
pub const KINDS: [(&str, &str); 9] = [
    (API_VERSION, "Cluster"),
    (API_VERSION, "MachineClass"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    (API_VERSION, "Host"),
    (API_VERSION, "MachineDeployment"),
    (API_VERSION, "MachineSet"),
    (API_VERSION, "Machine"),
    (API_VERSION, "MachineHealthCheck"),
];

/// The resource of a kind.
#[must_use]
pub fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let mut resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    if kind == "MachineClass" {
        resource.plural = "machineclasses".to_owned();
    }
    resource
}

/// Objects of a kind of [`KINDS`] in a namespace.
#[must_use]
pub fn api(client: &Client, kind: &str, namespace: &str) -> Api<DynamicObject> {
    let known = KINDS.iter().find(|(_, known)| *known == kind);
    let api_version = known.map_or(API_VERSION, |(api_version, _)| *api_version);
    Api::namespaced_with(client.clone(), namespace, &resource(api_version, kind))
}

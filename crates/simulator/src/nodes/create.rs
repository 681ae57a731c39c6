//! Creation of Nodes at the start, with their leases.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeDaemonEndpoints, NodeStatus, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use settled_controller::Clock;

use super::spec::NodeSpec;
use super::status;
use crate::meta;
use crate::requests;

/// The namespace of the leases of kubelets.
pub(super) const LEASES: &str = "kube-node-lease";
/// How long a lease lasts.
const LEASE_SECONDS: i32 = 40;

/// Creates Nodes that are ready; those that exist stay. An error has the name of the Node.
pub(crate) async fn create(
    client: &Client,
    nodes: &[NodeSpec],
    clock: &Clock,
) -> Result<(), (String, kube::Error)> {
    let kind = requests::of::<Node>("");
    for (number, spec) in nodes.iter().enumerate() {
        let failed = |source| (spec.name.clone(), source);
        let mut labels = spec.labels.clone();
        for (key, value) in [
            ("kubernetes.io/hostname", &*spec.name),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
        ] {
            labels.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        }
        let node = Node {
            metadata: ObjectMeta {
                name: Some(spec.name.clone()),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            spec: Some(k8s_openapi::api::core::v1::NodeSpec {
                taints: Some(spec.taints.clone()).filter(|taints| !taints.is_empty()),
                unschedulable: spec.is_unschedulable.then_some(true),
                ..Default::default()
            }),
            ..Node::default()
        };
        let request = kind.create(&PostParams::default(), requests::body(&node).map_err(failed)?);
        let created = match requests::send(client, request).await {
            Ok(created) => created,
            Err(kube::Error::Api(status)) if status.code == 409 => continue,
            Err(error) => return Err(failed(error)),
        };
        let created: Node =
            requests::view(&created).and_then(|created| requests::read(&created)).map_err(failed)?;
        let status = status(spec, number, clock);
        let patch = Patch::Merge(json!({"status": status}));
        let request = kind.patch_subresource("status", &spec.name, &PatchParams::default(), &patch);
        requests::send(client, request).await.map_err(failed)?;
        // Servers give new Nodes the taint that they are not ready.
        let has = created.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
        if has != spec.taints {
            let patch = Patch::Merge(json!({"spec": {"taints": spec.taints}}));
            let request = kind.patch(&spec.name, &PatchParams::default(), &patch);
            requests::send(client, request).await.map_err(failed)?;
        }
        let lease = lease(&created, clock);
        let body = requests::body(&lease).map_err(failed)?;
        let request = requests::of::<Lease>(LEASES).create(&PostParams::default(), body);
        match requests::send(client, request).await {
            Ok(_) => {}
            // The namespace may not be there yet, and nothing depends on the lease.
            Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404 | 409) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(())
}

fn lease(node: &Node, clock: &Clock) -> Lease {
    let name = meta::name(node).to_owned();
    Lease {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(LEASES.to_owned()),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name: name.clone(),
                uid: meta::uid(node).to_owned(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(name),
            lease_duration_seconds: Some(LEASE_SECONDS),
            renew_time: Some(MicroTime(clock.now())),
            ..LeaseSpec::default()
        }),
    }
}

fn status(spec: &NodeSpec, number: usize, clock: &Clock) -> NodeStatus {
    let quantities: BTreeMap<String, Quantity> =
        spec.capacity.iter().map(|(name, quantity)| (name.clone(), Quantity(quantity.clone()))).collect();
    let address = |type_: &str, address: String| NodeAddress { type_: type_.to_owned(), address };
    NodeStatus {
        allocatable: Some(quantities.clone()),
        capacity: Some(quantities),
        addresses: Some(vec![
            address("InternalIP", format!("10.0.{}.{}", number / 250, number % 250 + 1)),
            address("Hostname", spec.name.clone()),
        ]),
        conditions: Some(status::healthy(&[], clock.now())),
        daemon_endpoints: Some(NodeDaemonEndpoints::default()),
        node_info: Some(NodeSystemInfo {
            architecture: "amd64".to_owned(),
            operating_system: "linux".to_owned(),
            os_image: "simulated".to_owned(),
            kernel_version: "simulated".to_owned(),
            container_runtime_version: "simulated://1.0".to_owned(),
            kubelet_version: "v1.36.0".to_owned(),
            ..NodeSystemInfo::default()
        }),
        ..NodeStatus::default()
    }
}

//! Nodes: how many, and what they offer.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use settled_controller::Clock;

use crate::meta;
use crate::simulator::StartError;

/// Pods that a Node takes unless something else is said: the kubelet's default.
const MAX_PODS: u32 = 110;

/// A Node to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSpec {
    /// Its name.
    pub name: String,
    /// Its labels, beside those that every Node has.
    pub labels: BTreeMap<String, String>,
    /// What it offers, such as `cpu` and `memory`.
    pub capacity: BTreeMap<String, String>,
}

/// Three Nodes in one zone each.
#[must_use]
pub fn default_nodes() -> Vec<NodeSpec> {
    (1..=3).map(|number| NodeSpec::numbered(number, [("cpu", "64"), ("memory", "256Gi")])).collect()
}

impl NodeSpec {
    /// The Node with this number.
    #[must_use]
    pub fn numbered<const N: usize>(number: usize, capacity: [(&str, &str); N]) -> Self {
        let mut all: BTreeMap<String, String> =
            capacity.map(|(name, quantity)| (name.to_owned(), quantity.to_owned())).into();
        all.entry("pods".to_owned()).or_insert_with(|| MAX_PODS.to_string());
        let zone = format!("zone-{}", (b'a' + u8::try_from((number + 2) % 3).unwrap_or_default()) as char);
        let labels = [("topology.kubernetes.io/zone".to_owned(), zone)].into();
        Self { name: format!("node-{number}"), labels, capacity: all }
    }
}

/// Creates Nodes that are ready; those that exist stay.
pub(crate) async fn create(client: &Client, nodes: &[NodeSpec], clock: &Clock) -> Result<(), StartError> {
    let api: Api<Node> = Api::all(client.clone());
    for (number, spec) in nodes.iter().enumerate() {
        let failed = |source| StartError::Node { name: spec.name.clone(), source };
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
            ..Node::default()
        };
        match api.create(&PostParams::default(), &node).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => continue,
            Err(error) => return Err(failed(error)),
        }
        let status = status(spec, number, clock);
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status(&spec.name, &PatchParams::default(), &patch).await.map_err(failed)?;
    }
    Ok(())
}

fn status(spec: &NodeSpec, number: usize, clock: &Clock) -> NodeStatus {
    let now = meta::time(clock.now());
    let condition = |type_: &str, status: &str, reason: &str, message: &str| NodeCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(now.clone()),
        last_transition_time: Some(now.clone()),
    };
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
        conditions: Some(vec![
            condition(
                "MemoryPressure",
                "False",
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            ),
            condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            condition(
                "PIDPressure",
                "False",
                "KubeletHasSufficientPID",
                "kubelet has sufficient PID available",
            ),
            condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        ]),
        ..NodeStatus::default()
    }
}

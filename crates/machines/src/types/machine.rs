//! Machine: the declaration of a Node and its host.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use settled_controller::conditions::{ConditionType, crd};

use super::common::{ErrorReason, MachineAddress, MachineVersions, Metadata, ProviderSpec, Taint};
use super::{HOST_UID_ANNOTATION, PROVIDER_FAILED, schemas};

/// Conditions of a Machine.
#[derive(Clone, Copy, ConditionType, Debug, Eq, PartialEq)]
pub enum MachineCondition {
    /// A provider accepts the configuration.
    Accepted,
    /// The host runs.
    HostReady,
    /// The Node is registered and ready.
    NodeReady,
    /// What runs is what the spec declares.
    UpToDate,
}

/// Declaration of a Node.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[kube(
    group = "cluster.settled.dev",
    version = "v1alpha1",
    kind = "Machine",
    namespaced,
    status = "MachineStatus",
    shortname = "ma",
    category = "clusters",
    doc = "Declaration of a Node and its host.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Kubelet", type_ = "string", json_path = ".status.versions.kubelet"),
    printcolumn(name = "Node", type_ = "string", json_path = ".status.nodeRef.name"),
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterName", priority = 1)
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.clusterName) == has(oldSelf.clusterName) && (!has(self.clusterName) || self.clusterName == oldSelf.clusterName)",
    "message": "clusterName is immutable",
}]))]
pub struct MachineSpec {
    /// Labels and annotations of the Node.
    #[serde(default)]
    pub metadata: Metadata,
    /// Taints of the Node. They are authoritative for the keys that are listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
    pub taints: Vec<Taint>,
    /// Versions of what runs on the machine.
    #[serde(default)]
    pub versions: MachineVersions,
    /// Configuration of the provider.
    pub provider_spec: ProviderSpec,
    /// A host that exists already, by its provider ID: it is adopted, not created.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "providerID")]
    #[schemars(length(min = 1, max = 512))]
    pub provider_id: Option<String>,
    /// Name of the Cluster, in the same namespace. Without one, the Machine is of the cluster that serves it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63))]
    pub cluster_name: Option<String>,
    /// For how long the Node is ready before the Machine counts as available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: Option<i32>,
    /// How long a drain may take, in seconds; 0 is forever. 600 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub node_drain_timeout_seconds: Option<i64>,
    /// How long the Node may take to register, in seconds. 600 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub node_startup_timeout_seconds: Option<i64>,
}

/// Phase of a Machine: a summary for people.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize, JsonSchema)]
pub enum MachinePhase {
    /// Nothing was done yet.
    #[default]
    Pending,
    /// The host is being created.
    Provisioning,
    /// The host runs, its Node is not ready.
    Provisioned,
    /// The Node is ready.
    Running,
    /// The host is being updated, or replaced.
    Updating,
    /// The Node is being drained.
    Draining,
    /// The host is being deleted.
    Deleting,
    /// Only a change of the spec helps.
    Failed,
}

/// The Node of a Machine.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRef {
    /// `v1`.
    #[serde(default = "core_version")]
    pub api_version: String,
    /// `Node`.
    #[serde(default = "node_kind")]
    pub kind: String,
    /// Name.
    pub name: String,
    /// UID.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub uid: String,
}

fn core_version() -> String {
    "v1".to_owned()
}

fn node_kind() -> String {
    "Node".to_owned()
}

impl NodeRef {
    /// The reference to a Node.
    #[must_use]
    pub fn new(name: &str, uid: &str) -> Self {
        Self { api_version: core_version(), kind: node_kind(), name: name.to_owned(), uid: uid.to_owned() }
    }
}

/// How an update is performed: the provider's decision.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize, JsonSchema)]
pub enum UpdateDecision {
    /// On the running host.
    InPlace,
    /// By a new host under the same Machine.
    Replace,
    /// Not at all.
    Unsupported,
}

/// An acknowledged update: what the controller acts on, and what a later one continues.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineUpdate {
    /// The generation of the spec that it leads to.
    pub observed_generation: i64,
    /// The decision.
    pub decision: UpdateDecision,
    /// Why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The step that is being performed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Whether the Node is drained for it.
    #[serde(default)]
    pub disruptive: bool,
    /// When it began.
    #[schemars(schema_with = "schemas::time")]
    pub started_at: Time,
    /// What ran before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<MachineVersions>,
}

/// A drain that is being performed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineDrain {
    /// When it began.
    #[schemars(schema_with = "schemas::time")]
    pub started_at: Time,
    /// Whether the controller cordoned the Node: it uncordons it then.
    #[serde(default)]
    pub cordoned: bool,
    /// Whether all Pods are gone, or the deadline is exceeded.
    #[serde(default)]
    pub completed: bool,
    /// Whether it was ended by its timeout.
    #[serde(default)]
    pub timed_out: bool,
}

/// What the controllers report.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// The generation of the spec that was reconciled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Summary for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<MachinePhase>,
    /// The Node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_ref: Option<NodeRef>,
    /// The host, by the provider's name for it.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "providerID")]
    pub provider_id: Option<String>,
    /// `apiVersion/kind` of the provider's configuration: who has the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The Host object that the Machine has, or had last, with providers of a pool. It is preferred when a Host is claimed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What runs, as it was observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<MachineVersions>,
    /// Addresses of the host.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<MachineAddress>,
    /// Why only a change of the spec helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<ErrorReason>,
    /// The same for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// The same of a Machine without a Node, under the name that the cluster-autoscaler reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_message: Option<String>,
    /// The update that is being performed, or was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<MachineUpdate>,
    /// The drain that is being performed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<MachineDrain>,
    /// When creation was acknowledged: the host may exist from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::optional_time")]
    pub provisioning_since: Option<Time>,
    /// When the Node became ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::optional_time")]
    pub ready_since: Option<Time>,
    /// What only the provider reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::opaque")]
    pub provider_status: Option<Value>,
    /// `Ready`, its parts, `Reconciling` and `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crd::schema_with::<MachineCondition>")]
    pub conditions: Vec<Condition>,
}

impl Machine {
    /// Whether it is of the control plane.
    #[must_use]
    pub fn is_control_plane(&self) -> bool {
        self.spec.versions.control_plane.is_some()
    }

    /// The UID by which the provider knows the host: that of the Machine, or of the one that it was before it was moved.
    #[must_use]
    pub fn host_uid(&self) -> &str {
        let moved = self.metadata.annotations.as_ref().and_then(|all| all.get(HOST_UID_ANNOTATION));
        moved.or(self.metadata.uid.as_ref()).map(String::as_str).unwrap_or_default()
    }

    /// How its provider fails at present, while it is asked again.
    #[must_use]
    pub fn provider_failure(&self) -> Option<&str> {
        let status = self.status.as_ref()?;
        let is_failing = |condition: &&Condition| {
            condition.type_ == "Reconciling"
                && condition.status == "True"
                && condition.reason == PROVIDER_FAILED
        };
        status.conditions.iter().find(is_failing).map(|condition| condition.message.as_str())
    }
}

/// What Machines of a set are made from.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct MachineTemplate {
    /// Labels and annotations of the Machines.
    #[serde(default)]
    pub metadata: Metadata,
    /// Their spec.
    pub spec: MachineSpec,
}

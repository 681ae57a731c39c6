//! Cluster: its control plane, networks and machines altogether.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use settled_controller::conditions::{ConditionType, crd};

use super::common::{ApiEndpoint, ErrorReason};
use super::schemas;

/// Conditions of a Cluster.
#[derive(Clone, Copy, ConditionType)]
pub enum ClusterCondition {
    /// The endpoint is known, and the machines of the control plane are ready.
    ControlPlaneReady,
    /// The API server of the cluster answers, if it is another one than that of this object.
    ControlPlaneReachable,
    /// All other machines are ready.
    #[condition(severity = "warning")]
    WorkersReady,
    /// The controllers leave the Cluster alone.
    #[condition(polarity = "neutral")]
    Paused,
}

/// Ranges of addresses.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkRanges {
    /// CIDR blocks.
    #[schemars(length(min = 1, max = 8))]
    pub cidr_blocks: Vec<String>,
}

/// Networks of a Cluster.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetwork {
    /// Addresses of Services.
    pub services: NetworkRanges,
    /// Addresses of Pods.
    pub pods: NetworkRanges,
    /// Domain of Services.
    #[schemars(length(min = 1, max = 253))]
    pub service_domain: String,
}

/// Configuration of a component of the control plane.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct ComponentConfig {
    /// The component, such as `kube-apiserver`.
    #[schemars(length(min = 1, max = 63))]
    pub component: String,
    /// Its configuration: a typed, versioned object.
    #[schemars(schema_with = "schemas::opaque")]
    pub config: Value,
}

/// Control plane of a Cluster.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlane {
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^v?[0-9]+\\.[0-9]+\\.[0-9]+([-+][0-9A-Za-z.+-]+)?$"), length(max = 63))]
    pub version: Option<String>,
    /// Where it is served. Without it, the address of its first machine is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<ApiEndpoint>,
    /// Configuration of its components when it is created. Later, it is read from the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["component"]))]
    pub component_config: Vec<ComponentConfig>,
}

/// Declaration of a cluster.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[kube(
    group = "cluster.settled.dev",
    version = "v1alpha1",
    kind = "Cluster",
    namespaced,
    status = "ClusterStatus",
    shortname = "cl",
    category = "clusters",
    doc = "Declaration of a cluster: control plane, networks, provider.",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version"),
    printcolumn(name = "Machines", type_ = "integer", json_path = ".status.machines"),
    printcolumn(
        name = "Endpoint",
        type_ = "string",
        json_path = ".status.apiEndpoints[0].host",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Networks.
    pub cluster_network: ClusterNetwork,
    /// Control plane.
    #[serde(default)]
    pub control_plane: ControlPlane,
    /// Configuration of the provider that is for the whole cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::typed_object")]
    pub provider_spec: Option<Value>,
    /// Whether the controllers leave the Cluster and its Machines alone.
    #[serde(default)]
    pub paused: bool,
}

/// Phase of a Cluster: a summary for people.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
pub enum ClusterPhase {
    /// It has no endpoint yet.
    #[default]
    Provisioning,
    /// Its control plane serves.
    Provisioned,
    /// It is being deleted.
    Deleting,
    /// Only a change of the spec helps.
    Failed,
}

/// A step of the creation of a cluster, as it was performed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JournalEntry {
    /// The step.
    pub step: String,
    /// When it began.
    #[schemars(schema_with = "schemas::time")]
    pub started_at: Time,
    /// When it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::optional_time")]
    pub completed_at: Option<Time>,
}

/// What the controllers report.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// The generation of the spec that was reconciled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Summary for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ClusterPhase>,
    /// Where the control plane is served.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_endpoints: Vec<ApiEndpoint>,
    /// The lowest version that a machine of the control plane runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Machines.
    #[serde(default)]
    pub machines: i32,
    /// Machines with a ready Node.
    #[serde(default)]
    pub ready_machines: i32,
    /// Why only a change of the spec helps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<ErrorReason>,
    /// The same for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// Steps of its creation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub journal: Vec<JournalEntry>,
    /// What only the provider reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::opaque")]
    pub provider_status: Option<Value>,
    /// `Ready`, its parts, `Reconciling` and `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crd::schema_with::<ClusterCondition>")]
    pub conditions: Vec<Condition>,
}

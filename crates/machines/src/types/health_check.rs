//! MachineHealthCheck: when Machines are unhealthy, and how many may be replaced.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use settled_controller::conditions::{ConditionType, crd};

use super::common::{IntOrPercent, Selector};

/// Conditions of a MachineHealthCheck.
#[derive(Clone, Copy, ConditionType)]
pub enum HealthCheckCondition {
    /// Unhealthy Machines may be replaced now.
    RemediationAllowed,
}

/// A condition of a Node that makes its Machine unhealthy.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnhealthyCondition {
    /// Type of the condition.
    #[serde(rename = "type")]
    #[schemars(length(min = 1, max = 316))]
    pub type_: String,
    /// Status of the condition.
    #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
    pub status: String,
    /// For how long, in seconds.
    #[schemars(range(min = 0))]
    pub timeout_seconds: i64,
}

/// Declaration of when Machines are unhealthy.
#[derive(CustomResource, Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
#[kube(
    group = "cluster.settled.dev",
    version = "v1alpha1",
    kind = "MachineHealthCheck",
    namespaced,
    status = "MachineHealthCheckStatus",
    shortname = "mhc",
    category = "clusters",
    doc = "When Machines are unhealthy, and how many may be replaced.",
    printcolumn(name = "Expected", type_ = "integer", json_path = ".status.expectedMachines"),
    printcolumn(name = "Healthy", type_ = "integer", json_path = ".status.currentHealthy"),
    printcolumn(name = "Frozen", type_ = "boolean", json_path = ".status.frozen")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "size(self.selector.matchLabels) > 0 || size(self.selector.matchExpressions) > 0",
    "message": "selector must not be empty",
}]))]
pub struct MachineHealthCheckSpec {
    /// Which Machines are checked.
    pub selector: Selector,
    /// Conditions of Nodes that make a Machine unhealthy.
    #[serde(default = "default_conditions")]
    #[schemars(length(max = 16))]
    pub unhealthy_conditions: Vec<UnhealthyCondition>,
    /// How long a Node may take to register, in seconds.
    #[serde(default = "default_startup")]
    #[schemars(range(min = 0))]
    pub node_startup_timeout_seconds: i64,
    /// If more Machines are unhealthy than these, none is replaced: the problem is elsewhere.
    #[serde(default = "default_max_unhealthy")]
    pub max_unhealthy: IntOrPercent,
    /// How many Machines are replaced at the same time.
    #[serde(default = "default_in_flight")]
    pub max_in_flight: IntOrPercent,
}

fn default_conditions() -> Vec<UnhealthyCondition> {
    let ready = |status: &str| UnhealthyCondition {
        type_: "Ready".to_owned(),
        status: status.to_owned(),
        timeout_seconds: 300,
    };
    vec![ready("Unknown"), ready("False")]
}

const fn default_startup() -> i64 {
    600
}

fn default_max_unhealthy() -> IntOrPercent {
    IntOrPercent::percent("40%")
}

const fn default_in_flight() -> IntOrPercent {
    IntOrPercent::int(1)
}

/// What the controller reports.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineHealthCheckStatus {
    /// The generation of the spec that was reconciled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Machines that are checked.
    #[serde(default)]
    pub expected_machines: i32,
    /// Those that are healthy.
    #[serde(default)]
    pub current_healthy: i32,
    /// Whether no Machine is replaced, since too many are unhealthy.
    #[serde(default)]
    pub frozen: bool,
    /// Names of unhealthy Machines, at most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unhealthy_machines: Vec<String>,
    /// `Ready`, its parts, `Reconciling` and `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crd::schema_with::<HealthCheckCondition>")]
    pub conditions: Vec<Condition>,
}

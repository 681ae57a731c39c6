//! MachineDeployment: rollouts of changes to a group of Machines.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use settled_controller::conditions::{ConditionType, crd};

use super::common::{IntOrPercent, Selector};
use super::machine::MachineTemplate;
use super::schemas;

/// Conditions of a MachineDeployment.
#[derive(Clone, Copy, ConditionType)]
pub enum MachineDeploymentCondition {
    /// Enough Machines are available.
    Available,
    /// All Machines are of the latest template.
    UpToDate,
    /// The rollout is paused.
    #[condition(polarity = "neutral")]
    Paused,
}

/// How a change of the template reaches the Machines.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize, JsonSchema)]
pub enum StrategyType {
    /// By new Machines, which take the place of old ones.
    #[default]
    RollingUpdate,
    /// By new Machines when a user deletes old ones.
    OnDelete,
    /// By changes of the Machines themselves: their provider decides between in place and replacement.
    UpdateMachines,
}

/// Bounds of a rollout.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "!(string(self.maxUnavailable) in ['0', '0%'] && string(self.maxSurge) in ['0', '0%'])",
    "message": "maxUnavailable and maxSurge must not both be 0",
}]))]
pub struct RollingUpdate {
    /// How many Machines may be unavailable: a number or a percentage, rounded down.
    #[serde(default = "default_unavailable")]
    pub max_unavailable: IntOrPercent,
    /// How many Machines there may be beyond the replicas: a number or a percentage, rounded up.
    #[serde(default = "default_surge")]
    pub max_surge: IntOrPercent,
}

const fn default_unavailable() -> IntOrPercent {
    IntOrPercent::int(0)
}

const fn default_surge() -> IntOrPercent {
    IntOrPercent::int(1)
}

impl Default for RollingUpdate {
    fn default() -> Self {
        Self { max_unavailable: default_unavailable(), max_surge: default_surge() }
    }
}

/// Strategy of rollouts.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Strategy {
    /// The type.
    #[serde(default, rename = "type")]
    pub type_: StrategyType,
    /// Bounds.
    #[serde(default)]
    pub rolling_update: RollingUpdate,
}

/// Declaration of a group of Machines that changes by rollouts.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[kube(
    group = "cluster.settled.dev",
    version = "v1alpha1",
    kind = "MachineDeployment",
    namespaced,
    status = "MachineDeploymentStatus",
    shortname = "md",
    category = "clusters",
    doc = "Rollouts of changes to a group of Machines.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Updated", type_ = "integer", json_path = ".status.updatedReplicas"),
    printcolumn(name = "Available", type_ = "integer", json_path = ".status.availableReplicas")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "size(self.selector.matchLabels) > 0 || size(self.selector.matchExpressions) > 0",
        "message": "selector must not be empty",
    },
    {
        "rule": "self.selector.matchLabels.all(k, has(self.template.metadata.labels) && k in self.template.metadata.labels && self.template.metadata.labels[k] == self.selector.matchLabels[k])",
        "message": "selector does not match the labels of the template",
    },
    {"rule": "self.selector == oldSelf.selector", "message": "selector is immutable"},
]))]
pub struct MachineDeploymentSpec {
    /// How many Machines.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// Which Machines are counted.
    pub selector: Selector,
    /// What Machines are made from.
    pub template: MachineTemplate,
    /// How changes reach the Machines.
    #[serde(default)]
    pub strategy: Strategy,
    /// For how long a Node is ready before its Machine counts as available.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: i32,
    /// How many old MachineSets are kept.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub revision_history_limit: i32,
    /// Whether rollouts are paused.
    #[serde(default)]
    pub paused: bool,
    /// After how many seconds without progress a rollout is stalled.
    #[serde(default = "default_deadline")]
    #[schemars(range(min = 1))]
    pub progress_deadline_seconds: i32,
}

const fn one() -> i32 {
    1
}

const fn default_deadline() -> i32 {
    600
}

/// What the controller reports.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineDeploymentStatus {
    /// The generation of the spec that was reconciled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Machines.
    #[serde(default)]
    pub replicas: i32,
    /// Machines of the latest template.
    #[serde(default)]
    pub updated_replicas: i32,
    /// Machines with a ready Node.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Machines whose Node has been ready for long enough.
    #[serde(default)]
    pub available_replicas: i32,
    /// Machines that are missing or not available.
    #[serde(default)]
    pub unavailable_replicas: i32,
    /// The selector, for the scale subresource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub selector: String,
    /// When the rollout last made progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::optional_time")]
    pub last_progress_time: Option<Time>,
    /// `Ready`, its parts, `Reconciling` and `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crd::schema_with::<MachineDeploymentCondition>")]
    pub conditions: Vec<Condition>,
}

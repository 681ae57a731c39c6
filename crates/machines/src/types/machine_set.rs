//! MachineSet: as many Machines of a template as asked for.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use settled_controller::conditions::{ConditionType, crd};

use super::common::{ErrorReason, Selector};
use super::machine::MachineTemplate;

/// Conditions of a MachineSet.
#[derive(Clone, Copy, ConditionType)]
pub enum MachineSetCondition {
    /// There are as many available Machines as asked for.
    Available,
    /// Machines can be created.
    #[condition(severity = "warning")]
    Creatable,
}

/// Which Machines are deleted first when there are too many.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
pub enum DeletePolicy {
    /// In the order of their names.
    #[default]
    Random,
    /// The newest ones.
    Newest,
    /// The oldest ones.
    Oldest,
}

/// Declaration of equal Machines.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[kube(
    group = "cluster.settled.dev",
    version = "v1alpha1",
    kind = "MachineSet",
    namespaced,
    status = "MachineSetStatus",
    shortname = "ms",
    category = "clusters",
    doc = "As many Machines of a template as asked for.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Desired", type_ = "integer", json_path = ".spec.replicas"),
    printcolumn(name = "Current", type_ = "integer", json_path = ".status.replicas"),
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
pub struct MachineSetSpec {
    /// How many Machines.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// For how long a Node is ready before its Machine counts as available.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub min_ready_seconds: i32,
    /// Which Machines are deleted first.
    #[serde(default)]
    pub delete_policy: DeletePolicy,
    /// Which Machines are counted.
    pub selector: Selector,
    /// What Machines are made from.
    pub template: MachineTemplate,
}

const fn one() -> i32 {
    1
}

/// What the controller reports.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineSetStatus {
    /// The generation of the spec that was reconciled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Machines.
    #[serde(default)]
    pub replicas: i32,
    /// Machines with all labels of the template.
    #[serde(default)]
    pub fully_labeled_replicas: i32,
    /// Machines with a ready Node.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Machines whose Node has been ready for long enough.
    #[serde(default)]
    pub available_replicas: i32,
    /// The selector, for the scale subresource.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub selector: String,
    /// Why Machines do not become ready: the first reason among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<ErrorReason>,
    /// The same for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// `Ready`, its parts, `Reconciling` and `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crd::schema_with::<MachineSetCondition>")]
    pub conditions: Vec<Condition>,
}

//! MachineClass: configuration of a provider that several Machines share.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::schemas;

/// Configuration of a provider that several Machines share.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[kube(
    group = "cluster.settled.dev",
    version = "v1alpha1",
    kind = "MachineClass",
    plural = "machineclasses",
    namespaced,
    status = "MachineClassStatus",
    category = "clusters",
    doc = "Configuration of a provider that several Machines share."
)]
#[serde(rename_all = "camelCase")]
pub struct MachineClassSpec {
    /// A typed, versioned object that the provider owns.
    #[schemars(schema_with = "schemas::typed_object")]
    pub provider_spec: Value,
}

/// What the controllers report.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineClassStatus {
    /// The generation of the spec that was read last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

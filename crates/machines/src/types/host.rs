//! Host: a machine that exists already, in a pool that Machines claim from.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use settled_controller::conditions::{ConditionType, crd};

use super::common::{MachineVersions, ObjectName};
use super::schemas;

/// Conditions of a Host.
#[derive(Clone, Copy, ConditionType, Debug, Eq, PartialEq)]
pub enum HostCondition {
    /// The host answers.
    Reachable,
    /// The host is prepared for the Machine that has it, or clean and free.
    Prepared,
}

/// Whether a host may be set up anew for the Machine that has it.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
pub enum ReplacePolicy {
    /// It is cleaned, and set up again.
    #[default]
    Allowed,
    /// Changes that need it are reported as unsupported.
    Never,
}

/// Declaration of a host.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[kube(
    group = "cluster.settled.dev",
    version = "v1alpha1",
    kind = "Host",
    namespaced,
    status = "HostStatus",
    category = "clusters",
    doc = "A machine that exists already, in a pool that Machines claim from.",
    printcolumn(name = "Address", type_ = "string", json_path = ".spec.address"),
    printcolumn(name = "Machine", type_ = "string", json_path = ".status.claimRef.name")
)]
#[serde(rename_all = "camelCase")]
pub struct HostSpec {
    /// Address or name.
    #[schemars(length(min = 1, max = 253))]
    pub address: String,
    /// Port of SSH.
    #[serde(default = "ssh_port")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// User of SSH.
    #[serde(default = "root")]
    #[schemars(length(min = 1, max = 63))]
    pub user: String,
    /// Secret with the private key, in the same namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<ObjectName>,
    /// Its public keys: type and key, as lines of `known_hosts` without the name. Nothing is sent to a host with another key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "host_keys")]
    pub host_keys: Vec<String>,
    /// Whether it may be set up anew for the Machine that has it.
    #[serde(default)]
    pub replace_policy: ReplacePolicy,
    /// Whether no Machine claims it any more.
    #[serde(default)]
    pub unschedulable: bool,
}

const fn ssh_port() -> i32 {
    22
}

fn root() -> String {
    "root".to_owned()
}

fn host_keys(_generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 8,
        "items": {"type": "string", "maxLength": 2048, "pattern": "^[a-z0-9@.-]+ [A-Za-z0-9+/=]+$"},
    })
}

/// The Machine that has a Host.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimRef {
    /// Name of the Machine.
    pub name: String,
    /// UID of the Machine.
    pub uid: String,
    /// Its Cluster, as `NAMESPACE/NAME`, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The API server that the claim on the host names: the one that made it, wherever the Machine was moved since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// When the Machine let go of a Host that could not be cleaned. It is claimed again once it is clean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::optional_time")]
    pub released_at: Option<Time>,
}

/// What the controllers report.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostStatus {
    /// The generation of the spec that was reconciled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The Machine that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_ref: Option<ClaimRef>,
    /// What runs on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<MachineVersions>,
    /// When it answered last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::optional_time")]
    pub last_contact_time: Option<Time>,
    /// `Ready`, its parts, `Reconciling` and `Stalled`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crd::schema_with::<HostCondition>")]
    pub conditions: Vec<Condition>,
}

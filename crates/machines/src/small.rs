//! Kinds of Kubernetes as far as the controllers read them: whole types would cost memory for each object, and size of programs.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference, Time};
use kube::Resource;
use serde::{Deserialize, Serialize};

use crate::types::{KUBECONFIG_KEY, Taint};

/// A Node.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Resource, Serialize)]
#[resource(inherit = k8s_openapi::api::core::v1::Node)]
pub(crate) struct Node {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: NodeSpec,
    #[serde(default)]
    pub(crate) status: NodeStatus,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeSpec {
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub(crate) provider_id: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) taints: Vec<Taint>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) unschedulable: bool,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<NodeCondition>,
    #[serde(default)]
    pub(crate) node_info: NodeInfo,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeInfo {
    #[serde(default)]
    pub(crate) kubelet_version: String,
    #[serde(default)]
    pub(crate) container_runtime_version: String,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodeCondition {
    #[serde(rename = "type")]
    pub(crate) type_: String,
    pub(crate) status: String,
    #[serde(default)]
    pub(crate) last_transition_time: Option<Time>,
}

impl Node {
    pub(crate) fn condition(&self, type_: &str) -> Option<&NodeCondition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Status of its condition Ready.
    pub(crate) fn ready(&self) -> &str {
        self.condition("Ready").map_or("Unknown", |condition| condition.status.as_str())
    }

    /// The Machine that it says it is of.
    pub(crate) fn machine(&self) -> Option<&str> {
        self.annotation(crate::types::MACHINE_ANNOTATION)
    }

    pub(crate) fn annotation(&self, key: &str) -> Option<&str> {
        entry(self.metadata.annotations.as_ref(), key)
    }
}

pub(crate) fn entry<'m>(map: Option<&'m BTreeMap<String, String>>, key: &str) -> Option<&'m str> {
    map?.get(key).map(String::as_str)
}

/// A Pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Resource)]
#[resource(inherit = k8s_openapi::api::core::v1::Pod)]
pub(crate) struct Pod {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) status: PodStatus,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub(crate) struct PodStatus {
    #[serde(default)]
    pub(crate) phase: String,
}

impl kube::api::Evict for Pod {}

impl Pod {
    pub(crate) fn controller(&self) -> Option<&OwnerReference> {
        self.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
    }
}

/// A Lease.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Resource, Serialize)]
#[resource(inherit = k8s_openapi::api::coordination::v1::Lease)]
pub(crate) struct Lease {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) spec: LeaseSpec,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LeaseSpec {
    #[serde(default)]
    pub(crate) holder_identity: Option<String>,
    #[serde(default)]
    pub(crate) lease_duration_seconds: Option<i32>,
    #[serde(default)]
    pub(crate) renew_time: Option<MicroTime>,
}

/// A Secret.
#[derive(Clone, Default, Deserialize, PartialEq, Resource, Serialize)]
#[resource(inherit = k8s_openapi::api::core::v1::Secret)]
pub(crate) struct Secret {
    pub(crate) metadata: ObjectMeta,
    #[serde(default)]
    pub(crate) data: BTreeMap<String, ByteString>,
}

/// Its data are in no log.
impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Secret").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}

impl Secret {
    /// The kubeconfig in it.
    pub(crate) fn kubeconfig(&self) -> Option<String> {
        String::from_utf8(self.data.get(KUBECONFIG_KEY)?.0.clone()).ok()
    }
}

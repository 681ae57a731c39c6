//! The kind that the tests of conditions, status and events are about, and a server that has it.

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use settled_apiserver::Server;
use settled_controller::Clock;
use settled_controller::conditions::{ConditionType, Reason, crd};

use crate::harness;

pub(crate) const CRD: &str = "buckets.example.com";

#[derive(ConditionType, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BucketCondition {
    /// All objects are stored.
    Stored,
    /// The bucket is bound to an instance.
    #[condition(name = "example.com/Bound")]
    Bound,
    /// Writes take longer than they should.
    #[condition(polarity = "negative", severity = "warning")]
    Degraded,
    /// Nothing is written on request.
    #[condition(polarity = "neutral", severity = "info")]
    Paused,
}

#[derive(Reason, Clone, Copy, Debug)]
pub(crate) enum BucketReason {
    AsExpected,
    /// The quota of the namespace is used up.
    QuotaExceeded,
}

#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "Bucket",
    namespaced,
    status = "BucketStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BucketSpec {
    pub(crate) instance: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BucketStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) instance: Option<String>,
    // Written as null if it is absent.
    pub(crate) last_sync_time: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crd::schema_with::<BucketCondition>")]
    pub(crate) conditions: Vec<Condition>,
}

pub(crate) fn definition() -> CustomResourceDefinition {
    let mut definition = Bucket::crd();
    crd::add_printer_columns::<BucketCondition>(&mut definition);
    definition
}

pub(crate) async fn install(client: &Client, definition: &CustomResourceDefinition) {
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    crds.create(&PostParams::default(), definition).await.unwrap();
    await_condition(crds, CRD, conditions::is_crd_established()).await.unwrap();
}

/// A server with the CRD.
pub(crate) async fn server() -> Server {
    let server = Server::in_memory().await.unwrap();
    install(&server.client(), &definition()).await;
    server
}

/// A server with the CRD whose time is tokio's, and that clock.
pub(crate) async fn server_in_virtual_time() -> (Server, Clock) {
    harness::server_in_virtual_time(&[definition()]).await
}

pub(crate) fn buckets(client: &Client) -> Api<Bucket> {
    Api::default_namespaced(client.clone())
}

pub(crate) async fn create(client: &Client, name: &str) -> Bucket {
    let bucket = Bucket::new(name, BucketSpec { instance: "prod".to_owned() });
    buckets(client).create(&PostParams::default(), &bucket).await.unwrap()
}

/// A write to the status by another manager.
pub(crate) async fn patch_status(
    client: &Client,
    name: &str,
    manager: &str,
    status: &Value,
) -> Result<Bucket, kube::Error> {
    let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    let patch = Patch::Merge(serde_json::json!({"status": status}));
    buckets(client).patch_status(name, &params, &patch).await
}

/// So many seconds after the beginning of 2026.
pub(crate) fn at(second: i64) -> Timestamp {
    let begin: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    Timestamp::from_second(begin.as_second() + second).unwrap()
}

pub(crate) fn condition(condition_type: &str, status: &str, second: i64) -> Condition {
    Condition {
        type_: condition_type.to_owned(),
        status: status.to_owned(),
        last_transition_time: Time(at(second)),
        reason: "AsExpected".to_owned(),
        message: String::new(),
        observed_generation: None,
    }
}

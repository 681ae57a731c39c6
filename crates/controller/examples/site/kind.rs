//! The kind `Site`: what users ask for, and what the controller reports.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use settled_controller::conditions::{ConditionType, Reason, crd};

/// What a Site reports, beside `Ready`, which summarizes it.
#[derive(ConditionType)]
pub enum SiteCondition {
    /// The page is in the ConfigMap of the Site.
    Published,
}

/// Why a condition is as it is.
#[derive(Reason)]
pub enum SiteReason {
    /// The page is stored.
    Stored,
    /// The spec has no page.
    EmptyPage,
    /// Another manager owns a field of the ConfigMap.
    Conflict,
    /// A quota or a policy denies the ConfigMap.
    Denied,
}

/// A web page.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Site", namespaced, status = "SiteStatus")]
pub struct SiteSpec {
    /// The page, in HTML.
    pub page: String,
}

/// What the controller reports.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SiteStatus {
    /// The generation of the spec that was reconciled last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready`, `Published`, and `Stalled` if only a change of the spec helps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crd::schema_with::<SiteCondition>")]
    pub conditions: Vec<Condition>,
}

/// The CRD, with the columns Ready, Reason and Age.
pub fn definition() -> CustomResourceDefinition {
    let mut definition = Site::crd();
    crd::add_printer_columns::<SiteCondition>(&mut definition);
    definition
}

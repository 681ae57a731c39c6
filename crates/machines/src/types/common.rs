//! Types that several kinds share: provider configuration, versions, taints, selectors, templates.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use settled_apimachinery::labels::LabelSelector;

use super::schemas;

/// Configuration of a provider: an object in a format of the provider's own, or a MachineClass that has it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.value) != has(self.valueFrom)",
    "message": "exactly one of value and valueFrom is required",
}]))]
pub struct ProviderSpec {
    /// A typed, versioned object that the provider owns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schemas::typed_object")]
    pub value: Option<Value>,
    /// Where the object is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<ProviderSpecSource>,
}

/// Where the configuration of a provider is.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderSpecSource {
    /// A MachineClass of the same namespace.
    pub machine_class: ObjectName,
}

/// The name of an object of the same namespace.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct ObjectName {
    /// The name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// A container runtime.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
pub struct ContainerRuntime {
    /// Its kind: `containerd`, `cri-o`.
    #[schemars(length(min = 1, max = 63))]
    pub name: String,
    /// Its version.
    #[schemars(length(min = 1, max = 63))]
    pub version: String,
}

/// Versions of what runs on a machine.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineVersions {
    /// The kubelet.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(regex(pattern = "^(v?[0-9]+\\.[0-9]+\\.[0-9]+([-+][0-9A-Za-z.+-]+)?)?$"), length(max = 63))]
    pub kubelet: String,
    /// The control plane, on its machines only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = "^v?[0-9]+\\.[0-9]+\\.[0-9]+([-+][0-9A-Za-z.+-]+)?$"), length(max = 63))]
    pub control_plane: Option<String>,
    /// The container runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_runtime: Option<ContainerRuntime>,
}

/// A taint of a Node.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize, JsonSchema)]
pub struct Taint {
    /// Its key.
    #[schemars(length(min = 1, max = 316))]
    pub key: String,
    /// Its value.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub value: String,
    /// What it does to Pods.
    #[schemars(extend("enum" = ["NoSchedule", "PreferNoSchedule", "NoExecute"]))]
    pub effect: String,
}

/// Labels and annotations.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Metadata {
    /// Labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schemas::string_map")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schemas::string_map")]
    pub annotations: BTreeMap<String, String>,
}

/// A label selector.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// Labels with these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schemas::label_map")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub match_expressions: Vec<Requirement>,
}

/// A requirement of a selector.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
pub struct Requirement {
    /// Key of the label.
    #[schemars(length(min = 1, max = 316))]
    pub key: String,
    /// How it is compared.
    #[schemars(extend("enum" = ["In", "NotIn", "Exists", "DoesNotExist"]))]
    pub operator: String,
    /// What it is compared with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub values: Vec<String>,
}

impl Selector {
    /// Whether it matches these labels. An empty or invalid one matches nothing.
    #[must_use]
    pub fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        if self.match_labels.is_empty() && self.match_expressions.is_empty() {
            return false;
        }
        let none = BTreeMap::new();
        LabelSelector::from_object(&json!(self))
            .is_ok_and(|selector| selector.matches(labels.unwrap_or(&none)))
    }

    /// The same for many labels: it is parsed once.
    pub(crate) fn matcher(&self) -> impl Fn(Option<&BTreeMap<String, String>>) -> bool + use<> {
        let is_empty = self.match_labels.is_empty() && self.match_expressions.is_empty();
        let parsed = LabelSelector::from_object(&json!(self)).ok().filter(|_| !is_empty);
        let none = BTreeMap::new();
        move |labels| parsed.as_ref().is_some_and(|selector| selector.matches(labels.unwrap_or(&none)))
    }

    /// Its text form, for `status.selector` of a scale subresource.
    #[must_use]
    pub fn text(&self) -> String {
        LabelSelector::from_object(&json!(self)).map(|selector| selector.to_string()).unwrap_or_default()
    }
}

/// A number, or a percentage of a total.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct IntOrPercent(#[schemars(schema_with = "schemas::int_or_percent")] pub IntOrString);

impl IntOrPercent {
    /// A number.
    #[must_use]
    pub const fn int(number: i32) -> Self {
        Self(IntOrString::Int(number))
    }

    /// A percentage, such as `25%`.
    #[must_use]
    pub fn percent(text: &str) -> Self {
        Self(IntOrString::String(text.to_owned()))
    }

    /// The number, or the percentage of a total, rounded up or down. Text that is no percentage is 0.
    #[must_use]
    pub fn of(&self, total: i32, round_up: bool) -> i32 {
        match &self.0 {
            IntOrString::Int(number) => *number,
            IntOrString::String(text) => {
                let percent = text.strip_suffix('%').and_then(|digits| digits.parse::<i32>().ok());
                let product = i64::from(percent.unwrap_or_default()) * i64::from(total);
                let rounded = if round_up { (product + 99).div_euclid(100) } else { product.div_euclid(100) };
                i32::try_from(rounded).unwrap_or(i32::MAX)
            }
        }
    }
}

/// Why a terminal failure happened: only a change of the spec helps (`MachineStatusError`).
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize, JsonSchema)]
pub enum ErrorReason {
    /// The configuration is invalid.
    InvalidConfiguration,
    /// The provider cannot perform this change.
    UnsupportedChange,
    /// The provider has no host, or no quota.
    InsufficientResources,
    /// The host could not be created.
    CreateError,
    /// The host could not be updated.
    UpdateError,
    /// The host could not be deleted.
    DeleteError,
    /// The host was created, but no Node registered in time.
    JoinClusterTimeoutError,
}

impl ErrorReason {
    /// The name in the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidConfiguration => "InvalidConfiguration",
            Self::UnsupportedChange => "UnsupportedChange",
            Self::InsufficientResources => "InsufficientResources",
            Self::CreateError => "CreateError",
            Self::UpdateError => "UpdateError",
            Self::DeleteError => "DeleteError",
            Self::JoinClusterTimeoutError => "JoinClusterTimeoutError",
        }
    }
}

/// Type of the address of a machine that serves an API: `host:port`.
pub const API_SERVER_ADDRESS: &str = "APIServer";

/// An address of a machine.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
pub struct MachineAddress {
    /// `InternalIP`, `ExternalIP`, `Hostname`, `APIServer`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The address.
    pub address: String,
}

/// A host and a port.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize, JsonSchema)]
pub struct ApiEndpoint {
    /// Host name or address.
    #[schemars(length(min = 1, max = 253))]
    pub host: String,
    /// Port.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
}

/// A time, without its fraction of a second.
#[must_use]
pub fn whole_second(now: jiff::Timestamp) -> Time {
    Time(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now))
}

//! Conditions in a CRD: the schema of `status.conditions`, and printer columns.
//!
//! With feature `schemars`, for kube's `#[derive(CustomResource)]`:
//!
#![cfg_attr(feature = "schemars", doc = "```")]
#![cfg_attr(not(feature = "schemars"), doc = "```ignore")]
//! use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
//! use kube::{CustomResource, CustomResourceExt};
//! use schemars::JsonSchema;
//! use serde::{Deserialize, Serialize};
//! use settled_controller::conditions::{ConditionType, crd};
//!
//! #[derive(ConditionType)]
//! enum BucketCondition {
//!     /// All objects are stored.
//!     Stored,
//! }
//!
//! #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
//! #[kube(group = "example.com", version = "v1", kind = "Bucket", namespaced, status = "BucketStatus")]
//! struct BucketSpec {
//!     instance: String,
//! }
//!
//! #[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
//! struct BucketStatus {
//!     #[serde(default, skip_serializing_if = "Vec::is_empty")]
//!     #[schemars(schema_with = "crd::schema_with::<BucketCondition>")]
//!     conditions: Vec<Condition>,
//! }
//!
//! let mut definition = Bucket::crd();
//! crd::add_printer_columns::<BucketCondition>(&mut definition);
//! ```
//!
//! [`add_printer_columns`] is for CRDs that a program makes. In the attribute, the same column is
//! `#[kube(printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"))]`.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition,
};
use serde_json::{Value, json};
use settled_apimachinery::conditions::{MAX_MESSAGE_LENGTH, MAX_REASON_LENGTH};

use super::types::{ConditionType, Polarity};

/// Pattern of `type` in controller-gen's schema of metav1.Condition: a qualified name.
const TYPE_PATTERN: &str = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
/// Maximum length of a qualified name: a subdomain of 253 bytes and a name of 63, as upstream without counting the
/// slash.
const MAX_TYPE_LENGTH: usize = 316;
const REASON_PATTERN: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";

/// The OpenAPI schema of `status.conditions`: a list map with key `type`, whose items have the constraints of
/// metav1.Condition. Its description lists the declared types. Other types are allowed: they belong to other
/// controllers.
#[must_use]
pub fn schema<C: ConditionType>() -> Value {
    json!({
        "type": "array",
        "description": description::<C>(),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {
                    "description": "The type of the condition, in CamelCase or in foo.example.com/CamelCase.",
                    "type": "string",
                    "maxLength": MAX_TYPE_LENGTH,
                    "pattern": TYPE_PATTERN,
                },
                "status": {
                    "description": "Whether the condition holds.",
                    "type": "string",
                    "enum": ["True", "False", "Unknown"],
                },
                "observedGeneration": {
                    "description": "The metadata.generation that the condition is about.",
                    "type": "integer",
                    "format": "int64",
                    "minimum": 0,
                },
                "lastTransitionTime": {
                    "description": "When the status changed for the last time.",
                    "type": "string",
                    "format": "date-time",
                },
                "reason": {
                    "description": "Why the condition has its status, for programs.",
                    "type": "string",
                    "minLength": 1,
                    "maxLength": MAX_REASON_LENGTH,
                    "pattern": REASON_PATTERN,
                },
                "message": {
                    "description": "Why the condition has its status, for people.",
                    "type": "string",
                    "maxLength": MAX_MESSAGE_LENGTH,
                },
            },
        },
    })
}

fn description<C: ConditionType>() -> String {
    let mut text = format!("Conditions of the object. {} summarizes the others.", C::SUMMARY);
    for declared in C::DECLARATIONS {
        text.push_str(&format!("\n- {}", declared.name));
        if !declared.description.is_empty() {
            text.push_str(&format!(": {}", declared.description));
        }
        if declared.polarity == Polarity::Negative {
            text.push_str(" True is the bad state.");
        }
    }
    text
}

/// [`schema`] for `#[schemars(schema_with = "...")]`.
#[cfg(feature = "schemars")]
#[must_use]
pub fn schema_with<C: ConditionType>(_generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    match schema::<C>() {
        Value::Object(members) => members.into(),
        _ => schemars::Schema::default(),
    }
}

/// Printer columns for `kubectl get`: status and reason of the summary, and the age. `-o wide` adds the message.
#[must_use]
pub fn printer_columns<C: ConditionType>() -> Vec<CustomResourceColumnDefinition> {
    let column = |name: &str, type_: &str, json_path: String| CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: type_.to_owned(),
        json_path,
        ..CustomResourceColumnDefinition::default()
    };
    let of_summary = |field: &str| format!(".status.conditions[?(@.type==\"{}\")].{field}", C::SUMMARY);
    vec![
        column(C::SUMMARY, "string", of_summary("status")),
        column("Reason", "string", of_summary("reason")),
        CustomResourceColumnDefinition {
            priority: Some(1),
            ..column("Message", "string", of_summary("message"))
        },
        column("Age", "date", ".metadata.creationTimestamp".to_owned()),
    ]
}

/// Appends [`printer_columns`] to each version of a CRD. Existing columns with the same name are kept.
pub fn add_printer_columns<C: ConditionType>(definition: &mut CustomResourceDefinition) {
    for version in &mut definition.spec.versions {
        let columns = version.additional_printer_columns.get_or_insert_default();
        for column in printer_columns::<C>() {
            if !columns.iter().any(|known| known.name == column.name) {
                columns.push(column);
            }
        }
    }
}

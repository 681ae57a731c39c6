//! metav1's validation of conditions, before the API server applies it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;
use settled_apimachinery::conditions::validate_conditions;
use settled_apimachinery::field::{Error, Path, to_aggregate};

/// Conditions that metav1's validation rejects.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("invalid conditions: {}", to_aggregate(.errors))]
pub struct InvalidConditions {
    /// Errors with upstream's texts and the path of each field.
    pub errors: Vec<Error>,
}

/// `ValidateConditions` of metav1, for a list at `status.conditions`.
///
/// # Errors
/// The validation errors.
pub fn validate(conditions: &[Condition]) -> Result<(), InvalidConditions> {
    let list: Vec<Value> =
        conditions.iter().filter_map(|condition| serde_json::to_value(condition).ok()).collect();
    let mut errors = Vec::new();
    let path = Path::Nil;
    let path = path.child("status");
    validate_conditions(&Value::Array(list), &path.child("conditions"), &mut errors);
    if errors.is_empty() { Ok(()) } else { Err(InvalidConditions { errors }) }
}

//! Reading conditions of other controllers.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::meta::find_status_condition;
use super::types::Status;

/// The status of a condition for this `metadata.generation`: Unknown if the condition is absent or its generation is
/// outdated. Without an observed generation, the status is used as is.
///
/// ```
/// use settled_controller::conditions::{Status, status_at};
///
/// let ready = serde_json::from_value(serde_json::json!({
///     "type": "Ready", "status": "True", "reason": "AsExpected", "message": "",
///     "observedGeneration": 2, "lastTransitionTime": "2026-01-01T00:00:00Z",
/// }))?;
/// let conditions = [ready];
/// assert_eq!(status_at(&conditions, "Ready", 2), Status::True);
/// // The spec has changed since.
/// assert_eq!(status_at(&conditions, "Ready", 3), Status::Unknown);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use]
pub fn status_at(
    conditions: &[Condition],
    condition_type: &str,
    generation: impl Into<Option<i64>>,
) -> Status {
    let Some(condition) = find_status_condition(conditions, condition_type) else { return Status::Unknown };
    match (condition.observed_generation, generation.into()) {
        (Some(observed), Some(generation)) if observed < generation => Status::Unknown,
        _ => Status::parse(&condition.status),
    }
}

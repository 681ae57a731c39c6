//! `apis/meta/v1/validation`: `ValidateConditions`, for the conditions of any status as JSON.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::field::{Error, Path};
use crate::validation::{is_qualified_name, regex_error};

/// `maxReasonLen`, in bytes.
pub const MAX_REASON_LENGTH: usize = 1024;
/// `maxMessageLen`, in bytes.
pub const MAX_MESSAGE_LENGTH: usize = 32 * 1024;

/// `validConditionStatuses`, sorted as upstream lists them.
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
const REASON: &str = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?";
const REASON_MESSAGE: &str = "a condition reason must start with alphabetic character, optionally followed by a string of \
                              alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";
const REASON_EXAMPLES: [&str; 5] = ["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"];
/// Go's zero time in JSON.
const ZERO_TIME: &str = "0001-01-01T00:00:00Z";

/// `ValidateConditions`: validates each condition, and that types are unique. Absent fields and fields of the wrong
/// type count as Go's zero value, since decoding precedes validation.
///
/// ```
/// use serde_json::json;
/// use settled_apimachinery::conditions::validate_conditions;
/// use settled_apimachinery::field::Path;
///
/// let list = json!([{"type": "Ready", "status": "Maybe", "reason": "Written", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
/// let mut errors = Vec::new();
/// validate_conditions(&list, &Path::Nil.child("conditions"), &mut errors);
/// assert_eq!(
///     errors[0].to_string(),
///     r#"conditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown""#
/// );
/// ```
pub fn validate_conditions(conditions: &Value, path: &Path<'_>, errors: &mut Vec<Error>) {
    let empty = Map::new();
    let mut types = BTreeSet::new();
    for (index, condition) in conditions.as_array().into_iter().flatten().enumerate() {
        let condition = condition.as_object().unwrap_or(&empty);
        let path = path.index(index);
        let condition_type = text(condition, "type");
        if !types.insert(condition_type) {
            errors.push(Error::duplicate(path.child("type"), condition_type));
        }
        validate_condition(condition, &path, errors);
    }
}

/// `ValidateCondition`.
pub fn validate_condition(condition: &Map<String, Value>, path: &Path<'_>, errors: &mut Vec<Error>) {
    let condition_type = text(condition, "type");
    for why in is_qualified_name(condition_type) {
        errors.push(Error::invalid(path.child("type"), condition_type, why));
    }
    let status = text(condition, "status");
    if !STATUSES.contains(&status) {
        errors.push(Error::not_supported(path.child("status"), status, STATUSES));
    }
    let generation = condition.get("observedGeneration").and_then(Value::as_i64).unwrap_or_default();
    if generation < 0 {
        let why = "must be greater than or equal to zero";
        errors.push(Error::invalid(path.child("observedGeneration"), generation, why));
    }
    if matches!(text(condition, "lastTransitionTime"), "" | ZERO_TIME) {
        errors.push(Error::required(path.child("lastTransitionTime"), ""));
    }
    let reason = text(condition, "reason");
    if reason.is_empty() {
        errors.push(Error::required(path.child("reason"), ""));
    } else {
        for why in is_valid_condition_reason(reason) {
            errors.push(Error::invalid(path.child("reason"), reason, why));
        }
        if reason.len() > MAX_REASON_LENGTH {
            errors.push(Error::too_long(path.child("reason"), 1024));
        }
    }
    if text(condition, "message").len() > MAX_MESSAGE_LENGTH {
        errors.push(Error::too_long(path.child("message"), 32 * 1024));
    }
}

fn text<'c>(condition: &'c Map<String, Value>, name: &str) -> &'c str {
    condition.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// `isValidConditionReason`: the format, not the length.
#[must_use]
pub fn is_valid_condition_reason(reason: &str) -> Vec<String> {
    let bytes = reason.as_bytes();
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let matches = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(is_word)
        && bytes.iter().all(|byte| is_word(byte) || matches!(byte, b',' | b':'));
    if matches { Vec::new() } else { vec![regex_error(REASON_MESSAGE, REASON, &REASON_EXAMPLES)] }
}

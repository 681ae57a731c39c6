//! Single fields: `validateEnumStrings` and `validateSimpleJSONPath`.

use settled_apimachinery::field::{Error as FieldError, Path};

pub(super) fn validate_enum_strings(
    path: &Path<'_>,
    value: &str,
    accepted: &[&str],
    errors: &mut Vec<FieldError>,
) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !accepted.contains(&value) {
        errors.push(FieldError::not_supported(path, value, accepted.iter().copied()));
    }
}

/// Whether the path of a column or a scale is a simple one, which is an error otherwise.
pub(super) fn validate_simple_json_path(
    json_path: &str,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) -> bool {
    let is_simple = json_path.starts_with('.');
    if !is_simple {
        errors.push(FieldError::invalid(path, json_path, "must be a simple json path starting with ."));
    }
    is_simple
}

//! `ValidateCustomResourceDefinitionSubresources`.

use settled_apimachinery::field::{Error as FieldError, Path};

use super::fields::validate_simple_json_path;
use super::v1::CustomResourceSubresources;

pub(super) fn validate_custom_resource_definition_subresources(
    subresources: Option<&CustomResourceSubresources<'_>>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let Some(scale) = subresources.and_then(|subresources| subresources.scale) else { return };
    for (field, json_path, prefix, detail) in [
        ("scale.specReplicasPath", scale.spec_replicas_path, ".spec.", "should be a json path under .spec"),
        (
            "scale.statusReplicasPath",
            scale.status_replicas_path,
            ".status.",
            "should be a json path under .status",
        ),
    ] {
        let path = path.child(field);
        if json_path.is_empty() {
            errors.push(FieldError::required(path, ""));
        } else {
            validate_json_path_under(json_path, &path, &[prefix], detail, errors);
        }
    }
    let label_selector = scale.label_selector_path.unwrap_or_default();
    if !label_selector.is_empty() {
        let path = path.child("scale.labelSelectorPath");
        let detail = "should be a json path under either .spec or .status";
        validate_json_path_under(label_selector, &path, &[".spec.", ".status."], detail, errors);
    }
}

fn validate_json_path_under(
    json_path: &str,
    path: &Path<'_>,
    prefixes: &[&str],
    detail: &str,
    errors: &mut Vec<FieldError>,
) {
    if validate_simple_json_path(json_path, path, errors)
        && !prefixes.iter().any(|prefix| json_path.starts_with(prefix))
    {
        errors.push(FieldError::invalid(path, json_path, detail));
    }
}

//! `ValidateCustomResourceDefinitionNames`.

use settled_apimachinery::field::{Error as FieldError, Path};
use settled_apimachinery::validation::is_dns1035_label;

use super::v1::CustomResourceDefinitionNames;

pub(super) fn validate_custom_resource_definition_names(
    names: &CustomResourceDefinitionNames<'_>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    for (field, name) in [("plural", names.plural), ("singular", names.singular)] {
        let problems = is_dns1035_label(name);
        if !name.is_empty() && !problems.is_empty() {
            errors.push(FieldError::invalid(path.child(field), name, problems.join(",")));
        }
    }
    for (field, name) in [("kind", names.kind), ("listKind", names.list_kind)] {
        let problems = is_dns1035_label(&name.to_lowercase());
        if !name.is_empty() && !problems.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", problems.join(","));
            errors.push(FieldError::invalid(path.child(field), name, detail));
        }
    }
    if !names.kind.is_empty() && names.kind == names.list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(path.child("listKind"), names.list_kind, detail));
    }
    for (field, list) in [("shortNames", &names.short_names), ("categories", &names.categories)] {
        let path = path.child(field);
        for (index, name) in list.iter().enumerate() {
            let problems = is_dns1035_label(name);
            if !problems.is_empty() {
                errors.push(FieldError::invalid(path.index(index), *name, problems.join(",")));
            }
        }
    }
}

//! `validationOptions`: what is demanded of a CRD. An update may keep what was let pass before.

use settled_apimachinery::field::Path;

use super::defaults::schema_has_unpruned_defaults;
use super::internal::InternalCrd;
use super::list_types::{has_invalid_map_list_keys_map_set, non_atomic_set_type};
use super::v1::SelectableField;
use super::webhook::ca_bundle_error;
use crate::props::JsonSchemaProps;
use crate::structural;

/// `MaxSelectableFields`.
pub(super) const MAX_SELECTABLE_FIELDS: usize = 8;

pub(super) struct ValidationOptions {
    pub(super) require_recognized_conversion_review_version: bool,
    pub(super) require_open_api_schema: bool,
    pub(super) require_valid_property_type: bool,
    pub(super) require_structural_schema: bool,
    pub(super) require_pruned_defaults: bool,
    pub(super) require_atomic_set_type: bool,
    pub(super) require_map_list_keys_map_set_validation: bool,
    pub(super) allow_invalid_ca_bundle: bool,
    /// Versions, or "" for all, that may have too many selectable fields.
    pub(super) too_many_selectable_fields_allowed: Vec<String>,
}

impl ValidationOptions {
    pub(super) fn of_create() -> Self {
        Self {
            require_recognized_conversion_review_version: true,
            require_open_api_schema: true,
            require_valid_property_type: true,
            require_structural_schema: true,
            require_pruned_defaults: true,
            require_atomic_set_type: true,
            require_map_list_keys_map_set_validation: true,
            allow_invalid_ca_bundle: true,
            too_many_selectable_fields_allowed: Vec::new(),
        }
    }

    pub(super) fn of_update(crd: &InternalCrd<'_>, old: &InternalCrd<'_>) -> Self {
        Self {
            require_recognized_conversion_review_version: has_valid_conversion_review_version_or_empty(old),
            require_open_api_schema: has_open_api_schema(old),
            require_valid_property_type: !old.has_schema_with(&has_invalid_type),
            require_structural_schema: !old.schemas().any(|(_, schema)| schema_is_non_structural(schema)),
            require_pruned_defaults: !old.schemas().any(|(_, schema)| schema_has_unpruned_defaults(schema)),
            require_atomic_set_type: !old.has_schema_with(&|schema| non_atomic_set_type(schema).is_some()),
            require_map_list_keys_map_set_validation: !old
                .has_schema_with(&has_invalid_map_list_keys_map_set),
            allow_invalid_ca_bundle: allow_invalid_ca_bundle(old),
            too_many_selectable_fields_allowed: find_too_many_selectable_fields_allowed(crd, old),
        }
    }
}

fn has_valid_conversion_review_version_or_empty(crd: &InternalCrd<'_>) -> bool {
    let versions = crd.conversion_review_versions();
    versions.is_empty() || versions.iter().any(|version| is_accepted_conversion_review_version(version))
}

pub(super) fn is_accepted_conversion_review_version(version: &str) -> bool {
    matches!(version, "v1" | "v1beta1")
}

fn has_open_api_schema(crd: &InternalCrd<'_>) -> bool {
    crd.shared.schema().is_some() || crd.versions().iter().all(|version| version.own.schema().is_some())
}

pub(super) fn has_invalid_type(schema: &JsonSchemaProps) -> bool {
    const TYPES: [&str; 6] = ["string", "number", "integer", "boolean", "array", "object"];
    !schema.type_.is_empty() && !TYPES.contains(&schema.type_.as_str())
}

fn schema_is_non_structural(schema: &JsonSchemaProps) -> bool {
    structural::unsupported(schema).is_some() || !structural::validate(schema, &Path::Nil).is_empty()
}

fn allow_invalid_ca_bundle(old: &InternalCrd<'_>) -> bool {
    !old.is_established() || old.ca_bundle().is_some_and(|bundle| ca_bundle_error(bundle).is_some())
}

fn find_too_many_selectable_fields_allowed(crd: &InternalCrd<'_>, old: &InternalCrd<'_>) -> Vec<String> {
    let is_unchanged = |fields: &Option<Vec<SelectableField<'_>>>, old: &Option<Vec<SelectableField<'_>>>| {
        old.as_ref().is_some_and(|old| old.len() > MAX_SELECTABLE_FIELDS) && fields == old
    };
    let mut allowed = Vec::new();
    if is_unchanged(&crd.shared.selectable_fields, &old.shared.selectable_fields) {
        allowed.push(String::new());
    }
    for version in crd.versions() {
        let old = old.versions().iter().rfind(|old| old.name == version.name);
        if old.is_some_and(|old| is_unchanged(&version.own.selectable_fields, &old.own.selectable_fields)) {
            allowed.push(version.name.to_owned());
        }
    }
    allowed
}

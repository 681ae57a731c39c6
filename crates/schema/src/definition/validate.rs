//! `ValidateCustomResourceDefinition` and `ValidateCustomResourceDefinitionUpdate`.

use serde_json::{Map, Value};
use settled_apimachinery::field::{Error as FieldError, Path};
use settled_apimachinery::object_meta::{validate_object_meta, validate_object_meta_update};
use settled_apimachinery::validation::name_is_dns_subdomain;

use super::approval::validate_api_approval;
use super::internal::InternalCrd;
use super::names::validate_custom_resource_definition_names;
use super::options::ValidationOptions;
use super::spec::validate_custom_resource_definition_spec;
use super::status::validate_custom_resource_definition_stored_versions;
use crate::metadata::text_of;

/// Checks a whole definition, with `old` an update of it. Both are as they come from
/// [`default_definition`](crate::default_definition) and [`prepare_for_create`](crate::prepare_for_create) or
/// [`prepare_for_update`](crate::prepare_for_update).
///
/// As upstream, fields of versions that all have alike are named where its internal form has them:
/// `spec.validation.openAPIV3Schema`, `spec.subresources`, `spec.additionalPrinterColumns`, `spec.selectableFields`. Rules in CEL are
/// checked for their form, not compiled. A definition of the wrong shape is for the decoder; here what has the wrong
/// type counts as absent.
pub fn validate_definition(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    match InternalCrd::read(new) {
        Ok(crd) => crd.validate(old.and_then(|old| InternalCrd::read(old).ok()).as_ref()),
        Err(errors) => errors,
    }
}

impl InternalCrd<'_> {
    /// Checks the CRD as [`validate_definition`] does.
    #[must_use]
    pub fn validate(&self, old: Option<&InternalCrd<'_>>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let nil = Path::Nil;
        validate_metadata(self, old, &nil.child("metadata"), &mut errors);
        let spec = nil.child("spec");
        let options =
            old.map_or_else(ValidationOptions::of_create, |old| ValidationOptions::of_update(self, old));
        validate_custom_resource_definition_spec(self, &options, &spec, &mut errors);
        if let Some(old) = old {
            validate_custom_resource_definition_spec_update(self, old, &spec, &mut errors);
        }
        let status = nil.child("status");
        let accepted = &self.status.accepted_names;
        validate_custom_resource_definition_names(accepted, &status.child("acceptedNames"), &mut errors);
        let stored = status.child("storedVersions");
        validate_custom_resource_definition_stored_versions(self, &stored, &mut errors);
        validate_api_approval(self, old, &mut errors);
        if self.preserve_unknown_fields && !old.is_some_and(|old| old.preserve_unknown_fields) {
            errors.push(FieldError::invalid(
                spec.child("preserveUnknownFields"),
                true,
                "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
            ));
        }
        errors
    }
}

fn validate_metadata(
    crd: &InternalCrd<'_>,
    old: Option<&InternalCrd<'_>>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let empty = Map::new();
    let metadata = crd.metadata.unwrap_or(&empty);
    if let Some(old) = old {
        if text_of(metadata, "resourceVersion").is_empty() {
            let path = path.child("resourceVersion");
            errors.push(FieldError::invalid(path, "", "must be specified for an update"));
        }
        validate_object_meta_update(metadata, old.metadata.unwrap_or(&empty), path, errors);
        return;
    }
    let required_name = format!("{}.{}", crd.names.plural, crd.group);
    let validate_name = |name: &str, prefix: bool| {
        let mut problems = name_is_dns_subdomain(name, prefix);
        if name != required_name {
            problems.push("must be spec.names.plural+\".\"+spec.group".to_owned());
        }
        problems
    };
    validate_object_meta(metadata, false, &validate_name, path, errors);
}

fn validate_custom_resource_definition_spec_update(
    crd: &InternalCrd<'_>,
    old: &InternalCrd<'_>,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let names = path.child("names");
    let mut validate_immutable_field = |path: Path<'_>, new: &str, old: &str| {
        if new != old {
            errors.push(FieldError::invalid(path, new, "field is immutable"));
        }
    };
    if old.is_established() {
        validate_immutable_field(path.child("scope"), crd.scope, old.scope);
        validate_immutable_field(names.child("kind"), crd.names.kind, old.names.kind);
    }
    validate_immutable_field(path.child("group"), crd.group, old.group);
    validate_immutable_field(names.child("plural"), crd.names.plural, old.names.plural);
}

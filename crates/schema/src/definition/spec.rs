//! `validateCustomResourceDefinitionSpec`.

use std::collections::HashSet;

use settled_apimachinery::field::{Error as FieldError, Path};
use settled_apimachinery::validation::{is_dns1035_label, is_dns1123_subdomain};

use super::columns::validate_custom_resource_column_definition;
use super::conversion::validate_custom_resource_conversion;
use super::dump::dump_versions;
use super::fields::validate_enum_strings;
use super::internal::InternalCrd;
use super::names::validate_custom_resource_definition_names;
use super::options::ValidationOptions;
use super::selectable_fields::validate_custom_resource_selectable_fields;
use super::subresources::validate_custom_resource_definition_subresources;
use super::validation::validate_custom_resource_definition_validation;
use super::versions::validate_custom_resource_definition_version;
use crate::props::JsonSchemaProps;

pub(super) fn validate_custom_resource_definition_spec(
    crd: &InternalCrd<'_>,
    options: &ValidationOptions,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    validate_group(crd.group, &path.child("group"), errors);
    validate_enum_strings(&path.child("scope"), crd.scope, &["Cluster", "Namespaced"], errors);
    validate_schemas_are_given(crd, options, &path.child("versions"), errors);

    let has_defaults = crd.has_schema_with(&|schema| schema.default.is_some());
    if has_defaults && crd.preserve_unknown_fields {
        errors.push(FieldError::invalid(
            path.child("preserveUnknownFields"),
            true,
            "must be false in order to use defaults in the schema",
        ));
    }
    let require_structural = options.require_structural_schema
        || !crd.preserve_unknown_fields
        || has_defaults
        || crd.has_schema_with(&schema_has_kubernetes_extensions);

    validate_versions(crd, require_structural, options, &path.child("versions"), errors);
    if let Some(first) = crd.versions().first().filter(|first| !first.name.is_empty()) {
        let problems = is_dns1035_label(first.name);
        if !problems.is_empty() {
            errors.push(FieldError::invalid(path.child("version"), first.name, problems.join(",")));
        }
    }
    let names_path = path.child("names");
    for (field, name) in [
        ("plural", crd.names.plural),
        ("singular", crd.names.singular),
        ("kind", crd.names.kind),
        ("listKind", crd.names.list_kind),
    ] {
        if name.is_empty() {
            errors.push(FieldError::required(names_path.child(field), ""));
        }
    }
    validate_custom_resource_definition_names(&crd.names, &names_path, errors);
    validate_shared(crd, require_structural, options, path, errors);
    validate_custom_resource_conversion(crd, options, &path.child("conversion"), errors);
}

fn validate_group(group: &str, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if group.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let problems = is_dns1123_subdomain(group);
    if !problems.is_empty() {
        errors.push(FieldError::invalid(path, group, problems.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(path, group, "should be a domain with at least one dot"));
    }
}

fn validate_schemas_are_given(
    crd: &InternalCrd<'_>,
    options: &ValidationOptions,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if crd.shared.schema().is_some() {
        return;
    }
    for (index, version) in crd.versions().iter().enumerate() {
        if version.own.schema().is_some() {
            continue;
        }
        let path = path.index(index);
        let path = path.child("schema");
        let path = path.child("openAPIV3Schema");
        if options.require_open_api_schema {
            errors.push(FieldError::required(path, ""));
        } else if !crd.preserve_unknown_fields && version.served {
            errors.push(FieldError::required(path, "because otherwise all fields are pruned"));
        }
    }
}

fn schema_has_kubernetes_extensions(schema: &JsonSchemaProps) -> bool {
    schema.embedded
        || schema.preserve_unknown.is_some()
        || schema.int_or_string
        || schema.list_map_keys.as_ref().is_some_and(|keys| !keys.is_empty())
        || schema.list_type.is_some()
        || schema.validations.as_ref().is_some_and(|rules| !rules.is_empty())
}

fn validate_versions(
    crd: &InternalCrd<'_>,
    require_structural: bool,
    options: &ValidationOptions,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let versions = crd.versions();
    let has_per_version_subresources = versions.iter().any(|version| version.own.subresources.is_some());
    let mut names = HashSet::new();
    let mut is_unique = true;
    for (index, version) in versions.iter().enumerate() {
        is_unique &= names.insert(version.name);
        let path = path.index(index);
        let problems = is_dns1035_label(version.name);
        if !problems.is_empty() {
            errors.push(FieldError::invalid(path.child("name"), version.name, problems.join(",")));
        }
        // `getSubresourcesForVersion`: the first version of the name.
        let is_status_enabled = if has_per_version_subresources {
            let first = versions.iter().find(|other| other.name == version.name);
            first.is_some_and(|first| first.own.has_status())
        } else {
            crd.shared.has_status()
        };
        validate_custom_resource_definition_version(
            version,
            is_status_enabled,
            require_structural,
            options,
            &path,
            errors,
        );
    }
    if !is_unique {
        let detail = "must contain unique version names";
        errors.push(FieldError::invalid_shown(path, dump_versions(versions), detail));
    }
    if versions.iter().filter(|version| version.storage).count() != 1 {
        let shown = if crd.versions.is_some() { dump_versions(versions) } else { "null".to_owned() };
        let detail = "must have exactly one version marked as storage version";
        errors.push(FieldError::invalid_shown(path, shown, detail));
    }
}

/// What all versions have alike.
fn validate_shared(
    crd: &InternalCrd<'_>,
    require_structural: bool,
    options: &ValidationOptions,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let shared = &crd.shared;
    if let Some(schema) = shared.schema() {
        validate_custom_resource_definition_validation(
            schema,
            crd.has_any_status_enabled(),
            require_structural,
            options,
            &path.child("validation"),
            errors,
        );
    }
    let subresources = shared.subresources.as_ref();
    validate_custom_resource_definition_subresources(subresources, &path.child("subresources"), errors);
    let columns_path = path.child("additionalPrinterColumns");
    for (index, column) in shared.columns.iter().flatten().enumerate() {
        validate_custom_resource_column_definition(column, &columns_path.index(index), errors);
    }
    let fields = shared.selectable_fields.as_deref().unwrap_or_default();
    match shared.schema() {
        _ if fields.is_empty() => {}
        Some(schema) => {
            validate_custom_resource_selectable_fields(fields, schema, "", options, path, errors);
        }
        None => {
            let detail = "may only be set when validations.schema is included";
            errors.push(FieldError::invalid(path.child("selectableFields"), "", detail));
        }
    }
}

//! What makes a schema structural.

use settled_apimachinery::field::{Error as FieldError, Path};

use crate::pattern;
use crate::props::JsonSchemaProps;

/// `NewStructural`: what cannot be in a structural schema at all.
pub(crate) fn unsupported(props: &JsonSchemaProps) -> Option<String> {
    let not = |what: &str| Some(format!("OpenAPIV3Schema '{what}' is not supported"));
    if !props.id.is_empty() {
        return not("id");
    }
    if !props.schema.is_empty() {
        return not("schema");
    }
    if props.reference.as_ref().is_some_and(|name| !name.is_empty()) {
        return not("$ref");
    }
    if props.pattern_properties.as_ref().is_some_and(|all| !all.is_empty()) {
        return not("patternProperties");
    }
    if props.dependencies.as_ref().is_some_and(|all| !all.is_empty()) {
        return not("dependencies");
    }
    if props.additional_items.is_some() {
        return not("additionalItems");
    }
    if props.definitions.as_ref().is_some_and(|all| !all.is_empty()) {
        return not("definitions");
    }
    if let Some(detail) = props.not.as_deref().and_then(unsupported) {
        return Some(detail);
    }
    for nested in [&props.all_of, &props.any_of, &props.one_of].into_iter().flatten().flatten() {
        if let Some(detail) = unsupported(nested) {
            return Some(detail);
        }
    }
    if props.preserve_unknown == Some(false) {
        return Some(
            "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined".to_owned(),
        );
    }
    if let Some(items) = &props.items {
        if items.list.as_ref().is_some_and(|list| !list.is_empty()) {
            return Some("OpenAPIV3Schema 'items' must be a schema, but is an array".to_owned());
        }
        if let Some(detail) = items.schema.as_ref().and_then(unsupported) {
            return Some(detail);
        }
    }
    for property in props.properties.iter().flat_map(|all| all.values()) {
        if let Some(detail) = unsupported(property) {
            return Some(detail);
        }
    }
    props.additional.as_ref().and_then(|either| either.schema.as_ref()).and_then(unsupported)
}

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// `ValidateStructural`: sorted by their texts.
pub(crate) fn validate(props: &JsonSchemaProps, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    validate_structural_invariants(props, Level::Root, path, &mut errors);
    // Every value validation must have a structural counterpart.
    validate_value_validation_completeness(props, Some(props), path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

/// `{type: integer}, {type: string}`.
fn is_int_or_string_pattern(any_of: Option<&Vec<JsonSchemaProps>>) -> bool {
    let Some([integer, string]) = any_of.map(Vec::as_slice) else { return false };
    let only = |props: &JsonSchemaProps, kind: &str| {
        *props == JsonSchemaProps { type_: kind.to_owned(), ..JsonSchemaProps::default() }
    };
    only(integer, "integer") && only(string, "string")
}

fn validate_structural_invariants(
    props: &JsonSchemaProps,
    level: Level,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let item = props.item();
    if props.type_ == "array" && item.is_none() {
        errors.push(FieldError::required(path.child("items"), "must be specified"));
    }
    if let Some(item) = item {
        validate_structural_invariants(item, Level::Item, &path.child("items"), errors);
    }
    for (name, property) in props.properties.iter().flatten() {
        validate_structural_invariants(property, Level::Field, &path.child("properties").key(name), errors);
    }
    let additional = path.child("additionalProperties");
    if let Some(either) = &props.additional {
        if level == Level::Root {
            errors.push(FieldError::forbidden(additional, "must not be used at the root"));
        }
        if let Some(schema) = &either.schema {
            validate_structural_invariants(schema, Level::Field, &additional, errors);
        }
    }

    let preserve = props.preserve_unknown == Some(true);
    if props.int_or_string {
        let must = "must be false if x-kubernetes-int-or-string is true";
        if preserve {
            let at = path.child("x-kubernetes-preserve-unknown-fields");
            errors.push(FieldError::invalid(at, true, must));
        }
        if props.embedded {
            errors.push(FieldError::invalid(path.child("x-kubernetes-embedded-resource"), true, must));
        }
    }

    let skip_any_of = is_int_or_string_pattern(props.any_of.as_ref());
    let skip_first_all_of_any_of = props
        .all_of
        .as_ref()
        .and_then(|all| all.first())
        .is_some_and(|first| is_int_or_string_pattern(first.any_of.as_ref()));
    validate_value_validation(props, skip_any_of, skip_first_all_of_any_of, path, errors);

    let check_metadata = level == Level::Root || props.embedded;
    let kind = path.child("type");
    if props.embedded && props.type_ != "object" {
        let must = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if props.type_.is_empty() {
            FieldError::required(kind, must)
        } else {
            FieldError::invalid(kind, props.type_.as_str(), must)
        });
    } else if props.type_.is_empty() && !props.int_or_string && !preserve {
        errors.push(FieldError::required(
            kind,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        ));
    }
    if props.embedded && props.additional.is_some() {
        errors.push(FieldError::forbidden(
            additional,
            "must not be used if x-kubernetes-embedded-resource is set",
        ));
    }
    if level == Level::Root && !props.type_.is_empty() && props.type_ != "object" {
        errors.push(FieldError::invalid(kind, props.type_.as_str(), "must be object at the root"));
    }
    if check_metadata {
        for name in ["kind", "apiVersion"] {
            if let Some(property) = props.property(name)
                && property.type_ != "string"
            {
                let at = path.child("properties");
                let at = at.key(name);
                errors.push(FieldError::invalid(at.child("type"), property.type_.as_str(), "must be string"));
            }
        }
    }
    if let Some(metadata) = props.property("metadata") {
        let at = path.child("properties");
        let at = at.key("metadata");
        if check_metadata && metadata.type_ != "object" {
            errors.push(FieldError::invalid(at.child("type"), metadata.type_.as_str(), "must be object"));
        }
        if level == Level::Root && restricts_more(metadata) {
            errors.push(FieldError::forbidden(
                at,
                "must not specify anything other than name and generateName, but metadata is implicitly \
                 specified",
            ));
        }
    }
    if props.embedded && !preserve && !props.has_properties() {
        errors.push(FieldError::required(
            path.child("properties"),
            "must not be empty if x-kubernetes-embedded-resource is true without \
             x-kubernetes-preserve-unknown-fields",
        ));
    }
}

/// Whether the schema of the root's metadata says more than the type, a default, and schemas of names.
fn restricts_more(metadata: &JsonSchemaProps) -> bool {
    let mut rest = JsonSchemaProps { type_: String::new(), default: None, ..metadata.clone() };
    let only_names = metadata
        .properties
        .as_ref()
        .is_none_or(|all| all.keys().all(|name| name == "name" || name == "generateName"));
    if only_names {
        rest.properties = None;
    }
    rest != JsonSchemaProps::default()
}

fn validate_value_validation(
    props: &JsonSchemaProps,
    skip_any_of: bool,
    skip_first_all_of_any_of: bool,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if !skip_any_of {
        for (index, nested) in props.any_of.iter().flatten().enumerate() {
            validate_nested_value_validation(nested, false, &path.child("anyOf").index(index), errors);
        }
    }
    for (index, nested) in props.all_of.iter().flatten().enumerate() {
        validate_nested_value_validation(
            nested,
            skip_first_all_of_any_of && index == 0,
            &path.child("allOf").index(index),
            errors,
        );
    }
    for (index, nested) in props.one_of.iter().flatten().enumerate() {
        validate_nested_value_validation(nested, false, &path.child("oneOf").index(index), errors);
    }
    if let Some(not) = &props.not {
        validate_nested_value_validation(not, false, &path.child("not"), errors);
    }
    if !props.pattern.is_empty()
        && let Some(error) = pattern::error(&props.pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid(path.child("pattern"), props.pattern.as_str(), detail));
    }
}

/// What stands under `allOf` and its like may only validate.
fn validate_nested_value_validation(
    props: &JsonSchemaProps,
    skip_any_of: bool,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    validate_value_validation(props, skip_any_of, false, path, errors);
    if let Some(item) = props.item() {
        validate_nested_value_validation(item, false, &path.child("items"), errors);
    }
    for (name, property) in props.properties.iter().flatten() {
        validate_nested_value_validation(property, false, &path.child("properties").key(name), errors);
    }
    let additional = props.additional.as_ref().is_some_and(|either| either.allows || either.schema.is_some());
    for (is_set, name, detail) in [
        (!props.type_.is_empty(), "type", "must be empty to be structural"),
        (additional, "additionalProperties", "must be undefined to be structural"),
        (props.default.is_some(), "default", "must be undefined to be structural"),
        (!props.title.is_empty(), "title", "must be empty to be structural"),
        (!props.description.is_empty(), "description", "must be empty to be structural"),
        (props.nullable, "nullable", "must be false to be structural"),
        (
            props.preserve_unknown == Some(true),
            "x-kubernetes-preserve-unknown-fields",
            "must be false to be structural",
        ),
        (props.embedded, "x-kubernetes-embedded-resource", "must be false to be structural"),
        (props.int_or_string, "x-kubernetes-int-or-string", "must be false to be structural"),
        (
            props.list_map_keys.as_ref().is_some_and(|keys| !keys.is_empty()),
            "x-kubernetes-list-map-keys",
            "must be empty to be structural",
        ),
        (props.list_type.is_some(), "x-kubernetes-list-type", "must be undefined to be structural"),
        (props.map_type.is_some(), "x-kubernetes-map-type", "must be undefined to be structural"),
        (
            props.validations.as_ref().is_some_and(|rules| !rules.is_empty()),
            "x-kubernetes-validations",
            "must be empty to be structural",
        ),
    ] {
        if is_set {
            errors.push(FieldError::forbidden(path.child(name), detail));
        }
    }
    if props.property("metadata").is_some() {
        errors.push(FieldError::forbidden(
            path.child("properties").key("metadata"),
            "must not be specified in a nested context",
        ));
    }
}

fn validate_value_validation_completeness(
    props: &JsonSchemaProps,
    structure: Option<&JsonSchemaProps>,
    at: &Path<'_>,
    from: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(not) = &props.not {
        validate_nested_value_validation_completeness(not, structure, at, &from.child("not"), errors);
    }
    for (name, list) in [("allOf", &props.all_of), ("anyOf", &props.any_of), ("oneOf", &props.one_of)] {
        for (index, nested) in list.iter().flatten().enumerate() {
            validate_nested_value_validation_completeness(
                nested,
                structure,
                at,
                &from.child(name).index(index),
                errors,
            );
        }
    }
}

fn validate_nested_value_validation_completeness(
    props: &JsonSchemaProps,
    structure: Option<&JsonSchemaProps>,
    at: &Path<'_>,
    from: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let Some(structure) = structure else {
        errors.push(FieldError::required(at, format!("because it is defined in {from}")));
        return;
    };
    validate_value_validation_completeness(props, Some(structure), at, from, errors);
    if let Some(item) = props.item() {
        validate_nested_value_validation_completeness(
            item,
            structure.item(),
            &at.child("items"),
            &from.child("items"),
            errors,
        );
    }
    for (name, property) in props.properties.iter().flatten() {
        let (at, from) = (at.child("properties"), from.child("properties"));
        let (at, from) = (at.key(name), from.key(name));
        validate_nested_value_validation_completeness(property, structure.property(name), &at, &from, errors);
    }
}

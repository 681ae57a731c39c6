//! What makes a schema structural.

use settled_apimachinery::field::{Error as FieldError, Path};

use crate::pattern;
use crate::props::Props;

/// Upstream's `NewStructural`: what can't be in a structural schema at all.
pub(crate) fn unsupported(props: &Props) -> Option<String> {
    let not = |what: &str| Some(format!("OpenAPIV3Schema '{what}' is not supported"));
    if !props.id.is_empty() {
        return not("id");
    }
    if !props.schema.is_empty() {
        return not("schema");
    }
    if props.reference.as_ref().is_some_and(|one| !one.is_empty()) {
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
    if let Some(why) = props.not.as_deref().and_then(unsupported) {
        return Some(why);
    }
    for one in [&props.all_of, &props.any_of, &props.one_of].into_iter().flatten().flatten() {
        if let Some(why) = unsupported(one) {
            return Some(why);
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
        if let Some(why) = items.schema.as_ref().and_then(unsupported) {
            return Some(why);
        }
    }
    for one in props.properties.iter().flat_map(|all| all.values()) {
        if let Some(why) = unsupported(one) {
            return Some(why);
        }
    }
    props.additional.as_ref().and_then(|one| one.schema.as_ref()).and_then(unsupported)
}

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Upstream's `ValidateStructural`: sorted by their texts.
pub(crate) fn validate(props: &Props, path: &Path<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    invariants(props, Level::Root, path, &mut errors);
    // Every value validation must have a structural counterpart.
    complete(props, Some(props), path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

/// `{type: integer}, {type: string}`.
fn int_or_string(any_of: Option<&Vec<Props>>) -> bool {
    let Some([integer, string]) = any_of.map(Vec::as_slice) else { return false };
    let only = |props: &Props, kind: &str| *props == Props { kind: kind.to_owned(), ..Props::default() };
    only(integer, "integer") && only(string, "string")
}

fn invariants(props: &Props, level: Level, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let item = props.item();
    if props.kind == "array" && item.is_none() {
        errors.push(FieldError::required(path.child("items"), "must be specified"));
    }
    if let Some(item) = item {
        invariants(item, Level::Item, &path.child("items"), errors);
    }
    for (name, one) in props.properties.iter().flatten() {
        invariants(one, Level::Field, &path.child("properties").key(name), errors);
    }
    let additional = path.child("additionalProperties");
    if let Some(one) = &props.additional {
        if level == Level::Root {
            errors.push(FieldError::forbidden(additional, "must not be used at the root"));
        }
        if let Some(one) = &one.schema {
            invariants(one, Level::Field, &additional, errors);
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

    let skip_any = int_or_string(props.any_of.as_ref());
    let skip_first = props
        .all_of
        .as_ref()
        .and_then(|all| all.first())
        .is_some_and(|first| int_or_string(first.any_of.as_ref()));
    values(props, skip_any, skip_first, path, errors);

    let check_metadata = level == Level::Root || props.embedded;
    let kind = path.child("type");
    if props.embedded && props.kind != "object" {
        let must = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if props.kind.is_empty() {
            FieldError::required(kind, must)
        } else {
            FieldError::invalid(kind, props.kind.as_str(), must)
        });
    } else if props.kind.is_empty() && !props.int_or_string && !preserve {
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
    if level == Level::Root && !props.kind.is_empty() && props.kind != "object" {
        errors.push(FieldError::invalid(kind, props.kind.as_str(), "must be object at the root"));
    }
    if check_metadata {
        for name in ["kind", "apiVersion"] {
            if let Some(one) = props.property(name)
                && one.kind != "string"
            {
                let at = path.child("properties");
                let at = at.key(name);
                errors.push(FieldError::invalid(at.child("type"), one.kind.as_str(), "must be string"));
            }
        }
    }
    if let Some(metadata) = props.property("metadata") {
        let at = path.child("properties");
        let at = at.key("metadata");
        if check_metadata && metadata.kind != "object" {
            errors.push(FieldError::invalid(at.child("type"), metadata.kind.as_str(), "must be object"));
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
fn restricts_more(metadata: &Props) -> bool {
    let mut rest = Props { kind: String::new(), default: None, ..metadata.clone() };
    let only_names = metadata
        .properties
        .as_ref()
        .is_none_or(|all| all.keys().all(|name| name == "name" || name == "generateName"));
    if only_names {
        rest.properties = None;
    }
    rest != Props::default()
}

fn values(props: &Props, skip_any: bool, skip_first: bool, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if !skip_any {
        for (at, one) in props.any_of.iter().flatten().enumerate() {
            nested(one, false, &path.child("anyOf").index(at), errors);
        }
    }
    for (at, one) in props.all_of.iter().flatten().enumerate() {
        nested(one, skip_first && at == 0, &path.child("allOf").index(at), errors);
    }
    for (at, one) in props.one_of.iter().flatten().enumerate() {
        nested(one, false, &path.child("oneOf").index(at), errors);
    }
    if let Some(not) = &props.not {
        nested(not, false, &path.child("not"), errors);
    }
    if !props.pattern.is_empty()
        && let Some(why) = pattern::error(&props.pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(path.child("pattern"), props.pattern.as_str(), detail));
    }
}

/// What stands under `allOf` and its like may only validate.
fn nested(props: &Props, skip_any: bool, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    values(props, skip_any, false, path, errors);
    if let Some(item) = props.item() {
        nested(item, false, &path.child("items"), errors);
    }
    for (name, one) in props.properties.iter().flatten() {
        nested(one, false, &path.child("properties").key(name), errors);
    }
    let additional = props.additional.as_ref().is_some_and(|one| one.allows || one.schema.is_some());
    for (set, name, must) in [
        (!props.kind.is_empty(), "type", "must be empty to be structural"),
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
            props.rules.as_ref().is_some_and(|rules| !rules.is_empty()),
            "x-kubernetes-validations",
            "must be empty to be structural",
        ),
    ] {
        if set {
            errors.push(FieldError::forbidden(path.child(name), must));
        }
    }
    if props.property("metadata").is_some() {
        errors.push(FieldError::forbidden(
            path.child("properties").key("metadata"),
            "must not be specified in a nested context",
        ));
    }
}

fn complete(
    props: &Props,
    structure: Option<&Props>,
    at: &Path<'_>,
    from: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(not) = &props.not {
        complete_nested(not, structure, at, &from.child("not"), errors);
    }
    for (name, list) in [("allOf", &props.all_of), ("anyOf", &props.any_of), ("oneOf", &props.one_of)] {
        for (index, one) in list.iter().flatten().enumerate() {
            complete_nested(one, structure, at, &from.child(name).index(index), errors);
        }
    }
}

fn complete_nested(
    props: &Props,
    structure: Option<&Props>,
    at: &Path<'_>,
    from: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    let Some(structure) = structure else {
        errors.push(FieldError::required(at, format!("because it is defined in {from}")));
        return;
    };
    complete(props, Some(structure), at, from, errors);
    if let Some(item) = props.item() {
        complete_nested(item, structure.item(), &at.child("items"), &from.child("items"), errors);
    }
    for (name, one) in props.properties.iter().flatten() {
        let (at, from) = (at.child("properties"), from.child("properties"));
        let (at, from) = (at.key(name), from.key(name));
        complete_nested(one, structure.property(name), &at, &from, errors);
    }
}

//! `metadata`: what every object must have right (`apimachinery/pkg/api/validation/objectmeta.go`).

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use settled_apimachinery::group_version::GroupVersionKind;
use settled_apimachinery::validation;

use crate::error::Cause;
use crate::object::{finalizers, is_terminating, meta, metadata};

/// How much all annotations may hold together, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// How the names of a kind are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// Anything at all.
    Any,
    /// Anything that can be a part of a path: RBAC's.
    Path,
    /// Lower case words with dots between them: most kinds.
    Subdomain,
    /// One lower case word: namespaces.
    Label,
}

impl NameRule {
    /// What is wrong with a name. `prefix`: it is one that characters will be appended to.
    pub(crate) fn errors(self, name: &str, prefix: bool) -> Vec<String> {
        match self {
            Self::Any => Vec::new(),
            Self::Path => validation::validate_path_segment_name(name, prefix),
            Self::Subdomain => validation::name_is_dns_subdomain(name, prefix),
            Self::Label => validation::name_is_dns_label(name, prefix),
        }
    }
}

/// The fields of the structs that errors show, in the order of Go.
const ORDERS: [&[&str]; 3] = [
    &["matchLabels", "matchExpressions"],
    &["key", "operator", "values"],
    &["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"],
];

/// A value as Go's errors show it: JSON, with the fields of selectors and owners in the order of Go.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(",")),
        Value::Object(map) => {
            let order = ORDERS.iter().find(|order| map.keys().all(|name| order.contains(&name.as_str())));
            let pair = |name: &str, value: &Value| format!("{}:{}", Value::from(name), shown(value));
            let pairs: Vec<String> = match order {
                Some(order) => order.iter().filter_map(|name| Some(pair(name, map.get(*name)?))).collect(),
                None => map.iter().map(|(name, value)| pair(name, value)).collect(),
            };
            format!("{{{}}}", pairs.join(","))
        }
        other => other.to_string(),
    }
}

pub(crate) fn invalid(field: &str, value: &Value, why: &str) -> Cause {
    Cause::new("FieldValueInvalid", format!("Invalid value: {}: {why}", shown(value)), field)
}

pub(crate) fn required(field: &str, why: &str) -> Cause {
    let message = if why.is_empty() { "Required value".to_owned() } else { format!("Required value: {why}") };
    Cause::new("FieldValueRequired", message, field)
}

pub(crate) fn forbidden(field: &str, why: &str) -> Cause {
    Cause::new("FieldValueForbidden", format!("Forbidden: {why}"), field)
}

/// What is wrong with the metadata of an object, by itself.
pub(crate) fn validate(object: &Value, namespaced: bool, names: NameRule) -> Vec<Cause> {
    let mut causes = Vec::new();
    let (name, generate_name) = (meta(object, "name"), meta(object, "generateName"));
    if !generate_name.is_empty() {
        let wrong = names.errors(generate_name, true);
        causes.extend(wrong.iter().map(|why| invalid("metadata.generateName", &json!(generate_name), why)));
    }
    if name.is_empty() {
        causes.push(required("metadata.name", "name or generateName is required"));
    } else {
        causes
            .extend(names.errors(name, false).iter().map(|why| invalid("metadata.name", &json!(name), why)));
    }
    let namespace = meta(object, "namespace");
    if namespaced {
        if namespace.is_empty() {
            causes.push(required("metadata.namespace", ""));
        } else {
            let wrong = NameRule::Label.errors(namespace, false);
            causes.extend(wrong.iter().map(|why| invalid("metadata.namespace", &json!(namespace), why)));
        }
    } else if !namespace.is_empty() {
        causes.push(forbidden("metadata.namespace", "not allowed on this type"));
    }
    let Some(metadata) = metadata(object) else { return causes };
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|number| *number < 0)
    {
        causes.push(invalid("metadata.generation", &json!(generation), "must be greater than or equal to 0"));
    }
    validate_labels(metadata.get("labels"), "metadata.labels", &mut causes);
    validate_annotations(metadata.get("annotations"), "metadata.annotations", &mut causes);
    validate_owners(metadata.get("ownerReferences"), &mut causes);
    let finalizers = finalizers(object);
    for finalizer in &finalizers {
        let wrong = validation::is_qualified_name(finalizer);
        causes.extend(wrong.iter().map(|why| invalid("metadata.finalizers", &json!(finalizer), why)));
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        causes.push(invalid("metadata.finalizers", &json!(finalizers), why));
    }
    causes
}

/// What is wrong with labels.
pub(crate) fn validate_labels(labels: Option<&Value>, field: &str, causes: &mut Vec<Cause>) {
    for (name, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        causes
            .extend(validation::is_qualified_name(name).iter().map(|why| invalid(field, &json!(name), why)));
        let value = value.as_str().unwrap_or_default();
        causes.extend(
            validation::is_valid_label_value(value).iter().map(|why| invalid(field, &json!(value), why)),
        );
    }
}

/// What is wrong with annotations.
pub(crate) fn validate_annotations(annotations: Option<&Value>, field: &str, causes: &mut Vec<Cause>) {
    let Some(annotations) = annotations.and_then(Value::as_object) else { return };
    let mut size = 0;
    for (name, value) in annotations {
        size += name.len() + value.as_str().map_or(0, str::len);
        let wrong = validation::is_qualified_name(&name.to_lowercase());
        causes.extend(wrong.iter().map(|why| invalid(field, &json!(name), why)));
    }
    if size > MAX_ANNOTATIONS {
        let message = format!("Too long: may not be more than {MAX_ANNOTATIONS} bytes");
        causes.push(Cause::new("FieldValueTooLong", message, field));
    }
}

/// It may own nothing.
const EVENT: GroupVersionKind<'_> = GroupVersionKind { group: "", version: "v1", kind: "Event" };

fn validate_owners(owners: Option<&Value>, causes: &mut Vec<Cause>) {
    const FIELD: &str = "metadata.ownerReferences";
    let mut controller: Option<String> = None;
    for owner in owners.and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
        let owner_kind = GroupVersionKind::from_api_version_and_kind(text("apiVersion"), text("kind"));
        for (name, empty, why) in [
            ("apiVersion", owner_kind.version.is_empty(), "version must not be empty"),
            ("kind", text("kind").is_empty(), "must not be empty"),
            ("name", text("name").is_empty(), "must not be empty"),
            ("uid", text("uid").is_empty(), "must not be empty"),
        ] {
            if empty {
                causes.push(invalid(&format!("{FIELD}.{name}"), &json!(text(name)), why));
            }
        }
        if owner_kind == EVENT {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(invalid(FIELD, owner, why));
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            let this = format!("{}/{}", text("kind"), text("name"));
            if let Some(first) = &controller {
                let why = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} \
                     and {this}"
                );
                causes.push(invalid(FIELD, owners.unwrap_or(&Value::Null), &why));
            } else {
                controller = Some(this);
            }
        }
    }
}

/// What must not change between two versions of an object.
pub(crate) fn validate_update(new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if is_terminating(old) {
        let before: BTreeSet<&str> = finalizers(old).into_iter().collect();
        let extra: BTreeSet<&str> =
            finalizers(new).into_iter().filter(|name| !before.contains(name)).collect();
        if !extra.is_empty() {
            let list: Vec<String> = extra.iter().map(|name| format!("{name:?}")).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers \
                 []string{{{}}}",
                list.join(", ")
            );
            causes.push(forbidden("metadata.finalizers", &why));
        }
    }
    let number = |object: &Value| {
        metadata(object)
            .and_then(|metadata| metadata.get("generation"))
            .and_then(Value::as_i64)
            .unwrap_or_default()
    };
    if number(new) < number(old) {
        causes.push(invalid("metadata.generation", &json!(number(new)), "must not be decremented"));
    }
    for name in ["name", "namespace", "uid"] {
        if meta(new, name) != meta(old, name) {
            causes.push(invalid(&format!("metadata.{name}"), &json!(meta(new, name)), "field is immutable"));
        }
    }
    for name in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let of = |object| {
            metadata(object).and_then(|metadata: &Map<_, _>| metadata.get(name)).filter(|v| !v.is_null())
        };
        if of(new) != of(old) {
            let value = of(new).unwrap_or(&Value::Null);
            causes.push(invalid(&format!("metadata.{name}"), value, "field is immutable"));
        }
    }
    let member = |name: &str| metadata(new).and_then(|metadata| metadata.get(name));
    validate_labels(member("labels"), "metadata.labels", &mut causes);
    validate_annotations(member("annotations"), "metadata.annotations", &mut causes);
    validate_owners(member("ownerReferences"), &mut causes);
    causes
}

/// Drops members that are null, and empty maps and lists, from `metadata`: Go's type of it never holds them.
pub(crate) fn normalize(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    for name in ["labels", "annotations"] {
        if let Some(map) = metadata.get_mut(name).and_then(Value::as_object_mut) {
            for value in map.values_mut().filter(|value| value.is_null()) {
                *value = "".into();
            }
        }
    }
    metadata.retain(|name, value| match value {
        Value::Null => false,
        // No managers at all are a demand to forget them.
        Value::Array(list) => !list.is_empty() || name == "managedFields",
        Value::Object(map) => !map.is_empty(),
        Value::String(text) => {
            !text.is_empty()
                || !matches!(&**name, "generateName" | "selfLink" | "uid" | "resourceVersion" | "namespace")
        }
        Value::Number(number) => name != "generation" || number.as_i64() != Some(0),
        Value::Bool(_) => true,
    });
}

/// Removes owners that are given twice; their uids.
pub(crate) fn deduplicate_owners(object: &mut Value) -> Vec<String> {
    let owners = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    let Some(owners) = owners else { return Vec::new() };
    let mut duplicates = Vec::new();
    let mut seen: BTreeSet<String> = BTreeSet::new();
    owners.retain(|owner| {
        let new = seen.insert(owner.to_string());
        if !new {
            duplicates.push(owner.get("uid").and_then(Value::as_str).unwrap_or_default().to_owned());
        }
        new
    });
    duplicates
}

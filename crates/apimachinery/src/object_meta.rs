//! `api/validation`: validation of `ObjectMeta`.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use settled_go::json;
use settled_go::strconv::{is_print, quote};

use crate::field::{Error, Path};
use crate::group_version::GroupVersionKind;
use crate::validation;

/// `TotalAnnotationSizeLimitB`: maximum size of all annotations, in bytes.
const TOTAL_ANNOTATION_SIZE_LIMIT: usize = 256 << 10;

fn text<'m>(members: &'m Map<String, Value>, name: &str) -> &'m str {
    members.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// `ValidateObjectMeta` for new objects. `name_errors` validates a name or, if its argument is true, the prefix of one.
pub fn validate_object_meta(
    meta: &Map<String, Value>,
    namespaced: bool,
    name_errors: &dyn Fn(&str, bool) -> Vec<String>,
    path: &Path<'_>,
    errors: &mut Vec<Error>,
) {
    let generate = text(meta, "generateName");
    if !generate.is_empty() {
        for why in name_errors(generate, true) {
            errors.push(Error::invalid(path.child("generateName"), generate, why));
        }
    }
    let name = text(meta, "name");
    if name.is_empty() {
        errors.push(Error::required(path.child("name"), "name or generateName is required"));
    } else {
        for why in name_errors(name, false) {
            errors.push(Error::invalid(path.child("name"), name, why));
        }
    }
    let namespace = text(meta, "namespace");
    let at = path.child("namespace");
    if !namespaced {
        if !namespace.is_empty() {
            errors.push(Error::forbidden(at, "not allowed on this type"));
        }
    } else if namespace.is_empty() {
        errors.push(Error::required(at, ""));
    } else {
        for why in validation::is_dns1123_label(namespace) {
            errors.push(Error::invalid(at, namespace, why));
        }
    }
    if let Some(generation) = meta.get("generation").and_then(Value::as_i64)
        && generation < 0
    {
        let why = "must be greater than or equal to 0";
        errors.push(Error::invalid(path.child("generation"), generation, why));
    }
    validate_shared(meta, path, true, errors);
}

/// `ValidateObjectMetaUpdate`, but for `resourceVersion`.
pub fn validate_object_meta_update(
    new: &Map<String, Value>,
    old: &Map<String, Value>,
    path: &Path<'_>,
    errors: &mut Vec<Error>,
) {
    let present = |meta: &Map<String, Value>, name: &str| meta.get(name).cloned().unwrap_or(Value::Null);
    if !present(old, "deletionTimestamp").is_null() {
        let finalizers = |meta: &Map<String, Value>| -> BTreeSet<String> {
            let list = meta.get("finalizers").and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let before = finalizers(old);
        let extra: Vec<String> = finalizers(new).difference(&before).map(|one| quote(one)).collect();
        if !extra.is_empty() {
            let extra = extra.join(", ");
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{extra}}}"
            );
            errors.push(Error::forbidden(path.child("finalizers"), why));
        }
    }
    let generation =
        |meta: &Map<String, Value>| meta.get("generation").and_then(Value::as_i64).unwrap_or_default();
    if generation(new) < generation(old) {
        errors.push(Error::invalid(path.child("generation"), generation(new), "must not be decremented"));
    }
    for name in ["name", "namespace", "uid"] {
        let one = text(new, name);
        if one != text(old, name) {
            errors.push(Error::invalid(path.child(name), one, "field is immutable"));
        }
    }
    for name in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let one = present(new, name);
        if one != present(old, name) {
            errors.push(Error::invalid(path.child(name), one, "field is immutable"));
        }
    }
    validate_shared(new, path, false, errors);
}

/// Validation of each write. Finalizers are validated for new objects only.
fn validate_shared(meta: &Map<String, Value>, path: &Path<'_>, finalizers: bool, errors: &mut Vec<Error>) {
    validate_labels(meta.get("labels"), path.child("labels"), errors);
    validate_annotations(meta.get("annotations"), path.child("annotations"), errors);
    owners(meta.get("ownerReferences"), &path.child("ownerReferences"), errors);
    if finalizers {
        finalizer_names(meta.get("finalizers"), &path.child("finalizers"), errors);
    }
    managed(meta.get("managedFields"), &path.child("managedFields"), errors);
}

/// `ValidateLabels`.
pub fn validate_labels(labels: Option<&Value>, field: impl Into<String> + Copy, errors: &mut Vec<Error>) {
    for (key, value) in labels.and_then(Value::as_object).into_iter().flatten() {
        for why in validation::is_qualified_name(key) {
            errors.push(Error::invalid(field, key.as_str(), why));
        }
        let value = value.as_str().unwrap_or_default();
        for why in validation::is_valid_label_value(value) {
            errors.push(Error::invalid(field, value, why));
        }
    }
}

/// `ValidateAnnotations`.
pub fn validate_annotations(
    annotations: Option<&Value>,
    field: impl Into<String> + Copy,
    errors: &mut Vec<Error>,
) {
    let mut size = 0;
    for (key, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
        for why in validation::is_qualified_name(&key.to_lowercase()) {
            errors.push(Error::invalid(field, key.as_str(), why));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > TOTAL_ANNOTATION_SIZE_LIMIT {
        errors.push(Error::too_long(field, TOTAL_ANNOTATION_SIZE_LIMIT as i64));
    }
}

/// Kinds that cannot be owners.
const EVENT: GroupVersionKind<'_> = GroupVersionKind { group: "", version: "v1", kind: "Event" };

fn owners(owners: Option<&Value>, at: &Path<'_>, errors: &mut Vec<Error>) {
    let mut controller: Option<String> = None;
    for owner in owners.and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let owner_kind = GroupVersionKind::from_api_version_and_kind(api_version, kind);
        if owner_kind.version.is_empty() {
            errors.push(Error::invalid(at.child("apiVersion"), api_version, "version must not be empty"));
        }
        for name in ["kind", "name", "uid"] {
            if text(name).is_empty() {
                errors.push(Error::invalid(at.child(name), "", "must not be empty"));
            }
        }
        if owner_kind == EVENT {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(Error::invalid_shown(at, owner_json(owner), why));
        }
        if owner.get("controller") == Some(&Value::Bool(true)) {
            let this = format!("{kind}/{}", text("name"));
            if let Some(first) = &controller {
                let why = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                );
                let all: Vec<String> =
                    owners.and_then(Value::as_array).into_iter().flatten().map(owner_json).collect();
                errors.push(Error::invalid_shown(at, format!("[{}]", all.join(",")), why));
            } else {
                controller = Some(this);
            }
        }
    }
}

/// The owner reference in Go's field order.
fn owner_json(owner: &Value) -> String {
    let mut parts = Vec::new();
    for name in ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"] {
        if let Some(value) = owner.get(name) {
            parts.push(format!("\"{name}\":{}", json::to_string(value)));
        }
    }
    format!("{{{}}}", parts.join(","))
}

fn finalizer_names(finalizers: Option<&Value>, at: &Path<'_>, errors: &mut Vec<Error>) {
    let names: Vec<&str> =
        finalizers.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    for name in &names {
        for why in validation::is_qualified_name(name) {
            errors.push(Error::invalid(at, *name, why));
        }
    }
    if names.contains(&"orphan") && names.contains(&"foregroundDeletion") {
        let why = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(Error::invalid(at, names, why));
    }
}

fn managed(entries: Option<&Value>, at: &Path<'_>, errors: &mut Vec<Error>) {
    for (index, entry) in entries.and_then(Value::as_array).into_iter().flatten().enumerate() {
        let at = at.index(index);
        let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
        let operation = text("operation");
        if !matches!(operation, "Apply" | "Update") {
            let why = "must be `Apply` or `Update`";
            errors.push(Error::invalid(at.child("operation"), operation, why));
        }
        let kind = text("fieldsType");
        if !matches!(kind, "" | "FieldsV1") {
            errors.push(Error::invalid(at.child("fieldsType"), kind, "must be `FieldsV1`"));
        }
        let manager = text("manager");
        if manager.len() > 128 {
            errors.push(Error::too_long(at.child("manager"), 128));
        }
        for (place, one) in manager.char_indices() {
            if !is_print(one) {
                let why = format!("invalid character U+{:04X} (at position {place})", u32::from(one));
                errors.push(Error::invalid(at.child("manager"), manager, why));
            }
        }
        if text("subresource").len() > 256 {
            errors.push(Error::too_long(at.child("subresource"), 256));
        }
    }
}

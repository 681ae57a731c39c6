//! PersistentVolumeClaims.

use jiff::Timestamp;
use serde_json::{Value, json};
use settled_apimachinery::quantity::Quantity;
use settled_apimachinery::unstructured::{field, given, items, string, string_at};
use settled_apimachinery::validation;

use crate::kinds::behavior::Behavior;
use crate::kinds::check::{Check, join, validate_label_selector};
use crate::kinds::names::Part;
use crate::kinds::printers::{Read as _, Row, UNSET, annotation, cells};
use crate::kinds::quota::{Amounts, Evaluator, Quota, amounts};
use crate::kinds::strategy::Strategy;

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior { returns_deleted: true, ..Behavior::BUILTIN },
    prepare_for_create: |claim, _requester| {
        if let Some(fields) = claim.as_object_mut() {
            fields.insert("status".to_owned(), json!({"phase": "Pending"}));
        }
    },
    validate: |check, claim| validate_persistent_volume_claim_spec(check, field(claim, "spec"), "spec"),
    validate_update: Some(validate_persistent_volume_claim_update),
    print: Some(print_persistent_volume_claim),
    quota: Quota::Evaluator(&EVALUATOR),
    ..Strategy::DEFAULT
};

pub(crate) const ACCESS_MODES: [&str; 4] =
    ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(crate) fn validate_persistent_volume_claim_spec(check: &mut Check, spec: &Value, at: &str) {
    let modes = items(spec, "accessModes");
    if modes.is_empty() {
        check.required(join(at, "accessModes"), "at least 1 access mode is required");
    }
    validate_label_selector(check, &join(at, "selector"), field(spec, "selector"));
    for mode in modes {
        if !ACCESS_MODES.contains(&mode.as_str().unwrap_or_default()) {
            check.not_supported(join(at, "accessModes"), mode, &ACCESS_MODES);
        }
    }
    if modes.len() > 1 && modes.iter().any(|mode| mode == "ReadWriteOncePod") {
        check.forbidden(join(at, "accessModes"), "may not use ReadWriteOncePod with other access modes");
    }
    let place = join(at, "resources[storage]");
    let storage = field(field(field(spec, "resources"), "requests"), "storage");
    match Quantity::from_value(storage) {
        None => check.required(place, ""),
        Some(size) if size.is_negative() || size.is_zero() => {
            check.invalid(place, storage, "must be greater than zero")
        }
        Some(_) => {}
    }
    let class = string(spec, "storageClassName");
    if !class.is_empty() {
        check.form(&join(at, "storageClassName"), class, validation::is_dns1123_subdomain);
    }
    if let Some(mode) = given(spec, "volumeMode")
        && !["Block", "Filesystem"].contains(&mode.as_str().unwrap_or_default())
    {
        check.not_supported(join(at, "volumeMode"), mode, &["Block", "Filesystem"]);
    }
}

fn validate_persistent_volume_claim_update(check: &mut Check, new: &Value, old: &Value) {
    let spec = field(new, "spec");
    validate_persistent_volume_claim_spec(check, spec, "spec");
    let before = field(old, "spec");
    let bound = string(field(new, "status"), "phase") == "Bound";
    let without = |spec: &Value| {
        let mut spec = spec.clone();
        if string(before, "volumeName").is_empty() {
            remove_field(&mut spec, "volumeName");
        }
        if bound {
            remove_field(&mut spec, "volumeAttributesClassName");
            if let Some(requests) = spec.pointer_mut("/resources/requests") {
                remove_field(requests, "storage");
            }
        }
        // The class may be set later, where there was none.
        if given(before, "storageClassName").is_none() {
            remove_field(&mut spec, "storageClassName");
        }
        spec
    };
    if without(spec) != without(before) {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        check.forbidden("spec", detail);
    }
    let storage = |object: &Value, list: &str| Quantity::from_value(field(field(object, list), "storage"));
    let size = storage(field(spec, "resources"), "requests");
    let size_before = storage(field(before, "resources"), "requests");
    let capacity = storage(field(old, "status"), "capacity").unwrap_or_else(|| Quantity::from(0));
    if let (Some(size), Some(size_before)) = (size, size_before)
        && size < size_before
        && size <= capacity
    {
        check.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity");
    }
    check.immutable("volumeMode", given(spec, "volumeMode"), given(before, "volumeMode"));
}

pub(crate) fn remove_field(value: &mut Value, name: &str) {
    if let Value::Object(fields) = value {
        fields.remove(name);
    }
}

pub(crate) fn format_access_modes(modes: &[Value]) -> String {
    let short = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let short = short.into_iter().filter(|(mode, _)| modes.iter().any(|given| given.text("") == *mode));
    short.map(|(_, short)| short).collect::<Vec<_>>().join(",")
}

pub(crate) fn storage_class_of(row: Row<'_>) -> String {
    let beta = annotation(row, "volume.beta.kubernetes.io/storage-class");
    beta.unwrap_or_else(|| row.text("/spec/storageClassName")).to_owned()
}

fn print_persistent_volume_claim(row: Row<'_>) -> Vec<Value> {
    let volume = row.text("/spec/volumeName");
    let bound = !volume.is_empty();
    cells![
        row.name(),
        if row.deleted() { "Terminating" } else { row.text("/status/phase") },
        volume,
        if bound { row.scalar("/status/capacity/storage", "0") } else { String::new() },
        if bound { format_access_modes(row.list("/status/accessModes")) } else { String::new() },
        storage_class_of(row),
        row.text_or("/spec/volumeAttributesClassName", UNSET),
        row.age(),
        row.text_or("/spec/volumeMode", UNSET),
    ]
}

static EVALUATOR: Evaluator = Evaluator {
    usage,
    matches_resource: |name| {
        let plain = name.rsplit_once(".storageclass.storage.k8s.io/").map_or(name, |(_, rest)| rest);
        matches!(plain, "persistentvolumeclaims" | "requests.storage")
    },
    matches_scope: |scope, claim| {
        scope.name == "VolumeAttributesClass"
            && scope.selects(string_at(claim, "/spec/volumeAttributesClassName"))
    },
    handles_update: |part, _new, _old| part == Part::Main,
    ..Evaluator::DEFAULT
};

fn usage(claim: &Value, _now: Timestamp) -> Amounts {
    let one = || Quantity::from(1);
    let mut used = Amounts::from([("persistentvolumeclaims".to_owned(), one())]);
    let annotated = string_at(claim, "/metadata/annotations/volume.beta.kubernetes.io~1storage-class");
    let class = Some(annotated).filter(|class| !class.is_empty());
    let class = class.unwrap_or_else(|| string_at(claim, "/spec/storageClassName"));
    let of_class = |name: &str| format!("{class}.storageclass.storage.k8s.io/{name}");
    if !class.is_empty() {
        used.insert(of_class("persistentvolumeclaims"), one());
    }
    let mut storage = amounts(claim.pointer("/spec/resources/requests")).remove("storage");
    let allocated = amounts(claim.pointer("/status/allocatedResources")).remove("storage");
    if storage.is_some() && allocated > storage {
        storage = allocated;
    }
    if let Some(storage) = storage {
        if !class.is_empty() {
            used.insert(of_class("requests.storage"), storage.clone());
        }
        used.insert("requests.storage".to_owned(), storage);
    }
    used
}

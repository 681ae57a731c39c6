//! PersistentVolumes.

use serde_json::{Value, json};
use settled_apimachinery::unstructured::{entries, field, given, items, string};

use crate::kinds::behavior::Behavior;
use crate::kinds::check::Check;
use crate::kinds::core::persistent_volume_claim::{
    ACCESS_MODES, format_access_modes, remove_field, storage_class_of,
};
use crate::kinds::names::Part;
use crate::kinds::printers::{Read as _, Row, UNSET, cells};
use crate::kinds::strategy::{Requester, Strategy, UpdateContext};
use crate::object::{self, member_mut};

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior { returns_deleted: true, ..Behavior::BUILTIN },
    prepare_for_create,
    prepare_for_update,
    validate: validate_persistent_volume,
    validate_update: Some(validate_persistent_volume_update),
    print: Some(print_persistent_volume),
    ..Strategy::DEFAULT
};

fn prepare_for_create(volume: &mut Value, _requester: &Requester<'_>) {
    let now = volume.pointer("/metadata/creationTimestamp").cloned();
    if let Some(fields) = volume.as_object_mut() {
        let status = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
        fields.insert("status".to_owned(), status);
    }
}

/// Notes when the phase has changed, unless the client says when.
fn prepare_for_update(volume: &mut Value, old: &Value, context: &UpdateContext<'_>) {
    if context.part != Part::Status {
        return;
    }
    let status = |object: &Value, name: &str| object.pointer(&format!("/status/{name}")).cloned();
    let time = |object: &Value| status(object, "lastPhaseTransitionTime").filter(|time| !time.is_null());
    let noted = match (status(volume, "phase") == status(old, "phase"), time(volume)) {
        (true, None) => time(old),
        (false, given) if given.is_none() || given == time(old) => Some(object::time(context.now)),
        _ => return,
    };
    if let Some(noted) = noted {
        member_mut(volume, "status").insert("lastPhaseTransitionTime".to_owned(), noted);
    }
}

/// What of a PersistentVolume's spec is not where its data lies.
const NOT_SOURCE: [&str; 9] = [
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
];

/// The volume sources of a spec: one, where it is valid.
fn volume_sources(spec: &Value) -> Vec<(String, Value)> {
    let fields = spec.as_object().into_iter().flatten();
    fields
        .filter(|(name, value)| !NOT_SOURCE.contains(&name.as_str()) && value.is_object())
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn validate_persistent_volume(check: &mut Check, new: &Value) {
    let spec = field(new, "spec");
    let modes = items(spec, "accessModes");
    if modes.is_empty() {
        check.required("spec.accessModes", "");
    }
    for mode in modes {
        if !ACCESS_MODES.contains(&mode.as_str().unwrap_or_default()) {
            check.not_supported("spec.accessModes", mode, &ACCESS_MODES);
        }
    }
    if entries(spec, "capacity").next().is_none() {
        check.required("spec.capacity", "");
    }
    let capacity = field(spec, "capacity");
    if field(capacity, "storage").is_null() || entries(spec, "capacity").count() > 1 {
        check.not_supported("spec.capacity", capacity, &["storage"]);
    }
    const POLICIES: [&str; 3] = ["Delete", "Recycle", "Retain"];
    let policy = string(spec, "persistentVolumeReclaimPolicy");
    if !policy.is_empty() && !POLICIES.contains(&policy) {
        check.not_supported("spec.persistentVolumeReclaimPolicy", &policy.into(), &POLICIES);
    }
    if volume_sources(spec).is_empty() {
        check.required("spec", "must specify a volume type");
    }
}

fn validate_persistent_volume_update(check: &mut Check, new: &Value, old: &Value) {
    validate_persistent_volume(check, new);
    let (spec, old) = (field(new, "spec"), field(old, "spec"));
    let (mut now, before) = (volume_sources(spec), volume_sources(old));
    if let (Some((_, csi)), Some((_, known))) =
        (now.iter_mut().find(|(name, _)| name == "csi"), before.iter().find(|(name, _)| name == "csi"))
        && given(known, "controllerExpandSecretRef").is_none()
    {
        remove_field(csi, "controllerExpandSecretRef");
    }
    if now != before {
        check.forbidden(
            "spec.persistentvolumesource",
            "spec.persistentvolumesource is immutable after creation",
        );
    }
    check.immutable("volumeMode", given(spec, "volumeMode"), given(old, "volumeMode"));
}

fn print_persistent_volume(row: Row<'_>) -> Vec<Value> {
    let claim = row.at("/spec/claimRef");
    let claim = claim.map(|claim| format!("{}/{}", claim.text("/namespace"), claim.text("/name")));
    cells![
        row.name(),
        row.scalar("/spec/capacity/storage", "0"),
        format_access_modes(row.list("/spec/accessModes")),
        row.text("/spec/persistentVolumeReclaimPolicy"),
        if row.deleted() { "Terminating" } else { row.text("/status/phase") },
        claim.unwrap_or_default(),
        storage_class_of(row),
        row.text_or("/spec/volumeAttributesClassName", UNSET),
        row.text("/status/reason"),
        row.age(),
        row.text_or("/spec/volumeMode", UNSET),
    ]
}

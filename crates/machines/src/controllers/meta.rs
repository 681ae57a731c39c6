//! Metadata of objects, without options.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use settled_controller::ObjectKey;

use crate::types::{Machine, PAUSED_ANNOTATION};

/// The key of an object.
pub(super) fn key(object: &impl Resource) -> ObjectKey {
    ObjectKey::new(namespace(object), name(object))
}

/// The UID of an object, or empty.
pub(super) fn uid(object: &impl Resource) -> &str {
    object.meta().uid.as_deref().unwrap_or_default()
}

/// The name of an object, or empty.
pub(super) fn name(object: &impl Resource) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

/// The namespace of an object, or empty.
pub(super) fn namespace(object: &impl Resource) -> &str {
    object.meta().namespace.as_deref().unwrap_or_default()
}

/// Whether it is being deleted.
pub(super) fn is_deleting(object: &impl Resource) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// An annotation.
pub(super) fn annotation<'o>(object: &'o impl Resource, key: &str) -> Option<&'o str> {
    crate::small::entry(object.meta().annotations.as_ref(), key)
}

/// Whether the controllers leave it alone.
pub(super) fn is_paused(object: &impl Resource) -> bool {
    annotation(object, PAUSED_ANNOTATION).is_some()
}

/// The controller among its owners.
pub(super) fn controller(object: &impl Resource) -> Option<&OwnerReference> {
    object.meta().owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// The key of the object that controls it, if that is of this kind.
pub(super) fn controller_key(object: &impl Resource, kind: &str) -> Option<ObjectKey> {
    let owner = controller(object).filter(|owner| owner.kind == kind)?;
    Some(ObjectKey::new(namespace(object), &owner.name))
}

/// A number for a status.
pub(super) fn count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Whether a server has answered with this code.
pub(super) fn is_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// Name of a Machine whose provider fails, and how.
pub(super) fn provider_failure(machine: &Machine) -> Option<String> {
    machine.provider_failure().map(|failure| format!("Machine {}: {failure}", name(machine)))
}

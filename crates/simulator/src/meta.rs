//! Object metadata: names, owners, keys.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use kube::{Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::Value;
use settled_controller::{ObjectKey, typed};

/// A typed value.
pub(crate) fn typed<T: DeserializeOwned>(value: &Value) -> Option<T> {
    typed::from_value(value).ok()
}

/// The key of an object.
pub(crate) fn key(object: &impl Resource) -> ObjectKey {
    let meta = object.meta();
    ObjectKey::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

/// The owner that controls an object.
pub(crate) fn controller(object: &impl Resource) -> Option<&OwnerReference> {
    object.meta().owner_references.as_ref()?.iter().find(|owner| owner.controller == Some(true))
}

/// The key of the owner that controls an object, if it is of this kind.
pub(crate) fn controller_key(object: &impl Resource, kind: &str) -> Option<ObjectKey> {
    let owner = controller(object).filter(|owner| owner.kind == kind)?;
    Some(ObjectKey::new(&object.namespace().unwrap_or_default(), &owner.name))
}

/// The UID of an object, or empty.
pub(crate) fn uid(object: &impl Resource) -> &str {
    object.meta().uid.as_deref().unwrap_or_default()
}

/// The name of an object, or empty.
pub(crate) fn name(object: &impl Resource) -> &str {
    object.meta().name.as_deref().unwrap_or_default()
}

/// The namespace of an object, or empty.
pub(crate) fn namespace(object: &impl Resource) -> &str {
    object.meta().namespace.as_deref().unwrap_or_default()
}

/// Is it being deleted?
pub(crate) fn is_deleting(object: &impl Resource) -> bool {
    object.meta().deletion_timestamp.is_some()
}

/// The reference of an object to its controller, as `metav1.NewControllerRef` makes it.
pub(crate) fn controller_reference<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    OwnerReference {
        api_version: K::api_version(&()).into_owned(),
        kind: K::kind(&()).into_owned(),
        name: name(owner).to_owned(),
        uid: uid(owner).to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// What Events refer to.
pub(crate) fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    object.object_ref(&())
}

/// A time in an object: whole seconds.
pub(crate) fn time(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

/// A number of objects for a status.
pub(crate) fn count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// A number that Go leaves out if it is zero (`omitempty`).
pub(crate) fn non_zero(number: i32) -> Option<i32> {
    Some(number).filter(|number| *number != 0)
}

/// A list that Go leaves out if it is empty (`omitempty`).
pub(crate) fn non_empty<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}

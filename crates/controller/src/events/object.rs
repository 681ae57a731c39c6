//! What an event is about: identity, namespace and name.

use std::hash::{DefaultHasher, Hash, Hasher};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::runtime::events::EventType;
use settled_apimachinery::validation::is_dns1123_subdomain;

/// Namespace of events about cluster-scoped objects.
const DEFAULT_NAMESPACE: &str = "default";

/// Identity of a reference. client-go includes the resourceVersion: there, an object that changes starts new events.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reference {
    api_version: Option<String>,
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    field_path: Option<String>,
}

impl Reference {
    pub(super) fn of(reference: &ObjectReference) -> Self {
        let ObjectReference { api_version, kind, namespace, name, uid, field_path, resource_version: _ } =
            reference.clone();
        Self { api_version, kind, namespace, name, uid, field_path }
    }

    /// The reference that it was made of, but for the resourceVersion.
    pub(super) fn with_version(&self, resource_version: Option<String>) -> ObjectReference {
        let Self { api_version, kind, namespace, name, uid, field_path } = self.clone();
        ObjectReference { api_version, kind, namespace, name, uid, field_path, resource_version }
    }

    /// The object as a whole, where a part of it is meant.
    pub(super) fn whole(&self) -> Self {
        Self { field_path: None, ..self.clone() }
    }
}

/// The namespace that an event is written to.
pub(super) fn namespace_of(regarding: &ObjectReference) -> String {
    regarding.namespace.clone().unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
}

/// The name of an event about an object, from a time in nanoseconds.
pub(super) fn event_name(object: &str, nanoseconds: i128) -> String {
    let name = format!("{object}.{nanoseconds:x}");
    // As client-go, which uses a UUID if the object's name is not a valid event name.
    let is_valid = is_dns1123_subdomain(&name).is_empty();
    if is_valid { name } else { format!("{:x}.{nanoseconds:x}", hash(object)) }
}

/// The type as the API has it.
pub(super) const fn type_name(event_type: EventType) -> &'static str {
    match event_type {
        EventType::Normal => "Normal",
        EventType::Warning => "Warning",
    }
}

/// A hash that is the same in each run.
pub(super) fn hash(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
pub(super) mod testing {
    use kube::runtime::events::{Event, EventType};

    /// A warning.
    pub(in crate::events) fn event(reason: &str, note: &str) -> Event {
        Event {
            type_: EventType::Warning,
            reason: reason.to_owned(),
            note: Some(note.to_owned()),
            action: "Binding".to_owned(),
            secondary: None,
        }
    }
}

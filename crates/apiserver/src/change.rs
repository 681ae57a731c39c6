//! Changes: the writes of a server as one sequence, for tests that check each of them.

use std::sync::Arc;

use serde_json::Value;
use settled_store::{Entry, Event};

use crate::kinds::definition::Catalog;

/// One write of one object.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// The revision of the write: the `resourceVersion` of the object.
    pub revision: u64,
    /// The API group of the object; empty for the core group.
    pub group: String,
    /// The plural name of its resource, such as `configmaps`.
    pub resource: String,
    /// Its namespace; empty if it is in none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The object after the write, in the preferred version. None: it was deleted.
    pub object: Option<Value>,
}

impl Change {
    pub(crate) fn of(event: &Event, catalog: &Catalog) -> Self {
        let (key, revision) = (event.key(), event.revision().0);
        let stored_as = key.resource().as_str();
        let (group, resource) = stored_as.split_once('/').unwrap_or(("", stored_as));
        let versions = catalog.versions_of(group, resource);
        let read = |entry: &Arc<Entry>| match versions.first() {
            Some(definition) => definition.read(entry),
            // It is no longer served.
            None => serde_json::from_slice(entry.value()).unwrap_or_default(),
        };
        Self {
            revision,
            group: group.to_owned(),
            resource: resource.to_owned(),
            namespace: key.namespace().to_owned(),
            name: key.name().to_owned(),
            object: event.entry().map(read),
        }
    }
}

/// A write, without the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Write<'e> {
    /// The revision of the write.
    pub revision: u64,
    /// The plural name of the resource, such as `configmaps`.
    pub resource: &'e str,
    /// The namespace of the object; empty if it is in none.
    pub namespace: &'e str,
    /// Its name.
    pub name: &'e str,
    /// There was no such object before.
    pub is_creation: bool,
    /// The object is gone.
    pub is_deletion: bool,
}

impl<'e> Write<'e> {
    pub(crate) fn of(event: &'e Event) -> Self {
        let key = event.key();
        let stored_as = key.resource().as_str();
        Self {
            revision: event.revision().0,
            resource: stored_as.split_once('/').map_or(stored_as, |(_, resource)| resource),
            namespace: key.namespace(),
            name: key.name(),
            is_creation: event.previous().is_none(),
            is_deletion: event.entry().is_none(),
        }
    }
}

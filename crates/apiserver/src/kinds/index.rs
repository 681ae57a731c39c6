//! Index of stored objects: labels and fields for selectors, read once an object.

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use settled_store::{Entry, Write};

use crate::kinds::definition::Definition;
use crate::object;
use crate::selector::SelectorData;

/// What is read from an object once.
#[derive(Debug, Default)]
pub(crate) struct Info {
    /// For label and field selectors.
    pub(crate) selector: SelectorData,
}

impl Info {
    /// Reads it from an object that is written. For Events it is read lazily, by the first selector: they are half of the objects of a busy cluster.
    pub(crate) fn of_written(definition: &Definition, object: &Value) -> Option<Self> {
        let is_event = definition.is("", "events") || definition.is("events.k8s.io", "events");
        (!is_event).then(|| Self::new(definition, object))
    }

    /// Attaches it to a write, if there is any.
    pub(crate) fn attach(info: Option<Self>, write: Write) -> Write {
        match info {
            Some(info) => write.with_attachment(info),
            None => write,
        }
    }

    /// Reads it from an object.
    fn new(definition: &Definition, object: &Value) -> Self {
        Self { selector: definition.selectable.data(object) }
    }
}

/// What is known of a stored object.
pub(crate) fn of<'a>(definition: &Definition, entry: &'a Arc<Entry>) -> &'a Info {
    static NOTHING: LazyLock<Info> = LazyLock::new(Info::default);
    let read = |entry: &Entry| {
        let object: Value = serde_json::from_slice(entry.value()).unwrap_or_default();
        Info::new(definition, &object)
    };
    entry.attachment(read).unwrap_or(&NOTHING)
}

/// Is a stored object being deleted? Asked without its definition: of namespaces, mostly.
pub(crate) fn is_terminating(entry: &Arc<Entry>) -> bool {
    const MARK: &[u8] = br#""deletionTimestamp":""#;
    // Only the text that the server wrote itself can be there unescaped, but a value may be a map of such a name.
    if memchr::memmem::find(entry.value(), MARK).is_none() {
        return false;
    }
    let object: Value = serde_json::from_slice(entry.value()).unwrap_or_default();
    object::is_terminating(&object)
}

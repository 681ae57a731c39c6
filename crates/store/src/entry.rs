//! Objects and their events.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::OnceLock;

use crate::key::Key;
use crate::key::Revision;

/// Data of the caller attached to an object or an event, such as parsed labels or encoded bytes.
pub(crate) type Attached = Arc<dyn Any + Send + Sync>;

/// One version of an object, immutable.
pub struct Entry {
    pub(crate) key: Key,
    pub(crate) value: Arc<[u8]>,
    pub(crate) create_revision: Revision,
    pub(crate) mod_revision: Revision,
    pub(crate) attachment: OnceLock<Attached>,
}

impl Entry {
    /// Key of the object.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The value, as written.
    #[must_use]
    pub fn value(&self) -> &Arc<[u8]> {
        &self.value
    }

    /// Revision that created the object.
    #[must_use]
    pub fn create_revision(&self) -> Revision {
        self.create_revision
    }

    /// Revision of this version.
    #[must_use]
    pub fn mod_revision(&self) -> Revision {
        self.mod_revision
    }

    /// The caller's attachment: passed in with the write, or created on first access. `None` if it has another type.
    ///
    /// ```
    /// use settled_store::{Key, Limits, Mvcc, Resource, Write};
    ///
    /// let mut store = Mvcc::new(Limits::default());
    /// let key = Key::new(&Resource::new("configmaps")?, "shop", "prices")?;
    /// let prepared = store.prepare([Write::put(key.clone(), *b"app=web")], 0);
    /// store.apply(prepared);
    ///
    /// let entry = store.get(&key).ok_or("it was put")?;
    /// let labels = entry.attachment(|entry| String::from_utf8_lossy(entry.value()).into_owned());
    /// assert_eq!(labels, Some(&"app=web".to_owned()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn attachment<T: Any + Send + Sync>(&self, make: impl FnOnce(&Self) -> T) -> Option<&T> {
        self.attachment.get_or_init(|| Arc::new(make(self))).downcast_ref()
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Values may be secret.
        write!(f, "{:?}@{} ({} bytes)", self.key, self.mod_revision, self.value.len())
    }
}

/// A write as reported to watches.
pub struct Event {
    pub(crate) revision: Revision,
    pub(crate) time: u64,
    pub(crate) key: Key,
    pub(crate) entry: Option<Arc<Entry>>,
    pub(crate) previous: Option<Arc<Entry>>,
    pub(crate) attachment: OnceLock<Attached>,
}

impl Event {
    /// The revision of the write.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Time of the write, by the caller's clock.
    #[must_use]
    pub fn time(&self) -> u64 {
        self.time
    }

    /// Value of the object.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The object after the write; `None` for a deletion.
    #[must_use]
    pub fn entry(&self) -> Option<&Arc<Entry>> {
        self.entry.as_ref()
    }

    /// The object before the write; `None` for a creation.
    #[must_use]
    pub fn previous(&self) -> Option<&Arc<Entry>> {
        self.previous.as_ref()
    }

    /// The caller's attachment, created on first access, such as the encoded event, so that it is encoded once for all
    /// watches. `None` if it has another type.
    pub fn attachment<T: Any + Send + Sync>(&self, make: impl FnOnce(&Self) -> T) -> Option<&T> {
        self.attachment.get_or_init(|| Arc::new(make(self))).downcast_ref()
    }

    /// Approximate memory that the event retains.
    pub(crate) fn size(&self) -> usize {
        let value = |entry: &Option<Arc<Entry>>| entry.as_ref().map_or(0, |entry| entry.value.len());
        const OVERHEAD: usize = 256;
        OVERHEAD + self.key.len() + value(&self.entry) + value(&self.previous)
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match (&self.entry, &self.previous) {
            (Some(_), None) => "created",
            (Some(_), Some(_)) => "updated",
            (None, _) => "deleted",
        };
        write!(f, "{}: {:?} {word}", self.revision, self.key)
    }
}

/// Precondition of a write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Expect {
    /// No precondition.
    Any,
    /// The object does not exist.
    Absent,
    /// The object's `mod_revision` is this one.
    Revision(Revision),
}

/// One transaction: a conditional change of one object.
#[derive(Clone)]
pub struct Write {
    pub(crate) key: Key,
    pub(crate) expect: Expect,
    pub(crate) value: Option<Arc<[u8]>>,
    pub(crate) attachment: Option<Attached>,
}

impl Write {
    /// Puts a value unconditionally.
    pub fn put(key: Key, value: impl Into<Arc<[u8]>>) -> Self {
        Self { key, expect: Expect::Any, value: Some(value.into()), attachment: None }
    }

    /// Puts a value if the object does not exist.
    pub fn create(key: Key, value: impl Into<Arc<[u8]>>) -> Self {
        Self::put(key, value).expecting(Expect::Absent)
    }

    /// Puts a value if this is the object's revision.
    pub fn update(key: Key, revision: Revision, value: impl Into<Arc<[u8]>>) -> Self {
        Self::put(key, value).expecting(Expect::Revision(revision))
    }

    /// Deletes the object if it exists and the precondition holds. A missing object is a conflict.
    #[must_use]
    pub fn delete(key: Key, expect: Expect) -> Self {
        Self { key, expect, value: None, attachment: None }
    }

    /// Replaces the precondition.
    #[must_use]
    pub fn expecting(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }

    /// Attaches data, returned by [`Entry::attachment`].
    #[must_use]
    pub fn with_attachment<T: Any + Send + Sync>(mut self, attachment: T) -> Self {
        self.attachment = Some(Arc::new(attachment));
        self
    }

    /// Key of the object.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    pub(crate) fn size(&self) -> usize {
        self.key.len() + self.value.as_ref().map_or(0, |value| value.len())
    }
}

impl fmt::Debug for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.value.is_some() { "put" } else { "delete" };
        write!(f, "{word} {:?} if {:?}", self.key, self.expect)
    }
}

//! Storage backends.

use std::fmt;
use std::sync::Arc;

use crate::error::BackendError;
use crate::key::Key;
use crate::key::Revision;

/// A write as it is kept.
#[derive(Clone, Eq, PartialEq)]
pub struct Record {
    /// The revision of the write.
    pub revision: Revision,
    /// The revision that created the object.
    pub create_revision: Revision,
    /// When it was written, by the caller's clock.
    pub time: u64,
    /// The object.
    pub key: Key,
    /// Its value. Nothing: it was deleted.
    pub value: Option<Arc<[u8]>>,
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let size = self.value.as_ref().map(|value| value.len());
        write!(f, "{}: {:?} {size:?}", self.revision, self.key)
    }
}

/// Batch of writes, stored atomically.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The writes, in the order of their revisions.
    pub records: Vec<Record>,
    /// The records with these revisions are needed no longer.
    pub discard: Vec<Revision>,
    /// Size of their keys and values in bytes.
    pub discard_bytes: usize,
    /// The state after the batch.
    pub mark: Mark,
}

/// State loaded from a backend.
#[derive(Debug)]
pub enum Loaded {
    /// A record that has not been discarded.
    Record(Record),
    /// The mark of the last batch. It comes after all records.
    Mark(Mark),
}

/// Checkpoint stored with every batch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Mark {
    /// The last revision. No later one has been acknowledged, and no revision up to it may be given out again.
    pub last: Revision,
    /// The oldest revision that can be read.
    pub compact: Revision,
    /// Number of objects.
    pub objects: u64,
}

/// A write that was not finished when its process or the machine ended. It was never acknowledged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DroppedWrite {
    /// How many bytes of it were there.
    pub bytes: u64,
    /// The last revision before it.
    pub revision: Revision,
}

/// Keeps records. One process owns it; it is called by one thread at a time.
///
/// The store keeps all objects and the history window in memory, so a backend is read only when the store is opened.
/// README.md shows how the trait relates to etcd.
pub trait Backend: Send {
    /// Gives all records that have not been discarded, in the order of their revisions, and then the last mark. There is
    /// no mark if nothing was ever stored.
    ///
    /// If acknowledged revisions may have been lost, `last` and `compact` of the mark are beyond all of them.
    ///
    /// # Errors
    ///
    /// What is stored can't be read or is damaged, which includes that `visit` refused something.
    fn load(&mut self, visit: &mut dyn FnMut(Loaded) -> Result<(), String>) -> Result<(), BackendError>;

    /// Stores a batch. When this returns, the batch is as durable as the backend promises.
    ///
    /// # Errors
    ///
    /// The batch could not be stored, or it isn't known whether it was. [`Backend::recover`] is called next.
    fn append(&mut self, batch: &Batch) -> Result<(), BackendError>;

    /// Makes the backend usable after an error, and says which revision is the last that is stored. The answer is final:
    /// later records must not appear after all.
    ///
    /// # Errors
    ///
    /// The backend isn't usable. This is called again before the next batch.
    fn recover(&mut self) -> Result<Revision, BackendError>;

    /// The write that was found unfinished, and was dropped, when the backend was opened.
    fn dropped(&self) -> Option<DroppedWrite> {
        None
    }

    /// Stores what is buffered, if anything is. Called when nothing is to be done.
    ///
    /// # Errors
    ///
    /// It could not be stored.
    fn flush(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Gives unused space back. May take long.
    ///
    /// # Errors
    ///
    /// Nothing is lost, but the space may not be free.
    fn shrink(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Stores everything for good: a start after this is a clean one.
    ///
    /// # Errors
    ///
    /// It could not be stored.
    fn close(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}

/// Keeps nothing: all is gone with the store.
#[derive(Debug, Default)]
pub struct Memory {
    last: Revision,
}

impl Backend for Memory {
    fn load(&mut self, _visit: &mut dyn FnMut(Loaded) -> Result<(), String>) -> Result<(), BackendError> {
        Ok(())
    }

    fn append(&mut self, batch: &Batch) -> Result<(), BackendError> {
        self.last = batch.mark.last;
        Ok(())
    }

    fn recover(&mut self) -> Result<Revision, BackendError> {
        Ok(self.last)
    }
}

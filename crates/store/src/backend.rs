//! Storage backends.

use std::fmt;
use std::sync::Arc;

use crate::error::BackendError;
use crate::error::ReplayError;
use crate::key::Key;
use crate::key::Revision;

/// A stored write.
#[derive(Clone, Eq, PartialEq)]
pub struct Record {
    /// The revision of the write.
    pub revision: Revision,
    /// Revision that created the object.
    pub create_revision: Revision,
    /// Time of the write, by the caller's clock.
    pub time: u64,
    /// Key of the object.
    pub key: Key,
    /// Value of the object; `None` for a deletion.
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
    /// The writes, ordered by revision.
    pub records: Vec<Record>,
    /// Revisions of obsolete records.
    pub discard: Vec<Revision>,
    /// Size of keys and values in bytes.
    pub discard_bytes: usize,
    /// State after the batch.
    pub mark: Mark,
}

/// State loaded from a backend.
#[derive(Debug)]
pub enum Loaded {
    /// A record that is not obsolete.
    Record(Record),
    /// Checkpoint of the last batch, after all records.
    Mark(Mark),
}

/// Checkpoint stored with every batch.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Mark {
    /// The last revision. Later ones have not been acknowledged; this one and earlier ones must not be assigned again.
    pub last: Revision,
    /// The oldest readable revision.
    pub compact: Revision,
    /// Number of objects.
    pub objects: u64,
}

/// An incomplete write, which was interrupted by a crash. It was never acknowledged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DroppedWrite {
    /// Bytes of it in the file.
    pub bytes: u64,
    /// The last revision before it.
    pub revision: Revision,
}

/// Storage for records. It is owned by one process and called by one thread at a time.
///
/// The store keeps all objects and the history window in memory, so a backend is read only when the store is opened.
/// README.md shows how the trait relates to etcd.
pub trait Backend: Send {
    /// Passes all records that are not obsolete to `visit`, ordered by revision, followed by the last checkpoint, if
    /// anything was ever stored.
    ///
    /// If acknowledged revisions may have been lost, `last` and `compact` of the checkpoint are greater than all of
    /// them.
    ///
    /// # Errors
    ///
    /// The data cannot be read or is damaged, or `visit` has returned an error.
    fn load(&mut self, visit: &mut dyn FnMut(Loaded) -> Result<(), ReplayError>) -> Result<(), BackendError>;

    /// Stores a batch, with the durability that the backend promises.
    ///
    /// # Errors
    ///
    /// The batch was not stored, or its state is unknown. [`Backend::recover`] is called next.
    fn append(&mut self, batch: &Batch) -> Result<(), BackendError>;

    /// Makes the backend usable after an error, and returns the last stored revision. This is final: later records must
    /// not reappear.
    ///
    /// # Errors
    ///
    /// The backend is still unusable. Recovery is retried before the next batch.
    fn recover(&mut self) -> Result<Revision, BackendError>;

    /// The incomplete write that was dropped when the backend was opened.
    fn dropped(&self) -> Option<DroppedWrite> {
        None
    }

    /// Stores buffered data, if any. Called while the store is idle.
    ///
    /// # Errors
    ///
    /// The data could not be stored.
    fn flush(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Releases unused space. May take long.
    ///
    /// # Errors
    ///
    /// Nothing is lost, but space may not have been released.
    fn shrink(&mut self) -> Result<(), BackendError> {
        Ok(())
    }

    /// Stores all data durably and marks a clean shutdown.
    ///
    /// # Errors
    ///
    /// The data could not be stored.
    fn close(&mut self) -> Result<(), BackendError> {
        Ok(())
    }
}

/// In-memory backend: nothing outlives the store.
#[derive(Debug, Default)]
pub struct Memory {
    last: Revision,
}

impl Backend for Memory {
    fn load(
        &mut self,
        _visit: &mut dyn FnMut(Loaded) -> Result<(), ReplayError>,
    ) -> Result<(), BackendError> {
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

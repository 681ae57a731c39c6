//! Writes between preparation and application.

use std::sync::Arc;
use std::task::Waker;

use crate::backend::Batch;
use crate::backend::Mark;
use crate::backend::Record;
use crate::entry::Event;
use crate::error::WriteError;
use crate::key::Revision;

/// Result of a write: its event or its error.
pub type Outcome = Result<Arc<Event>, WriteError>;

/// Prepared writes that are not applied yet. Their [batch](Prepared::batch) is stored in between.
#[derive(Debug)]
pub struct Prepared {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) discard: Vec<Revision>,
    pub(crate) discard_bytes: usize,
    pub(crate) mark: Mark,
    pub(crate) live_bytes: usize,
    pub(crate) written: usize,
}

impl Prepared {
    /// Batch to store before the writes are applied.
    #[must_use]
    pub fn batch(&self) -> Batch {
        let records = self.outcomes.iter().flatten().map(|event| record(event)).collect();
        let (discard, discard_bytes) = (self.discard.clone(), self.discard_bytes);
        Batch { records, discard, discard_bytes, mark: self.mark }
    }

    /// Whether there is nothing to store.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.written == 0 && self.discard.is_empty()
    }

    /// Whether anything is written.
    pub(crate) fn has_writes(&self) -> bool {
        self.written > 0
    }

    /// The last revision after the writes.
    #[must_use]
    pub fn last(&self) -> Revision {
        self.mark.last
    }
}

/// Result of applying a batch.
#[derive(Debug, Default)]
pub struct Applied {
    /// Result of each write, in the order of preparation.
    pub outcomes: Vec<Outcome>,
    /// Tasks to wake for the events, preferably after all locks are released.
    pub wakers: Vec<Waker>,
}

fn record(event: &Event) -> Record {
    let before = event.entry.as_ref().or(event.previous.as_ref());
    Record {
        revision: event.revision,
        create_revision: before.map_or(event.revision, |entry| entry.create_revision),
        time: event.time,
        key: event.key.clone(),
        value: event.entry.as_ref().map(|entry| entry.value.clone()),
    }
}

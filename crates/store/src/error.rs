//! Errors of writes, reads, watches and backends.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::entry::Entry;
use crate::key::Revision;

/// Reason why a write was not acknowledged.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The precondition does not hold. Nothing was written.
    #[error("the object is at {}", at(.current))]
    Conflict {
        /// The current object, if it exists.
        current: Option<Arc<Entry>>,
    },
    /// The value is larger than [`Limits::value_bytes`](crate::Limits::value_bytes). Nothing was written.
    #[error("the value has {size} bytes; at most {limit} are allowed")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The total size of all objects would exceed [`Limits::live_bytes`](crate::Limits::live_bytes). Nothing was
    /// written.
    #[error("the objects would have {size} bytes together; at most {limit} are allowed: delete some")]
    Full {
        /// The total size with this write.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// The queue of writes is full. Nothing was written; try again later.
    #[error("the queue of {waiting} writes is full: try again later")]
    Busy {
        /// Number of waiting writes.
        waiting: usize,
    },
    /// The backend failed. The write may have been stored nevertheless; readers and watches then see it as if it had
    /// been acknowledged.
    #[error("the write could not be stored")]
    Backend(#[source] Arc<BackendError>),
    /// The store has been closed.
    #[error("the store is closed")]
    Stopped,
}

fn at(current: &Option<Arc<Entry>>) -> String {
    current.as_ref().map_or_else(
        || "no revision: it does not exist".to_owned(),
        |entry| format!("revision {}", entry.mod_revision()),
    )
}

/// Reason why a revision cannot be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It is older than the history window.
    #[error("revision {requested} is compacted; the oldest readable one is {compact_revision}: relist")]
    Compacted {
        /// Requested revision.
        requested: Revision,
        /// The oldest readable revision.
        compact_revision: Revision,
    },
    /// It is in the future.
    #[error("revision {requested} is in the future; the current one is {current_revision}")]
    Future {
        /// Requested revision.
        requested: Revision,
        /// The current revision.
        current_revision: Revision,
    },
}

/// Reason why a watch ends or cannot start.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The revision cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The watch was closed since its queue was full.
    #[error("the watch fell behind by more than {events} events or {bytes} bytes: relist")]
    Slow {
        /// Capacity of its queue in events.
        events: usize,
        /// Capacity of its queue in bytes.
        bytes: usize,
    },
    /// The number of watches has reached [`Limits::watchers`](crate::Limits::watchers).
    #[error("the maximum of {limit} watches is reached")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// The store has been closed.
    #[error("the store is closed")]
    Stopped,
}

/// Error of a backend.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackendError {
    /// The directory is in use by another process or another store of this one.
    #[error(
        "{path} is in use by {holder}: stop that process or choose another directory",
        path = path.display()
    )]
    Locked {
        /// The directory.
        path: PathBuf,
        /// Process that holds the lock, if known.
        holder: String,
    },
    /// The stored data is damaged.
    #[error("{path} is corrupt ({what}): restore the directory from a backup, or move the file away to start empty",
        path = path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Description of the damage.
        what: String,
    },
    /// The file has the format of another version of this program.
    #[error("{path} has format {found}; this version reads {known}: use the version that wrote it",
        path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The known format.
        known: u32,
    },
    /// There is no store.
    #[error("{path} contains no store", path = path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// The disk is full.
    #[error("the disk is full: {path}: free some space; reads are still possible", path = path.display())]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Any other I/O error.
    #[error("{action} {path} failed", path = path.display())]
    Io {
        /// The failed operation.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
}

/// Why replayed records are not those of a store.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// A record is not after the one before it.
    #[error("revision {revision} follows {last}")]
    Order {
        /// Its revision.
        revision: Revision,
        /// The revision of the one before.
        last: Revision,
    },
    /// A record was written before its object was created.
    #[error("revision {revision} was created by {create_revision}")]
    CreatedLater {
        /// Its revision.
        revision: Revision,
        /// The revision that created the object.
        create_revision: Revision,
    },
    /// A record is of another object with the key of the one before it.
    #[error("revision {revision} does not continue {previous}")]
    OtherObject {
        /// Its revision.
        revision: Revision,
        /// The revision of the record before it with its key.
        previous: Revision,
    },
    /// The checkpoint is older than a record.
    #[error("the last revision is {mark}, but there is {last}")]
    LastRevision {
        /// The last revision, as the checkpoint has it.
        mark: Revision,
        /// The last revision of a record.
        last: Revision,
    },
    /// The checkpoint has another number of objects.
    #[error("{written} objects were written, {found} are there")]
    Objects {
        /// As the checkpoint has it.
        written: u64,
        /// As the records have it.
        found: u64,
    },
    /// A record is missing that was not compacted.
    #[error("the value before revision {0} is missing")]
    Missing(Revision),
}

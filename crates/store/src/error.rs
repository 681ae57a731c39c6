//! Errors of writes, reads, watches and backends.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::entry::Entry;
use crate::key::Revision;

/// Why a write was not acknowledged.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The object isn't what the write expected. Nothing was written.
    #[error("the object is at {}", at(.current))]
    Conflict {
        /// The object as it is now, or nothing.
        current: Option<Arc<Entry>>,
    },
    /// The value is larger than [`Limits::value_bytes`](crate::Limits::value_bytes). Nothing was written.
    #[error("the value has {size} bytes; at most {limit} are allowed")]
    TooLarge {
        /// Its size in bytes.
        size: usize,
        /// The largest size.
        limit: usize,
    },
    /// All objects together would be larger than [`Limits::live_bytes`](crate::Limits::live_bytes). Nothing was written.
    #[error("the objects would have {size} bytes together; at most {limit} are allowed: delete some")]
    Full {
        /// The size that all objects would have.
        size: usize,
        /// The largest size.
        limit: usize,
    },
    /// Too many writes are waiting. Nothing was written; try again later.
    #[error("{waiting} writes are waiting already: try again later")]
    Busy {
        /// Number of waiting writes.
        waiting: usize,
    },
    /// The backend did not store the write. It may yet turn out to have been stored; it then appears to readers and
    /// watchers as if it had been acknowledged.
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

/// Why a revision can't be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It is older than the history window.
    #[error(
        "revision {requested} is compacted; the oldest one that is kept is {compact_revision}: list again"
    )]
    Compacted {
        /// Requested revision.
        requested: Revision,
        /// The oldest revision there is.
        compact_revision: Revision,
    },
    /// It doesn't exist yet.
    #[error("revision {requested} is in the future; the current one is {current_revision}")]
    Future {
        /// Requested revision.
        requested: Revision,
        /// The newest revision there is.
        current_revision: Revision,
    },
}

/// Why a watch ends or can't begin.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The revision can't be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The watcher fell behind by more than its queue holds.
    #[error("the watcher fell behind by more than {events} events or {bytes} bytes: list again")]
    Slow {
        /// Capacity of its queue in events.
        events: usize,
        /// Capacity of its queue in bytes.
        bytes: usize,
    },
    /// There are as many watchers as [`Limits::watchers`](crate::Limits::watchers) allows.
    #[error("there are {limit} watchers already")]
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
    /// Another process, or another store of this one, has the directory open.
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
    /// Stored data is damaged.
    #[error("{path} is corrupt ({what}): restore the directory from a backup, or move the file away to start empty",
        path = path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Description of the damage.
        what: String,
    },
    /// Another version of this program wrote the file.
    #[error("{path} has format {found}; this version reads {known}: use the version that wrote it",
        path = path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The format that is known.
        known: u32,
    },
    /// There is nothing to read.
    #[error("{path} holds no store", path = path.display())]
    Missing {
        /// The directory.
        path: PathBuf,
    },
    /// There is no space left.
    #[error("no space is left for {path}: free some; reads go on meanwhile", path = path.display())]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// Reading or writing failed otherwise.
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

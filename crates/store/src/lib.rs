#![doc = include_str!("../README.md")]

mod backend;
mod check;
mod completion;
mod disk;
mod entry;
mod error;
mod file;
mod frame;
mod key;
mod log;
mod map;
mod mvcc;
mod objects;
mod options;
mod prepared;
mod record;
#[cfg(test)]
mod simulated;
mod snapshot;
mod store;
mod tail;
mod watch;
mod writer;

use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

pub use backend::Backend;
pub use backend::Batch;
pub use backend::DroppedWrite;
pub use backend::Loaded;
pub use backend::Mark;
pub use backend::Memory;
pub use backend::Record;
pub use check::CheckDamage;
pub use check::CheckReport;
pub use check::check;
pub use completion::Pending;
pub use disk::Disk;
pub use disk::Durability;
pub use entry::Entry;
pub use entry::Event;
pub use entry::Expect;
pub use entry::Write;
pub use error::BackendError;
pub use error::ReadError;
pub use error::ReplayError;
pub use error::WatchError;
pub use error::WriteError;
pub use key::Key;
pub use key::KeyError;
pub use key::Resource;
pub use key::Revision;
pub use key::Scope;
pub use mvcc::Limits;
pub use mvcc::Mvcc;
pub use mvcc::Stats;
pub use options::Options;
pub use prepared::Applied;
pub use prepared::Outcome;
pub use prepared::Prepared;
pub use snapshot::At;
pub use snapshot::Page;
pub use snapshot::Snapshot;
pub use store::QueueStats;
pub use store::Store;
pub use watch::Watch;

/// Data behind a lock is consistent between calls, so a poisoned lock is usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

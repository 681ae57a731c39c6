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
mod record;
#[cfg(test)]
mod simulated;
mod store;
mod tail;
mod watch;

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
pub use error::WatchError;
pub use error::WriteError;
pub use key::Key;
pub use key::KeyError;
pub use key::Resource;
pub use key::Revision;
pub use key::Scope;
pub use mvcc::Applied;
pub use mvcc::At;
pub use mvcc::Limits;
pub use mvcc::Mvcc;
pub use mvcc::Outcome;
pub use mvcc::Page;
pub use mvcc::Prepared;
pub use mvcc::Snapshot;
pub use mvcc::Stats;
pub use store::Options;
pub use store::QueueStats;
pub use store::Store;
pub use watch::Watch;

/// Data behind a lock is consistent between calls, so a poisoned lock is usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

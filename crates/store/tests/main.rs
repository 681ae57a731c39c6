//! Integration tests of the crate.

#![allow(clippy::panic, clippy::unwrap_used, reason = "clippy takes the helpers of tests for other code")]

mod backend;
mod crash;
mod damage;
mod disk;
mod model;
mod mvcc;
mod store;

use std::path::Path;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use settled_store::Event;
use settled_store::Key;
use settled_store::Resource;
use settled_store::Watch;

/// Held by every test that opens files or starts a process: what is started holds copies of all open files for a moment,
/// and with them their locks.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn resource() -> Resource {
    Resource::new("configmaps").unwrap()
}

/// A key from its path.
fn key(path: &str) -> Key {
    let (namespace, name) = path.split_once('/').unwrap_or(("", path));
    Key::new(&resource(), namespace, name).unwrap()
}

/// `revision path=value<previous value`.
fn show(event: &Event) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let value = event.entry().map_or_else(|| "-".to_owned(), |entry| text(entry.value()));
    let previous = event.previous().map_or_else(|| "-".to_owned(), |entry| text(entry.value()));
    format!("{} {}={value}<{previous}", event.revision(), event.key().path())
}

/// All events that wait.
fn drain(watch: &mut Watch) -> Vec<String> {
    std::iter::from_fn(|| watch.try_recv().unwrap()).map(|event| show(&event)).collect()
}

/// A directory that goes with the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("settled-store-{name}-{}-{count}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0).is_ok();
    }
}

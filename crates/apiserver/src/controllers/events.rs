//! Event TTL: deletes Events some time after they were last written.
//!
//! etcd does this with leases. Here the time of the write is known for what is written while the server runs; for the rest it is the
//! latest time in the Event itself.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use settled_store::{Entry, Expect, Scope, Write};
use tokio::task::JoinSet;

use super::feed::{Feed, News};
use super::retry::PARALLEL;
use crate::state::State;

/// The clock may be set meanwhile: then others are due.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Which Event goes when.
#[derive(Debug, Default)]
struct Expiry {
    /// By the time when they go, in milliseconds, and the revision that wrote them, which is theirs alone.
    due: BTreeMap<(i64, u64), Arc<Entry>>,
    /// When what a revision wrote goes.
    written: HashMap<u64, i64>,
}

impl Expiry {
    fn put(&mut self, entry: &Arc<Entry>, due: i64) {
        let revision = entry.mod_revision().0;
        self.due.insert((due, revision), Arc::clone(entry));
        self.written.insert(revision, due);
    }

    fn remove(&mut self, entry: &Entry) {
        let revision = entry.mod_revision().0;
        if let Some(due) = self.written.remove(&revision) {
            self.due.remove(&(due, revision));
        }
    }

    fn next(&self) -> Option<i64> {
        self.due.first_key_value().map(|((due, _), _)| *due)
    }

    /// Takes out those whose time has come.
    fn expired(&mut self, now: i64) -> Vec<Arc<Entry>> {
        let mut expired = Vec::new();
        while let Some(first) = self.due.first_entry().filter(|first| first.key().0 <= now) {
            let ((_, revision), entry) = first.remove_entry();
            self.written.remove(&revision);
            expired.push(entry);
        }
        expired
    }
}

/// The latest time in an Event.
fn last_time(entry: &Entry) -> Option<Timestamp> {
    let event: Value = serde_json::from_slice(entry.value()).ok()?;
    let places = [
        "/lastTimestamp",
        "/eventTime",
        "/series/lastObservedTime",
        "/firstTimestamp",
        "/metadata/creationTimestamp",
    ];
    let managers = event.pointer("/metadata/managedFields").and_then(Value::as_array).into_iter().flatten();
    let times = places
        .iter()
        .filter_map(|place| event.pointer(place))
        .chain(managers.filter_map(|manager| manager.get("time")));
    times.filter_map(|time| time.as_str()?.parse().ok()).max()
}

/// Follows the Events until the server stops.
pub(super) async fn run(state: Arc<State>, ttl: Duration) {
    let mut feed = Feed::new(&state, Scope::All, |definition| definition.resource.as_str() == "events");
    let ttl = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
    let mut expiry = Expiry::default();
    loop {
        let now = state.now().as_millisecond();
        let mut writes = JoinSet::new();
        for entry in expiry.expired(now) {
            if writes.len() >= PARALLEL {
                writes.join_next().await;
            }
            let state = state.clone();
            // A write in the meantime has extended its time.
            writes.spawn(async move {
                let expected = Expect::Revision(entry.mod_revision());
                state.store.write(Write::delete(entry.key().clone(), expected)).await.is_ok()
            });
        }
        while writes.join_next().await.is_some() {}
        let wait = expiry.next().map(|due| {
            Duration::from_millis(u64::try_from(due.saturating_sub(now)).unwrap_or(0)).min(LONGEST_WAIT)
        });
        let due = async {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            news = feed.next() => match news {
                Some(News::Snapshot(snapshot)) => {
                    expiry = Expiry::default();
                    for entry in snapshot.iter(&Scope::All) {
                        // A clock that was wrong must not keep an Event longer than its time.
                        let written = last_time(entry).map_or(now, |time| time.as_millisecond().min(now));
                        expiry.put(entry, written.saturating_add(ttl));
                    }
                }
                Some(News::Event(event)) => {
                    if let Some(previous) = event.previous() {
                        expiry.remove(previous);
                    }
                    if let Some(entry) = event.entry() {
                        expiry.put(entry, state.now().as_millisecond().saturating_add(ttl));
                    }
                }
                Some(News::Catalog) => {}
                None => return,
            },
            () = due => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use settled_store::{Key, Limits, Mvcc, Resource};

    use super::*;

    #[test]
    fn a_later_write_gives_more_time() {
        let resource = Resource::new("events").unwrap();
        let mut store = Mvcc::new(Limits::default());
        let mut write = |name: &str| {
            let key = Key::new(&resource, "default", name).unwrap();
            let prepared = store.prepare([Write::put(key.clone(), *b"{}")], 0);
            store.apply(prepared);
            store.get(&key).unwrap()
        };
        let mut expiry = Expiry::default();
        let (a, b) = (write("a"), write("b"));
        expiry.put(&a, 10);
        expiry.put(&b, 20);
        let later = write("a");
        expiry.remove(&a);
        expiry.put(&later, 30);
        assert_eq!(expiry.next(), Some(20));
        let expired = expiry.expired(25);
        assert_eq!(expired.iter().map(|entry| entry.mod_revision()).collect::<Vec<_>>(), [b.mod_revision()]);
        expiry.remove(&later);
        assert_eq!((expiry.next(), expiry.due.len(), expiry.written.len()), (None, 0, 0));
    }
}

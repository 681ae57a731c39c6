//! Event TTL: deletes Events some time after they were last written.
//!
//! etcd does this with leases. Here the time of the write is known for what is written while the server runs; for the rest it is the
//! latest time in the Event itself.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use settled_store::{Entry, Expect, Key, Revision, Scope, Write};
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
    due: BTreeMap<(i64, u64), Key>,
    written: HashMap<Key, (i64, u64)>,
}

impl Expiry {
    fn put(&mut self, key: &Key, revision: Revision, due: i64) {
        self.remove(key);
        self.due.insert((due, revision.0), key.clone());
        self.written.insert(key.clone(), (due, revision.0));
    }

    fn remove(&mut self, key: &Key) {
        if let Some(place) = self.written.remove(key) {
            self.due.remove(&place);
        }
    }

    fn next(&self) -> Option<i64> {
        self.due.first_key_value().map(|((due, _), _)| *due)
    }

    /// Takes out those whose time has come.
    fn expired(&mut self, now: i64) -> Vec<(Key, Revision)> {
        let mut expired = Vec::new();
        while let Some(first) = self.due.first_entry().filter(|first| first.key().0 <= now) {
            let ((_, revision), key) = first.remove_entry();
            self.written.remove(&key);
            expired.push((key, Revision(revision)));
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
        for (key, revision) in expiry.expired(now) {
            if writes.len() >= PARALLEL {
                writes.join_next().await;
            }
            let state = state.clone();
            // A write in the meantime has extended its time.
            writes.spawn(async move {
                state.store.write(Write::delete(key, Expect::Revision(revision))).await.is_ok()
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
                        expiry.put(entry.key(), entry.mod_revision(), written.saturating_add(ttl));
                    }
                }
                Some(News::Event(event)) => match event.entry() {
                    Some(entry) => {
                        let due = state.now().as_millisecond().saturating_add(ttl);
                        expiry.put(event.key(), entry.mod_revision(), due);
                    }
                    None => expiry.remove(event.key()),
                },
                Some(News::Catalog) => {}
                None => return,
            },
            () = due => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use settled_store::Resource;

    use super::*;

    #[test]
    fn a_later_write_gives_more_time() {
        let resource = Resource::new("events").unwrap();
        let key = |name: &str| Key::new(&resource, "default", name).unwrap();
        let mut expiry = Expiry::default();
        expiry.put(&key("a"), Revision(1), 10);
        expiry.put(&key("b"), Revision(2), 20);
        expiry.put(&key("a"), Revision(3), 30);
        assert_eq!(expiry.next(), Some(20));
        assert_eq!(expiry.expired(25), [(key("b"), Revision(2))]);
        expiry.remove(&key("a"));
        assert_eq!((expiry.next(), expiry.due.len(), expiry.written.len()), (None, 0, 0));
    }
}

//! Remembered objects of a watch: the matching ones, with the facts that their next version is compared with.

use std::collections::{HashMap, HashSet, VecDeque};

use settled_watch::EventType;

use super::KindFilter;
use crate::object::{ObjectKey, ObjectView};
use crate::predicate::{Event, EventKind, Facts};

/// Maximum number of watchers per kind that are between two requests. The oldest one starts over.
const MAX_PARKED: usize = 32;

/// Where a request has ended and the next one may continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// A page of a list, by its continue token.
    Token(String),
    /// A list or a watch, by its resourceVersion.
    Version(String),
}

/// Observed objects of a list or watch.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    /// Matching objects.
    matching: HashMap<ObjectKey, Facts>,
    /// If not all objects were observed: those known not to match or not to exist.
    absent: Option<HashSet<ObjectKey>>,
}

impl Tracker {
    /// For a list, or a watch with initial events.
    pub(crate) fn complete() -> Self {
        Self::default()
    }

    /// For a watch whose initial state was not observed. The first event of each object passes in any case.
    pub(crate) fn incomplete() -> Self {
        Self { matching: HashMap::new(), absent: Some(HashSet::new()) }
    }

    /// An object of a list, or of the initial events of a watch. Returns whether it is kept.
    pub(crate) fn listed(&mut self, filter: &KindFilter, object: &ObjectView<'_>) -> bool {
        if !filter.drops {
            return true;
        }
        let matches = filter.objects.matches(object);
        if matches {
            self.matching.insert(ObjectKey::from(object), filter.events.facts(object));
        }
        matches
    }

    /// A change of an object. Returns the reported event type, if any.
    pub(crate) fn changed(
        &mut self,
        filter: &KindFilter,
        event: EventType,
        object: &ObjectView<'_>,
    ) -> Option<EventType> {
        if !filter.drops {
            return Some(event);
        }
        let key = ObjectKey::from(object);
        if event == EventType::Deleted {
            let known = self.matching.remove(&key).is_some();
            // Without the initial state, only objects known to be absent are absent.
            let maybe = self.absent.as_mut().is_some_and(|absent| absent.insert(key));
            return (known || maybe || filter.objects.matches(object)).then_some(EventType::Deleted);
        }
        if !filter.objects.matches(object) {
            if self.matching.remove(&key).is_some() {
                self.absent.as_mut().map(|absent| absent.insert(key));
                return Some(EventType::Deleted);
            }
            let maybe = self.absent.as_mut().is_some_and(|absent| absent.insert(key));
            return (maybe && event == EventType::Modified).then_some(EventType::Deleted);
        }
        let new = filter.events.facts(object);
        let absent = self.absent.as_mut().is_none_or(|absent| absent.remove(&key));
        let old = self.matching.get(&key);
        let kind = if old.is_some() { EventKind::Update } else { EventKind::Create };
        let unknown = old.is_none() && !absent && event == EventType::Modified;
        // A watch delivers every version.
        let accepted =
            unknown || filter.events.accepts(&Event { kind, old, new: &new, is_consecutive: true });
        let reported = if old.is_some() || unknown { EventType::Modified } else { EventType::Added };
        self.matching.insert(key, new);
        accepted.then_some(reported)
    }
}

/// State of watchers between two requests.
#[derive(Debug, Default)]
pub(crate) struct Parked(VecDeque<(String, Position, Tracker)>);

impl Parked {
    pub(crate) fn put(&mut self, scope: String, position: Position, tracker: Tracker) {
        if self.0.len() >= MAX_PARKED {
            self.0.pop_front();
        }
        self.0.push_back((scope, position, tracker));
    }

    /// Two watchers of the same objects at the same position have the same state, so either can take it.
    pub(crate) fn take(&mut self, scope: &str, position: &Position) -> Option<Tracker> {
        let found = self.0.iter().position(|(its, at, _)| its == scope && at == position)?;
        self.0.remove(found).map(|(_, _, tracker)| tracker)
    }
}

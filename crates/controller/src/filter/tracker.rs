//! What is remembered of the objects of a watch: which of them match, and what their next version is compared with.

use std::collections::{HashMap, HashSet, VecDeque};

use settled_watch::EventType;

use super::KindFilter;
use crate::object::{ObjectKey, ObjectView};
use crate::predicate::{Event, EventKind, Facts};

/// How many watchers of a kind may be between two requests. The one that has been there longest begins anew.
const MAX_PARKED: usize = 32;

/// Where a request has ended, and another one may go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    /// A page of a list, by its continue token.
    Token(String),
    /// A list or a watch, by its resourceVersion.
    Version(String),
}

/// The objects of a list or a watch.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    /// Those that match.
    matching: HashMap<ObjectKey, Facts>,
    /// Where not all were seen: those that are known not to match, or not to be there.
    absent: Option<HashSet<ObjectKey>>,
}

impl Tracker {
    /// Of a list, or a watch that begins with the state.
    pub(crate) fn complete() -> Self {
        Self::default()
    }

    /// Of a watch whose beginning was not seen. The first event of each object passes, whatever it is.
    pub(crate) fn incomplete() -> Self {
        Self { matching: HashMap::new(), absent: Some(HashSet::new()) }
    }

    /// An object of a list, or of the state that a watch begins with. Says whether it is kept.
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

    /// A change of an object: as what it is reported, if it is.
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
            // Without its beginning, only what was seen to be absent is.
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
        let accepted = unknown || filter.events.accepts(&Event { kind, old, new: &new });
        let reported = if old.is_some() || unknown { EventType::Modified } else { EventType::Added };
        self.matching.insert(key, new);
        accepted.then_some(reported)
    }
}

/// What watchers remember between two requests.
#[derive(Debug, Default)]
pub(crate) struct Parked(VecDeque<(String, Position, Tracker)>);

impl Parked {
    pub(crate) fn put(&mut self, scope: String, position: Position, tracker: Tracker) {
        if self.0.len() >= MAX_PARKED {
            self.0.pop_front();
        }
        self.0.push_back((scope, position, tracker));
    }

    /// Two watchers of the same objects at the same place remember the same, so either may have it.
    pub(crate) fn take(&mut self, scope: &str, position: &Position) -> Option<Tracker> {
        let found = self.0.iter().position(|(its, at, _)| its == scope && at == position)?;
        self.0.remove(found).map(|(_, _, tracker)| tracker)
    }
}

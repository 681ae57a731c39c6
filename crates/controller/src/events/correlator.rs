//! Deduplication of core/v1 Events, as `EventCorrelator` of client-go's `tools/record` does it: counts, combined events, and
//! a bound for each object.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Event as ApiEvent, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::runtime::events::{Event, EventType, Reporter};

use super::object::{Reference, event_name, hash, namespace_of, type_name};

/// `maxLruCacheEntries` of client-go, for each of the three memories.
pub(super) const MAX_REMEMBERED: usize = 4096;
/// `defaultAggregateMaxEvents`: this many events that differ only in their messages are combined.
const MAX_MESSAGES: usize = 10;
/// `defaultAggregateIntervalInSeconds`: after this time without a similar event, none are combined.
const COMBINED_FOR: SignedDuration = SignedDuration::from_secs(600);
/// `defaultSpamBurst`: events about an object that are written at once.
const BURST: f64 = 25.0;
/// `defaultSpamQPS`: a further one becomes possible after this time.
const REFILL_SECONDS: f64 = 300.0;

/// What makes an event the same as another one, as a hash: texts of all events that are remembered would take megabytes.
type Identity = [u64; 2];

fn identity(
    regarding: &Reference,
    event_type: EventType,
    reason: Option<&str>,
    message: Option<&str>,
) -> Identity {
    let parts = (regarding, event_type, reason, message);
    [hash(&(1_u8, &parts)), hash(&(2_u8, &parts))]
}

/// Values by identity, of which the older half is forgotten when there are too many.
#[derive(Debug)]
struct Recent<V> {
    values: HashMap<Identity, (u64, V)>,
    /// Counts the uses.
    uses: u64,
    capacity: usize,
}

impl<V> Recent<V> {
    fn new(capacity: usize) -> Self {
        Self { values: HashMap::new(), uses: 0, capacity: capacity.max(1) }
    }

    /// The value of an identity, made by `first` at its first use.
    fn of(&mut self, identity: Identity, first: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        if self.values.len() >= self.capacity && !self.values.contains_key(&identity) {
            let mut times: Vec<u64> = self.values.values().map(|(used, _)| *used).collect();
            let (_, median, _) = times.select_nth_unstable(self.capacity / 2);
            let kept_since = *median;
            // Of one value, that goes.
            self.values.retain(|_, (used, _)| *used > kept_since);
        }
        let (used, value) = self.values.entry(identity).or_insert_with(|| (0, first()));
        *used = self.uses;
        value
    }
}

/// A time in nanoseconds, as Go's `UnixNano` has it: half of a [`Timestamp`], of which thousands are remembered.
type Nanoseconds = i64;

fn nanoseconds(time: Timestamp) -> Nanoseconds {
    let most = |_| if time.as_nanosecond() < 0 { Nanoseconds::MIN } else { Nanoseconds::MAX };
    Nanoseconds::try_from(time.as_nanosecond()).unwrap_or_else(most)
}

fn timestamp(time: Nanoseconds) -> Timestamp {
    Timestamp::from_nanosecond(time.into()).unwrap_or_default()
}

/// Messages of events that are otherwise the same: most have one.
#[derive(Debug)]
struct Similar {
    /// The hash of the first message.
    first: u64,
    /// Those of the others.
    others: Box<[u64]>,
    last: Nanoseconds,
}

/// An event that was written.
#[derive(Clone, Copy, Debug)]
struct Observed {
    /// The time in its name.
    name: Nanoseconds,
    first: Nanoseconds,
    count: i32,
}

/// A bucket of tokens.
#[derive(Debug)]
struct Tokens {
    left: f64,
    filled: Timestamp,
}

impl Tokens {
    fn full(now: Timestamp) -> Self {
        Self { left: BURST, filled: now }
    }

    fn take(&mut self, now: Timestamp) -> bool {
        let passed = now.duration_since(self.filled).as_secs_f64().max(0.0);
        self.left = (self.left + passed / REFILL_SECONDS).min(BURST);
        self.filled = now;
        let is_taken = self.left >= 1.0;
        if is_taken {
            self.left -= 1.0;
        }
        is_taken
    }
}

/// Decides what becomes of each event.
#[derive(Debug)]
pub(super) struct Correlator {
    reporter: Reporter,
    similar: Recent<Similar>,
    observed: Recent<Observed>,
    tokens: Recent<Tokens>,
    /// The time in the last name: names are unique even if the clock stands still.
    last_name: Nanoseconds,
    /// Added to it, so that reporters with the same clock have different names.
    offset: Nanoseconds,
}

impl Correlator {
    pub(super) fn new(reporter: Reporter, capacity: usize) -> Self {
        let offset = hash(&(&reporter.controller, &reporter.instance)) % 1_000_000;
        Self {
            reporter,
            similar: Recent::new(capacity),
            observed: Recent::new(capacity),
            tokens: Recent::new(capacity),
            last_name: 0,
            offset: Nanoseconds::try_from(offset).unwrap_or_default(),
        }
    }

    /// Records an event. Returns the event to write, which is there already if its count is above 1; none if there were too many
    /// about the object.
    pub(super) fn record(
        &mut self,
        event: Event,
        regarding: ObjectReference,
        now: Timestamp,
    ) -> Option<ApiEvent> {
        let Event { type_: event_type, reason, note, .. } = event;
        let message = note.unwrap_or_default();
        let place = Reference::of(&regarding);
        // Events about a part of an object (`fieldPath`) are combined and bounded with those about all of it.
        let whole = place.whole();
        let similar = identity(&whole, event_type, Some(&reason), None);
        let is_combined = self.is_combined(similar, &message, now);
        let (same, message) = if is_combined {
            (similar, format!("(combined from similar events): {message}"))
        } else {
            (identity(&place, event_type, Some(&reason), Some(&message)), message)
        };
        self.last_name = nanoseconds(now).saturating_add(self.offset).max(self.last_name.saturating_add(1));
        let name = self.last_name;
        let observed = self.observed.of(same, || Observed { name, first: nanoseconds(now), count: 0 });
        observed.count = observed.count.saturating_add(1);
        let Observed { name, first, count } = *observed;
        let tokens = self.tokens.of(identity(&whole, event_type, None, None), || Tokens::full(now));
        if !tokens.take(now) {
            return None;
        }
        let Reporter { controller, instance } = &self.reporter;
        Some(ApiEvent {
            metadata: ObjectMeta {
                name: Some(event_name(regarding.name.as_deref().unwrap_or_default(), name.into())),
                namespace: Some(namespace_of(&regarding)),
                ..ObjectMeta::default()
            },
            type_: Some(type_name(event_type).to_owned()),
            reason: Some(reason),
            message: Some(message),
            involved_object: regarding,
            count: Some(count),
            first_timestamp: Some(Time(timestamp(first))),
            last_timestamp: Some(Time(now)),
            source: Some(EventSource { component: Some(controller.clone()), host: instance.clone() }),
            // Combined ones have none upstream.
            reporting_component: (!is_combined).then(|| controller.clone()),
            reporting_instance: instance.clone().filter(|_| !is_combined),
            ..ApiEvent::default()
        })
    }

    /// Whether there were so many similar events that this one is combined with others.
    fn is_combined(&mut self, identity: Identity, message: &str, now: Timestamp) -> bool {
        let first = || Similar { first: hash(message), others: Box::default(), last: nanoseconds(now) };
        let similar = self.similar.of(identity, first);
        if now.duration_since(timestamp(similar.last)) > COMBINED_FOR {
            *similar = first();
        }
        similar.last = nanoseconds(now);
        let message = hash(message);
        if similar.first == message || similar.others.contains(&message) {
            return false;
        }
        let is_combined = similar.others.len() + 2 >= MAX_MESSAGES;
        if !is_combined {
            similar.others = similar.others.iter().copied().chain([message]).collect();
        }
        is_combined
    }

    #[cfg(test)]
    fn remembered(&self) -> [usize; 3] {
        [self.similar.values.len(), self.observed.values.len(), self.tokens.values.len()]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::object::testing::event;
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn kubelet(capacity: usize) -> Correlator {
        let reporter = Reporter { controller: "kubelet".to_owned(), instance: Some("node-1".to_owned()) };
        Correlator::new(reporter, capacity)
    }

    fn pod(uid: &str) -> ObjectReference {
        ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some("shop".to_owned()),
            name: Some("web".to_owned()),
            uid: Some(uid.to_owned()),
            field_path: Some("spec.containers{web}".to_owned()),
            ..ObjectReference::default()
        }
    }

    #[test]
    fn a_repeated_event_is_counted() {
        let mut kubelet = kubelet(16);
        let first = kubelet.record(event("BackOff", "no"), pod("u"), at(0)).unwrap();
        let second = kubelet.record(event("BackOff", "no"), pod("u"), at(15)).unwrap();
        assert_eq!((first.count, second.count), (Some(1), Some(2)));
        assert_eq!(first.metadata.name, second.metadata.name);
        assert_eq!(second.first_timestamp, Some(Time(at(0))));
        assert_eq!(second.last_timestamp, Some(Time(at(15))));
        let source = EventSource { component: Some("kubelet".to_owned()), host: Some("node-1".to_owned()) };
        assert_eq!(second.source, Some(source));
        assert_eq!(second.reporting_component.as_deref(), Some("kubelet"));
        assert_eq!(second.event_time, None);
        let other = kubelet.record(event("BackOff", "no"), pod("v"), at(15)).unwrap();
        assert_eq!(other.count, Some(1));
        assert_ne!(other.metadata.name, second.metadata.name);
    }

    /// The tenth message is the first one that is combined, as upstream counts.
    #[test]
    fn similar_events_are_combined_with_the_last_message() {
        let mut kubelet = kubelet(64);
        let mut record = |index: i64| {
            kubelet.record(event("Scaled", &format!("to {index}")), pod("u"), at(index)).unwrap()
        };
        let written: Vec<ApiEvent> = (1..=12).map(&mut record).collect();
        let counts: Vec<i32> = written.iter().filter_map(|event| event.count).collect();
        assert_eq!(counts, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 3]);
        let messages: Vec<&str> =
            written.iter().skip(8).filter_map(|event| event.message.as_deref()).collect();
        let combined = |index: i32| format!("(combined from similar events): to {index}");
        assert_eq!(messages, ["to 9", &combined(10), &combined(11), &combined(12)]);
        assert_eq!(written[9].reporting_component, None);
        // Those that stand alone are still counted alone.
        let known = kubelet.record(event("Scaled", "to 3"), pod("u"), at(20)).unwrap();
        assert_eq!((known.message.as_deref(), known.count), (Some("to 3"), Some(2)));
        // Later, nothing is similar any more.
        let later = kubelet.record(event("Scaled", "to 99"), pod("u"), at(700)).unwrap();
        assert_eq!((later.message.as_deref(), later.count), (Some("to 99"), Some(1)));
    }

    #[test]
    fn events_about_an_object_are_bounded() {
        let mut kubelet = kubelet(64);
        let mut record = |second: i64| kubelet.record(event("BackOff", "no"), pod("u"), at(second));
        assert_eq!((0..40).filter_map(&mut record).count(), 25);
        // One more each five minutes; those that were not written count.
        let next = record(301).unwrap();
        assert_eq!(next.count, Some(41));
        assert_eq!(record(302), None);
        // The other type has a bound of its own.
        let normal = Event { type_: EventType::Normal, ..event("BackOff", "no") };
        assert!(kubelet.record(normal, pod("u"), at(303)).is_some());
    }

    #[test]
    fn names_of_reporters_with_one_clock_differ() {
        let names = ["deployment-controller", "replicaset-controller", "kubelet"].map(|controller| {
            let reporter = Reporter { controller: controller.to_owned(), instance: None };
            let event = Correlator::new(reporter, 8).record(event("A", "x"), pod("u"), at(0)).unwrap();
            event.metadata.name.unwrap()
        });
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), 3);
    }

    #[test]
    fn memory_is_bounded() {
        let mut kubelet = kubelet(64);
        for index in 0..1000 {
            let uid = index.to_string();
            assert_eq!(kubelet.record(event("A", "x"), pod(&uid), at(0)).unwrap().count, Some(1));
            assert!(kubelet.remembered().iter().all(|length| *length <= 64));
            // The most recent ones are remembered.
            assert_eq!(kubelet.record(event("A", "x"), pod(&uid), at(0)).unwrap().count, Some(2));
        }
        let mut one = Correlator::new(Reporter { controller: "a".to_owned(), instance: None }, 1);
        for uid in ["u", "v", "u"] {
            assert_eq!(one.record(event("A", "x"), pod(uid), at(0)).unwrap().count, Some(1));
        }
    }
}

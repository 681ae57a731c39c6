//! Deduplication of events: identity, counts, and the writes due.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::{Event as ApiEvent, EventSeries};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::runtime::events::{Event, EventType, Reporter};

use super::object::{Reference, event_name, namespace_of, type_name};
use crate::text::truncate;

/// `finishTime` of client-go: a series ends after this time without repetition.
pub(super) const FINISH_TIME: SignedDuration = SignedDuration::from_mins(6);
/// `refreshTime` of client-go: interval of writing the count of a series. The API server deletes events after an hour.
const REFRESH_TIME: SignedDuration = SignedDuration::from_mins(30);
/// From this note on, events that are otherwise identical are combined. As `defaultAggregateMaxEvents` of client-go's older recorder.
const MAX_NOTES: usize = 10;
/// `ActionLengthLimit`, `ReasonLengthLimit` and `ReportingInstanceLengthLimit` of the API server.
const MAX_NAME: usize = 128;
/// `NoteLengthLimit` of the API server.
const MAX_NOTE: usize = 1024;

/// Identity of an event, except for the note.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Group {
    event_type: EventType,
    action: String,
    reason: String,
    regarding: Reference,
    related: Option<Reference>,
}

/// A recorded event with its count. The rest of it is in its group: a scheduler remembers one for each Pod.
#[derive(Debug)]
struct Series {
    note: Box<str>,
    /// Whether the note stands for others, too.
    is_combined: bool,
    /// The resourceVersions of the objects, which are not part of the identity.
    regarding_version: Option<String>,
    related_version: Option<String>,
    /// The time in its name, in nanoseconds.
    name: i128,
    event_time: Timestamp,
    count: i32,
    last_observed: Timestamp,
    /// The count on the API server, and the time of writing it.
    written: i32,
    written_at: Timestamp,
}

impl Series {
    /// The event with the current count, as it should be on the API server.
    fn write(&mut self, group: &Group, reporter: &Reporter, now: Timestamp) -> ApiEvent {
        self.written = self.count;
        self.written_at = now;
        let last_observed_time = MicroTime(self.last_observed);
        ApiEvent {
            // A single event is not a series.
            series: (self.count > 1).then_some(EventSeries { count: self.count, last_observed_time }),
            ..self.event(group, reporter)
        }
    }

    /// The event as it was created.
    fn event(&self, group: &Group, reporter: &Reporter) -> ApiEvent {
        let Reporter { controller, instance } = reporter;
        let regarding = group.regarding.with_version(self.regarding_version.clone());
        let object = regarding.name.as_deref().filter(|name| !name.is_empty()).unwrap_or(controller);
        ApiEvent {
            metadata: ObjectMeta {
                name: Some(event_name(object, self.name)),
                namespace: Some(namespace_of(&regarding)),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(self.event_time)),
            type_: Some(type_name(group.event_type).to_owned()),
            reason: Some(group.reason.clone()),
            action: Some(group.action.clone()),
            note: Some(self.note.to_string()),
            regarding: Some(regarding),
            related: group.related.as_ref().map(|related| related.with_version(self.related_version.clone())),
            reporting_controller: Some(controller.clone()),
            reporting_instance: Some(truncate(instance.as_ref().unwrap_or(controller), MAX_NAME)),
            ..ApiEvent::default()
        }
    }
}

/// The active series.
#[derive(Debug)]
pub(super) struct AllSeries {
    reporter: Reporter,
    /// By identity: those of each note, and the combined one. They are few.
    series: HashMap<Group, Vec<Series>>,
    count: usize,
    capacity: usize,
    /// The timestamp of the last name, in nanoseconds: names are unique even if the clock stands still.
    last_name: i128,
}

impl AllSeries {
    pub(super) fn new(reporter: Reporter, capacity: usize) -> Self {
        Self { reporter, series: HashMap::new(), count: 0, capacity: capacity.max(1), last_name: 0 }
    }

    /// Records an event. Returns the event to write: the first one is created, the second one makes it a series; counts
    /// of later ones are written by [`AllSeries::due`].
    pub(super) fn record(
        &mut self,
        event: Event,
        regarding: ObjectReference,
        now: Timestamp,
    ) -> Option<ApiEvent> {
        let group = Group {
            event_type: event.type_,
            action: truncate(&event.action, MAX_NAME),
            reason: truncate(&event.reason, MAX_NAME),
            regarding: Reference::of(&regarding),
            related: event.secondary.as_ref().map(Reference::of),
        };
        let note = truncate(event.note.as_deref().unwrap_or_default(), MAX_NOTE);
        let all = self.series.entry(group.clone()).or_default();
        let known = all.iter().position(|series| !series.is_combined && *series.note == *note);
        let is_combined = known.is_none() && all.len() + 1 >= MAX_NOTES;
        let known =
            known.or_else(|| is_combined.then(|| all.iter().position(|series| series.is_combined))?);
        if let Some(series) = known.and_then(|at| all.get_mut(at)) {
            series.count = series.count.saturating_add(1);
            series.last_observed = now;
            return (series.written == 1).then(|| series.write(&group, &self.reporter, now));
        }
        let note = if is_combined {
            truncate(&format!("(combined from similar events): {note}"), MAX_NOTE)
        } else {
            note
        };
        self.last_name = now.as_nanosecond().max(self.last_name + 1);
        let series = Series {
            note: note.into(),
            is_combined,
            regarding_version: regarding.resource_version,
            related_version: event.secondary.and_then(|related| related.resource_version),
            name: self.last_name,
            event_time: now,
            count: 1,
            last_observed: now,
            written: 1,
            written_at: now,
        };
        let event = series.event(&group, &self.reporter);
        // Most groups have one.
        all.reserve_exact(1);
        all.push(series);
        self.count += 1;
        if self.count > self.capacity {
            self.forget_oldest();
        }
        Some(event)
    }

    /// The counts to write now: of series that have ended, which are forgotten, and of those active for long.
    pub(super) fn due(&mut self, now: Timestamp) -> Vec<ApiEvent> {
        let mut due = Vec::new();
        let reporter = self.reporter.clone();
        self.retain(|group, series| {
            let is_over = now.duration_since(series.last_observed) >= FINISH_TIME;
            let is_old = now.duration_since(series.written_at) >= REFRESH_TIME;
            if series.count > series.written && (is_over || is_old) {
                due.push(series.write(group, &reporter, now));
            }
            !is_over
        });
        due
    }

    /// All counts that the API server does not have yet.
    pub(super) fn unwritten(&mut self, now: Timestamp) -> Vec<ApiEvent> {
        let groups = self.series.iter_mut();
        let all = groups.flat_map(|(group, all)| all.iter_mut().map(move |series| (group, series)));
        all.filter(|(_, series)| series.count > series.written)
            .map(|(group, series)| series.write(group, &self.reporter, now))
            .collect()
    }

    fn retain(&mut self, mut keep: impl FnMut(&Group, &mut Series) -> bool) {
        self.series.retain(|group, all| {
            all.retain_mut(|series| keep(group, series));
            !all.is_empty()
        });
        self.count = self.series.values().map(Vec::len).sum();
    }

    /// Forgets the older half, at least one.
    fn forget_oldest(&mut self) {
        let mut times: Vec<(Timestamp, i128)> = Vec::with_capacity(self.count);
        let age = |series: &Series| (series.last_observed, series.name);
        times.extend(self.series.values().flatten().map(age));
        times.sort_unstable();
        let kept_since = times[times.len() / 2];
        self.retain(|_, series| age(series) >= kept_since);
    }
}

#[cfg(test)]
mod tests {
    use settled_apimachinery::validation::is_dns1123_subdomain;

    use super::super::object::testing::event;
    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    fn all(capacity: usize) -> AllSeries {
        AllSeries::new(Reporter { controller: "example.com/buckets".to_owned(), instance: None }, capacity)
    }

    fn bucket(resource_version: &str) -> ObjectReference {
        ObjectReference {
            api_version: Some("example.com/v1".to_owned()),
            kind: Some("Bucket".to_owned()),
            namespace: Some("shop".to_owned()),
            name: Some("a".to_owned()),
            uid: Some("u".to_owned()),
            resource_version: Some(resource_version.to_owned()),
            ..ObjectReference::default()
        }
    }

    fn counts(events: &[ApiEvent]) -> Vec<i32> {
        events.iter().map(|event| event.series.as_ref().map_or(1, |series| series.count)).collect()
    }

    #[test]
    fn the_first_two_are_written_and_later_ones_are_counted() {
        let mut all = all(16);
        let first = all.record(event("QuotaExceeded", "no"), bucket("1"), at(0)).unwrap();
        assert!(first.series.is_none());
        assert_eq!(first.metadata.namespace.as_deref(), Some("shop"));
        // Another resourceVersion of the same object.
        let second = all.record(event("QuotaExceeded", "no"), bucket("2"), at(1)).unwrap();
        assert_eq!(second.metadata.name, first.metadata.name);
        assert_eq!(counts(&[second]), [2]);
        for minute in 2..6 {
            assert_eq!(all.record(event("QuotaExceeded", "no"), bucket("2"), at(minute)), None);
        }
        assert!(all.due(at(10)).is_empty());
        let over = all.due(at(11));
        assert_eq!(counts(&over), [6]);
        assert_eq!(over[0].series.as_ref().unwrap().last_observed_time, MicroTime(at(5)));
        // Forgotten: the next one is a new event.
        let next = all.record(event("QuotaExceeded", "no"), bucket("2"), at(12)).unwrap();
        assert_ne!(next.metadata.name, first.metadata.name);
        // A single event ends without a write.
        assert!(all.due(at(30)).is_empty());
        assert_eq!(all.count, 0);
    }

    #[test]
    fn a_series_that_goes_on_is_written_every_half_hour() {
        let mut all = all(16);
        let mut written = Vec::new();
        for minute in 0..=62 {
            all.record(event("Retry", ""), bucket("1"), at(minute));
            let due = all.due(at(minute));
            written.extend(due.iter().map(|event| (minute, event.series.as_ref().unwrap().count)));
        }
        // The second one was written in minute 1.
        assert_eq!(written, [(31, 32), (61, 62)]);
        assert_eq!(counts(&all.unwritten(at(62))), [63]);
        assert!(all.unwritten(at(62)).is_empty());
    }

    #[test]
    fn what_differs_is_another_event() {
        let mut all = all(16);
        let other_object = ObjectReference { uid: Some("v".to_owned()), ..bucket("1") };
        let normal = Event { type_: EventType::Normal, ..event("A", "x") };
        let related = Event { secondary: Some(bucket("1")), ..event("A", "x") };
        let action = Event { action: "Releasing".to_owned(), ..event("A", "x") };
        let cases = [
            (event("A", "x"), bucket("1")),
            (event("B", "x"), bucket("1")),
            (event("A", "y"), bucket("1")),
            (event("A", "x"), other_object),
            (normal, bucket("1")),
            (related, bucket("1")),
            (action, bucket("1")),
        ];
        let mut names = std::collections::BTreeSet::new();
        for (event, regarding) in cases {
            let event = all.record(event, regarding, at(0)).unwrap();
            assert!(event.series.is_none());
            names.insert(event.metadata.name);
        }
        assert_eq!(names.len(), 7);
    }

    #[test]
    fn notes_that_differ_each_time_are_combined() {
        let mut all = all(1000);
        let written: Vec<ApiEvent> = (0..50)
            .filter_map(|index| all.record(event("Failed", &format!("attempt {index}")), bucket("1"), at(0)))
            .collect();
        // Nine separate ones, the first combined one, and the series of the combined ones.
        assert_eq!(counts(&written), [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]);
        assert_eq!(written[9].note.as_deref(), Some("(combined from similar events): attempt 9"));
        assert_eq!(counts(&all.unwritten(at(1))), [41]);
    }

    #[test]
    fn fields_have_the_lengths_that_the_api_server_accepts() {
        let mut all = all(4);
        let long = Event { action: "a".repeat(200), ..event(&"r".repeat(200), &"é".repeat(600)) };
        let regarding =
            ObjectReference { name: Some("Not:A:Name".to_owned()), namespace: None, ..bucket("1") };
        let event = all.record(long, regarding, at(0)).unwrap();
        assert_eq!(event.action.unwrap().len(), 128);
        assert_eq!(event.reason.unwrap().len(), 128);
        assert!(event.note.unwrap().len() <= 1024);
        assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
        assert_eq!(is_dns1123_subdomain(event.metadata.name.as_deref().unwrap()), [""; 0]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut all = all(64);
        for index in 0..1000 {
            let regarding = ObjectReference { uid: Some(index.to_string()), ..bucket("1") };
            all.record(event("A", ""), regarding.clone(), at(0));
            assert!(all.count <= 64, "{}", all.count);
            // The most recent ones are remembered.
            let again = all.record(event("A", ""), regarding, at(0)).unwrap();
            assert_eq!(counts(&[again]), [2]);
        }
    }
}

//! Properties of the policy, whatever is observed in whatever order.

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use settled_rules::RuleSet;

use super::*;
use crate::condition::ConditionResult;
use crate::evaluator::Evaluator;
use crate::observation::{Evidence, ObservedFailure, Reported};

const WALL: Timestamp = Timestamp::UNIX_EPOCH;

#[test]
fn a_target_is_small() {
    // Thousands are kept, and the allocator rounds up: to 128 bytes, then to 160 and 192.
    assert!(size_of::<Target>() <= 128, "{}", size_of::<Target>());
}

/// What may be seen of a target.
#[derive(Clone, Copy, Debug)]
enum Seen {
    NotYet,
    NoKind,
    Absent,
    /// A Pod: its UID, whether it is ready, and its failure.
    Pod(u8, bool, Option<(FailureClass, bool)>),
    /// A Job: whether it has ended, and well; whether it is being deleted.
    Job(Option<bool>, bool),
    /// Something that says nothing.
    Silent(Evidence),
}

fn seen() -> impl Strategy<Value = Seen> {
    let failure = (prop::sample::select(FailureClass::ALL.to_vec()), prop::bool::weighted(0.1));
    let evidence = prop::sample::select(vec![
        Evidence::Unknown,
        Evidence::NoStatusDeclared,
        Evidence::OthersReport,
        Evidence::NobodyReports,
        Evidence::Unseen,
    ]);
    prop_oneof![
        1 => Just(Seen::NotYet),
        1 => Just(Seen::NoKind),
        2 => Just(Seen::Absent),
        6 => (0..3_u8, any::<bool>(), prop::option::of(failure)).prop_map(|(l, r, t)| Seen::Pod(l, r, t)),
        2 => (any::<Option<bool>>(), any::<bool>()).prop_map(|(end, deleted)| Seen::Job(end, deleted)),
        1 => evidence.prop_map(Seen::Silent),
    ]
}

fn until() -> impl Strategy<Value = Vec<WaitCondition>> {
    let some = ["ready", "current", "failed", "delete", "create", "condition=Ready", "any(delete, ready)"];
    prop::collection::vec(prop::sample::select(some.to_vec()), 1..3)
        .prop_map(|texts| WaitCondition::parse_all(texts).unwrap())
}

fn limits() -> impl Strategy<Value = Limits> {
    let seconds = |range: std::ops::Range<u64>| range.prop_map(Duration::from_secs);
    let missing = prop::sample::select(vec![Missing::Auto, Missing::Wait, Missing::Fail, Missing::Done]);
    let classes = prop::sample::subsequence(FailureClass::ALL.to_vec(), 0..=FailureClass::ALL.len());
    (seconds(0..200), prop::option::of(seconds(0..200)), seconds(0..30), missing, classes).prop_map(
        |(timeout, target_timeout, stable, missing, fail_fast)| Limits {
            timeout: Some(timeout),
            target_timeout,
            stable,
            missing,
            fail_fast,
            ..Limits::default()
        },
    )
}

/// The object that is seen, if there is one.
fn object(evaluator: &Evaluator, seen: Seen, resource_version: u64) -> Option<Record> {
    let meta = |life: u8, more: &str| {
        format!(
            r#""metadata":{{"name":"x","namespace":"a","uid":"{life}","resourceVersion":"{resource_version}"{more}}}"#
        )
    };
    let json = match seen {
        Seen::NotYet | Seen::NoKind | Seen::Absent => return None,
        Seen::Pod(life, ready, _) => {
            let (meta, ready) = (meta(life, ""), if ready { "True" } else { "False" });
            format!(
                r#"{{"apiVersion":"v1","kind":"Pod",{meta},"status":{{"phase":"Running","conditions":[{{"type":"Ready","status":"{ready}"}}]}}}}"#
            )
        }
        Seen::Job(end, deleted) => {
            let meta = meta(9, if deleted { r#","deletionTimestamp":"1970-01-01T00:00:00Z""# } else { "" });
            let end = end.map_or("Suspended", |well| if well { "Complete" } else { "Failed" });
            format!(
                r#"{{"apiVersion":"batch/v1","kind":"Job",{meta},"status":{{"conditions":[{{"type":"{end}","status":"True"}}]}}}}"#
            )
        }
        Seen::Silent(_) => {
            format!(r#"{{"apiVersion":"example.com/v1","kind":"Widget",{}}}"#, meta(7, ""))
        }
    };
    evaluator.record(json.as_bytes(), WALL, true)
}

struct Play {
    evaluator: Evaluator,
    policy: Policy,
    elapsed: Duration,
    /// What was seen last of each target, and how it was when it was deleted.
    last: Vec<(Seen, Option<Record>, Option<Record>)>,
}

fn index(id: TargetId) -> usize {
    u32::from(id) as usize
}

impl Play {
    fn now(&self) -> Now {
        let wall = WALL.saturating_add(SignedDuration::try_from(self.elapsed).unwrap()).unwrap();
        Now { elapsed: self.elapsed, wall }
    }

    fn look(&mut self, id: TargetId) {
        let now = self.now();
        let absent = self.evaluator.absent(now.wall);
        let (seen, record, deleted) = &self.last[index(id)];
        let mut failures = Vec::new();
        let mut evidence = Evidence::OthersReport;
        match seen {
            Seen::Pod(_, _, Some((class, terminal))) => {
                failures.push(ObservedFailure {
                    class: *class,
                    reason: "Broken".into(),
                    terminal: *terminal,
                    since: None,
                });
            }
            Seen::Silent(of_kind) => evidence = *of_kind,
            _ => {}
        }
        let observation = match (seen, record) {
            (Seen::NotYet, _) => Observation::NotYet,
            (Seen::NoKind, _) => Observation::NoKind { results: &absent },
            (_, Some(record)) => {
                let reported = Reported::Nothing;
                Observation::Present {
                    record,
                    failures: &failures,
                    whole: true,
                    excuse: None,
                    evidence,
                    reported,
                }
            }
            (_, None) => Observation::Absent { results: &absent, last: deleted.as_ref() },
        };
        self.policy.observe(id, observation, now);
    }

    /// Whether a target may count as done as it was seen last.
    fn may_be_done(&self, id: TargetId) -> bool {
        let missing = self.policy.limits.missing == Missing::Done;
        let absence = self.policy.conditions.iter().any(WaitCondition::waits_for_absence);
        let (seen, record, deleted) = &self.last[index(id)];
        let ready = self.policy.conditions.iter().any(|wanted| *wanted.to_string() == *"ready");
        match (seen, record) {
            (Seen::NotYet, _) => false,
            (Seen::NoKind | Seen::Absent, _) => {
                missing || absence || deleted.as_ref().is_some_and(|r| ended(r).is_some())
            }
            (_, None) => missing || absence,
            (Seen::Silent(evidence), _) if ready => *evidence != Evidence::OthersReport || absence,
            // Another incarnation is as good as none for a deletion.
            (Seen::Job(Some(_), true), _) => true,
            (_, Some(record)) => {
                let failing = self.policy.failing(id).is_some();
                let results = if failing { &record.results_if_failed } else { &record.results };
                absence || results.last().is_some_and(ConditionResult::is_met)
            }
        }
    }
}

/// When the policy wakes, and who is due, by a look at each target.
fn walked(policy: &Policy, now: Now) -> (Option<Duration>, Vec<TargetId>) {
    let wakes: Vec<(Duration, TargetId)> =
        policy.targets.entries().filter_map(|(id, target)| Some((target.wake?, id))).collect();
    let timeout = policy.limits.timeout.filter(|limit| !limit.is_zero());
    let mut due: Vec<_> = wakes.iter().copied().filter(|(wake, _)| *wake <= now.elapsed).collect();
    due.sort_unstable();
    (wakes.iter().map(|(wake, _)| *wake).chain(timeout).min(), due.into_iter().map(|(_, id)| id).collect())
}

proptest! {
    /// The index of wakes is what a look at each target says, whatever is observed, added and dropped.
    #[test]
    fn wakes_are_those_of_the_targets(
        until in until(),
        limits in limits(),
        steps in prop::collection::vec((0..12_u32, prop::option::weighted(0.9, seen()), 0..20_000_u64), 1..60),
    ) {
        let evaluator = Evaluator::new(RuleSet::default(), until.clone());
        let mut play = Play { evaluator, policy: Policy::new(limits, until), elapsed: Duration::ZERO, last: Vec::new() };
        for (resource_version, (target, seen, pause)) in steps.into_iter().enumerate() {
            play.elapsed += Duration::from_millis(pause);
            if target as usize >= play.last.len() {
                play.policy.add(None);
                play.last.push((Seen::NotYet, None, None));
            }
            let id = TargetId::from(target.min(u32::try_from(play.last.len()).unwrap() - 1));
            match seen {
                None => play.policy.drop_target(id),
                Some(seen) => {
                    let record = object(&play.evaluator, seen, resource_version as u64 + 1);
                    let now = play.now();
                    if let Some(record) = &record {
                        play.policy.record_transient(id, record, now);
                        prop_assert_eq!((play.policy.wake(), play.policy.due(now)), walked(&play.policy, now));
                    }
                    play.last[index(id)] = (seen, record, None);
                    play.look(id);
                }
            }
            let now = play.now();
            prop_assert_eq!((play.policy.wake(), play.policy.due(now)), walked(&play.policy, now));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    /// Whatever is seen in whatever order: no wait ends well while a target isn't what is waited for, none outlasts its
    /// timeout, none wakes for a moment that is over, and the counts are those of the states.
    #[test]
    fn whatever_is_seen(
        until in until(),
        limits in limits(),
        floors in prop::collection::vec(prop::option::of((0..3_u8, 0..40_u64)), 1..4),
        steps in prop::collection::vec((0..4_u32, seen(), 0..40_000_u64), 1..40),
    ) {
        let evaluator = Evaluator::new(RuleSet::default(), until.clone());
        let mut play = Play { evaluator, policy: Policy::new(limits.clone(), until), elapsed: Duration::ZERO, last: Vec::new() };
        let targets = u32::try_from(floors.len()).unwrap();
        for min_version in &floors {
            play.policy.add(min_version.map(|(life, resource_version)| MinVersion {
                uid: Some(Uid::from(&*life.to_string())),
                resource_version: Some(resource_version),
                ..MinVersion::default()
            }));
            play.last.push((Seen::NotYet, None, None));
        }
        play.policy.close();
        for (resource_version, (target, seen, pause)) in steps.into_iter().enumerate() {
            let until = play.elapsed + Duration::from_millis(pause);
            // As the tracker does: whatever wakes is looked at, at its time.
            while let Some(wake) = play.policy.wake().filter(|wake| *wake <= until && play.policy.outcome(true, play.now()).is_none()) {
                prop_assert!(wake > play.elapsed, "it wakes for {wake:?} at {:?}", play.elapsed);
                play.elapsed = wake;
                for id in play.policy.due(play.now()) {
                    play.look(id);
                }
            }
            play.elapsed = play.elapsed.max(until);
            let id = TargetId::from(target % targets);
            let number = index(id);
            let record = object(&play.evaluator, seen, resource_version as u64 + 1);
            let now = play.now();
            if let Some(record) = &record {
                play.policy.record_transient(id, record, now);
            }
            let before = play.last[number].1.take();
            let deleted = before.or_else(|| play.last[number].2.take());
            play.last[number] = (seen, record, deleted);
            play.look(id);
            for id in play.policy.due(now) {
                play.look(id);
            }
            let counts = play.policy.counts();
            prop_assert_eq!(counts.total, counts.done + counts.waiting + counts.failed + counts.skipped);
            let failed = (0..targets).filter(|n| play.policy.state((*n).into()) == Some(State::Failed)).count();
            prop_assert_eq!(counts.failed, failed);
            match play.policy.outcome(true, play.now()) {
                Some(Outcome::Settled) => {
                    for (id, min_version) in (0_u32..).map(TargetId::from).zip(&floors) {
                        let number = index(id);
                        prop_assert!(play.may_be_done(id), "{:?}", play.last[number].0);
                        // Nothing from before the apply counts, whichever incarnation it is of.
                        let seen = play.last[number].1.as_ref().map(|record| record.resource_version);
                        let min_version = min_version.map(|(_, resource_version)| resource_version);
                        prop_assert!(seen.is_none() || seen >= min_version, "{seen:?} is older than {min_version:?}");
                    }
                }
                None => prop_assert!(play.elapsed < limits.timeout.unwrap()),
                Some(_) => {}
            }
        }
    }

    /// What is stable was so for as long as it was asked, without a break.
    #[test]
    fn stability_has_no_breaks(
        stable in 1..30_u64,
        steps in prop::collection::vec((any::<bool>(), any::<bool>(), 0..12_u64), 1..60),
    ) {
        let evaluator = Evaluator::new(RuleSet::default(), vec![WaitCondition::Ready]);
        let limits = Limits { stable: Duration::from_secs(stable), timeout: None, ..Limits::default() };
        let mut play = Play { evaluator, policy: Policy::new(limits, vec![WaitCondition::Ready]), elapsed: Duration::ZERO, last: Vec::new() };
        let id = play.policy.add(None);
        play.policy.close();
        play.last.push((Seen::NotYet, None, None));
        let mut since = None;
        for (resource_version, (ready, glimpsed, pause)) in steps.into_iter().enumerate() {
            play.elapsed += Duration::from_secs(pause);
            // What comes together with the next change is only glanced at.
            let record = object(&play.evaluator, Seen::Pod(1, ready, None), resource_version as u64 + 1);
            let now = play.now();
            play.policy.record_transient(id, record.as_ref().unwrap(), now);
            since = if ready { since.or(Some(now.elapsed)) } else { None };
            if glimpsed {
                continue;
            }
            play.last[0] = (Seen::Pod(1, ready, None), record, None);
            play.look(id);
            let done = play.policy.state(id) == Some(State::Done);
            let lasted = since.map(|since| now.elapsed - since);
            if done {
                prop_assert!(lasted.is_some_and(|lasted| lasted.as_secs() >= stable));
            }
        }
    }
}

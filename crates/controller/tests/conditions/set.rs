//! `Conditions`: transition times, generations, order, what is not reported, the summary.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use settled_controller::Clock;
use settled_controller::conditions::meta::zero_time;
use settled_controller::conditions::{
    ConditionType, Conditions, Finding, RECONCILING, STALLED, Status, Unreported,
};

use crate::bucket::{BucketCondition, BucketReason, at, condition};

fn clock(second: i64) -> Clock {
    Clock::new(move || at(second))
}

fn started(observed: &[Condition], generation: i64, second: i64) -> Conditions<'_, BucketCondition> {
    Conditions::new(observed, generation, &clock(second))
}

/// Reports that all is well.
fn well(conditions: &mut Conditions<'_, BucketCondition>) {
    conditions.set(BucketCondition::Stored, true, BucketReason::AsExpected, "3 objects");
    conditions.set(BucketCondition::Bound, true, BucketReason::AsExpected, "");
    conditions.set(BucketCondition::Degraded, false, BucketReason::AsExpected, "");
    conditions.set(BucketCondition::Paused, false, BucketReason::AsExpected, "");
}

fn find<'c>(conditions: &'c [Condition], condition_type: &str) -> &'c Condition {
    conditions.iter().find(|condition| condition.type_ == condition_type).unwrap()
}

fn types(conditions: &[Condition]) -> Vec<&str> {
    conditions.iter().map(|condition| condition.type_.as_str()).collect()
}

#[test]
fn a_transition_time_is_kept_as_long_as_the_status_is() {
    let mut first = started(&[], 1, 10);
    well(&mut first);
    let first = first.finish().unwrap();
    assert_eq!(types(&first), ["Ready", "Stored", "example.com/Bound", "Degraded", "Paused"]);
    assert!(first.iter().all(|condition| condition.last_transition_time == Time(at(10))));
    assert!(first.iter().all(|condition| condition.observed_generation == Some(1)));

    // Another generation, message and time.
    let mut second = started(&first, 2, 20);
    well(&mut second);
    second.set(BucketCondition::Stored, true, BucketReason::AsExpected, "4 objects");
    let second = second.finish().unwrap();
    assert!(second.iter().all(|condition| condition.last_transition_time == Time(at(10))));
    assert!(second.iter().all(|condition| condition.observed_generation == Some(2)));
    assert_eq!(find(&second, "Stored").message, "4 objects");

    let mut third = started(&second, 2, 30);
    well(&mut third);
    third.set(BucketCondition::Stored, false, BucketReason::QuotaExceeded, "no room");
    let third = third.finish().unwrap();
    for (condition_type, second) in [("Ready", 30), ("Stored", 30), ("Degraded", 10)] {
        assert_eq!(find(&third, condition_type).last_transition_time, Time(at(second)), "{condition_type}");
    }

    // A clock that was set back.
    let mut fourth = started(&third, 2, 5);
    well(&mut fourth);
    let fourth = fourth.finish().unwrap();
    assert_eq!(find(&fourth, "Stored").last_transition_time, Time(at(30)));
}

#[test]
fn times_are_seconds_rounded_down_and_never_zero() {
    let precise: jiff::Timestamp = "2026-01-01T00:00:07.999Z".parse().unwrap();
    let zero = Condition { last_transition_time: zero_time(), ..condition("Stored", "True", 0) };
    let observed = [zero];
    let mut conditions = Conditions::new(&observed, None, &Clock::new(move || precise));
    well(&mut conditions);
    let list = conditions.finish().unwrap();
    assert!(list.iter().all(|condition| condition.last_transition_time == Time(at(7))));
    assert!(list.iter().all(|condition| condition.observed_generation.is_none()));
}

#[test]
fn conditions_of_others_and_the_order_stay() {
    let observed = [
        condition("example.org/Theirs", "True", 1),
        condition("Stored", "True", 2),
        condition("Old", "True", 3),
        condition("Stored", "False", 4),
        condition(STALLED, "True", 5),
        condition("Ready", "True", 6),
        // As others may have it.
        Condition { reason: "not valid!".to_owned(), ..condition("Invalid", "Perhaps", 7) },
    ];
    let mut conditions = started(&observed, 1, 10);
    well(&mut conditions);
    conditions.retire("Old");
    let own = conditions.clone().finish_own().unwrap();
    assert_eq!(types(&own), ["Ready", "Stored", "example.com/Bound", "Degraded", "Paused"]);
    let list = conditions.finish().unwrap();
    let wanted =
        ["example.org/Theirs", "Stored", "Ready", "Invalid", "example.com/Bound", "Degraded", "Paused"];
    assert_eq!(types(&list), wanted);
    assert_eq!(list[0], observed[0]);
    assert_eq!(list[3], observed[6]);
    // The first of a type that is there twice.
    assert_eq!(list[1].last_transition_time, Time(at(2)));
}

#[test]
fn what_is_not_reported_keeps_no_claim() {
    let generation = |generation: i64, condition: Condition| Condition {
        observed_generation: Some(generation),
        ..condition
    };
    // The stored condition, what becomes of unreported ones; status, generation and reason of Stored, status of Ready.
    type Wanted = (Option<(&'static str, i64, &'static str)>, &'static str);
    let cases: [(&str, Option<Condition>, Unreported, Wanted); 7] = [
        (
            "unknown",
            Some(generation(1, condition("Stored", "True", 1))),
            Unreported::Unknown,
            (Some(("Unknown", 2, "NotEvaluated")), "Unknown"),
        ),
        (
            "unknown from the beginning",
            None,
            Unreported::Unknown,
            (Some(("Unknown", 2, "NotEvaluated")), "Unknown"),
        ),
        ("removed", Some(generation(1, condition("Stored", "False", 1))), Unreported::Remove, (None, "True")),
        (
            "kept, of an older generation",
            Some(generation(1, condition("Stored", "True", 1))),
            Unreported::Keep,
            (Some(("True", 1, "AsExpected")), "Unknown"),
        ),
        (
            "kept, of the same generation",
            Some(generation(2, condition("Stored", "True", 1))),
            Unreported::Keep,
            (Some(("True", 2, "AsExpected")), "True"),
        ),
        (
            "kept, but what metav1 refuses",
            Some(Condition { reason: String::new(), ..generation(2, condition("Stored", "True", 1)) }),
            Unreported::Keep,
            (Some(("Unknown", 2, "NotEvaluated")), "Unknown"),
        ),
        ("nothing to keep", None, Unreported::Keep, (Some(("Unknown", 2, "NotEvaluated")), "Unknown")),
    ];
    for (name, observed, unreported, (wanted, ready)) in cases {
        let observed: Vec<Condition> = observed.into_iter().collect();
        let mut conditions = started(&observed, 2, 10);
        conditions.unreported(unreported);
        conditions.set(BucketCondition::Bound, true, BucketReason::AsExpected, "");
        let list = conditions.finish().unwrap();
        let stored = list.iter().find(|condition| condition.type_ == "Stored");
        let found = stored.map(|stored| {
            (stored.status.as_str(), stored.observed_generation.unwrap(), stored.reason.as_str())
        });
        assert_eq!(found, wanted, "{name}");
        assert_eq!(find(&list, "Ready").status, ready, "{name}");
    }
}

#[test]
fn ready_follows_from_polarity_and_severity() {
    use BucketCondition::{Bound, Degraded, Paused, Stored};
    use Status::{False, True, Unknown};
    #[derive(Clone, Copy)]
    enum Progress {
        None,
        Reconciling,
        Stalled,
    }
    // What differs from all being well, the progress; status, reason and message of Ready.
    type Case = (&'static [(BucketCondition, Status)], Progress, [&'static str; 3]);
    let cases: [Case; 14] = [
        (&[], Progress::None, ["True", "AsExpected", ""]),
        (&[(Stored, False)], Progress::None, ["False", "R0", "Stored: m0"]),
        (&[(Stored, Unknown)], Progress::None, ["Unknown", "R0", "Stored: m0"]),
        (&[(Stored, Unknown), (Bound, False)], Progress::None, ["False", "R1", "example.com/Bound: m1"]),
        // In the order of their declarations.
        (
            &[(Bound, False), (Stored, False)],
            Progress::None,
            ["False", "R1", "Stored: m1; example.com/Bound: m0"],
        ),
        (&[(Degraded, True)], Progress::None, ["True", "WithWarnings", "Degraded: m0"]),
        (&[(Degraded, Unknown)], Progress::None, ["True", "AsExpected", ""]),
        (&[(Degraded, True), (Stored, False)], Progress::None, ["False", "R1", "Stored: m1"]),
        (&[(Paused, True)], Progress::None, ["True", "AsExpected", ""]),
        (&[], Progress::Reconciling, ["Unknown", "Uploading", "2 of 3 objects"]),
        (&[(Stored, Unknown)], Progress::Reconciling, ["Unknown", "Uploading", "2 of 3 objects"]),
        (&[(Stored, False)], Progress::Reconciling, ["False", "R0", "Stored: m0"]),
        (&[], Progress::Stalled, ["False", "NoSuchInstance", "create it"]),
        (&[(Stored, False)], Progress::Stalled, ["False", "R0", "Stored: m0"]),
    ];
    for (index, (changes, progress, wanted)) in cases.into_iter().enumerate() {
        let mut conditions = started(&[], 1, 10);
        well(&mut conditions);
        for (number, (condition, status)) in changes.iter().enumerate() {
            conditions.report(*condition, Finding::new(*status, format!("R{number}"), format!("m{number}")));
        }
        match progress {
            Progress::None => {}
            Progress::Reconciling => {
                conditions.reconciling("Uploading", "2 of 3 objects");
            }
            Progress::Stalled => {
                conditions.stalled("NoSuchInstance", "create it");
            }
        }
        let list = conditions.finish().unwrap();
        let ready = find(&list, "Ready");
        assert_eq!([&ready.status, &ready.reason, &ready.message], wanted, "case {index}");
    }
}

#[test]
fn reconciling_and_stalled_are_there_when_they_are_true_and_never_both() {
    let observed = [condition(RECONCILING, "True", 1)];
    let mut conditions = started(&observed, 1, 10);
    conditions.reconciling("A", "").stalled("B", "");
    let list = conditions.finish().unwrap();
    assert_eq!(find(&list, STALLED).status, "True");
    assert!(!types(&list).contains(&RECONCILING));

    let mut conditions = started(&list, 1, 20);
    conditions.stalled("B", "").reconciling("A", "");
    let list = conditions.finish().unwrap();
    assert_eq!(find(&list, RECONCILING).reason, "A");
    assert!(!types(&list).contains(&STALLED));

    let mut conditions = started(&list, 1, 30);
    well(&mut conditions);
    let list = conditions.finish().unwrap();
    assert!(!types(&list).contains(&RECONCILING) && !types(&list).contains(&STALLED));
}

#[test]
fn reasons_that_are_texts_are_validated() {
    let mut conditions = started(&[], 1, 10);
    well(&mut conditions);
    conditions.set(BucketCondition::Paused, true, "on request", "");
    let error = conditions.finish().unwrap_err().to_string();
    assert!(error.starts_with("invalid conditions: status.conditions[4].reason: Invalid value: \"on request\": a condition reason must"), "{error}");
}

#[test]
fn messages_are_bounded() {
    let mut conditions = started(&[], 1, 10);
    well(&mut conditions);
    conditions.set(BucketCondition::Stored, false, BucketReason::QuotaExceeded, "é".repeat(40_000));
    let list = conditions.finish().unwrap();
    let message = &find(&list, "Stored").message;
    assert!(message.len() <= 32 * 1024 && message.ends_with("é..."), "{}", message.len());
    assert!(find(&list, "Ready").message.len() < 300);
}

#[test]
fn the_summary_has_a_name_of_its_own() {
    #[derive(ConditionType)]
    #[condition(summary = "Succeeded")]
    enum Part {
        Copied,
    }
    let mut conditions = Conditions::new(&[], 1, &clock(0));
    conditions.set(Part::Copied, true, "AsExpected", "");
    assert_eq!(types(&conditions.finish().unwrap()), ["Succeeded", "Copied"]);
}

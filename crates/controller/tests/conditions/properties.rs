//! What holds for any sequence of reconciles.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use proptest::prelude::*;
use settled_controller::Clock;
use settled_controller::conditions::{
    Conditions, Finding, RECONCILING, STALLED, Status, Unreported, validate,
};

use crate::bucket::{BucketCondition, at, condition};

/// What one reconcile finds.
#[derive(Clone, Debug)]
struct Pass {
    findings: Vec<(BucketCondition, Status, String)>,
    progress: u8,
    unreported: Unreported,
    generation: i64,
    second: i64,
}

fn pass() -> impl Strategy<Value = Pass> {
    use BucketCondition::{Bound, Degraded, Paused, Stored};
    let types = prop::sample::select(vec![Stored, Bound, Degraded, Paused]);
    let statuses = prop::sample::select(vec![Status::True, Status::False, Status::Unknown]);
    let findings = prop::collection::vec((types, statuses, "[A-C]"), 0..6);
    let unreported = prop::sample::select(vec![Unreported::Unknown, Unreported::Remove, Unreported::Keep]);
    (findings, 0..3_u8, unreported, 1..4_i64, 0..100_i64).prop_map(
        |(findings, progress, unreported, generation, second)| Pass {
            findings,
            progress,
            unreported,
            generation,
            second,
        },
    )
}

fn reconcile(observed: &[Condition], pass: &Pass, second: i64) -> Vec<Condition> {
    let mut conditions = Conditions::new(observed, pass.generation, &Clock::new(move || at(second)));
    conditions.unreported(pass.unreported);
    for (condition, status, reason) in &pass.findings {
        conditions.report(*condition, Finding::new(*status, reason.as_str(), ""));
    }
    match pass.progress {
        1 => conditions.reconciling("Working", ""),
        2 => conditions.stalled("Stuck", ""),
        _ => &mut conditions,
    };
    conditions.finish().unwrap()
}

proptest! {
    #[test]
    fn reconciles_keep_the_rules(passes in prop::collection::vec(pass(), 1..8)) {
        let theirs = condition("example.org/Theirs", "True", 1);
        let mut observed = vec![theirs.clone(), condition("Stored", "True", 2), condition("Stored", "False", 3)];
        for pass in &passes {
            let list = reconcile(&observed, pass, pass.second);
            prop_assert!(validate(&list).is_ok());
            let types: BTreeSet<&str> = list.iter().map(|condition| condition.type_.as_str()).collect();
            prop_assert_eq!(types.len(), list.len(), "a type is there twice");
            prop_assert!(!(types.contains(RECONCILING) && types.contains(STALLED)));
            prop_assert_eq!(&list[0], &theirs);
            for condition in &list {
                let Some(old) = observed.iter().find(|old| old.type_ == condition.type_) else { continue };
                let (was, is) = (&old.last_transition_time, &condition.last_transition_time);
                prop_assert!(is >= was, "{} goes back", condition.type_);
                prop_assert!(old.status != condition.status || is == was, "{} changes its time alone", condition.type_);
            }
            // The same findings once more, later: nothing changes. What is kept is kept.
            prop_assert_eq!(&reconcile(&list, pass, pass.second + 1000), &list);
            observed = list;
        }
    }
}

//! The examples under a share of the faults. `cargo xtask faults controllers` explores all of them.

use settled_controller::faults::{Check, Options, Report};

use crate::endless_reconcile::scenario::controller::Reporting;
use crate::{bucket_binding, endless_reconcile, load_balancer, pod_resize, site};

fn assert_clean(reports: &[Report]) {
    for report in reports {
        assert!(report.is_clean(), "{report}");
    }
}

#[test]
fn no_fault_makes_a_site_lie() {
    for report in site::scenario::explore_all(&Options::share(150)).unwrap() {
        assert!(report.is_clean(), "{report}");
    }
}

/// Exploring all of it found these. A conflict is not always about the owner of a field; and a watch that is behind gets there although
/// the controller writes again and again.
#[test]
fn a_site_gets_over_what_was_found() {
    for schedule in ["conflict@1 conflict@3", "conflict@1 conflict@2", "stale(1)@8 edit@8"] {
        let failures = site::scenario::replay_edited(&schedule.parse().unwrap()).unwrap();
        assert!(failures.is_empty(), "{schedule}: {failures:?}");
    }
}

#[test]
fn no_fault_makes_a_load_balancer_lie() {
    assert_clean(&load_balancer::scenario::explore_all(&Options::share(30)).unwrap());
}

#[test]
fn no_fault_makes_a_resize_lie() {
    assert_clean(&pod_resize::scenario::explore_all(&Options::share(30)).unwrap());
}

#[test]
fn no_fault_makes_a_bucket_lie() {
    assert_clean(&bucket_binding::scenario::explore_all(&Options::share(40)).unwrap());
}

#[test]
fn a_website_comes_to_rest_with_the_kit_and_only_with_it() {
    let options = Options::share(40);
    assert_clean(&endless_reconcile::scenario::explore_all(&options).unwrap());
    let naive = endless_reconcile::scenario::explore_variant(Reporting::Naive, &options).unwrap();
    let checks: Vec<Check> = naive.failures.iter().map(|failure| failure.violation.check).collect();
    assert!(checks.contains(&Check::Quiescence), "{naive}");
}

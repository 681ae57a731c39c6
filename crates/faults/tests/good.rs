//! The example controller passes, and runs are the same each time.

use settled_faults::{Check, Fault, Options, Schedule, explore, replay};

use crate::{controller, scenario};

/// A share of what `cargo xtask faults controllers` explores.
const SHARE: usize = 80;

#[test]
fn a_controller_of_three_objects_passes() {
    let report = explore(controller::run, &scenario::sites(), &Options::share(SHARE)).unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.schedules, SHARE + 2);
    assert!(report.writes >= 15 && report.possible > 10 * SHARE, "{report}");
}

#[test]
fn a_clean_schedule_replays_clean() {
    let schedule = Schedule::single(2, Fault::CrashAfter).and(5, Fault::LostResponse);
    let failures = replay(controller::run, &scenario::sites(), &schedule, &Options::default()).unwrap();
    assert!(failures.is_empty(), "{failures:?}");
}

#[test]
fn the_text_of_a_report_has_all_that_is_needed() {
    // Nothing is served within a second.
    let impossible = scenario::sites().invariant("no site", |view| match view.objects("Site").next() {
        Some(_) => Err("there is one".to_owned()),
        None => Ok(()),
    });
    let report = explore(controller::run, &impossible, &Options::share(1)).unwrap();
    let text = report.to_string();
    for wanted in [
        "1 check fails",
        "invariant: no site: there is one",
        "schedule: no fault; seed 1",
        "replay:   settled_faults::replay(",
        "PATCH /apis/example.com/v1/namespaces/default/sites/shop",
    ] {
        assert!(text.contains(wanted), "{wanted}\n{text}");
    }
}

#[test]
fn an_edit_that_the_server_does_not_understand_is_reported() {
    let misspelled = serde_json::json!({"metadata": {"label": {"team": "a"}}});
    let scenario = scenario::sites().patch("example.com/v1", "Site", "default/shop", misspelled);
    let report = explore(controller::run, &scenario, &Options::share(1)).unwrap();
    let failure = report.failures.iter().find(|failure| failure.violation.check == Check::Edit);
    let message = failure.map(|failure| failure.violation.message.clone()).unwrap_or_default();
    assert!(message.contains("422 ") && message.contains(r#"unknown field "metadata.label""#), "{report}");
}

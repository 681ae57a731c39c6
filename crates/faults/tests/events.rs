//! Controllers that report by Events, in two writes: one that finishes what it has begun, and one that takes for granted that it has.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use settled_faults::{Check, Context, Fault, Options, Scenario, Schedule, explore, replay};

const NAME: &str = "copied";
/// What was copied.
const TEXT: &str = "example.com/text";

/// Copies a ConfigMap, and reports that.
async fn run(finishes: bool, context: Context) {
    let configs: Api<ConfigMap> = Api::default_namespaced(context.client());
    let events: Api<Event> = Api::default_namespaced(context.client());
    loop {
        // What fails is tried again.
        let _tried_again = copy(&configs, &events, finishes).await;
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

async fn copy(configs: &Api<ConfigMap>, events: &Api<Event>, finishes: bool) -> Result<(), kube::Error> {
    let original = configs.get("original").await?;
    let copy = configs.get_opt("copy").await?;
    if copy.is_none_or(|copy| copy.data != original.data) {
        let patch = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "copy"}, "data": original.data,
        });
        configs.patch("copy", &PatchParams::apply("copier").force(), &Patch::Apply(patch)).await?;
    }
    let text = original.data.unwrap_or_default().remove("text").unwrap_or_default();
    match events.get_opt(NAME).await? {
        Some(event) => {
            let reported = event.annotations().get(TEXT);
            assert!(finishes || reported.is_some(), "there is an Event, but it does not have the text");
            if reported == Some(&text) {
                return Ok(());
            }
        }
        None => drop(events.create(&PostParams::default(), &event()).await?),
    }
    let patch = json!({"metadata": {"annotations": {TEXT: text}}});
    events.patch(NAME, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

fn event() -> Event {
    let event = json!({
        "metadata": {"name": NAME, "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "copy"},
        "type": "Normal", "reason": "Copied", "message": "it was copied", "source": {"component": "copier"},
    });
    serde_json::from_value(event).unwrap()
}

fn scenario() -> Scenario {
    let original = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "original", "namespace": "default"},
        "data": {"text": "a"},
    });
    let text = json!({"data": {"text": "b"}});
    Scenario::new("events").object(original).patch("v1", "ConfigMap", "default/original", text)
}

/// Copies a ConfigMap a minute after its start.
async fn copies_late(context: Context) {
    let configs: Api<ConfigMap> = Api::default_namespaced(context.client());
    tokio::time::sleep(Duration::from_secs(60)).await;
    loop {
        if let Ok(original) = configs.get("original").await {
            let patch = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "copy"}, "data": original.data,
            });
            // What fails is tried again.
            let _tried_again =
                configs.patch("copy", &PatchParams::apply("copier").force(), &Patch::Apply(patch)).await;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
    }
}

#[test]
fn a_controller_that_starts_slowly_has_its_time_after_a_crash() {
    // Twice a minute is longer than what counts as rest after the last change.
    assert_eq!(Options::default().quiet, Duration::from_secs(90));
    let schedule = Schedule::single(1, Fault::CrashBefore);
    let failures = replay(copies_late, &scenario(), &schedule, &Options::default()).unwrap();
    assert!(failures.is_empty(), "{failures:?}");
}

#[test]
fn reports_are_finished_after_a_crash_between_them() {
    let options = Options::default().without_pairs();
    let report = explore(|context| run(true, context), &scenario(), &options).unwrap();
    assert!(report.is_clean(), "{report}");
    // Two copies, three writes of the Event: two crashes each, and one way in which the edit is not observed.
    assert_eq!(report.writes, 2, "{report}");
    assert_eq!(report.possible, 2 + 1 + 2 * 10 + 3 * 2, "{report}");
}

#[test]
fn a_report_in_two_writes_is_found_by_a_crash_between_them() {
    let controller = |context| run(false, context);
    let crashes = Options::default().faults([Fault::CrashBefore, Fault::CrashAfter]).without_pairs();
    let report = explore(controller, &scenario(), &crashes).unwrap();
    let found = |failure: &&settled_faults::Failure| failure.violation.check == Check::Panic;
    let failure = report.failures.iter().find(found).unwrap_or_else(|| panic!("{report}"));
    assert_eq!(failure.schedule.to_string(), "crash-after@1.1", "{report}");
    assert!(failure.to_string().contains("#1.1 POST /api/v1/namespaces/default/events: 201"), "{failure}");

    // No fault at another write finds it.
    let others = Fault::ALL.into_iter().filter(|fault| !crashes.faults.contains(fault));
    let others = Options::default().faults(others).without_pairs();
    let report = explore(controller, &scenario(), &others).unwrap();
    assert!(report.is_clean(), "{report}");
    for write in 1..=report.writes {
        for fault in crashes.faults.iter().copied() {
            let schedule = Schedule::single(write, fault);
            let failures = replay(controller, &scenario(), &schedule, &crashes).unwrap();
            assert!(failures.is_empty(), "{schedule}: {failures:?}");
        }
    }
}

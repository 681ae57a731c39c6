//! Leaders: one that stops when it loses its Lease, one that goes on, and one that takes it in two writes.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use settled_faults::{Check, Context, Fault, Options, Scenario, Schedule, explore, replay};

const NAME: &str = "leader";
const SECONDS: i32 = 15;
const RETRY: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leader {
    Right,
    /// It does not look whether it still leads.
    GoesOn,
    /// It makes the Lease, and puts its name into it afterwards. One without a name is left to its creator.
    TwoWrites,
}

/// Takes or renews the Lease. False: another one has it.
async fn hold(
    leases: &Api<Lease>,
    leader: Leader,
    identity: &str,
    now: Timestamp,
) -> Result<bool, kube::Error> {
    let mut lease = match leases.get_opt(NAME).await? {
        None if leader == Leader::TwoWrites => {
            let mut lease = Lease::default();
            lease.metadata.name = Some(NAME.to_owned());
            leases.create(&PostParams::default(), &lease).await?
        }
        Some(lease) if leader == Leader::TwoWrites => {
            if lease.spec.as_ref().is_none_or(|spec| spec.renew_time.is_none()) {
                return Ok(false);
            }
            lease
        }
        lease => lease.unwrap_or_default(),
    };
    let spec = lease.spec.take().unwrap_or_default();
    let own = spec.holder_identity.as_deref() == Some(identity);
    let renewed = spec.renew_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let free = spec.holder_identity.is_none()
        || now.duration_since(renewed) > SignedDuration::from_secs(i64::from(SECONDS));
    if !own && !free {
        return Ok(false);
    }
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(SECONDS),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(spec.lease_transitions.unwrap_or_default() + i32::from(!own)),
        ..spec
    });
    let written = match lease.metadata.resource_version.is_some() {
        true => leases.replace(NAME, &PostParams::default(), &lease).await,
        false => {
            lease.metadata.name = Some(NAME.to_owned());
            leases.create(&PostParams::default(), &lease).await
        }
    };
    match written {
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        written => written.map(|_| true),
    }
}

/// Copies a ConfigMap as long as it leads.
async fn run(leader: Leader, context: Context) {
    let leases: Api<Lease> = Api::default_namespaced(context.client());
    let configs: Api<ConfigMap> = Api::default_namespaced(context.client());
    let identity = format!("instance-{}", context.start());
    let mut leads = false;
    loop {
        if leader != Leader::GoesOn || !leads {
            // What fails is no Lease.
            leads = hold(&leases, leader, &identity, context.now()).await.unwrap_or_default();
        }
        if leads {
            // It is tried again.
            let _tried_again = copy(&configs).await;
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn copy(configs: &Api<ConfigMap>) -> Result<(), kube::Error> {
    let original = configs.get("original").await?;
    let copy = configs.get_opt("copy").await?;
    if copy.is_some_and(|copy| copy.data == original.data) {
        return Ok(());
    }
    let patch =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "copy"}, "data": original.data});
    configs.patch("copy", &PatchParams::apply("copier").force(), &Patch::Apply(patch)).await?;
    Ok(())
}

fn scenario() -> Scenario {
    let original = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "original", "namespace": "default"},
        "data": {"text": "a"},
    });
    let text = |text: &str| json!({"data": {"text": text}});
    Scenario::new("leader").object(original).patch("v1", "ConfigMap", "default/original", text("b")).patch(
        "v1",
        "ConfigMap",
        "default/original",
        text("c"),
    )
}

fn options() -> Options {
    let mut options = Options::share(24);
    // A Lease must run out within that.
    options.quiet = Duration::from_secs(20);
    options
}

#[test]
fn a_leader_that_looks_stops() {
    let report = explore(|context| run(Leader::Right, context), &scenario(), &options()).unwrap();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn a_leader_that_does_not_look_acts_beside_another() {
    let options = options().faults([Fault::LostLease]);
    let report = explore(|context| run(Leader::GoesOn, context), &scenario(), &options).unwrap();
    let [failure] = report.failures.as_slice() else { panic!("{report}") };
    assert_eq!(failure.violation.check, Check::Fencing, "{report}");
}

/// Crashes at each write of the Lease that makes it or passes it on, and at a first renewal after each other write.
#[test]
fn a_leader_survives_crashes_at_its_lease() {
    let options = options().faults([Fault::CrashBefore, Fault::CrashAfter]).without_pairs();
    let mut options = options;
    options.schedules = usize::MAX;
    let report = explore(|context| run(Leader::Right, context), &scenario(), &options).unwrap();
    assert!(report.is_clean(), "{report}");
    // Three edits come together in five ways of two; two crashes at each of three copies; and at one write of the Lease before the first
    // copy, and one after each.
    assert!(report.possible >= 2 + 2 * (report.writes + 4), "{report}");
}

#[test]
fn a_lease_that_is_taken_in_two_writes_is_found_by_a_crash_between_them() {
    let controller = |context| run(Leader::TwoWrites, context);
    let crashes = options().faults([Fault::CrashBefore, Fault::CrashAfter]).without_pairs();
    let report = explore(controller, &scenario(), &crashes).unwrap();
    let found = |failure: &&settled_faults::Failure| failure.violation.check == Check::Convergence;
    let failure = report.failures.iter().find(found).unwrap_or_else(|| panic!("{report}"));
    assert_eq!(failure.schedule.to_string(), "crash-after@0.1", "{report}");
    let again = replay(controller, &scenario(), &failure.schedule, &crashes).unwrap();
    assert!(again.iter().any(|again| again.violation == failure.violation), "{again:?}");
    assert!(failure.to_string().contains("#0.1 POST /apis/coordination.k8s.io/"), "{failure}");

    // No fault at another write finds it.
    let others = Fault::ALL.into_iter().filter(|fault| !crashes.faults.contains(fault));
    let others = options().faults(others).without_pairs();
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

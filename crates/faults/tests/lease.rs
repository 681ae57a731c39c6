//! Leaders: one that stops when it loses its Lease, and one that goes on.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use settled_faults::{Check, Context, Fault, Options, Scenario, explore};

const NAME: &str = "leader";
const SECONDS: i32 = 15;
const RETRY: Duration = Duration::from_secs(2);

/// Takes or renews the Lease. False: another one has it.
async fn hold(leases: &Api<Lease>, identity: &str, now: Timestamp) -> Result<bool, kube::Error> {
    let mut lease = leases.get_opt(NAME).await?.unwrap_or_default();
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

/// Copies a ConfigMap as long as it leads. `watchful`: it looks whether it still does.
async fn run(watchful: bool, context: Context) {
    let leases: Api<Lease> = Api::default_namespaced(context.client());
    let configs: Api<ConfigMap> = Api::default_namespaced(context.client());
    let identity = format!("instance-{}", context.start());
    let mut leads = false;
    loop {
        if watchful || !leads {
            // What fails is no Lease.
            leads = hold(&leases, &identity, context.now()).await.unwrap_or_default();
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
    let report = explore(|context| run(true, context), &scenario(), &options()).unwrap();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn a_leader_that_does_not_look_acts_beside_another() {
    let options = options().faults([Fault::LostLease]);
    let report = explore(|context| run(false, context), &scenario(), &options).unwrap();
    let [failure] = report.failures.as_slice() else { panic!("{report}") };
    assert_eq!(failure.violation.check, Check::Fencing, "{report}");
}

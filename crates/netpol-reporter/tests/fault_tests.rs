//! The reporter under faults: a share of the kit's enumeration, for conditions in status and for reports.

use serde_json::{Value, json};
use settled_controller::Clock;
use settled_controller::faults::{Context, Options, Scenario, explore};
use settled_controller::health::Health;
use settled_controller::metrics::Metrics;
use settled_controller::run::{Runtime, Shutdown};
use settled_netpol_reporter::{Config, report, run};

use crate::harness::{config, range};

/// The reporter, as it starts in a new process.
async fn start(context: Context, config: Config) {
    let clock = context.clock();
    let (_never, shutdown) = Shutdown::new();
    let runtime = Runtime {
        client: context.client(),
        clock: Clock::new(move || clock()),
        metrics: Metrics::new(),
        health: Health::new(),
        shutdown,
        token: None,
    };
    // Polls would keep the run from coming to rest.
    run(runtime, config.poll_interval(std::time::Duration::from_secs(3600))).await;
}

fn agent(version: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "cilium", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": {"app": "cilium"}},
            "template": {
                "metadata": {"labels": {"app": "cilium"}},
                "spec": {"containers": [{"name": "agent", "image": format!("quay.io/cilium/cilium:{version}")}]},
            },
        },
    })
}

fn policy(name: &str) -> Value {
    let mut policy = range(name);
    policy["metadata"]["namespace"] = "default".into();
    policy
}

/// Mary changes a policy, Samantha upgrades the provider, and a policy is made anew.
fn scenario(name: &str) -> Scenario {
    let single = json!({"spec": {"egress": [{"ports": [{"protocol": "TCP", "port": 30000}]}]}});
    let range = json!({"spec": {"egress": [{"ports": [{"protocol": "TCP", "port": 1, "endPort": 9}]}]}});
    let upgraded = json!({"spec": {"template": {"spec": {"containers": [{"name": "agent", "image": "quay.io/cilium/cilium:v1.16.0"}]}}}});
    Scenario::new(name)
        .object(report::definition())
        .object(agent("v1.15.5"))
        .object(policy("mary"))
        .patch("networking.k8s.io/v1", "NetworkPolicy", "default/mary", single)
        .patch("networking.k8s.io/v1", "NetworkPolicy", "default/mary", range)
        .patch("apps/v1", "DaemonSet", "kube-system/cilium", upgraded)
        .delete("networking.k8s.io/v1", "NetworkPolicy", "default/mary")
        .create(policy("mary"))
        .condition("Accepted")
}

/// Whether a policy is carried out as written, by the image that runs.
fn is_carried_out(policy: &Value, agent: Option<&Value>) -> Result<(), String> {
    let has_range = policy.pointer("/spec/egress/0/ports/0/endPort").is_some();
    let image = agent.and_then(|agent| agent.pointer("/spec/template/spec/containers/0/image"));
    let image = image.and_then(Value::as_str).unwrap_or_default();
    if has_range && image.ends_with("v1.15.5") {
        return Err(format!("{image} does not carry out a range of ports"));
    }
    Ok(())
}

fn accepted(object: &Value) -> Option<&str> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == "Accepted")?["status"].as_str()
}

/// Faults while conditions are written into status.
fn explore_status(options: &Options) {
    let scenario = scenario("netpol status")
        .ready_means(|policy, view| is_carried_out(policy, view.get("DaemonSet", "kube-system", "cilium")))
        .finally("the policy is accepted", |view| {
            match view.get("NetworkPolicy", "default", "mary").and_then(accepted) {
                Some("True") => Ok(()),
                other => Err(format!("Accepted is {other:?}")),
            }
        })
        .finally("no report is left", |view| match view.objects("NetworkPolicyReport").next() {
            None => Ok(()),
            Some(report) => Err(report.to_string()),
        });
    let shared = config();
    let report = explore(|context| start(context, shared.clone()), &scenario, options).unwrap();
    assert!(report.failures.is_empty(), "{report}");
}

/// Faults while conditions are written into reports.
fn explore_reports(options: &Options) {
    let scenario = scenario("netpol reports")
        .ready_means(|report, view| {
            let Some(policy) = view.get("NetworkPolicy", "default", "mary") else { return Ok(()) };
            let observed = report.pointer("/status/policyGeneration");
            let owner = report.pointer("/metadata/ownerReferences/0/uid");
            // A report of an earlier generation or incarnation does not speak of this one.
            if observed != policy.pointer("/metadata/generation") || owner != policy.pointer("/metadata/uid")
            {
                return Ok(());
            }
            is_carried_out(policy, view.get("DaemonSet", "kube-system", "cilium"))
        })
        .finally("the report says accepted", |view| {
            match view.get("NetworkPolicyReport", "default", "mary").and_then(accepted) {
                Some("True") => Ok(()),
                other => Err(format!("Accepted is {other:?}")),
            }
        });
    let shared = config().only_reports();
    let report = explore(|context| start(context, shared.clone()), &scenario, options).unwrap();
    assert!(report.failures.is_empty(), "{report}");
}

#[test]
fn no_fault_makes_a_status_lie() {
    explore_status(&Options::share(150));
}

#[test]
fn no_fault_makes_a_report_lie() {
    explore_reports(&Options::share(150));
}

/// All of them: `cargo test --release -p settled-netpol-reporter -- --ignored no_pair_of_faults`
#[test]
#[ignore = "takes minutes; the tests run a share"]
fn no_pair_of_faults_makes_a_status_or_a_report_lie() {
    explore_status(&Options::share(5_000));
    explore_reports(&Options::share(5_000));
}

//! Controllers of workloads under faults: a share of the enumeration for each kind. Pods have no Node: they end when the scenario says so.

use std::str::FromStr as _;

use serde_json::{Value, json};
use settled_controller::Clock;
use settled_controller::faults::{Context, Options as Faults, Scenario, explore};
use settled_simulator::{Components, Options, Simulator};

/// The seed of the shares, which failures print.
const SEED: u64 = 17;

async fn start(context: Context, components: &str) {
    let mut options = Options::default();
    options.components = Components::from_str(components).expect("components");
    options.nodes.clear();
    options.clock = Clock::from(&context);
    if let Ok(mut simulator) = Simulator::start(context.client(), options).await {
        simulator.ended().await;
    }
    std::future::pending::<()>().await;
}

fn check(components: &'static str, scenario: &Scenario, schedules: usize) {
    let faults = Faults::share(schedules).seed(SEED);
    let report = explore(move |context| start(context, components), scenario, &faults).expect("explored");
    assert!(report.failures.is_empty(), "{report}");
}

fn template(app: &str, image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [{"name": "main", "image": image}]},
    })
}

fn number(object: Option<&Value>, pointer: &str) -> i64 {
    object.and_then(|object| object.pointer(pointer)).and_then(Value::as_i64).unwrap_or_default()
}

// Which revisions there are depends on which templates were seen: no scenario changes a template, as edits may come at once.

#[test]
fn no_fault_confuses_a_deployment() {
    // A Deployment that finds a ReplicaSet of an older template, and takes it over.
    let old = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": "web-old", "namespace": "default", "labels": {"app": "web"},
            "annotations": {"deployment.kubernetes.io/revision": "4"},
        },
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template("web", "a")},
    });
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 2, "progressDeadlineSeconds": 30, "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": "100%"}},
            "template": template("web", "b"),
        },
    });
    let scenario = Scenario::new("deployment")
        .object(old)
        .object(deployment)
        .finally("one ReplicaSet for each template, the old one empty", |view| {
            let old = view.get("ReplicaSet", "default", "web-old");
            match (view.objects("ReplicaSet").count(), number(old, "/status/replicas")) {
                (2, 0) => Ok(()),
                found => Err(format!("{found:?}")),
            }
        })
        .finally("the revision comes after the one that was there", |view| {
            let web = view.get("Deployment", "default", "web");
            let revision = web
                .and_then(|web| web["metadata"]["annotations"]["deployment.kubernetes.io/revision"].as_str());
            if revision == Some("5") { Ok(()) } else { Err(format!("{revision:?}")) }
        })
        .finally("as many Pods as asked for", |view| match view.objects("Pod").count() {
            2 => Ok(()),
            count => Err(format!("{count} Pods")),
        });
    check("deployments,replicasets", &scenario, 30);
}

#[test]
fn no_fault_confuses_a_stateful_set() {
    let set = json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "default"},
        "spec": {
            "replicas": 2, "serviceName": "db", "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": "db"}}, "template": template("db", "a"),
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    });
    let scenario = Scenario::new("stateful set")
        .object(set)
        .patch("apps/v1", "StatefulSet", "default/db", json!({"spec": {"replicas": 3}}))
        .finally("three Pods with a claim each, one revision", |view| {
            let count = |kind: &str| view.objects(kind).count();
            match (count("Pod"), count("PersistentVolumeClaim"), count("ControllerRevision")) {
                (3, 3, 1) => Ok(()),
                counts => Err(format!("{counts:?}")),
            }
        });
    check("statefulsets", &scenario, 30);
}

#[test]
fn no_fault_counts_a_pod_of_a_job_twice() {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum", "namespace": "default"},
        "spec": {
            "parallelism": 2, "completions": 2, "activeDeadlineSeconds": 20,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "sum"}]}},
        },
    });
    let scenario = Scenario::new("job").object(job).finally("both Pods were counted, and are gone", |view| {
        let failed = number(view.get("Job", "default", "sum"), "/status/failed");
        match (failed, view.objects("Pod").count()) {
            (2, 0) => Ok(()),
            found => Err(format!("{found:?}")),
        }
    });
    check("jobs", &scenario, 30);
}

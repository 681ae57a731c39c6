//! Scheduler, EndpointSlices, volumes and budgets under faults at every write.

use std::time::Duration;

use serde_json::{Value, json};
use settled_apiserver::{Controller, Controllers};
use settled_controller::Clock;
use settled_controller::faults::{Context, Options, Scenario, View, explore};
use settled_simulator::Simulator;
use settled_simulator::scenario::Scenario as Script;

/// A simulation of some components, as a process: it starts with nothing in memory.
async fn simulate(context: Context, components: &'static str, script: Script) {
    loop {
        let mut options = settled_simulator::Options::default();
        options.components = components.parse().expect("components");
        options.nodes = Vec::new();
        options.storage_class = false;
        options.scenario = script.clone();
        options.clock = Clock::from(&context);
        if let Ok(mut simulator) = Simulator::start(context.client(), options).await {
            simulator.ended().await;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn assert_clean(components: &'static str, scenario: &Scenario, schedules: usize) {
    assert_clean_with(components, "", scenario, schedules);
}

/// The same, where the simulation plays a scenario of its own.
pub(crate) fn assert_clean_with(
    components: &'static str,
    script: &'static str,
    scenario: &Scenario,
    schedules: usize,
) {
    let script = Script::parse("script", script).expect("a script");
    let start = |context| simulate(context, components, script.clone());
    let mut options = Options::share(schedules);
    // A controller that starts again may wait for a lease, and for Pods to be evicted.
    options.quiet = Duration::from_secs(200);
    let report = explore(start, scenario, &options);
    let report = report.expect("an exploration");
    assert!(report.writes > 0, "{report}");
    assert!(report.is_clean(), "{report}");
}

pub(crate) fn node(name: &str) -> Value {
    let conditions =
        json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}, "conditions": conditions},
    })
}

fn pod(name: &str, node: &str) -> Value {
    let container = json!({"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "1500m"}}});
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {
            "containers": [container],
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
        },
    })
}

/// No Node has more Pods than fit.
fn none_is_overcommitted(view: &View<'_, ()>) -> Result<(), String> {
    for name in ["a", "b"] {
        let on_it = view.objects("Pod").filter(|pod| pod["spec"]["nodeName"] == name).count();
        if on_it > 1 {
            return Err(format!("{on_it} Pods on Node {name}"));
        }
    }
    Ok(())
}

#[test]
fn no_fault_makes_the_scheduler_overcommit_or_forget() {
    let scenario = Scenario::new("scheduler")
        .object(node("a"))
        .object(node("b"))
        .object(pod("one", "a"))
        .create(pod("two", "b"))
        .create(pod("three", "a"))
        .delete("v1", "Pod", "default/one")
        .invariant("no Node is overcommitted", none_is_overcommitted)
        .finally("the Pods that fit are on their Nodes", |view| {
            for (name, node) in [("two", "b"), ("three", "a")] {
                let is = view.get("Pod", "default", name).map(|pod| pod["spec"]["nodeName"].clone());
                if is != Some(node.into()) {
                    return Err(format!("{name} is on {is:?}"));
                }
            }
            Ok(())
        });
    assert_clean("scheduler", &scenario, 40);
}

#[test]
fn no_fault_leaves_endpoints_wrong() {
    let ready = |status: &str| json!([{"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let web = |name: &str, address: &str, status: &str| {
        let mut pod = pod(name, "a");
        pod["spec"]["nodeName"] = "a".into();
        pod["status"] = json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": ready(status)});
        pod
    };
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]},
    });
    let scenario = Scenario::new("endpointslices")
        .object(node("a"))
        .object(web("one", "10.1.0.1", "True"))
        .object(web("two", "10.1.0.2", "False"))
        .create(service)
        .patch_status("v1", "Pod", "default/two", json!({"conditions": ready("True")}))
        .patch("v1", "Service", "default/web", json!({"metadata": {"labels": {"team": "a"}}}))
        .ignore("/metadata/annotations")
        .finally("each Pod is an endpoint once", |view| {
            let addresses: Vec<_> = view
                .objects("EndpointSlice")
                .flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default())
                .map(|endpoint| endpoint["addresses"][0].as_str().unwrap_or_default().to_owned())
                .collect();
            let mut sorted = addresses.clone();
            sorted.sort();
            if sorted == ["10.1.0.1", "10.1.0.2"] { Ok(()) } else { Err(format!("{addresses:?}")) }
        });
    assert_clean("endpointslices", &scenario, 60);
}

#[test]
fn no_fault_leaves_endpoints_of_a_service_behind() {
    let ready = |status: &str| json!([{"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let web = |name: &str, address: &str, status: &str| {
        let mut pod = pod(name, "a");
        pod["spec"]["nodeName"] = "a".into();
        pod["status"] = json!({"phase": "Running", "podIP": address, "podIPs": [{"ip": address}], "conditions": ready(status)});
        pod
    };
    let service = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
            "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": 80}]},
        })
    };
    let scenario = Scenario::new("endpoints")
        .object(node("a"))
        .object(web("one", "10.1.0.1", "True"))
        .object(web("two", "10.1.0.2", "False"))
        .object(service("stays"))
        .object(service("goes"))
        .patch_status("v1", "Pod", "default/two", json!({"conditions": ready("True")}))
        .delete("v1", "Service", "default/goes")
        .ignore("/metadata/annotations")
        .finally("the Service has both addresses, and the other one nothing", |view| {
            let addresses = |name: &str| {
                view.get("Endpoints", "default", name)
                    .map(|one| one["subsets"][0]["addresses"].as_array().map_or(0, Vec::len))
            };
            match (addresses("stays"), addresses("goes")) {
                (Some(2), None) => Ok(()),
                found => Err(format!("{found:?}")),
            }
        });
    assert_clean("endpoints", &scenario, 40);
}

#[test]
fn no_fault_mirrors_endpoints_twice() {
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "db", "namespace": "default"},
        "spec": {"ports": [{"name": "sql", "port": 5432}]},
    });
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "db", "namespace": "default"},
        "subsets": [{"addresses": [{"ip": "192.168.7.1"}], "ports": [{"name": "sql", "port": 5432}]}],
    });
    let scenario = Scenario::new("mirrored endpoints")
        .object(service)
        .create(endpoints)
        .patch("v1", "Endpoints", "default/db", json!({"metadata": {"labels": {"team": "a"}}}))
        .finally("one slice, with the labels", |view| {
            let slices = view
                .objects("EndpointSlice")
                .filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "db");
            let teams: Vec<_> = slices.map(|slice| slice["metadata"]["labels"]["team"].clone()).collect();
            if teams == ["a"] { Ok(()) } else { Err(format!("{teams:?}")) }
        });
    assert_clean("endpointslicemirroring", &scenario, 40);
}

fn claim(name: &str, class: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

#[test]
fn no_fault_binds_a_volume_twice_or_loses_one() {
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "fast"},
        "provisioner": "csi.example.com", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
    });
    let volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"},
        "spec": {
            "capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "manual",
            "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/disk"},
        },
        "status": {"phase": "Available"},
    });
    let scenario = Scenario::new("volumes")
        .object(class)
        .object(volume)
        .object(claim("static", "manual"))
        .create(claim("dynamic", "fast"))
        .create(claim("gone", "fast"))
        .delete("v1", "PersistentVolumeClaim", "default/gone")
        .controllers(Controllers::none().with(Controller::Garbage).with(Controller::Claims))
        .finally("both claims are bound, and no volume is left over", |view| {
            for name in ["static", "dynamic"] {
                let phase = view
                    .get("PersistentVolumeClaim", "default", name)
                    .map(|one| one["status"]["phase"].clone());
                if phase != Some("Bound".into()) {
                    return Err(format!("{name} is {phase:?}"));
                }
            }
            let volumes = view.objects("PersistentVolume").count();
            if volumes == 2 { Ok(()) } else { Err(format!("{volumes} volumes")) }
        });
    assert_clean("volumes", &scenario, 30);
}

#[test]
fn no_fault_leaves_a_budget_wrong() {
    let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let running = |name: &str| {
        let mut pod = pod(name, "a");
        pod["status"] = json!({"phase": "Running", "conditions": ready});
        pod
    };
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    });
    let scenario = Scenario::new("budgets")
        .object(running("one"))
        .object(running("two"))
        .create(budget)
        .delete("v1", "Pod", "default/one")
        .finally("no disruption is allowed", |view| {
            let budget = view.get("PodDisruptionBudget", "default", "web").ok_or("no budget")?;
            let allowed = budget["status"]["disruptionsAllowed"].as_i64();
            if allowed == Some(0) { Ok(()) } else { Err(format!("{allowed:?}")) }
        });
    assert_clean("disruptionbudgets", &scenario, 40);
}

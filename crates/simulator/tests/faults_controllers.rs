//! Nodes, kubelets, autoscalers, addresses, custom resources, DaemonSets and CronJobs under faults at every write.

use serde_json::{Value, json};
use settled_controller::faults::{Scenario, View};

use crate::faults_world::{assert_clean_with, node};

fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "nginx"}], "terminationGracePeriodSeconds": 0},
    });
    let fields = pod["spec"].as_object_mut().expect("a spec");
    fields.extend(spec.as_object().expect("fields").clone());
    pod
}

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}})
}

/// What is, unless it is as it should be.
fn expect<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{found:?}, not {expected:?}")) }
}

#[test]
fn no_fault_gives_a_node_two_daemons() {
    // New Nodes are tainted as not ready until their controller has seen them.
    let mut template = template();
    template["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    let set = json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "log", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
    });
    let wanted = |pod: &Value| {
        pod.pointer("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let nodes = move |view: &View<'_, ()>| {
        let mut nodes: Vec<String> = view.objects("Pod").map(wanted).collect();
        nodes.sort();
        nodes
    };
    let scenario = Scenario::new("daemon set")
        .object(node("a"))
        .object(node("b"))
        .object(set)
        .create(node("c"))
        // Generated names are compared in their order: which Pod is that of which Node is not given by it.
        .ignore("/spec/affinity")
        .delete("v1", "Node", "b")
        .finally("one Pod for each Node", move |view| expect(nodes(view), vec!["a".into(), "c".into()]));
    assert_clean_with("daemonsets", "", &scenario, 40);
}

#[test]
fn no_fault_runs_a_cron_job_twice_at_once() {
    let cron = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly", "namespace": "default"},
        "spec": {
            "schedule": "* * * * *", "concurrencyPolicy": "Forbid",
            "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "a"}]}}}},
        },
    });
    let jobs = |view: &View<'_, ()>| view.objects("Job").count();
    let scenario = Scenario::new("cron job")
        .object(cron)
        .invariant("one Job at a time", move |view| {
            if jobs(view) > 1 { Err(format!("{} Jobs", jobs(view))) } else { Ok(()) }
        })
        .finally("the Job is listed", move |view| {
            let active =
                view.get("CronJob", "default", "nightly").map(|cron| cron["status"]["active"].clone());
            expect((jobs(view), active.and_then(|active| active.as_array().map(Vec::len))), (1, Some(1)))
        });
    assert_clean_with("cronjobs", "", &scenario, 30);
}

#[test]
fn no_fault_leaves_pods_on_a_dead_node() {
    let forever = json!({"tolerations": [{"operator": "Exists"}]});
    let tolerated =
        |key: &str| json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5});
    let keys = ["node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"];
    let soon = json!({"tolerations": keys.map(tolerated)});
    let scenario = Scenario::new("nodes")
        .object(node("a"))
        .object(node("b"))
        .object(pod("leaves", &soon))
        .object(pod("stays", &forever))
        .finally("the Node is tainted once for each effect", |view| {
            let taints =
                view.get("Node", "", "a").map(|node| node["spec"]["taints"].clone()).unwrap_or_default();
            let taints = taints.as_array().cloned().unwrap_or_default();
            let mut effects: Vec<_> = taints
                .iter()
                .map(|taint| format!("{}:{}", taint["key"], taint["effect"]).replace('"', ""))
                .collect();
            effects.sort();
            let unreachable = ["NoExecute", "NoSchedule"];
            expect(
                effects,
                unreachable.map(|effect| format!("node.kubernetes.io/unreachable:{effect}")).into(),
            )
        })
        .finally("only the Pod that tolerates it is there", |view| {
            let pods: Vec<String> = view
                .objects("Pod")
                .map(|pod| pod["metadata"]["name"].as_str().unwrap_or_default().into())
                .collect();
            expect(pods, vec!["stays".into()])
        });
    assert_clean_with("nodes", "nodes: [{node: a, dies: 0s}]", &scenario, 40);
}

#[test]
fn no_fault_makes_an_autoscaler_forget_its_bounds() {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template()},
    });
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 3, "maxReplicas": 9,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}],
        },
    });
    let scenario = Scenario::new("autoscaler")
        .object(deployment)
        .object(autoscaler)
        .patch(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            "default/web",
            json!({"spec": {"minReplicas": 4}}),
        )
        .ignore("/status/lastScaleTime")
        .finally("as many replicas as the least", |view| {
            let replicas =
                view.get("Deployment", "default", "web").and_then(|web| web["spec"]["replicas"].as_i64());
            expect(replicas, Some(4))
        })
        .finally("the status says so", |view| {
            let autoscaler = view.get("HorizontalPodAutoscaler", "default", "web");
            expect(autoscaler.and_then(|one| one["status"]["desiredReplicas"].as_i64()), Some(4))
        });
    assert_clean_with("autoscalers", "", &scenario, 40);
}

#[test]
fn no_fault_leaks_an_address() {
    let service = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "default"},
            "spec": {"type": "LoadBalancer", "ports": [{"port": 80}]},
        })
    };
    let ingress = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"defaultBackend": {"service": {"name": "stays", "port": {"number": 80}}}},
    });
    let address = |object: Option<&Value>| {
        object.and_then(|object| {
            object["status"]["loadBalancer"]["ingress"][0]["ip"].as_str().map(str::to_owned)
        })
    };
    let scenario = Scenario::new("addresses")
        .object(service("stays"))
        .object(service("goes"))
        .object(service("changes"))
        .object(ingress)
        .delete("v1", "Service", "default/goes")
        .patch("v1", "Service", "default/changes", json!({"spec": {"type": "ClusterIP"}}))
        .finally("what stays has its address", move |view| {
            let has = |kind: &str, name: &str| address(view.get(kind, "default", name)).is_some();
            expect((has("Service", "stays"), has("Ingress", "web")), (true, true))
        })
        .finally("what goes has none, and no finalizer", move |view| {
            let changed = view.get("Service", "default", "changes");
            let finalizers = changed.and_then(|one| one["metadata"]["finalizers"].as_array().map(Vec::len));
            expect(
                (view.get("Service", "default", "goes").is_some(), address(changed), finalizers.unwrap_or(0)),
                (false, None, 0),
            )
        });
    assert_clean_with("loadbalancers", "", &scenario, 40);
}

#[test]
fn no_fault_ends_a_play_too_early() {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "prices.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"kind": "Price", "plural": "prices"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    let price = |name: &str| {
        json!({
            "apiVersion": "example.com/v1", "kind": "Price", "metadata": {"name": name, "namespace": "default"}, "spec": {"amount": 1},
        })
    };
    let scenario = Scenario::new("custom resources")
        .object(definition)
        .object(price("one"))
        .create(price("two"))
        .finally("both have the last status", |view| {
            let phase =
                |name: &str| view.get("Price", "default", name).map(|one| one["status"]["phase"].clone());
            expect((phase("one"), phase("two")), (Some("Ready".into()), Some("Ready".into())))
        });
    let script = "resources: [{apiVersion: example.com, kind: Price, play: [{after: 1s, status: {phase: Pending}}, {after: 5s, status: {phase: Ready}}]}]";
    assert_clean_with("customresources", script, &scenario, 40);
}

#[test]
fn no_fault_makes_a_kubelet_lose_a_pod() {
    let once = json!({"restartPolicy": "Never"});
    let scenario = Scenario::new("kubelet")
        .object(node("a"))
        .object(pod("web", &json!({})))
        .object(pod("job", &once))
        .create(pod("goes", &json!({})))
        .delete("v1", "Pod", "default/goes")
        // It is made from the Pod's UID.
        .ignore("/status/containerStatuses/0/containerID")
        .ignore("/status/containerStatuses/0/state/terminated/containerID")
        .ignore("/status/podIP")
        .ignore("/status/podIPs")
        .finally("each is as it should be", |view| {
            let phase =
                |name: &str| view.get("Pod", "default", name).map(|pod| pod["status"]["phase"].clone());
            let expected = (Some("Running".into()), Some("Succeeded".into()), None);
            expect((phase("web"), phase("job"), phase("goes")), expected)
        })
        .finally("no container has run twice", |view| {
            let restarts = view
                .objects("Pod")
                .filter_map(|pod| pod.pointer("/status/containerStatuses/0/restartCount")?.as_i64())
                .sum::<i64>();
            expect(restarts, 0)
        });
    assert_clean_with("kubelets", "", &scenario, 40);
}

//! Nodes that fail and are drained, volumes, addresses, autoscalers and custom resources, from the outside.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Event, Node, PersistentVolume, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use settled_simulator::customs::{CustomResources, CustomStep, Customs};
use settled_simulator::nodes::NodeSpec;
use settled_simulator::scenario::Scenario;

use crate::support::{Cluster, cluster, pass};

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    let object = serde_json::from_value(object).expect("an object");
    api.create(&PostParams::default(), &object).await.expect("created")
}

async fn with(scenario: &str) -> Cluster {
    let scenario = Scenario::parse("test.yaml", scenario).expect("a scenario");
    cluster(move |options| {
        options.nodes = NodeSpec::parse_all("2x4cpu,8Gi").expect("Nodes");
        options.scenario = scenario;
    })
    .await
}

fn deployment(replicas: i32, template: Value) -> Value {
    json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": template},
        },
    })
}

fn nginx(cpu: &str) -> Value {
    json!({"containers": [{"name": "web", "image": "nginx", "resources": {"requests": {"cpu": cpu}}}]})
}

fn ready(node: &Node) -> Option<(String, String)> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some((ready.status.clone(), ready.reason.clone()?))
}

fn taints(node: &Node) -> Vec<String> {
    let all = node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
    all.iter().map(|taint| format!("{}:{}", taint.key, taint.effect)).collect()
}

async fn pods_on(cluster: &Cluster) -> Vec<(String, bool)> {
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    let all = pods.list(&ListParams::default()).await.expect("Pods").items;
    let place = |pod: Pod| {
        let node = pod.spec.and_then(|spec| spec.node_name).unwrap_or_default();
        (node, pod.metadata.deletion_timestamp.is_some())
    };
    let mut all: Vec<_> = all.into_iter().map(place).collect();
    all.sort();
    all
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_is_noticed_tainted_and_emptied() {
    let cluster = with("nodes: [{node: node-1, dies: 60s, returns: 20m}]").await;
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client.clone());
    create(&deployments, deployment(2, nginx("1"))).await;
    pass(100).await;
    assert_eq!(
        ready(&nodes.get("node-1").await.expect("a Node")).map(|ready| ready.0).as_deref(),
        Some("True")
    );
    pass(20).await;
    let node = nodes.get("node-1").await.expect("a Node");
    assert_eq!(ready(&node), Some(("Unknown".to_owned(), "NodeStatusUnknown".to_owned())));
    let unreachable = "node.kubernetes.io/unreachable";
    assert_eq!(taints(&node), [format!("{unreachable}:NoSchedule"), format!("{unreachable}:NoExecute")]);
    let status = deployments.get("web").await.expect("a Deployment").status.unwrap_or_default();
    assert_eq!(status.available_replicas, Some(1));
    // After five minutes its Pod is deleted, and another one runs elsewhere.
    pass(320).await;
    let status = deployments.get("web").await.expect("a Deployment").status.unwrap_or_default();
    assert_eq!(status.available_replicas, Some(2));
    let on_second = pods_on(&cluster).await.into_iter().filter(|(node, _)| node == "node-2").count();
    assert_eq!(on_second, 2);
    pass(1000).await;
    let node = nodes.get("node-1").await.expect("a Node");
    assert_eq!(ready(&node), Some(("True".to_owned(), "KubeletReady".to_owned())));
    assert!(taints(&node).is_empty());
}

async fn annotate(nodes: &Api<Node>, name: &str, annotations: Value) {
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    nodes.patch(name, &PatchParams::default(), &patch).await.expect("patched");
}

#[tokio::test(start_paused = true)]
async fn annotations_of_a_node_are_those_of_its_kubelet_its_lease_and_its_drain() {
    let cluster = with("nodes: []").await;
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client.clone());
    create(&deployments, deployment(2, nginx("1"))).await;
    pass(30).await;
    annotate(&nodes, "node-1", json!({"simulator.settled.dev/dies": "0s"})).await;
    pass(60).await;
    let status = || async { ready(&nodes.get("node-1").await.expect("a Node")).map(|ready| ready.0) };
    assert_eq!(status().await.as_deref(), Some("Unknown"));
    // Who takes the annotation back revives the kubelet.
    annotate(&nodes, "node-1", json!({"simulator.settled.dev/dies": null})).await;
    pass(60).await;
    assert_eq!(status().await.as_deref(), Some("True"));
    let available = deployments.get("web").await.expect("a Deployment").status.unwrap_or_default();
    assert_eq!(available.available_replicas, Some(2));
    // A drain leaves a mark of its own, with which the annotations are still read.
    let drains =
        json!({"simulator.settled.dev/drains": "0s", "simulator.settled.dev/maxParallelImagePulls": "5"});
    annotate(&nodes, "node-2", drains).await;
    pass(120).await;
    let spec = nodes.get("node-2").await.expect("a Node").spec.unwrap_or_default();
    assert_eq!(spec.unschedulable, Some(true));
    assert!(pods_on(&cluster).await.iter().all(|(node, _)| node == "node-1"));
    let events: Api<Event> = Api::all(cluster.client.clone());
    let problems = || async {
        let all =
            events.list(&ListParams::default().fields("reason=InvalidScenario")).await.expect("Events").items;
        all.into_iter()
            .map(|event| (event.involved_object.name.unwrap_or_default(), event.message.unwrap_or_default()))
            .collect::<Vec<_>>()
    };
    assert_eq!(problems().await, []);
    // What cannot be read is said once, and nothing of it holds.
    annotate(
        &nodes,
        "node-1",
        json!({"simulator.settled.dev/dies": "0s", "simulator.settled.dev/maxParallelImagePulls": "0"}),
    )
    .await;
    pass(600).await;
    assert_eq!(status().await.as_deref(), Some("True"));
    let said = problems().await;
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0].0, "node-1");
    assert!(said[0].1.contains("expected a nonzero u32"), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn the_last_node_keeps_its_pods() {
    let cluster = with("nodes: [{node: '*', dies: 60s}]").await;
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client.clone());
    create(&deployments, deployment(2, nginx("1"))).await;
    pass(3600).await;
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let node = nodes.get("node-1").await.expect("a Node");
    assert_eq!(taints(&node), ["node.kubernetes.io/unreachable:NoSchedule"]);
    assert!(pods_on(&cluster).await.iter().all(|(_, is_deleting)| !is_deleting));
}

#[tokio::test(start_paused = true)]
async fn a_drain_respects_budgets() {
    let cluster = with("nodes: [{node: node-1, drains: 60s}]").await;
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client.clone());
    let budgets: Api<PodDisruptionBudget> = Api::default_namespaced(cluster.client.clone());
    let spec = json!({"minAvailable": 4, "selector": {"matchLabels": {"app": "web"}}});
    create(&budgets, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    create(&deployments, deployment(4, nginx("500m"))).await;
    pass(50).await;
    let status = budgets.get("web").await.expect("a budget").status.unwrap_or_default();
    assert_eq!((status.current_healthy, status.disruptions_allowed), (Some(4), Some(0)));
    pass(60).await;
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let node = nodes.get("node-1").await.expect("a Node");
    assert_eq!(node.spec.and_then(|spec| spec.unschedulable), Some(true));
    let left = |pods: Vec<(String, bool)>| pods.into_iter().filter(|(node, _)| node == "node-1").count();
    assert_eq!(left(pods_on(&cluster).await), 2);
    // With one disruption at a time the Node gets empty.
    let patch = Patch::Merge(json!({"spec": {"minAvailable": 3}}));
    budgets.patch("web", &PatchParams::default(), &patch).await.expect("patched");
    pass(180).await;
    assert_eq!(left(pods_on(&cluster).await), 0);
    assert_eq!(pods_on(&cluster).await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_claim_of_the_default_class_waits_for_its_pod() {
    let cluster = with("").await;
    let claims: Api<PersistentVolumeClaim> = Api::default_namespaced(cluster.client.clone());
    let pods: Api<Pod> = Api::default_namespaced(cluster.client.clone());
    let resources = json!({"requests": {"storage": "1Gi"}});
    create(&claims, json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources}})).await;
    pass(5).await;
    let phase = |claim: PersistentVolumeClaim| claim.status.and_then(|status| status.phase);
    assert_eq!(phase(claims.get("data").await.expect("a claim")).as_deref(), Some("Pending"));
    let mut spec = nginx("1");
    spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    create(&pods, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    pass(10).await;
    let claim = claims.get("data").await.expect("a claim");
    let volume = claim.spec.as_ref().and_then(|spec| spec.volume_name.clone()).expect("a volume");
    assert_eq!(phase(claim).as_deref(), Some("Bound"));
    assert!(pods.get("web").await.expect("a Pod").spec.and_then(|spec| spec.node_name).is_some());
    let patch = Patch::Merge(json!({"spec": {"resources": {"requests": {"storage": "5Gi"}}}}));
    claims.patch("data", &PatchParams::default(), &patch).await.expect("patched");
    pass(5).await;
    let status = claims.get("data").await.expect("a claim").status.unwrap_or_default();
    assert_eq!(
        status.capacity.and_then(|capacity| capacity.get("storage").map(|size| size.0.clone())).as_deref(),
        Some("5Gi")
    );
    pods.delete("web", &DeleteParams::default()).await.expect("deleted");
    claims.delete("data", &DeleteParams::default()).await.expect("deleted");
    pass(60).await;
    let volumes: Api<PersistentVolume> = Api::all(cluster.client.clone());
    assert!(volumes.get_opt(&volume).await.expect("an answer").is_none());
}

#[tokio::test(start_paused = true)]
async fn addresses_come_when_the_scenario_says() {
    let cluster = with(
        "addresses: [{kind: Service, name: slow, takes: 90s}, {kind: Ingress, name: none, takes: never}]",
    )
    .await;
    let services: Api<Service> = Api::default_namespaced(cluster.client.clone());
    let ingresses: Api<Ingress> = Api::default_namespaced(cluster.client.clone());
    for name in ["quick", "slow"] {
        let spec = json!({"type": "LoadBalancer", "selector": {"app": "web"}, "ports": [{"port": 80}]});
        create(&services, json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    for name in ["web", "none"] {
        let backend = json!({"service": {"name": "quick", "port": {"number": 80}}});
        create(&ingresses, json!({"metadata": {"name": name}, "spec": {"defaultBackend": backend}})).await;
    }
    pass(10).await;
    let address = async |name: &str| {
        let status = services.get(name).await.expect("a Service").status?;
        status.load_balancer?.ingress?.first()?.ip.clone()
    };
    let of_ingress = async |name: &str| {
        let status = ingresses.get(name).await.expect("an Ingress").status?;
        status.load_balancer?.ingress?.first()?.ip.clone()
    };
    assert!(address("quick").await.is_some() && address("slow").await.is_none());
    assert!(of_ingress("web").await.is_some() && of_ingress("none").await.is_none());
    pass(90).await;
    assert!(address("slow").await.is_some());
    services.delete("quick", &DeleteParams::default()).await.expect("deleted");
    pass(5).await;
    assert!(services.get_opt("quick").await.expect("an answer").is_none());
}

#[tokio::test(start_paused = true)]
async fn replicas_follow_scripted_metrics() {
    let cluster = with(
        "autoscalers: [{name: web, metrics: [{metric: cpu, value: 100m, after: 2m}, {metric: cpu, value: 300m, after: 4m}]}]",
    )
    .await;
    let deployments: Api<Deployment> = Api::default_namespaced(cluster.client.clone());
    let autoscalers: Api<HorizontalPodAutoscaler> = Api::default_namespaced(cluster.client.clone());
    create(&deployments, deployment(2, nginx("200m"))).await;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}});
    let spec = json!({"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 5, "metrics": [metric]});
    create(&autoscalers, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    pass(200).await;
    let status = autoscalers.get("web").await.expect("an autoscaler").status.unwrap_or_default();
    let reasons: Vec<_> =
        status.conditions.iter().flatten().map(|one| one.reason.clone().unwrap_or_default()).collect();
    assert_eq!(reasons, ["ReadyForNewScale", "ValidMetricFound", "DesiredWithinRange"]);
    assert_eq!((status.current_replicas, status.desired_replicas), (Some(2), 2));
    pass(120).await;
    let status = autoscalers.get("web").await.expect("an autoscaler").status.unwrap_or_default();
    assert_eq!(status.desired_replicas, 5);
    assert_eq!(
        deployments.get("web").await.expect("a Deployment").spec.and_then(|spec| spec.replicas),
        Some(5)
    );
}

/// Knows one kind.
struct Table;

impl CustomResources for Table {
    fn steps(&self, _: &str, kind: &str, _: &Value) -> Option<Vec<CustomStep>> {
        let status = |value: &str| json!({"observedGeneration": 0, "conditions": [{"type": "Ready", "status": value}]});
        let steps = [(0, "False"), (30, "True")];
        let steps = steps.map(|(after, value)| CustomStep::new(Duration::from_secs(after), status(value)));
        (kind == "Certificate").then(|| steps.into())
    }
}

#[tokio::test(start_paused = true)]
async fn controllers_of_custom_resources_are_played() {
    let cluster = cluster(|options| options.customs = Customs::new(Arc::new(Table))).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    create(&definitions, json!({
        "metadata": {"name": "certificates.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Certificate", "plural": "certificates", "singular": "certificate"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}}],
        },
    }))
    .await;
    pass(5).await;
    let resource = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("example.com", "v1", "Certificate"),
        "certificates",
    );
    let api: Api<DynamicObject> = Api::namespaced_with(cluster.client.clone(), "default", &resource);
    let certificate = json!({"apiVersion": "example.com/v1", "kind": "Certificate", "metadata": {"name": "web"}, "spec": {}});
    let certificate = serde_json::from_value(certificate).expect("an object");
    api.create(&PostParams::default(), &certificate).await.expect("created");
    pass(10).await;
    let status = async || api.get("web").await.expect("an object").data["status"].clone();
    let first = status().await;
    assert_eq!(
        (&first["conditions"][0]["status"], &first["observedGeneration"]),
        (&json!("False"), &json!(1))
    );
    pass(30).await;
    assert_eq!(status().await["conditions"][0]["status"], "True");
}

//! Scheduler and EndpointSlices, from the outside.

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
use settled_simulator::nodes::NodeSpec;

use crate::support::{Cluster, cluster, pass};

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: kube::Resource + Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize,
{
    let object = serde_json::from_value(object).expect("an object");
    api.create(&PostParams::default(), &object).await.expect("created")
}

fn pod(name: &str, cpu: &str, more: Value) -> Value {
    let requests = json!({"cpu": cpu});
    let mut spec =
        json!({"containers": [{"name": "c", "image": "nginx", "resources": {"requests": requests}}]});
    for (key, value) in more.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": spec})
}

async fn small() -> (Cluster, Api<Pod>) {
    let cluster = cluster(|options| {
        options.nodes = NodeSpec::parse_all("2x2cpu,4Gi").expect("Nodes");
    })
    .await;
    let pods = Api::default_namespaced(cluster.client.clone());
    (cluster, pods)
}

async fn scheduled(pods: &Api<Pod>, name: &str) -> (Option<String>, Option<String>, Option<String>) {
    let pod = pods.get(name).await.expect("a Pod");
    let conditions = pod.status.unwrap_or_default().conditions.unwrap_or_default();
    let scheduled = conditions.into_iter().find(|condition| condition.type_ == "PodScheduled");
    let (reason, message) = scheduled.map(|one| (one.reason, one.message)).unwrap_or_default();
    (pod.spec.and_then(|spec| spec.node_name), reason, message)
}

async fn events(cluster: &Cluster, reason: &str) -> Vec<String> {
    let events: Api<Event> = Api::default_namespaced(cluster.client.clone());
    let all = events.list(&ListParams::default()).await.expect("Events").items;
    let wanted = all.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
    wanted.filter_map(|event| event.note).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_wait_with_the_words_of_the_scheduler_until_there_is_room() {
    let (cluster, pods) = small().await;
    create(&pods, pod("one", "1500m", json!({}))).await;
    create(&pods, pod("two", "1500m", json!({}))).await;
    pass(2).await;
    let (one, two) = (scheduled(&pods, "one").await.0, scheduled(&pods, "two").await.0);
    assert!(one.is_some() && two.is_some() && one != two, "{one:?} {two:?}");
    create(&pods, pod("three", "1500m", json!({}))).await;
    pass(2).await;
    let message = "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: \
                   0/2 nodes are available: 2 No preemption victims found for incoming pod.";
    let waiting = (None, Some("Unschedulable".to_owned()), Some(message.to_owned()));
    assert_eq!(scheduled(&pods, "three").await, waiting);
    assert_eq!(events(&cluster, "FailedScheduling").await, [message]);
    pods.delete("one", &kube::api::DeleteParams::default()).await.expect("deleted");
    pass(60).await;
    assert_eq!(scheduled(&pods, "three").await.0, one);
    let assigned = format!("Successfully assigned default/three to {}", one.unwrap_or_default());
    assert!(events(&cluster, "Scheduled").await.contains(&assigned));
}

#[tokio::test(start_paused = true)]
async fn important_pods_preempt_others() {
    let (cluster, pods) = small().await;
    let classes: Api<PriorityClass> = Api::all(cluster.client.clone());
    create(&classes, json!({"metadata": {"name": "high"}, "value": 1000})).await;
    for name in ["one", "two"] {
        create(&pods, pod(name, "1500m", json!({}))).await;
    }
    pass(5).await;
    create(&pods, pod("important", "1", json!({"priorityClassName": "high"}))).await;
    pass(60).await;
    let important = scheduled(&pods, "important").await;
    assert!(important.0.is_some(), "{important:?}");
    let left = pods.list(&ListParams::default()).await.expect("Pods").items;
    assert_eq!(left.len(), 2);
    assert_eq!(events(&cluster, "Preempted").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_missing_claim_and_gates_keep_a_pod_back() {
    let (_cluster, pods) = small().await;
    let volumes = json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]});
    create(&pods, pod("claims", "1", volumes)).await;
    create(&pods, pod("gated", "1", json!({"schedulingGates": [{"name": "example.com/wait"}]}))).await;
    pass(5).await;
    let message = "0/2 nodes are available: persistentvolumeclaim \"data\" not found. not found";
    assert_eq!(scheduled(&pods, "claims").await.2.as_deref(), Some(message));
    let gated = scheduled(&pods, "gated").await;
    assert_eq!((gated.0, gated.1.as_deref()), (None, Some("SchedulingGated")));
}

#[tokio::test(start_paused = true)]
async fn services_have_endpoints_when_pods_have_addresses() {
    let (cluster, pods) = small().await;
    let services: Api<Service> = Api::default_namespaced(cluster.client.clone());
    let spec = json!({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]});
    create(&services, json!({"metadata": {"name": "web"}, "spec": spec})).await;
    create(&pods, pod("one", "1", json!({}))).await;
    pass(5).await;
    // The simulated kubelet may not give addresses: a test does.
    let status = json!({"status": {"podIP": "10.9.9.9", "podIPs": [{"ip": "10.9.9.9"}]}});
    let patch = kube::api::Patch::Merge(status);
    pods.patch_status("one", &kube::api::PatchParams::default(), &patch).await.expect("patched");
    pass(5).await;
    let slices: Api<EndpointSlice> = Api::default_namespaced(cluster.client.clone());
    let all =
        slices.list(&ListParams::default().labels("kubernetes.io/service-name=web")).await.expect("slices");
    let [slice] = all.items.as_slice() else { panic!("{:?}", all.items) };
    let endpoints = slice.endpoints.as_deref().unwrap_or_default();
    let addresses: Vec<_> = endpoints.iter().flat_map(|endpoint| &endpoint.addresses).collect();
    assert_eq!(addresses, ["10.9.9.9"]);
    assert_eq!(slice.ports.as_ref().and_then(|ports| ports[0].port), Some(8080));
}

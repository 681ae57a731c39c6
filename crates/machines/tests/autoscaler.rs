//! The requests of the stock cluster-autoscaler (cloud provider `clusterapi` with `CAPI_GROUP=cluster.settled.dev`), one by one.
//!
//! This is its contract with the API as its source has it, not the program itself.

use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use settled_machines::inventory::Kind;
use settled_machines::live;
use settled_machines::simulated::Latency;

use crate::harness::{API, World, deployment, is_ready};

const GROUP: &str = "cluster.settled.dev";

/// What follows the last slash of a provider ID (`normalizedProviderString`).
fn normalized(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or_default()
}

struct Autoscaler<'w> {
    world: &'w World,
}

impl Autoscaler<'_> {
    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        Api::default_namespaced_with(self.world.client.clone(), &live::resource(kind))
    }

    async fn list(&self, kind: Kind) -> Vec<Value> {
        self.api(kind)
            .list(&ListParams::default())
            .await
            .expect("a list")
            .items
            .iter()
            .map(|object| json!(object))
            .collect()
    }

    /// Node groups: MachineDeployments, and MachineSets that none of these owns, with valid bounds (`listResources`, `parseScalingBounds`).
    async fn node_groups(&self) -> Vec<(String, i64, i64)> {
        let mut groups = Vec::new();
        for kind in [Kind::MachineSet, Kind::MachineDeployment] {
            for object in self.list(kind).await {
                let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
                if owners.iter().any(|owner| owner["kind"] == "MachineDeployment" && owner["name"] != "") {
                    continue;
                }
                let bound = |name: &str| -> i64 {
                    let key = format!("{GROUP}/cluster-api-autoscaler-node-group-{name}-size");
                    object["metadata"]["annotations"][&key]
                        .as_str()
                        .and_then(|text| text.parse().ok())
                        .unwrap_or_default()
                };
                let (min, max) = (bound("min"), bound("max"));
                if max - min >= 1 {
                    groups.push((
                        object["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
                        min,
                        max,
                    ));
                }
            }
        }
        groups
    }

    /// `Scales(namespace).Get`.
    async fn replicas(&self, name: &str) -> i64 {
        let scale = self.api(Kind::MachineDeployment).get_scale(name).await.expect("a scale");
        i64::from(scale.spec.and_then(|spec| spec.replicas).unwrap_or_default())
    }

    /// `Scales(namespace).Patch` with a merge patch of `spec.replicas`.
    async fn set_size(&self, name: &str, replicas: i64) {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let api = self.api(Kind::MachineDeployment);
        api.patch_scale(name, &PatchParams::default(), &patch).await.expect("scaled");
    }

    /// Provider IDs of a group (`findScalableResourceProviderIDs`): failed, by `spec.providerID`, pending, or those of their Nodes.
    async fn nodes(&self, group: &str) -> Vec<String> {
        let deployment = json!(self.api(Kind::MachineDeployment).get(group).await.expect("a group"));
        let labels = deployment["spec"]["selector"]["matchLabels"].as_object().cloned().unwrap_or_default();
        let selector =
            labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
        let selector = selector.collect::<Vec<_>>().join(",");
        let machines =
            self.api(Kind::Machine).list(&ListParams::default().labels(&selector)).await.expect("a list");
        let mut ids = Vec::new();
        for machine in machines.items {
            let machine = json!(machine);
            let name = machine["metadata"]["name"].as_str().unwrap_or_default();
            if machine["status"]["failureMessage"].is_string() {
                ids.push(format!("failed-machine-default_{name}"));
            } else if let Some(id) = machine["spec"]["providerID"].as_str() {
                ids.push(id.to_owned());
            } else if machine["status"]["nodeRef"].is_null() {
                ids.push(format!("pending-machine-default_{name}"));
            } else if machine["status"]["nodeRef"]["kind"].as_str().is_none_or(|kind| kind == "Node") {
                let node = machine["status"]["nodeRef"]["name"].as_str().unwrap_or_default();
                let node = self.world.get("Node", node).await.expect("its Node");
                ids.push(node["spec"]["providerID"].as_str().unwrap_or_default().to_owned());
            }
        }
        ids
    }

    /// The Machine of a provider ID (`findMachineByProviderID`): by `spec.providerID`, else by the annotation of its Node.
    async fn machine(&self, id: &str) -> Option<Value> {
        let machines = self.list(Kind::Machine).await;
        let by_id = machines.iter().find(|machine| {
            machine["spec"]["providerID"].as_str().is_some_and(|found| normalized(found) == normalized(id))
        });
        if let Some(machine) = by_id {
            return Some(machine.clone());
        }
        let nodes = self.world.list("Node").await;
        let mut nodes = nodes.iter().filter(|node| {
            node["spec"]["providerID"].as_str().is_some_and(|found| normalized(found) == normalized(id))
        });
        let node = nodes.next()?;
        assert!(nodes.next().is_none(), "an internal error there: {id} is of several Nodes");
        let annotations = &node["metadata"]["annotations"];
        let name = annotations[format!("{GROUP}/machine")].as_str()?;
        // The annotation of the namespace has a group that cannot be set: it is not there, and the name has it.
        let namespace = annotations["cluster.x-k8s.io/cluster-namespace"].as_str().unwrap_or_default();
        let key = format!("{namespace}/{name}");
        let key = key.trim_start_matches('/');
        machines
            .iter()
            .find(|machine| {
                format!(
                    "{}/{}",
                    machine["metadata"]["namespace"].as_str().unwrap_or_default(),
                    machine["metadata"]["name"].as_str().unwrap_or_default()
                ) == key
            })
            .cloned()
    }

    /// `DeleteNodes`: marks the Machine by an update, and then makes its group smaller.
    async fn delete_node(&self, group: &str, id: &str) {
        let machine = self.machine(id).await.expect("the Machine of the Node");
        let name = machine["metadata"]["name"].as_str().unwrap_or_default();
        let api = self.api(Kind::Machine);
        let mut marked = api.get(name).await.expect("there");
        let annotations = marked.metadata.annotations.get_or_insert_default();
        annotations
            .insert(format!("{GROUP}/delete-machine"), "2026-11-24 12:00:00 +0000 UTC m=+1.0".to_owned());
        api.replace(name, &PostParams::default(), &marked).await.expect("marked");
        let replicas = self.replicas(group).await;
        self.set_size(group, replicas - 1).await;
    }
}

fn group(replicas: i32) -> Value {
    let mut group = deployment(replicas, json!({"type": "RollingUpdate"}));
    group["metadata"]["annotations"] = json!({
        "cluster.settled.dev/cluster-api-autoscaler-node-group-min-size": "1",
        "cluster.settled.dev/cluster-api-autoscaler-node-group-max-size": "10",
    });
    group
}

#[tokio::test(start_paused = true)]
async fn a_deployment_is_scaled_up_and_down() {
    let world = World::start(Latency::CLOUD).await;
    let autoscaler = Autoscaler { world: &world };
    // It finds the version by discovery, and the resources that it watches.
    let group_version = world.client.list_api_groups().await.expect("the groups");
    let found = group_version.groups.iter().find(|found| found.name == GROUP).expect("the group");
    assert_eq!(found.preferred_version.as_ref().map(|version| version.group_version.as_str()), Some(API));
    let resources = world.client.list_api_group_resources(API).await.expect("the resources");
    for name in
        ["machines", "machinesets", "machinedeployments", "machinedeployments/scale", "machinesets/scale"]
    {
        assert!(resources.resources.iter().any(|resource| resource.name == name), "{name}");
    }
    world.create(group(2)).await;
    let mut without = deployment(1, json!({"type": "RollingUpdate"}));
    without["metadata"]["name"] = "static".into();
    for pointer in ["/spec/selector/matchLabels", "/spec/template/metadata/labels"] {
        *without.pointer_mut(pointer).expect("labels") = json!({"app": "static"});
    }
    world.create(without).await;
    world.pass(60).await;
    assert_eq!(autoscaler.node_groups().await, [("web".to_owned(), 1, 10)]);

    autoscaler.set_size("web", 5).await;
    world.pass(3).await;
    let pending = autoscaler.nodes("web").await;
    assert_eq!(pending.iter().filter(|id| id.starts_with("pending-machine-")).count(), 3, "{pending:?}");
    world.pass(120).await;
    let nodes = autoscaler.nodes("web").await;
    assert_eq!((nodes.len(), autoscaler.replicas("web").await), (5, 5));
    assert!(nodes.iter().all(|id| id.starts_with("simulated://")), "{nodes:?}");
    assert!(is_ready(&world.get("MachineDeployment", "web").await.expect("there")));

    // The Node that it chooses goes, and no other one.
    let chosen = nodes[1].clone();
    autoscaler.delete_node("web", &chosen).await;
    world.pass(120).await;
    let left = autoscaler.nodes("web").await;
    let mut expected = nodes.clone();
    expected.retain(|id| *id != chosen);
    assert_eq!((left, autoscaler.replicas("web").await), (expected, 4));
    // Each Node is of its Machine, and that of its group.
    for id in autoscaler.nodes("web").await {
        let machine = autoscaler.machine(&id).await.expect("a Machine");
        assert_eq!(machine["metadata"]["ownerReferences"][0]["kind"], "MachineSet");
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_that_cannot_grow_is_seen_to_fail() {
    let world = World::start(Latency::ZERO).await;
    world.cloud.edit(|cloud| cloud.quota = Some(2));
    world.create(group(2)).await;
    world.pass(60).await;
    let autoscaler = Autoscaler { world: &world };
    autoscaler.set_size("web", 3).await;
    world.pass(60).await;
    let nodes = autoscaler.nodes("web").await;
    assert_eq!(nodes.iter().filter(|id| id.starts_with("failed-machine-")).count(), 1, "{nodes:?}");
    // Smaller again: the Machine that failed goes first.
    autoscaler.set_size("web", 2).await;
    world.pass(60).await;
    assert!(autoscaler.nodes("web").await.iter().all(|id| id.starts_with("simulated://")));
}

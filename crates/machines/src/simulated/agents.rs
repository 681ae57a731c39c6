//! Agents of simulated hosts: they register Nodes, report versions and renew Leases, as kubelets do.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use settled_controller::Clock;

use super::cloud::{Access, Cloud, SimulatedHost};
use crate::small::{Lease, LeaseSpec, Node, NodeSpec, NodeStatus};
use crate::types::{MACHINE_ANNOTATION, MachineVersions, whole_second};

/// Namespace of the Leases of Nodes.
pub(crate) const LEASES: &str = "kube-node-lease";
/// How many agents talk to the API server at the same time.
const CONCURRENCY: usize = 64;

/// How agents behave.
#[derive(Clone, Copy, Debug)]
pub struct AgentOptions {
    /// How often they look at their hosts.
    pub tick: Duration,
    /// How often they renew their Leases; never with zero.
    pub renew: Duration,
    /// How long a Lease is valid.
    pub lease: Duration,
}

impl Default for AgentOptions {
    fn default() -> Self {
        Self { tick: Duration::from_secs(1), renew: Duration::from_secs(10), lease: Duration::from_secs(40) }
    }
}

/// What an agent has reported.
struct Reported {
    id: String,
    versions: MachineVersions,
    renewed: Timestamp,
}

/// Runs the agents of all hosts, until it is dropped.
pub async fn run_agents<A: Access>(client: Client, cloud: A, clock: Clock, options: AgentOptions) {
    let mut reported: HashMap<String, Reported> = HashMap::new();
    loop {
        let now = clock.now();
        let due = cloud.read(|cloud| due(cloud, &reported, now, options)).await;
        let live: Vec<String> = cloud.read(|cloud| cloud.hosts.keys().cloned().collect()).await;
        if live.len() < reported.len() {
            reported.retain(|uid, _| live.binary_search(uid).is_ok());
        }
        let results = stream::iter(due.into_iter().map(|(uid, host)| {
            let client = client.clone();
            async move {
                let result = report(&client, &host, now, options).await;
                (uid, host, result)
            }
        }))
        .buffer_unordered(CONCURRENCY)
        .collect::<Vec<_>>()
        .await;
        for (uid, host, result) in results {
            match result {
                Ok(()) => {
                    let state = Reported { id: host.id, versions: host.versions, renewed: now };
                    reported.insert(uid, state);
                }
                Err(error) => tracing::debug!(%uid, %error, "an agent failed to report"),
            }
        }
        tokio::time::sleep(options.tick).await;
    }
}

/// The hosts whose agents have something to report.
fn due(
    cloud: &Cloud,
    reported: &HashMap<String, Reported>,
    now: Timestamp,
    options: AgentOptions,
) -> Vec<(String, SimulatedHost)> {
    let runs = |host: &SimulatedHost| {
        host.gone_from.is_none()
            && host.joins_from.is_some_and(|joins| joins <= now)
            && host.busy_until.is_none_or(|until| until <= now)
    };
    let renew = SignedDuration::try_from(options.renew).unwrap_or(SignedDuration::MAX);
    let is_due = |uid: &str, host: &SimulatedHost| match reported.get(uid) {
        Some(known) => {
            known.id != host.id
                || known.versions != host.versions
                || (!options.renew.is_zero() && now.duration_since(known.renewed) >= renew)
        }
        None => true,
    };
    let hosts =
        cloud.hosts.iter().filter(|(uid, host)| runs(host) && cloud.is_connected(uid) && is_due(uid, host));
    hosts.map(|(uid, host)| (uid.clone(), host.clone())).collect()
}

/// Registers the Node, or reports what has changed, and renews the Lease.
async fn report(
    client: &Client,
    host: &SimulatedHost,
    now: Timestamp,
    options: AgentOptions,
) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    // Each time, as kubelets do: others may have given up on the Node in the meantime.
    let node = match nodes.get_opt(&host.node_name).await? {
        Some(node) => node,
        None => register(&nodes, host).await?,
    };
    // A Node of this name that is of another host: it must go first.
    if node.spec.provider_id.as_deref() != Some(host.id.as_str()) {
        return Ok(());
    }
    let status = status(&node, host, now);
    if node.status != serde_json::from_value::<NodeStatus>(status.clone()).unwrap_or_default() {
        let patch = json!({"metadata": {"uid": node.metadata.uid}, "status": status});
        nodes.patch_status(&host.node_name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    if options.renew.is_zero() { Ok(()) } else { renew(client, host, now, options).await }
}

async fn register(nodes: &Api<Node>, host: &SimulatedHost) -> Result<Node, kube::Error> {
    let mut labels: BTreeMap<String, String> = host.labels.clone();
    labels.insert("kubernetes.io/hostname".to_owned(), host.node_name.clone());
    let node = Node {
        metadata: ObjectMeta {
            name: Some(host.node_name.clone()),
            labels: Some(labels),
            annotations: Some([(MACHINE_ANNOTATION.to_owned(), host.machine.clone())].into()),
            ..ObjectMeta::default()
        },
        spec: NodeSpec {
            provider_id: Some(host.id.clone()),
            taints: host.taints.clone(),
            unschedulable: false,
        },
        status: NodeStatus::default(),
    };
    nodes.create(&PostParams::default(), &node).await
}

/// The status that a healthy kubelet reports.
fn status(node: &Node, host: &SimulatedHost, now: Timestamp) -> Value {
    let since = node.condition("Ready").filter(|ready| ready.status == "True");
    let since =
        since.and_then(|ready| ready.last_transition_time.clone()).unwrap_or_else(|| whole_second(now));
    let runtime = host.versions.container_runtime.as_ref();
    json!({
        "conditions": [{
            "type": "Ready", "status": "True", "lastTransitionTime": since,
            "reason": "KubeletReady", "message": "the simulated kubelet is ready",
        }],
        "nodeInfo": {
            "kubeletVersion": host.versions.kubelet,
            "containerRuntimeVersion": runtime.map(|runtime| format!("{}://{}", runtime.name, runtime.version)).unwrap_or_default(),
            "machineID": host.id, "systemUUID": host.id, "bootID": host.id, "kernelVersion": "simulated",
            "osImage": host.image, "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
        },
    })
}

async fn renew(
    client: &Client,
    host: &SimulatedHost,
    now: Timestamp,
    options: AgentOptions,
) -> Result<(), kube::Error> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), LEASES);
    let spec = LeaseSpec {
        holder_identity: Some(host.node_name.clone()),
        lease_duration_seconds: i32::try_from(options.lease.as_secs()).ok(),
        renew_time: Some(MicroTime(now)),
    };
    let patch = Patch::Merge(json!({"spec": spec}));
    match leases.patch(&host.node_name, &PatchParams::default(), &patch).await {
        Err(kube::Error::Api(status)) if status.code == 404 => {
            let metadata = ObjectMeta { name: Some(host.node_name.clone()), ..ObjectMeta::default() };
            let created = leases.create(&PostParams::default(), &Lease { metadata, spec }).await?;
            tracing::trace!(lease = created.name_any(), "created");
            Ok(())
        }
        other => other.map(drop),
    }
}

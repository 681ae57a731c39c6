//! Node of a server: registered by the server itself, on itself, with a Lease that it renews. No Pod runs there.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde::Deserialize;
use serde_json::json;
use settled_machines::types::{MACHINE_ANNOTATION, Taint};

const LEASES: &str = "kube-node-lease";
const RENEW: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(1);
const LEASE_SECONDS: i32 = 40;
const MANAGER: &str = "settled-serve";
const ROLE: &str = "node-role.kubernetes.io/control-plane";

/// The Node that a server registers for itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SelfNode {
    name: String,
    #[serde(rename = "providerID")]
    provider_id: String,
    machine: String,
    address: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    taints: Vec<Taint>,
}

impl SelfNode {
    /// Reads it from a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(path: &Path) -> std::io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }

    /// Registers the Node and renews its Lease, until it is dropped.
    pub async fn keep(self, client: Client, version: String) {
        loop {
            let pause = match self.report(&client, &version).await {
                Ok(()) => RENEW,
                Err(error) => {
                    tracing::warn!(node = self.name, %error, "cannot report the Node of the server");
                    RETRY
                }
            };
            tokio::time::sleep(pause).await;
        }
    }

    async fn report(&self, client: &Client, version: &str) -> Result<(), kube::Error> {
        let nodes: Api<Node> = Api::all(client.clone());
        let node = match nodes.get_opt(&self.name).await? {
            // Of a host before this one, with the same data.
            Some(node)
                if node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref())
                    != Some(&self.provider_id) =>
            {
                nodes.delete(&self.name, &kube::api::DeleteParams::default()).await?;
                self.register(&nodes).await?
            }
            Some(node) => node,
            None => self.register(&nodes).await?,
        };
        self.renew(client).await?;
        let ready = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let mut ready = ready.filter(|condition| condition.type_ == "Ready");
        let reported = node.status.as_ref().and_then(|status| status.node_info.as_ref());
        let is_reported = ready.any(|condition| condition.status == "True")
            && reported.is_some_and(|info| info.kubelet_version == version);
        if is_reported {
            return Ok(());
        }
        let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_else(|_| Timestamp::now());
        let status = json!({
            "metadata": {"uid": node.metadata.uid},
            "status": {
                "addresses": [{"type": "InternalIP", "address": self.address}, {"type": "Hostname", "address": self.name}],
                "capacity": {"pods": "0"}, "allocatable": {"pods": "0"},
                "conditions": [{
                    "type": "Ready", "status": "True", "reason": "ServerReady", "message": "the API server serves; no Pods run here",
                    "lastTransitionTime": now, "lastHeartbeatTime": now,
                }],
                "nodeInfo": {
                    "kubeletVersion": version, "containerRuntimeVersion": "", "kubeProxyVersion": "",
                    "machineID": self.provider_id, "systemUUID": self.provider_id, "bootID": boot_id(),
                    "kernelVersion": kernel(), "osImage": "", "operatingSystem": std::env::consts::OS,
                    "architecture": architecture(),
                },
            },
        });
        nodes
            .patch_status(&self.name, &PatchParams::apply(MANAGER), &Patch::Strategic(status))
            .await
            .map(drop)
    }

    async fn register(&self, nodes: &Api<Node>) -> Result<Node, kube::Error> {
        let mut labels = self.labels.clone();
        labels.insert("kubernetes.io/hostname".to_owned(), self.name.clone());
        labels.entry(ROLE.to_owned()).or_default();
        let mut taints = self.taints.clone();
        if !taints.iter().any(|taint| taint.key == ROLE) {
            taints.push(Taint {
                key: ROLE.to_owned(),
                value: String::new(),
                effect: "NoSchedule".to_owned(),
            });
        }
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": self.name, "labels": labels, "annotations": {MACHINE_ANNOTATION: self.machine}},
            "spec": {"providerID": self.provider_id, "taints": taints},
        });
        let node: Node = serde_json::from_value(node).map_err(kube::Error::SerdeError)?;
        nodes
            .create(&PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() }, &node)
            .await
    }

    async fn renew(&self, client: &Client) -> Result<(), kube::Error> {
        let leases: Api<Lease> = Api::namespaced(client.clone(), LEASES);
        let spec = LeaseSpec {
            holder_identity: Some(self.name.clone()),
            lease_duration_seconds: Some(LEASE_SECONDS),
            renew_time: Some(MicroTime(Timestamp::now())),
            ..LeaseSpec::default()
        };
        let patch = Patch::Merge(json!({"spec": spec}));
        match leases.patch(&self.name, &PatchParams::default(), &patch).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
                leases.create(&PostParams::default(), &Lease { metadata, spec: Some(spec) }).await.map(drop)
            }
            other => other.map(drop),
        }
    }
}

fn line(path: &str) -> String {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).unwrap_or_default()
}

fn boot_id() -> String {
    line("/proc/sys/kernel/random/boot_id")
}

fn kernel() -> String {
    line("/proc/sys/kernel/osrelease")
}

/// As Go writes it.
const fn architecture() -> &'static str {
    match std::env::consts::ARCH.as_bytes() {
        b"x86_64" => "amd64",
        b"aarch64" => "arm64",
        _ => std::env::consts::ARCH,
    }
}

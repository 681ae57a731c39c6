//! Kubelet of the built-in packages: registers the Node, reports what runs, and renews the Lease. It runs no Pods.

use std::fs;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Map, Value, json};
use settled_machines::types::{MACHINE_ANNOTATION, whole_second};

use super::credentials::LEASES;
use super::error::{AgentError, log};
use super::layout::{Layout, Settings, State};

/// Field manager of what it writes.
const MANAGER: &str = "settled-agent";
/// How often it looks whether its supervisor is there.
const PARENT: Duration = Duration::from_millis(500);
/// After a request that failed.
const RETRY: Duration = Duration::from_millis(500);

/// Runs until it is ended, or its supervisor is gone.
pub(super) fn run(layout: &Layout, version: &str) -> Result<(), AgentError> {
    let path = layout.path().display().to_string();
    let settings = layout.settings()?.ok_or(AgentError::NoSettings(path))?;
    let state = layout.state()?.unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| AgentError::System("start a runtime", error))?;
    let kubelet = Kubelet { layout, settings, state, version: version.to_owned() };
    runtime.block_on(async {
        if let Some(ready) = std::env::var_os("SETTLED_READY_FILE") {
            fs::write(&ready, version).map_err(|error| AgentError::System("write the ready file", error))?;
        }
        tokio::select! {
            () = kubelet.serve() => {}
            () = orphaned() => log(format_args!("init is gone")),
        }
        Ok(())
    })
}

/// Waits until the parent process is another one.
async fn orphaned() {
    #[cfg(unix)]
    {
        let parent = std::os::unix::process::parent_id();
        while std::os::unix::process::parent_id() == parent {
            tokio::time::sleep(PARENT).await;
        }
    }
    #[cfg(not(unix))]
    std::future::pending::<()>().await;
}

#[derive(Debug, thiserror::Error)]
enum NodeError {
    #[error(transparent)]
    Request(#[from] kube::Error),
    #[error("the kubeconfig cannot be used: {0}")]
    Kubeconfig(String),
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("a Node of this name is of another host, {0}")]
    Taken(String),
}

struct Kubelet<'l> {
    layout: &'l Layout,
    settings: Settings,
    state: State,
    version: String,
}

impl Kubelet<'_> {
    async fn serve(&self) {
        let renew = Duration::from_millis(self.settings.timing.renew_millis);
        let mut reported = String::new();
        let mut client = None;
        loop {
            let now = match &client {
                Some(client) => Client::clone(client),
                None => match self.connect().await {
                    Ok(made) => client.insert(made).clone(),
                    Err(error) => {
                        log(format_args!("{error}"));
                        tokio::time::sleep(RETRY).await;
                        continue;
                    }
                },
            };
            let result = tokio::time::timeout(self.timeout(), self.report(&now)).await;
            match result.unwrap_or(Err(NodeError::Timeout(self.timeout()))) {
                Ok(()) => {
                    reported.clear();
                    tokio::time::sleep(renew).await;
                }
                Err(error) => {
                    // The connection may be dead, and credentials may have been replaced.
                    client = None;
                    let text = error.to_string();
                    if text != reported {
                        log(format_args!("cannot report: {text}"));
                        reported = text;
                    }
                    tokio::time::sleep(RETRY.min(renew)).await;
                }
            }
        }
    }

    const fn timeout(&self) -> Duration {
        Duration::from_millis(self.settings.timing.request_millis)
    }

    async fn connect(&self) -> Result<Client, NodeError> {
        let failed = |error: &dyn std::error::Error| NodeError::Kubeconfig(error.to_string());
        let kubeconfig = Kubeconfig::read_from(self.layout.kubeconfig()).map_err(|error| failed(&error))?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
            .await
            .map_err(|error| failed(&error))?;
        config.connect_timeout = Some(self.timeout());
        config.read_timeout = Some(self.timeout());
        Ok(Client::try_from(config)?)
    }

    /// Registers the Node unless it is, reports what has changed, and renews the Lease.
    async fn report(&self, client: &Client) -> Result<(), NodeError> {
        let nodes: Api<Node> = Api::all(client.clone());
        let node = match nodes.get_opt(&self.settings.node_name).await? {
            Some(node) => node,
            None => self.register(&nodes).await?,
        };
        // That of a host that was replaced must go first.
        let provider_id = node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()).unwrap_or_default();
        if provider_id != self.settings.provider_id {
            return Err(NodeError::Taken(provider_id.to_owned()));
        }
        let observed = json!(node.status);
        let status = self.status(&observed);
        if !is_reported(&observed, &status) {
            let patch = Patch::Strategic(json!({"metadata": {"uid": node.metadata.uid}, "status": status}));
            nodes.patch_status(&self.settings.node_name, &PatchParams::default(), &patch).await?;
        }
        self.renew(client, node.metadata.uid.as_deref().unwrap_or_default()).await?;
        self.report_host(client).await
    }

    async fn register(&self, nodes: &Api<Node>) -> Result<Node, NodeError> {
        let mut labels = self.settings.labels.clone();
        labels.insert("kubernetes.io/hostname".to_owned(), self.settings.node_name.clone());
        labels.insert("kubernetes.io/os".to_owned(), std::env::consts::OS.to_owned());
        labels.insert("kubernetes.io/arch".to_owned(), architecture().to_owned());
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": self.settings.node_name, "labels": labels,
                "annotations": {MACHINE_ANNOTATION: self.settings.machine},
            },
            "spec": {"providerID": self.settings.provider_id, "taints": self.settings.taints},
        });
        let parameters = PatchParams::apply(MANAGER);
        Ok(nodes.patch(&self.settings.node_name, &parameters, &Patch::Apply(node)).await?)
    }

    fn status(&self, observed: &Value) -> Value {
        let conditions = observed["conditions"].as_array().cloned().unwrap_or_default();
        let ready = conditions
            .into_iter()
            .find(|condition| condition["type"] == "Ready" && condition["status"] == "True");
        let since = ready.map_or_else(
            || json!(whole_second(Timestamp::now())),
            |condition| condition["lastTransitionTime"].clone(),
        );
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let machine = &self.settings.provider_id;
        let runtime = self.state.versions.container_runtime.as_ref();
        let mut addresses = json!(self.settings.addresses);
        if let Some(addresses) = addresses.as_array_mut() {
            addresses.push(json!({"type": "Hostname", "address": text("/proc/sys/kernel/hostname")}));
        }
        json!({
            "addresses": addresses,
            "conditions": [{
                "type": "Ready", "status": "True", "lastTransitionTime": since,
                "reason": "KubeletReady", "message": "the agent is ready; it runs no Pods",
            }],
            "nodeInfo": {
                "kubeletVersion": self.version,
                "containerRuntimeVersion":
                    runtime.map(|runtime| format!("{}://{}", runtime.name, runtime.version)).unwrap_or_default(),
                "machineID": machine, "systemUUID": machine, "bootID": self.state.boot_id,
                "kernelVersion": text("/proc/sys/kernel/osrelease"),
                "osImage": os_image(Path::new("/etc/os-release")),
                "kubeProxyVersion": "", "operatingSystem": std::env::consts::OS,
                "architecture": architecture(),
            },
        })
    }

    async fn renew(&self, client: &Client, uid: &str) -> Result<(), NodeError> {
        let leases: Api<Lease> = Api::namespaced(client.clone(), LEASES);
        let name = &self.settings.node_name;
        // The Lease goes with the Node.
        let owner = json!({"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid});
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {
                "holderIdentity": name, "leaseDurationSeconds": self.settings.timing.lease_seconds,
                "renewTime": micro_time(Timestamp::now()),
            },
        });
        leases.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(lease)).await?;
        Ok(())
    }

    async fn report_host(&self, client: &Client) -> Result<(), NodeError> {
        let Some(host) = &self.settings.host else { return Ok(()) };
        let kind = GroupVersionKind::gvk("cluster.settled.dev", "v1alpha1", "Host");
        let hosts: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), &host.namespace, &ApiResource::from_gvk(&kind));
        let mut versions = json!(self.state.versions);
        versions["kubelet"] = self.version.clone().into();
        let status = json!({"versions": versions, "lastContactTime": whole_second(Timestamp::now())});
        let patch = Patch::Merge(json!({"status": status}));
        hosts.patch_status(&host.name, &PatchParams::default(), &patch).await?;
        Ok(())
    }
}

/// Whether a status says what is to be reported.
fn is_reported(observed: &Value, status: &Value) -> bool {
    let empty = Map::new();
    status.as_object().unwrap_or(&empty).iter().all(|(name, wanted)| {
        match (name.as_str(), wanted.as_array()) {
            ("conditions", Some(wanted)) => wanted.iter().all(|condition| {
                let has = |found: &Value| {
                    let fields = condition.as_object().unwrap_or(&empty);
                    fields.iter().all(|(name, value)| found.get(name) == Some(value))
                };
                observed[name].as_array().is_some_and(|found| found.iter().any(has))
            }),
            ("nodeInfo", _) => {
                let fields = wanted.as_object().unwrap_or(&empty);
                fields.iter().all(|(field, value)| observed[name].get(field) == Some(value))
            }
            _ => observed.get(name) == Some(wanted),
        }
    })
}

/// A time with microseconds, as Leases have it.
fn micro_time(now: Timestamp) -> String {
    format!("{now:.6}")
}

fn os_image(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or_default().trim_matches('"').to_owned()
}

fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_condition_is_reported_and_others_are_left_alone() {
        let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady"});
        let wanted = json!({"conditions": [ready], "nodeInfo": {"kubeletVersion": "v1.36.0"}});
        let mut observed = json!({
            "conditions": [{"type": "DiskPressure", "status": "False"}, ready],
            "nodeInfo": {"kubeletVersion": "v1.36.0", "other": ""},
        });
        assert!(is_reported(&observed, &wanted));
        observed["conditions"][1]["status"] = "Unknown".into();
        assert!(!is_reported(&observed, &wanted));
        observed["conditions"][1]["status"] = "True".into();
        observed["nodeInfo"]["kubeletVersion"] = "v1.35.0".into();
        assert!(!is_reported(&observed, &wanted));
    }

    #[test]
    fn times_have_microseconds() {
        let time = "2026-01-02T03:04:05.123456789Z".parse().expect("a time");
        assert_eq!(micro_time(time), "2026-01-02T03:04:05.123456Z");
    }
}

//! Creation of a cluster, in phases. Each phase applies what it needs and waits for it: repeated after a crash, it finds what there is.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use settled_machines::types::PROVIDER_FAILED;

use crate::contents::Contents;
use crate::error::Error;
use crate::journal::{self, Phase};
use crate::kinds::api;
use crate::management::{MANAGER, Management};
use crate::manifests::{Manifests, title};
use crate::repair::is_answering;
use crate::state::{ClusterRecord, StateDirectory};
use crate::transfer::move_cluster;
use crate::waiting::Deadline;

/// What is reported while a cluster is created.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// A phase begins.
    Began(Phase),
    /// A phase is done.
    Done(Phase),
    /// What is waited for, if it is something else now.
    Waiting(String),
}

/// How a cluster is created.
#[derive(Clone)]
#[non_exhaustive]
pub struct CreateOptions {
    /// Whether its objects are moved into it.
    pub pivot: bool,
    /// How long it may take.
    pub timeout: Duration,
    /// Where the cluster is registered.
    pub state: Option<StateDirectory>,
    /// Who is told.
    pub listener: Arc<dyn Fn(&Event) + Send + Sync>,
}

impl CreateOptions {
    /// Without a pivot, registered nowhere, and told nobody.
    #[must_use]
    pub fn new(timeout: Duration) -> Self {
        Self { pivot: false, timeout, state: None, listener: Arc::new(|_| {}) }
    }
}

/// A creation under way.
struct Creation<'c> {
    management: &'c Management,
    manifests: &'c Manifests,
    options: &'c CreateOptions,
    deadline: Deadline,
}

/// Creates a cluster, or continues its creation, while the controllers of the management run.
///
/// # Errors
/// A request fails, an object needs a change of its spec, or the deadline is exceeded.
pub async fn create(
    management: &Management,
    manifests: &Manifests,
    options: &CreateOptions,
) -> Result<(), Error> {
    let deadline = Deadline::after(options.timeout);
    let creation = Creation { management, manifests, options, deadline };
    let work = creation.run();
    // No request lasts longer, either.
    match tokio::time::timeout(options.timeout + Duration::from_secs(1), work).await {
        Ok(result) => result,
        Err(_) => Err(deadline.over("the API server does not answer")),
    }
}

impl Creation<'_> {
    async fn run(&self) -> Result<(), Error> {
        let Manifests { namespace, name, .. } = self.manifests;
        let record =
            self.options.state.as_ref().map(|state| state.record(namespace, name)).transpose()?.flatten();
        if record.as_ref().is_some_and(|record| record.moved_to.is_some()) {
            if self.options.pivot {
                return self.pivot().await;
            }
            return Err(Error::Refused(format!(
                "Cluster {name} was moved out of this state directory: change it with the API server that manages it"
            )));
        }
        if self.is_pivot_begun().await? {
            return self.pivot().await;
        }
        self.management.ensure_namespace(namespace).await?;
        // Before there is a Cluster, there is no status.
        (self.options.listener)(&Event::Began(Phase::Cluster));
        for object in &self.manifests.references {
            self.apply(object).await?;
        }
        self.apply(&self.manifests.cluster).await?;
        self.record(Phase::Cluster, true).await?;
        (self.options.listener)(&Event::Done(Phase::Cluster));
        if let Some(state) = &self.options.state {
            let record = ClusterRecord {
                namespace: namespace.clone(),
                name: name.clone(),
                ..ClusterRecord::default()
            };
            state.register(&record, None)?;
        }
        let mut control_plane = self.manifests.control_plane.iter();
        if let Some(first) = control_plane.next() {
            self.phase(Phase::FirstControlPlane, async {
                self.apply(first).await?;
                self.until_host_runs(first).await
            })
            .await?;
        }
        self.phase(Phase::Endpoint, self.until_it_answers()).await?;
        if let Some(first) = self.manifests.control_plane.first() {
            self.until_ready(first).await?;
        }
        self.phase(Phase::ControlPlane, async {
            for machine in control_plane {
                self.apply(machine).await?;
                self.until_ready(machine).await?;
            }
            Ok(())
        })
        .await?;
        self.phase(Phase::Workers, async {
            for object in &self.manifests.workers {
                self.apply(object).await?;
            }
            for object in &self.manifests.workers {
                self.until_ready(object).await?;
            }
            self.until_ready(&self.manifests.cluster).await
        })
        .await?;
        self.register(None).await?;
        if self.options.pivot {
            return self.pivot().await;
        }
        self.phase(Phase::Complete, async { Ok(()) }).await
    }

    /// Records that a phase begins, performs it, and records that it is done.
    async fn phase(&self, phase: Phase, work: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
        self.record(phase, false).await?;
        (self.options.listener)(&Event::Began(phase));
        work.await?;
        self.record(phase, true).await?;
        (self.options.listener)(&Event::Done(phase));
        Ok(())
    }

    async fn record(&self, phase: Phase, is_done: bool) -> Result<(), Error> {
        journal::record(self.management, &self.manifests.namespace, &self.manifests.name, phase, is_done)
            .await
    }

    async fn apply(&self, object: &Value) -> Result<(), Error> {
        let kind = object["kind"].as_str().unwrap_or_default();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let objects = api(&self.management.client, kind, &self.manifests.namespace);
        let parameters = PatchParams::apply(MANAGER).force();
        let applied = objects.patch(name, &parameters, &Patch::Apply(object)).await;
        let applied = applied.map_err(Error::request(format!("apply {}", title(object))))?;
        if applied.metadata.deletion_timestamp.is_some() {
            return Err(Error::Refused(format!(
                "{} is being deleted: create it again when it is gone",
                title(object)
            )));
        }
        Ok(())
    }

    async fn read(&self, object: &Value) -> Result<DynamicObject, Error> {
        let kind = object["kind"].as_str().unwrap_or_default();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let objects = api(&self.management.client, kind, &self.manifests.namespace);
        let read = objects.get_opt(name).await.map_err(Error::request(format!("read {}", title(object))))?;
        let read = read.filter(|read| read.metadata.deletion_timestamp.is_none());
        read.ok_or_else(|| Error::Deleted(title(object)))
    }

    fn waiting(&self, reason: String) -> String {
        (self.options.listener)(&Event::Waiting(reason.clone()));
        reason
    }

    /// The Machine has a host that runs. That its Node is ready is seen when its API server answers.
    async fn until_host_runs(&self, machine: &Value) -> Result<(), Error> {
        self.deadline
            .wait(async || {
                // Deleted Clusters and Machines end it.
                self.read(&self.manifests.cluster).await?;
                let read = self.read(machine).await?;
                check(&read, machine)?;
                let (status, _, mut message) = condition(&read, "HostReady");
                // Why a provider is asked again is more than that it is.
                if let (_, reason, failure) = condition(&read, "Reconciling")
                    && reason == PROVIDER_FAILED
                {
                    message = failure;
                }
                Ok(match status.as_str() {
                    "True" => Ok(()),
                    _ => Err(self.waiting(format!("the host of {}: {message}", title(machine)))),
                })
            })
            .await
    }

    /// The Cluster has an endpoint, and its API server answers.
    async fn until_it_answers(&self) -> Result<(), Error> {
        let Manifests { namespace, name, cluster, .. } = self.manifests;
        self.deadline
            .wait(async || {
                let read = self.read(cluster).await?;
                let has_endpoint = read.data.pointer("/status/apiEndpoints/0").is_some();
                let (status, reason, message) = condition(&read, "ControlPlaneReachable");
                if !has_endpoint {
                    return Ok(
                        Err(self.waiting("the endpoint of the control plane is not known".to_owned())),
                    );
                }
                // A control plane that makes a kubeconfig is waited for until it is there.
                let is_known = reason != "SameServer" || !self.makes_kubeconfig(namespace, name).await?;
                // The condition may be that of an earlier process.
                let answers = match self.management.kubeconfig(namespace, name).await? {
                    Some(kubeconfig) => is_answering(self.management, &kubeconfig).await,
                    None => true,
                };
                let missing = match (is_known, status == "True" && answers) {
                    (true, true) => return Ok(Ok(())),
                    (false, _) => "its kubeconfig is not in a Secret yet",
                    (true, false) => &message,
                };
                Ok(Err(self.waiting(format!("the API server of {}: {missing}", title(cluster)))))
            })
            .await
    }

    /// Whether a provider has a kubeconfig that is not in the Secret yet.
    async fn makes_kubeconfig(&self, namespace: &str, name: &str) -> Result<bool, Error> {
        let contents = Contents::read(self.management, namespace, name).await?;
        for machine in
            contents.machines().into_iter().filter(settled_machines::types::Machine::is_control_plane)
        {
            let provider =
                machine.status.as_ref().and_then(|status| status.provider.clone()).unwrap_or_default();
            let Ok(entry) = self.management.registry.by_name(&provider) else { continue };
            let found = entry.provider.kubeconfig(&(&machine).into()).await;
            if found.map_err(Error::provider("read the kubeconfig of the control plane"))?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn until_ready(&self, object: &Value) -> Result<(), Error> {
        self.deadline
            .wait(async || {
                self.read(&self.manifests.cluster).await?;
                let read = self.read(object).await?;
                check(&read, object)?;
                Ok(match condition(&read, "Ready").0.as_str() {
                    "True" => Ok(()),
                    _ => Err(self.waiting(format!("{}: {}", title(object), missing(&read)))),
                })
            })
            .await
    }

    async fn register(&self, moved: Option<(&str, Vec<Value>)>) -> Result<(), Error> {
        let Some(state) = &self.options.state else { return Ok(()) };
        let Manifests { namespace, name, .. } = self.manifests;
        let kubeconfig = self.management.kubeconfig(namespace, name).await?;
        let mut record =
            ClusterRecord { namespace: namespace.clone(), name: name.clone(), ..ClusterRecord::default() };
        if let Some((identity, objects)) = moved {
            record.moved_to = Some(identity.to_owned());
            record.manager = Some(state.kubeconfig_of(name));
            record.objects = objects;
        }
        state.register(&record, kubeconfig.as_deref())
    }

    /// Whether a pivot was interrupted: the objects may be half there, and are not applied again.
    async fn is_pivot_begun(&self) -> Result<bool, Error> {
        if !self.options.pivot {
            return Ok(false);
        }
        let Manifests { namespace, name, .. } = self.manifests;
        let clusters = api(&self.management.client, "Cluster", namespace);
        let read = clusters.get_opt(name).await.map_err(Error::request(format!("read Cluster {name}")))?;
        let annotations = read.and_then(|read| read.metadata.annotations).unwrap_or_default();
        Ok(annotations.contains_key(settled_machines::types::MOVE_ANNOTATION))
    }

    async fn pivot(&self) -> Result<(), Error> {
        let Manifests { namespace, name, .. } = self.manifests;
        let kubeconfig = self.management.kubeconfig(namespace, name).await?.or_else(|| {
            let path = self.options.state.as_ref()?.kubeconfig_of(name);
            std::fs::read_to_string(path).ok()
        });
        let kubeconfig = kubeconfig.ok_or_else(|| {
            Error::Refused(format!(
                "Cluster {name} has no API server of its own: there is nothing to move it into"
            ))
        })?;
        let inside = self.management.of_cluster(name, &kubeconfig).await?;
        if inside.identity == self.management.identity {
            return Err(Error::Refused(format!("Cluster {name} is in its own API server already")));
        }
        (self.options.listener)(&Event::Began(Phase::Pivot));
        let clusters = api(&self.management.client, "Cluster", namespace);
        if clusters.get_opt(name).await.map_err(Error::request("read the Cluster"))?.is_some() {
            self.record(Phase::Pivot, false).await?;
        }
        inside.ensure_namespace(namespace).await?;
        // Where it is found is known before it is there.
        let objects = Contents::read(self.management, namespace, name).await?.into_values();
        if !objects.is_empty() {
            self.register(Some((&inside.identity, objects))).await?;
        }
        let moved = move_cluster(self.management, &inside, namespace, name).await?;
        tracing::info!(objects = moved.objects, "moved");
        journal::record(&inside, namespace, name, Phase::Pivot, true).await?;
        (self.options.listener)(&Event::Done(Phase::Pivot));
        // What was moved goes on there.
        let controllers = inside.start_controllers();
        let creation = Creation { management: &inside, ..*self };
        creation.until_ready(&self.manifests.cluster).await?;
        journal::record(&inside, namespace, name, Phase::Complete, true).await?;
        controllers.stop().await;
        (self.options.listener)(&Event::Done(Phase::Complete));
        Ok(())
    }
}

/// Fails if only a change of the spec helps.
fn check(read: &DynamicObject, object: &Value) -> Result<(), Error> {
    let (status, reason, message) = condition(read, "Stalled");
    // Quotas are asked for again.
    if status == "True" && reason != "InsufficientResources" {
        return Err(Error::Stalled { object: title(object), reason, message });
    }
    Ok(())
}

/// What an object lacks to be ready, in one line: what stops it, or its provider, or what its parts say, each text once.
fn missing(read: &DynamicObject) -> String {
    if let (status, _, message) = condition(read, "Stalled")
        && status == "True"
    {
        return message;
    }
    if let (_, reason, message) = condition(read, "Reconciling")
        && reason == PROVIDER_FAILED
    {
        return message;
    }
    let (_, _, message) = condition(read, "Ready");
    let mut texts: Vec<&str> = Vec::new();
    for part in message.split("; ") {
        let is_type = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let text = part.split_once(": ").filter(|(name, _)| is_type(name)).map_or(part, |(_, text)| text);
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts.join("; ")
}

/// Status, reason and message of a condition at the present generation.
fn condition(object: &DynamicObject, type_: &str) -> (String, String, String) {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    let generation = json!(object.metadata.generation);
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == type_ && condition["observedGeneration"] == generation);
    let text = |field: &str| found.and_then(|found| found[field].as_str()).unwrap_or_default().to_owned();
    let message = match (text("message"), found) {
        (message, Some(_)) if message.is_empty() => text("reason"),
        (message, Some(_)) => message,
        (_, None) => "nothing is reported yet".to_owned(),
    };
    (text("status"), text("reason"), message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said_once() {
        let object = |conditions: &[(&str, &str, &str, &str)]| -> DynamicObject {
            let condition = |(type_, status, reason, message): &(&str, &str, &str, &str)| json!({"type": type_, "status": status, "reason": reason, "message": message, "observedGeneration": 1});
            let conditions: Vec<Value> = conditions.iter().map(condition).collect();
            let object =
                json!({"metadata": {"name": "a", "generation": 1}, "status": {"conditions": conditions}});
            serde_json::from_value(object).unwrap_or_else(|error| panic!("{error}"))
        };
        let counts = "Available: 0 of 2 are available; UpToDate: 0 of 2 are available";
        let ready = ("Ready", "False", "NotAvailable", counts);
        assert_eq!(missing(&object(&[])), "nothing is reported yet");
        assert_eq!(missing(&object(&[ready])), "0 of 2 are available");
        let parts =
            ("Ready", "False", "NotAvailable", "Host: no answer: timed out; Node: it has not registered");
        assert_eq!(missing(&object(&[parts])), "no answer: timed out; it has not registered");
        let reconciling = |reason| ("Reconciling", "True", reason, "it is being made");
        assert_eq!(missing(&object(&[ready, reconciling("Creating")])), "0 of 2 are available");
        assert_eq!(missing(&object(&[ready, reconciling("ProviderFailed")])), "it is being made");
        let stalled = ("Stalled", "True", "InsufficientResources", "no Host is free");
        assert_eq!(missing(&object(&[ready, stalled])), "no Host is free");
    }
}

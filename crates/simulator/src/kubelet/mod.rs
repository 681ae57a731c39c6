//! Kubelets: what becomes of the Pods on the Nodes of the simulation.

mod command;
mod container;
mod image;
mod input;
pub(crate) mod logs;
mod memory;
mod patch;
mod probes;
mod pulls;
mod references;
mod resize;
mod room;
mod start;
mod status;
mod stop;
mod sync;
mod text;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ConfigMap, Node, PersistentVolume, PersistentVolumeClaim, Pod, PodSpec, PodStatus, Secret,
};
use kube::runtime::events::{EventType, Reporter};
use settled_controller::ObjectKey;
use settled_controller::events::Recorder;
use settled_controller::worker::Next;

use crate::controller::{self, Context, Controller, Error, Shared};
use crate::informers::{AnyChange, Informers, NODE};
use crate::meta;
use crate::scenario::{ContainerScript, NodeScript, PodFacts, PodScript, Scenario, from_annotations};
use input::{Input, Outcome, References, Scripts};
use memory::Memory;
use pulls::PullRequest;

static NO_STATUS: LazyLock<PodStatus> = LazyLock::new(PodStatus::default);

/// All kubelets.
pub(crate) struct Kubelet {
    scenario: Scenario,
    begin: Timestamp,
    memory: Mutex<Memory>,
    /// Each kubelet has its own.
    recorders: Mutex<HashMap<String, Recorder>>,
}

/// The objects that a Pod refers to, from the caches.
struct Cached<'a> {
    informers: &'a Informers,
    namespace: &'a str,
}

impl Cached<'_> {
    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::new(self.namespace, name)
    }
}

impl References for Cached<'_> {
    fn config_map(&self, name: &str) -> Option<Arc<ConfigMap>> {
        self.informers.config_maps.get(self.key(name))
    }

    fn secret(&self, name: &str) -> Option<Arc<Secret>> {
        self.informers.secrets.get(self.key(name))
    }

    fn has_service_account(&self, name: &str) -> bool {
        self.informers.service_accounts.get(self.key(name)).is_some()
    }

    fn claim(&self, name: &str) -> Option<Arc<PersistentVolumeClaim>> {
        self.informers.claims.get(self.key(name))
    }

    fn volume(&self, name: &str) -> Option<Arc<PersistentVolume>> {
        self.informers.volumes.get(ObjectKey::new("", name))
    }
}

/// The controllers of a Pod: its own, and the one of its ReplicaSet or Job.
fn owners(pod: &Pod, informers: &Informers) -> Vec<(String, String)> {
    let Some(owner) = meta::controller(pod) else { return Vec::new() };
    let mut owners = vec![(owner.kind.clone(), owner.name.clone())];
    let key = ObjectKey::new(meta::namespace(pod), &owner.name);
    let above = match &*owner.kind {
        "ReplicaSet" => informers.replica_sets.get(key).and_then(|set| meta::controller(&*set).cloned()),
        "Job" => informers.jobs.get(key).and_then(|job| meta::controller(&*job).cloned()),
        _ => None,
    };
    owners.extend(above.map(|owner| (owner.kind, owner.name)));
    owners
}

/// The addresses of a Node.
fn host_ips(node: &Node) -> Vec<String> {
    let addresses = node.status.iter().flat_map(|status| status.addresses.iter().flatten());
    addresses.filter(|address| address.type_ == "InternalIP").map(|address| address.address.clone()).collect()
}

fn annotations(node: Option<&Node>) -> Option<&BTreeMap<String, String>> {
    node?.metadata.annotations.as_ref()
}

/// What the scenario and the annotations of a Pod say about it; and what of its annotations cannot be read.
fn scripts(
    scenario: &Scenario,
    pod: &Pod,
    spec: &PodSpec,
    informers: &Informers,
) -> (Scripts, Option<String>) {
    let (meta, mut error) = (&pod.metadata, None);
    let facts = PodFacts {
        namespace: meta::namespace(pod),
        name: meta::name(pod),
        labels: meta.labels.as_ref(),
        owners: owners(pod, informers),
    };
    let mut scripts = Scripts::default();
    for container in spec.init_containers.iter().flatten().chain(&spec.containers) {
        let mut script = scenario.container(&facts, &container.name);
        if let Some(annotations) = &meta.annotations {
            match from_annotations::<ContainerScript>(annotations, Some(&container.name)) {
                Ok(Some(noted)) => script.fill(&noted),
                Ok(None) => {}
                Err(why) => error = Some(why.to_string()),
            }
        }
        if script.pull.is_none() {
            script.pull = scenario.image(container.image.as_deref().unwrap_or_default());
        }
        if script != ContainerScript::default() {
            scripts.containers.insert(container.name.clone(), script);
        }
    }
    scripts.evict = scenario.pod(&facts).and_then(|script: &PodScript| script.evict.clone());
    (scripts, error)
}

impl Kubelet {
    pub(crate) fn new(shared: &Shared) -> Self {
        let (scenario, begin) = (shared.scenario.clone(), shared.begin);
        Self { scenario, begin, memory: Mutex::default(), recorders: Mutex::default() }
    }

    /// The recorder of a Node's kubelet.
    fn recorder(&self, node: &str, context: &Context) -> Recorder {
        let mut recorders = self.recorders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(recorder) = recorders.get(node) {
            return recorder.clone();
        }
        let reporter = Reporter { controller: Self::NAME.to_owned(), instance: Some(node.to_owned()) };
        let recorder = Recorder::core_v1(context.client.clone(), reporter, context.clock.clone());
        recorders.insert(node.to_owned(), recorder.clone());
        recorder
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to happen to a Node. The node controller reports annotations that cannot be read.
    fn script(&self, node: &Node) -> Option<Cow<'_, NodeScript>> {
        self.scenario.node_or_annotations(node).ok().flatten()
    }

    /// For how long the kubelet of a Node is silent; none if it is not.
    fn silence(&self, node: &Node, now: Timestamp) -> Option<Next> {
        let script = self.script(node)?;
        let elapsed = Duration::try_from(now.duration_since(self.begin)).unwrap_or_default();
        if !script.is_dead(elapsed) {
            return None;
        }
        let returns = script.returns.map(|returns| returns.0.saturating_sub(elapsed));
        Some(returns.map_or(Next::AwaitChange, Next::RequeueAfter))
    }

    /// Looks at a Pod; and what of its annotations cannot be read.
    fn look(
        &self,
        pod: &Pod,
        spec: &PodSpec,
        node: &Node,
        (informers, now): (&Informers, i64),
    ) -> (Outcome, Option<String>) {
        let (scripts, problem) = scripts(&self.scenario, pod, spec, informers);
        let (since, pod_ip) = {
            let mut memory = self.memory();
            let network = node.spec.as_ref().and_then(|spec| spec.pod_cidr.as_deref());
            let address = (spec.host_network != Some(true))
                .then(|| memory.address(self.scenario.seed(), pod, network).to_string());
            (memory.looked(meta::uid(pod)), address.unwrap_or_default())
        };
        let hosts = host_ips(node);
        let image_since = |image: &str| {
            let of_node = node.status.iter().flat_map(|status| status.images.iter().flatten());
            let mut names = of_node.flat_map(|image| image.names.iter().flatten());
            if names.any(|name| name == image) {
                return Some(i64::MIN);
            }
            self.memory().image_since(meta::name(node), image)
        };
        let pull = |request: &PullRequest<'_>| {
            let most = self.script(node).and_then(|script| script.max_parallel_image_pulls);
            let most = most.unwrap_or(NonZeroU32::MIN);
            self.memory().pull(meta::name(node), meta::uid(pod), request, most, now)
        };
        let references = Cached { informers, namespace: meta::namespace(pod) };
        let refuses = |pod: &Pod| room::refusal(pod, node, &informers.pods_on(meta::name(node)));
        let input = Input {
            pod,
            spec,
            host_ips: &hosts,
            pod_ip: &pod_ip,
            references: &references,
            image_since: &image_since,
            pull: &pull,
            scripts: &scripts,
            refuses: &refuses,
            seed: self.scenario.seed(),
            since,
            now,
        };
        (sync::sync(&input), problem)
    }
}

impl Controller for Kubelet {
    const NAME: &'static str = "kubelet";
    const WORKERS: usize = 64;

    fn batch(&self, _: &AnyChange) -> Duration {
        Duration::ZERO
    }

    fn wake(&self, change: &AnyChange, informers: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::Pod(change) => {
                let mut memory = self.memory();
                let Some(pod) = change.new.as_deref() else {
                    let Some(old) = &change.old else { return Vec::new() };
                    memory.forget(old);
                    return memory.deferred(old);
                };
                if pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()).is_none() {
                    return Vec::new();
                }
                memory.observe(pod);
                // What others no longer need may be enough for a resize.
                let mut keys = memory.deferred(pod);
                keys.retain(|key| *key != change.key);
                keys.push(change.key.clone());
                keys
            }
            // A Node that is new, was replaced, or to which something else is to happen.
            AnyChange::Node(change)
                if change.old.is_none()
                    || annotations(change.old.as_deref()) != annotations(change.new.as_deref()) =>
            {
                let pods = informers.pods.indexed(NODE, &change.key.name).unwrap_or_default();
                pods.iter().map(|pod| meta::key(&**pod)).collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Some(pod) = context.informers.pods.get(key) else { return Ok(Next::AwaitChange) };
        let Some(spec) = &pod.spec else { return Ok(Next::AwaitChange) };
        let Some(name) = spec.node_name.as_deref() else { return Ok(Next::AwaitChange) };
        let Some(node) = context.informers.nodes.get(ObjectKey::new("", name)) else {
            return Ok(Next::AwaitChange);
        };
        let (now, uid) = (context.now(), meta::uid(&*pod));
        if let Some(silence) = self.silence(&node, now) {
            return Ok(silence);
        }
        let is_first = self.memory().looked(uid).is_none();
        let (outcome, problem) = self.look(&pod, spec, &node, (&context.informers, now.as_second()));
        let fields = patch::changed_fields(pod.status.as_ref().unwrap_or(&NO_STATUS), outcome.status)
            .map_err(kube::Error::SerdeError)?;
        if !fields.is_empty() {
            context.patch_status(key, &*pod, fields).await?;
        }
        // Events of what has been written.
        for event in outcome.events {
            let mut regarding = meta::reference(&*pod);
            regarding.field_path = event.field_path;
            let type_ = if event.is_warning { EventType::Warning } else { EventType::Normal };
            let recorded = controller::event(type_, event.reason, event.reason, event.note);
            self.recorder(name, context).record(recorded, regarding);
        }
        if let Some(problem) = problem.filter(|_| is_first) {
            context.event(&*pod, EventType::Warning, "InvalidScenario", "InvalidScenario", problem);
        }
        self.memory().look(uid, now.as_second());
        if outcome.delete {
            context.delete_with(key, &*pod, Some(0)).await?;
            return Ok(Next::AwaitChange);
        }
        Ok(outcome.next.map_or(Next::AwaitChange, |next| {
            let pause = Timestamp::from_second(next).map(|next| next.duration_since(context.now()));
            let pause = pause.ok().and_then(|pause| Duration::try_from(pause).ok());
            Next::RequeueAfter(pause.unwrap_or(Duration::from_millis(1)))
        }))
    }
}

//! Scheduler: binds Pods to Nodes as kube-scheduler's default profile does, and preempts.

pub(crate) mod affinity;
mod decide;
mod filters;
mod pod_affinity;
mod preemption;
mod queue;
pub(crate) mod resources;
mod scores;
mod spread;
mod state;
pub(crate) mod taints;
mod volumes;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{
    Binding, Node, ObjectReference, PersistentVolume, PersistentVolumeClaim, Pod, PodCondition,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use kube::runtime::events::EventType;
use serde_json::json;
use settled_controller::ObjectKey;
use settled_controller::cache::Change;
use settled_controller::status::StatusWriter;
use settled_controller::worker::Next;

use self::decide::{Decision, Failure, Nominated};
use self::filters::Plugins;
use self::queue::{LEFTOVER, Unschedulable};
use self::state::{PodInfo, State, node_of};
use self::volumes::Choice;
pub(crate) use self::volumes::claim_names;
use crate::controller::{Context, Controller, Error, Shared};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::pod as pods;
use crate::selector_index::SelectorIndex;
use crate::volumes::matching;

/// The longest note of an Event.
const NOTE_MAX: usize = 1024;

/// The scheduler.
pub(crate) struct Scheduler {
    status: StatusWriter<Pod>,
    services: SelectorIndex,
    memory: Mutex<Memory>,
}

/// What the scheduler remembers. All of it follows from the objects: after a restart it is made from them.
#[derive(Debug, Default)]
struct Memory {
    is_complete: bool,
    state: State,
    /// Pods that count on a Node before the watch shows it there, with their UIDs.
    assumed: HashMap<ObjectKey, String>,
    unschedulable: Unschedulable,
    nominated: Nominated,
}

impl Memory {
    fn set_pod(&mut self, key: &ObjectKey, pod: Option<Arc<Pod>>) {
        if let Some(pod) = &pod
            && node_of(pod).is_none()
        {
            let is_assumed = self.assumed.get(key).is_some_and(|uid| uid == meta::uid(&**pod));
            let nominated = pod.status.as_ref().and_then(|status| status.nominated_node_name.as_deref());
            match nominated.filter(|name| !name.is_empty()) {
                Some(node) => {
                    let info = Arc::new(PodInfo::new(Arc::clone(pod)));
                    self.nominated.insert(key.clone(), (node.to_owned(), info));
                }
                None => drop(self.nominated.remove(key)),
            }
            if is_assumed && !meta::is_deleting(&**pod) {
                return;
            }
        } else {
            self.nominated.remove(key);
            self.unschedulable.remove(key);
        }
        self.assumed.remove(key);
        self.state.set_pod(key, pod);
    }

    /// Takes over everything that the caches have, before the first decision.
    fn complete(&mut self, informers: &Informers) {
        if std::mem::replace(&mut self.is_complete, true) {
            return;
        }
        for node in informers.nodes.state() {
            self.state.set_node(meta::name(&*node), Some(node.clone()));
        }
        for pod in informers.pods.state() {
            self.set_pod(&meta::key(&*pod), Some(pod));
        }
    }

    /// The Pods that a change of a Pod lets be tried again, and the Pod itself if it is new.
    fn pod_changed(&mut self, change: &Change<Pod>) -> Vec<ObjectKey> {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let is_on_node = |pod: Option<&Pod>| {
            pod.is_some_and(|pod| {
                node_of(pod).is_some() && !matches!(pods::phase(pod), "Succeeded" | "Failed")
            })
        };
        let is_same = old.zip(new).is_some_and(|(old, new)| {
            old.spec == new.spec
                && old.metadata.labels == new.metadata.labels
                && old.metadata.uid == new.metadata.uid
        });
        let (was_there, is_there) = (is_on_node(old), is_on_node(new));
        let begins_to_end =
            old.is_some_and(|old| !meta::is_deleting(old)) && new.is_some_and(meta::is_deleting);
        self.set_pod(&change.key, change.new.clone());
        let mut keys = Vec::new();
        if new.is_some_and(|pod| node_of(pod).is_none() && !is_same) {
            keys.push(change.key.clone());
        }
        if was_there && !is_there {
            keys.extend(self.unschedulable.refused_by(Plugins::USAGE.or(Plugins::PODS)));
        } else if is_there && (!was_there || !is_same || begins_to_end) {
            keys.extend(self.unschedulable.refused_by(Plugins::PODS));
        }
        keys
    }

    fn node_changed(&mut self, change: &Change<Node>) -> Vec<ObjectKey> {
        self.state.set_node(&change.key.name, change.new.clone());
        let allocatable = |node: &Node| node.status.as_ref().and_then(|status| status.allocatable.clone());
        let is_same = change.old.as_deref().zip(change.new.as_deref()).is_some_and(|(old, new)| {
            old.spec == new.spec
                && old.metadata.labels == new.metadata.labels
                && allocatable(old) == allocatable(new)
        });
        if is_same || change.new.is_none() {
            return Vec::new();
        }
        let all = Plugins::NODE.or(Plugins::USAGE).or(Plugins::PODS).or(Plugins::VOLUMES);
        self.unschedulable.refused_by(all)
    }
}

impl Scheduler {
    pub(crate) fn new(shared: &Shared) -> Self {
        let status = Context::status_writer(&shared.client, &shared.clock, Self::NAME);
        Self { status, services: SelectorIndex::default(), memory: Mutex::default() }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides about a Pod, and remembers the decision.
    fn decide(&self, pod: &Arc<Pod>, context: &Context) -> Decision {
        let mut memory = self.memory();
        memory.complete(&context.informers);
        let key = meta::key(&**pod);
        // One that waited for its claims is decided anew.
        if memory.assumed.remove(&key).is_some() {
            memory.state.remove(&key);
        }
        let info = PodInfo::new(Arc::clone(pod));
        let Memory { state, nominated, .. } = &mut *memory;
        let decision = decide::decide(state, nominated, &info, &context.informers, &self.services);
        let uid = meta::uid(&**pod).to_owned();
        match &decision {
            Decision::Bind { node, has_unbound, .. } => {
                memory.state.add(node, Arc::new(info));
                memory.assumed.insert(key.clone(), uid.clone());
                memory.unschedulable.remove(&key);
                if *has_unbound {
                    let claims = claim_names(pod).map(|(name, _)| name).collect();
                    // Not a failure: without a backoff.
                    let past = jiff::Timestamp::UNIX_EPOCH;
                    memory.unschedulable.add(&key, &uid, Plugins::default(), past, claims);
                }
            }
            Decision::Fail(failure) => {
                let claims = claim_names(pod).map(|(name, _)| name).collect();
                memory.unschedulable.add(&key, &uid, failure.plugins, context.now(), claims);
                match failure.nominated.as_deref() {
                    None => {}
                    Some("") => drop(memory.nominated.remove(&key)),
                    Some(node) => drop(memory.nominated.insert(key, (node.to_owned(), Arc::new(info)))),
                }
            }
        }
        decision
    }

    async fn bind(&self, pod: &Pod, node: &str, context: &Context) -> Result<(), Error> {
        let key = meta::key(pod);
        let binding = Binding {
            metadata: ObjectMeta {
                name: pod.metadata.name.clone(),
                namespace: pod.metadata.namespace.clone(),
                uid: pod.metadata.uid.clone(),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                kind: Some("Node".to_owned()),
                name: Some(node.to_owned()),
                ..ObjectReference::default()
            },
        };
        let api: Api<Pod> = Api::namespaced(context.client.clone(), &key.namespace);
        let bound: Result<serde_json::Value, _> =
            api.create_subresource("binding", &key.name, &PostParams::default(), &binding).await;
        if let Err(error) = bound {
            let mut memory = self.memory();
            memory.assumed.remove(&key);
            memory.state.remove(&key);
            // Bound already, unless the watch shows something else.
            memory.set_pod(&key, context.informers.pods.get(&key));
            return match Error::is_code(&error, 404) {
                true => Ok(()),
                false => Err(error.into()),
            };
        }
        let note = format!("Successfully assigned {key} to {node}");
        context.event(pod, EventType::Normal, "Scheduled", "Binding", note);
        Ok(())
    }

    async fn fail(
        &self,
        key: &ObjectKey,
        pod: &Pod,
        failure: Failure,
        context: &Context,
    ) -> Result<(), Error> {
        let mut note = failure.message.clone();
        if note.len() > NOTE_MAX {
            let end = (0..=NOTE_MAX - 4).rev().find(|end| note.is_char_boundary(*end)).unwrap_or_default();
            note.truncate(end);
            note.push_str(" ...");
        }
        context.event(pod, EventType::Warning, "FailedScheduling", "Scheduling", note);
        let mut status = pod.status.clone().unwrap_or_default();
        let now = context.now();
        let conditions = status.conditions.get_or_insert_default();
        set_condition(
            conditions,
            condition(pod, "PodScheduled", "False", "Unschedulable", failure.message),
            now,
        );
        if let Some(node) = failure.nominated {
            status.nominated_node_name = Some(node).filter(|node| !node.is_empty());
        }
        context.write_status(key, &self.status, pod, &status).await?;
        for victim in &failure.victims {
            self.preempt(key, victim, pod, context).await?;
        }
        Ok(())
    }

    async fn preempt(
        &self,
        key: &ObjectKey,
        victim: &PodInfo,
        by: &Pod,
        context: &Context,
    ) -> Result<(), Error> {
        let Some(pod) = context.informers.pods.get(&victim.key) else { return Ok(()) };
        let node = node_of(&pod).unwrap_or_default().to_owned();
        let mut status = pod.status.clone().unwrap_or_default();
        let message = format!("{}: preempting to accommodate a higher priority pod", Self::NAME);
        let reason = condition(&pod, "DisruptionTarget", "True", "PreemptionByScheduler", message);
        set_condition(status.conditions.get_or_insert_default(), reason, context.now());
        if !meta::is_deleting(&*pod) {
            context.write_status(key, &self.status, &pod, &status).await?;
            context.delete(key, &*pod).await?;
        }
        let note = format!("Preempted by pod {} on node {node}", meta::uid(by));
        context.event(&*pod, EventType::Normal, "Preempted", "Preempting", note);
        Ok(())
    }

    /// Makes the claims of a Pod ready for its Node: volumes are reserved, and the Node is noted for those to be made.
    async fn reserve(
        &self,
        key: &ObjectKey,
        node: &str,
        choice: &Choice,
        context: &Context,
    ) -> Result<(), Error> {
        for (claim, volume) in &choice.bindings {
            reserve_volume(key, claim, volume, context).await?;
        }
        for claim in &choice.provisions {
            if !matching::has_annotation(claim, matching::SELECTED_NODE) {
                let patch = json!({"metadata": {"annotations": {matching::SELECTED_NODE: node}}});
                context.patch(key, &**claim, patch).await?;
            }
        }
        Ok(())
    }
}

async fn reserve_volume(
    key: &ObjectKey,
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
    context: &Context,
) -> Result<(), Error> {
    let is_reserved = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    if is_reserved.is_some_and(|reference| reference.uid.as_deref() == claim.metadata.uid.as_deref()) {
        return Ok(());
    }
    let patch = json!({
        "metadata": {"annotations": {matching::BOUND_BY_CONTROLLER: "yes"}},
        "spec": {"claimRef": meta::reference(claim)},
    });
    context.patch(key, volume, patch).await?;
    Ok(())
}

fn condition(pod: &Pod, type_: &str, status: &str, reason: &str, message: String) -> PodCondition {
    PodCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        observed_generation: pod.metadata.generation,
        ..PodCondition::default()
    }
}

/// `UpdatePodCondition`: its time changes with its status.
pub(crate) fn set_condition(conditions: &mut Vec<PodCondition>, mut new: PodCondition, now: jiff::Timestamp) {
    let before = conditions.iter_mut().find(|condition| condition.type_ == new.type_);
    new.last_transition_time = match &before {
        Some(before) if before.status == new.status => before.last_transition_time.clone(),
        _ => Some(meta::time(now)),
    };
    match before {
        Some(before) => *before = new,
        None => conditions.push(new),
    }
}

/// Is it this scheduler that is asked for?
fn is_ours(pod: &Pod) -> bool {
    let name = pod.spec.as_ref().and_then(|spec| spec.scheduler_name.as_deref());
    name.is_none_or(|name| name.is_empty() || name == Scheduler::NAME)
}

impl Controller for Scheduler {
    const NAME: &'static str = "default-scheduler";
    const WORKERS: usize = 1;
    const RECORDS_NEW_EVENTS: bool = true;

    fn batch(&self, _: &AnyChange) -> Duration {
        Duration::ZERO
    }

    fn wake(&self, change: &AnyChange, _: &Informers) -> Vec<ObjectKey> {
        let mut memory = self.memory();
        match change {
            AnyChange::Pod(change) => memory.pod_changed(change),
            AnyChange::Node(change) => memory.node_changed(change),
            AnyChange::PersistentVolumeClaim(change) => memory.unschedulable.with_claim(&change.key),
            AnyChange::PersistentVolume(_) | AnyChange::StorageClass(_) => {
                memory.unschedulable.refused_by(Plugins::VOLUMES)
            }
            AnyChange::Namespace(change) => {
                let labels = |one: &Option<Arc<k8s_openapi::api::core::v1::Namespace>>| {
                    one.as_deref().and_then(|one| one.metadata.labels.clone())
                };
                match labels(&change.old) == labels(&change.new) {
                    true => Vec::new(),
                    false => memory.unschedulable.refused_by(Plugins::PODS),
                }
            }
            AnyChange::Service(change) => {
                self.services.service(change);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn priority(&self, key: &ObjectKey, informers: &Informers) -> i32 {
        informers.pods.get(key).and_then(|pod| pod.spec.as_ref()?.priority).unwrap_or_default()
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Some(pod) = context.informers.pods.get(key) else { return Ok(Next::AwaitChange) };
        if node_of(&pod).is_some() || meta::is_deleting(&*pod) || !is_ours(&pod) {
            return Ok(Next::AwaitChange);
        }
        let gates = pod.spec.as_ref().and_then(|spec| spec.scheduling_gates.as_ref());
        if gates.is_some_and(|gates| !gates.is_empty()) {
            let mut status = pod.status.clone().unwrap_or_default();
            let message = "Scheduling is blocked due to non-empty scheduling gates".to_owned();
            let gated = condition(&pod, "PodScheduled", "False", "SchedulingGated", message);
            set_condition(status.conditions.get_or_insert_default(), gated, context.now());
            context.write_status(key, &self.status, &pod, &status).await?;
            return Ok(Next::AwaitChange);
        }
        let backoff = self.memory().unschedulable.backoff(key, meta::uid(&*pod), context.now());
        if let Some(left) = backoff {
            return Ok(Next::RequeueAfter(left));
        }
        match self.decide(&pod, context) {
            Decision::Bind { node, choice, has_unbound: true } => {
                self.reserve(key, &node, &choice, context).await?;
                Ok(Next::AwaitChange)
            }
            Decision::Bind { node, .. } => {
                self.bind(&pod, &node, context).await?;
                Ok(Next::AwaitChange)
            }
            Decision::Fail(failure) => {
                self.fail(key, &pod, failure, context).await?;
                Ok(Next::RequeueAfter(LEFTOVER))
            }
        }
    }
}

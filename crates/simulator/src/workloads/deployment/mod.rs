//! Deployments: a ReplicaSet for each template, and the way from one to the next (`pkg/controller/deployment` upstream).

mod replica_sets;
mod revision;
mod rollback;
mod rollout;
mod scaling;
mod status;
mod strategy;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::runtime::events::EventType;
use settled_controller::ObjectKey;
use settled_controller::cache::Change;
use settled_controller::worker::Next;

use crate::controller::{Context, Controller, Error};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::workloads::claim;

/// The controller of Deployments.
pub(crate) struct Deployments;

/// What a step of a reconcile leads to.
enum Step {
    /// The next step.
    Go,
    /// The reconcile has written what the rest depends on: the watch will show it.
    Wait,
    /// The reconcile is done.
    Done(Next),
}

/// One reconcile of a Deployment.
struct Sync<'a> {
    context: &'a Context,
    key: &'a ObjectKey,
    /// The Deployment; its status and annotations change during the reconcile, as upstream.
    deployment: Deployment,
    /// Its ReplicaSets, oldest first.
    sets: Vec<Arc<ReplicaSet>>,
}

impl Controller for Deployments {
    const NAME: &'static str = "deployment-controller";
    const WORKERS: usize = 8;

    fn wake(&self, change: &AnyChange, informers: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::Deployment(change) => vec![change.key.clone()],
            AnyChange::ReplicaSet(change) => claim::wake(change, informers, |deployment: &Deployment| {
                deployment.spec.as_ref().map(|spec| &spec.selector)
            }),
            AnyChange::Pod(change) => recreated(change, informers).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Some(deployment) = context.informers.deployments.get(key) else { return Ok(Next::AwaitChange) };
        let Some(spec) = &deployment.spec else { return Ok(Next::AwaitChange) };
        if spec.selector == LabelSelector::default() {
            let note = "This deployment is selecting all pods. A non-empty selector is required.".to_owned();
            context.event(&*deployment, EventType::Warning, "SelectingAll", "SelectingAll", note);
            return Ok(Next::AwaitChange);
        }
        let sets = claim::claim(context, key, &*deployment, &spec.selector, |_: &ReplicaSet| true).await?;
        let mut sync = Sync { context, key, deployment: Deployment::clone(&deployment), sets };
        sync.sets.sort_by(|one, other| strategy::by_creation(one, other));
        match sync.run().await? {
            Step::Go | Step::Wait => Ok(Next::AwaitChange),
            Step::Done(next) => Ok(next),
        }
    }
}

/// The Deployment that a deleted Pod was the last one of, if it waits for that.
fn recreated(change: &Change<Pod>, informers: &Informers) -> Option<ObjectKey> {
    if change.new.is_some() {
        return None;
    }
    let owner = meta::controller_key(change.old.as_deref()?, "ReplicaSet")?;
    let set = informers.replica_sets.get(&owner)?;
    let deployment = informers.deployments.get(&meta::controller_key(&*set, "Deployment")?)?;
    let sets = || informers.controlled::<ReplicaSet>(meta::uid(&*deployment));
    let is_last = || sets().iter().all(|set| informers.pods_of(meta::uid(&**set)).is_empty());
    (!strategy::is_rolling(&deployment) && is_last()).then(|| meta::key(&*deployment))
}

impl Sync<'_> {
    async fn run(&mut self) -> Result<Step, Error> {
        if meta::is_deleting(&self.deployment) {
            let Some((new, old)) = self.sets_and_revision(false).await? else { return Ok(Step::Wait) };
            return self.write_status(&old, new.as_ref()).await;
        }
        if let Step::Wait = self.check_paused().await? {
            return Ok(Step::Wait);
        }
        if strategy::is_paused(&self.deployment) {
            return self.scale_and_report().await;
        }
        if let Some(revision) = rollback::rollback_to(&self.deployment) {
            return self.rollback(revision).await;
        }
        match self.is_scaling().await? {
            None => Ok(Step::Wait),
            Some(true) => self.scale_and_report().await,
            Some(false) if strategy::is_rolling(&self.deployment) => self.roll().await,
            Some(false) => self.recreate().await,
        }
    }

    fn event(&self, type_: EventType, reason: &str, note: String) {
        self.context.event(&self.deployment, type_, reason, reason, note);
    }
}

//! StatefulSets: Pods with names, ordinals and claims of their own (`pkg/controller/statefulset` upstream).

mod claims;
mod control;
mod identity;
mod revisions;

use std::time::Duration;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use settled_controller::ObjectKey;
use settled_controller::worker::Next;

use crate::controller::{Context, Controller, Error};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::pod;
use crate::workloads::claim;

/// The controller of StatefulSets.
pub(crate) struct StatefulSets;

/// One reconcile of a StatefulSet.
struct Sync<'a> {
    context: &'a Context,
    key: &'a ObjectKey,
    set: &'a StatefulSet,
}

impl Controller for StatefulSets {
    const NAME: &'static str = "statefulset-controller";

    fn wake(&self, change: &AnyChange, informers: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::StatefulSet(change) => vec![change.key.clone()],
            AnyChange::Pod(change) => claim::wake(change, informers, |set: &StatefulSet| {
                set.spec.as_ref().map(|spec| &spec.selector)
            }),
            // A claim of a Pod that is gone holds up the next Pod of its name.
            AnyChange::PersistentVolumeClaim(change) if change.new.is_none() => {
                let mut sets = informers.in_namespace::<StatefulSet>(&change.key.namespace);
                sets.retain(|set| {
                    let mut templates = identity::claim_templates(set).iter();
                    templates.any(|template| {
                        let prefix = format!("{}-{}-", meta::name(template), meta::name(&**set));
                        change.key.name.starts_with(&prefix)
                    })
                });
                sets.iter().map(|set| meta::key(&**set)).collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Some(set) = context.informers.stateful_sets.get(key) else { return Ok(Next::AwaitChange) };
        let Some(spec) = &set.spec else { return Ok(Next::AwaitChange) };
        let revisions =
            claim::claim(context, key, &*set, &spec.selector, |_: &ControllerRevision| true).await?;
        let is_member = |pod: &Pod| identity::parent_and_ordinal(meta::name(pod)).0 == meta::name(&*set);
        let pods = claim::claim(context, key, &*set, &spec.selector, is_member).await?;
        let now = context.now();
        let status = Sync { context, key, set: &set }.run(pods.clone(), revisions, now).await?;
        let min_ready = spec.min_ready_seconds.unwrap_or_default();
        let (ready, available) =
            (status.ready_replicas.unwrap_or_default(), status.available_replicas.unwrap_or_default());
        if min_ready > 0 && ready != available {
            let next = pod::next_availability(pods.iter().map(|pod| &**pod), min_ready, now);
            let whole = Duration::from_secs(u64::from(min_ready.unsigned_abs()));
            return Ok(Next::RequeueAfter(next.unwrap_or(whole)));
        }
        Ok(Next::AwaitChange)
    }
}

//! Rollouts: rolling updates and recreation (`rolling.go` and `recreate.go` upstream).

use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;

use super::strategy::{self, available, total, wanted};
use super::{Step, Sync};
use crate::controller::Error;
use crate::meta;
use crate::pod;

impl Sync<'_> {
    /// One step of a rolling update.
    pub(super) async fn roll(&mut self) -> Result<Step, Error> {
        let Some((Some(new), old)) = self.sets_and_revision(true).await? else { return Ok(Step::Wait) };
        let desired = strategy::replicas(&self.deployment);
        if wanted(&new) != desired {
            let all = total(&old, wanted) + wanted(&new);
            let size = match wanted(&new) > desired {
                true => desired,
                false => strategy::new_replicas(&self.deployment, all, wanted(&new)),
            };
            let (scaled, new) = self.scale_set(&new, size, false).await?;
            if scaled {
                return self.report(&old, Some(&new)).await;
            }
        }
        let mut old = old;
        if self.scale_down_old(&mut old, &new).await? {
            return self.report(&old, Some(&new)).await;
        }
        let status = self.deployment.status.clone().unwrap_or_default();
        if strategy::is_complete(&self.deployment, &status) {
            self.clean_up(&old).await?;
        }
        self.report(&old, Some(&new)).await
    }

    /// Old ReplicaSets give way as far as enough stays available: first what is not healthy, then the rest.
    async fn scale_down_old(
        &self,
        old: &mut [Arc<ReplicaSet>],
        new: &Arc<ReplicaSet>,
    ) -> Result<bool, Error> {
        let of_old = total(&*old, wanted);
        if of_old == 0 {
            return Ok(false);
        }
        let min_available =
            strategy::replicas(&self.deployment) - strategy::max_unavailable(&self.deployment);
        let new_unavailable = wanted(new) - available(new);
        let max = of_old + wanted(new) - min_available - new_unavailable;
        if max <= 0 {
            return Ok(false);
        }
        let mut cleaned = 0;
        for set in old.iter_mut() {
            if cleaned >= max {
                break;
            }
            let unhealthy = wanted(set) - available(set);
            if wanted(set) == 0 || unhealthy <= 0 {
                continue;
            }
            let count = unhealthy.min(max - cleaned);
            *set = self.scale_set(set, wanted(set) - count, false).await?.1;
            cleaned += count;
        }
        let all_available = total(&*old, available) + available(new);
        let excess = all_available - min_available;
        let mut scaled = 0;
        for set in old.iter_mut().filter(|set| wanted(set) > 0) {
            if scaled >= excess {
                break;
            }
            let count = wanted(set).min(excess - scaled);
            *set = self.scale_set(set, wanted(set) - count, false).await?.1;
            scaled += count;
        }
        Ok(cleaned + scaled > 0)
    }

    /// One step of a recreation: all old Pods go before a new one comes.
    pub(super) async fn recreate(&mut self) -> Result<Step, Error> {
        let Some((new, mut old)) = self.sets_and_revision(false).await? else { return Ok(Step::Wait) };
        let mut scaled = false;
        for set in old.iter_mut().filter(|set| wanted(set) > 0) {
            let (was_scaled, written) = self.scale_set(set, 0, false).await?;
            scaled |= was_scaled;
            *set = written;
        }
        if scaled || self.has_old_pods(new.as_ref(), &old) {
            return self.report(&old, new.as_ref()).await;
        }
        let (new, old) = match new {
            Some(new) => (new, old),
            None => match self.sets_and_revision(true).await? {
                Some((Some(new), old)) => (new, old),
                _ => return Ok(Step::Wait),
            },
        };
        let (_, new) = self.scale_set(&new, strategy::replicas(&self.deployment), false).await?;
        let status = self.deployment.status.clone().unwrap_or_default();
        if strategy::is_complete(&self.deployment, &status) {
            self.clean_up(&old).await?;
        }
        self.report(&old, Some(&new)).await
    }

    /// Are there Pods of old ReplicaSets that have not finished?
    fn has_old_pods(&self, new: Option<&Arc<ReplicaSet>>, old: &[Arc<ReplicaSet>]) -> bool {
        if total(old, strategy::actual) > 0 {
            return true;
        }
        let is_new = |set: &ReplicaSet| new.is_some_and(|new| meta::uid(&**new) == meta::uid(set));
        self.sets.iter().filter(|set| !is_new(set)).any(|set| {
            let pods = self.context.informers.pods_of(meta::uid(&**set));
            pods.iter().any(|pod| !pod::is_terminal(pod))
        })
    }
}

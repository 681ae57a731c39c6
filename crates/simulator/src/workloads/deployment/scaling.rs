//! Scaling: of one ReplicaSet, and of a Deployment during a rollout (`scale` in `sync.go` upstream), and cleanup of old ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ReplicaSet;
use kube::runtime::events::EventType;
use serde_json::json;

use super::strategy::{self, DESIRED, MAX, wanted};
use super::{Step, Sync, revision};
use crate::controller::Error;
use crate::meta;

impl Sync<'_> {
    /// For a Deployment that is paused or was scaled: no rollout, only the number of replicas.
    pub(super) async fn scale_and_report(&mut self) -> Result<Step, Error> {
        let Some((new, old)) = self.sets_and_revision(false).await? else { return Ok(Step::Wait) };
        let scaled = self.scale(new.as_ref(), &old).await?;
        let current = |set: &Arc<ReplicaSet>| scaled.get(meta::uid(&**set)).unwrap_or(set).clone();
        let (new, old) = (new.as_ref().map(current), old.iter().map(current).collect::<Vec<_>>());
        if strategy::is_paused(&self.deployment) && super::rollback::rollback_to(&self.deployment).is_none() {
            self.clean_up(&old).await?;
        }
        self.write_status(&old, new.as_ref()).await
    }

    /// Was the Deployment scaled since its ReplicaSets were? Nothing if the Deployment was written.
    pub(super) async fn is_scaling(&mut self) -> Result<Option<bool>, Error> {
        let Some((new, old)) = self.sets_and_revision(false).await? else { return Ok(None) };
        let desired = strategy::replicas(&self.deployment);
        let mut active = old.iter().chain(&new).filter(|set| wanted(set) > 0);
        Ok(Some(
            active.any(|set| strategy::replicas_annotation(set, DESIRED).is_some_and(|its| its != desired)),
        ))
    }

    /// Scales the only active ReplicaSet, or all in proportion. The ReplicaSets that were written, by UID.
    async fn scale(
        &self,
        new: Option<&Arc<ReplicaSet>>,
        old: &[Arc<ReplicaSet>],
    ) -> Result<BTreeMap<String, Arc<ReplicaSet>>, Error> {
        let desired = strategy::replicas(&self.deployment);
        let mut written = BTreeMap::new();
        let mut scaled = |set: Arc<ReplicaSet>| {
            written.insert(meta::uid(&*set).to_owned(), set);
        };
        let mut active: Vec<_> = old.iter().chain(new).filter(|set| wanted(set) > 0).collect();
        let only = match *active {
            [] => new.or_else(|| old.last()),
            [only] => Some(only),
            _ => None,
        };
        if let Some(only) = only {
            if wanted(only) != desired {
                scaled(self.scale_set(only, desired, false).await?.1);
            }
        } else if active.is_empty() {
        } else if new.is_some_and(|new| strategy::is_saturated(&self.deployment, new)) {
            for set in old.iter().filter(|set| wanted(set) > 0) {
                scaled(self.scale_set(set, 0, false).await?.1);
            }
        } else if strategy::is_rolling(&self.deployment) {
            let allowed = if desired > 0 { desired + strategy::max_surge(&self.deployment) } else { 0 };
            let to_add = allowed - active.iter().map(|set| wanted(set)).sum::<i32>();
            // The largest first; of equals, the newest if replicas are added, else the oldest.
            active.sort_by(|one, other| {
                let age = strategy::by_creation(one, other);
                wanted(other).cmp(&wanted(one)).then(if to_add > 0 { age.reverse() } else { age })
            });
            let mut added = 0;
            let mut sizes: Vec<i32> = Vec::new();
            for set in &active {
                let share = strategy::proportion(set, &self.deployment, to_add, added);
                sizes.push(wanted(set) + share);
                added += share;
            }
            if let Some(first) = sizes.first_mut().filter(|_| to_add != 0) {
                *first = (*first + to_add - added).max(0);
            }
            for (set, size) in active.iter().zip(sizes) {
                scaled(self.scale_set(set, size, true).await?.1);
            }
        }
        Ok(written)
    }

    /// Scales a ReplicaSet: whether it was, and how it is now. With `annotate`, its annotations are updated even if its size is right.
    pub(super) async fn scale_set(
        &self,
        set: &Arc<ReplicaSet>,
        size: i32,
        annotate: bool,
    ) -> Result<(bool, Arc<ReplicaSet>), Error> {
        let before = wanted(set);
        let desired = strategy::replicas(&self.deployment);
        let max = desired + strategy::max_surge(&self.deployment);
        let annotation = |name: &str| set.metadata.annotations.as_ref().and_then(|all| all.get(name));
        let is_annotated =
            annotation(DESIRED) == Some(&desired.to_string()) && annotation(MAX) == Some(&max.to_string());
        if before == size && (!annotate || is_annotated) {
            return Ok((false, set.clone()));
        }
        let annotations = json!({DESIRED: desired.to_string(), MAX: max.to_string()});
        let patch = json!({"metadata": {"annotations": annotations}, "spec": {"replicas": size}});
        let written = Arc::new(self.context.patch(self.key, &**set, patch).await?);
        if before != size {
            let direction = if before < size { "up" } else { "down" };
            let name = meta::name(&*written);
            let note = format!("Scaled {direction} replica set {name} from {before} to {size}");
            self.event(EventType::Normal, "ScalingReplicaSet", note);
        }
        Ok((before != size, written))
    }

    /// Deletes old ReplicaSets beyond the history limit: `cleanupDeployment`.
    pub(super) async fn clean_up(&self, old: &[Arc<ReplicaSet>]) -> Result<(), Error> {
        let Some(limit) = strategy::history_limit(&self.deployment) else { return Ok(()) };
        let mut sets: Vec<_> = old.iter().filter(|set| !meta::is_deleting(&***set)).collect();
        let excess = sets.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
        sets.sort_by(|one, other| match (revision::of(&***one), revision::of(&***other)) {
            (Some(first), Some(second)) if first != second => first.cmp(&second),
            _ => strategy::by_creation(one, other),
        });
        for set in sets.into_iter().take(excess) {
            let observed =
                set.status.as_ref().and_then(|status| status.observed_generation).unwrap_or_default();
            let is_behind = set.metadata.generation.unwrap_or_default() > observed;
            if strategy::actual(set) == 0 && wanted(set) == 0 && !is_behind {
                self.context.delete(self.key, &**set).await?;
            }
        }
        Ok(())
    }
}

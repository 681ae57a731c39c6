//! Revisions of a DaemonSet (`constructHistory` upstream).

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde_json::json;

use super::{HASH, Sync};
use crate::controller::Error;
use crate::meta;
use crate::workloads::hash::template_hash;
use crate::workloads::{claim, history};

impl Sync<'_> {
    /// The hash of the present revision, and the old revisions.
    pub(super) async fn history(&self) -> Result<(String, Vec<Arc<ControllerRevision>>), Error> {
        let Some(spec) = &self.set.spec else { return Err(Error::Failed("no spec".to_owned())) };
        let all =
            claim::claim(self.context, self.key, self.set, &spec.selector, |_: &ControllerRevision| true)
                .await?;
        let (mut current, old): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|revision| history::has_template(revision, &spec.template));
        let number = old.iter().map(|revision| revision.revision).max().unwrap_or_default() + 1;
        history::sort(&mut current);
        let Some(kept) = current.pop() else { return Ok((self.snapshot(number).await?, old)) };
        let hash = kept.labels().get(HASH).cloned().unwrap_or_else(|| meta::name(&*kept).to_owned());
        // Of several revisions with the same template, the latest stays, and Pods are labeled with it.
        for duplicate in &current {
            for pod in self.context.informers.pods_of(meta::uid(self.set)) {
                if pod.labels().get(HASH) != Some(&hash)
                    && pod.labels().get(HASH) == duplicate.labels().get(HASH)
                {
                    let patch = json!({"metadata": {"labels": {HASH: hash}}});
                    self.context.patch(self.key, &*pod, patch).await?;
                }
            }
            self.context.delete(self.key, &**duplicate).await?;
        }
        if kept.revision < number {
            self.context.patch(self.key, &*kept, json!({"revision": number})).await?;
        }
        Ok((hash, old))
    }

    async fn snapshot(&self, number: i64) -> Result<String, Error> {
        let Some(spec) = &self.set.spec else { return Err(Error::Failed("no spec".to_owned())) };
        let collisions = self.set.status.as_ref().and_then(|status| status.collision_count);
        let hash = template_hash(&spec.template, collisions);
        let mut labels = spec.template.metadata.clone().unwrap_or_default().labels.unwrap_or_default();
        labels.insert(HASH.to_owned(), hash.clone());
        let name = format!("{}-{hash}", self.key.name);
        let new = history::revision(self.set, name, labels, &spec.template, number);
        match self.context.create(self.key, &new).await {
            Ok(_) => Ok(hash),
            Err(error) if Error::is_code(&error, 409) => {
                let exists: ControllerRevision = self.context.fresh(&new).await?;
                if history::has_template(&exists, &spec.template) {
                    return Ok(hash);
                }
                let mut set = DaemonSet::clone(self.set);
                let status = set.status.get_or_insert_default();
                status.collision_count = Some(collisions.unwrap_or_default() + 1);
                self.context.update_status(self.key, &set).await?;
                Err(error.into())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes old revisions that no Pod has, beyond the history limit.
    pub(super) async fn clean_up(
        &self,
        pods: &[Arc<Pod>],
        old: &[Arc<ControllerRevision>],
    ) -> Result<(), Error> {
        let limit = self.set.spec.as_ref().and_then(|spec| spec.revision_history_limit).unwrap_or(10);
        let excess = old.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
        let mut old = old.to_vec();
        history::sort(&mut old);
        let is_live = |revision: &ControllerRevision| {
            revision
                .labels()
                .get(HASH)
                .is_some_and(|hash| pods.iter().any(|pod| pod.labels().get(HASH) == Some(hash)))
        };
        for revision in old.iter().filter(|revision| !is_live(revision)).take(excess) {
            self.context.delete(self.key, &**revision).await?;
        }
        Ok(())
    }
}

//! Revisions of a StatefulSet: the current one and the one to update to (`getStatefulSetRevisions` upstream).

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{Sync, identity};
use crate::controller::Error;
use crate::meta;
use crate::workloads::hash::template_hash;
use crate::workloads::history;

/// The label with the hash of a revision.
const HASH: &str = "controller.kubernetes.io/hash";
/// The longest prefix of the name of a revision.
const MAX_PREFIX: usize = 223;

pub(super) struct Revisions {
    pub(super) current: Arc<ControllerRevision>,
    pub(super) update: Arc<ControllerRevision>,
    pub(super) collisions: i32,
    pub(super) all: Vec<Arc<ControllerRevision>>,
}

impl Sync<'_> {
    /// The revisions: a new one for a new template, and an old one becomes the latest if its template comes back.
    pub(super) async fn revisions(&self, mut all: Vec<Arc<ControllerRevision>>) -> Result<Revisions, Error> {
        history::sort(&mut all);
        let Some(spec) = &self.set.spec else { return Err(Error::Failed("no spec".to_owned())) };
        let status = self.set.status.as_ref();
        let mut collisions = status.and_then(|status| status.collision_count).unwrap_or_default();
        let number = history::next(&all);
        let equal = all.iter().rposition(|revision| history::has_template(revision, &spec.template));
        let update = match equal {
            Some(place) if place + 1 == all.len() => all[place].clone(),
            Some(place) => {
                let patch = json!({"revision": number});
                Arc::new(self.context.patch(self.key, &*all[place], patch).await?)
            }
            None => self.create_revision(number, &mut collisions).await?,
        };
        let named = status.and_then(|status| status.current_revision.as_deref());
        let current = all.iter().find(|revision| Some(meta::name(&***revision)) == named);
        let current = current.unwrap_or(&update).clone();
        Ok(Revisions { current, update, collisions, all })
    }

    async fn create_revision(
        &self,
        number: i64,
        collisions: &mut i32,
    ) -> Result<Arc<ControllerRevision>, Error> {
        let Some(spec) = &self.set.spec else { return Err(Error::Failed("no spec".to_owned())) };
        loop {
            let hash = template_hash(&history::data(&spec.template), Some(*collisions));
            let prefix = meta::name(self.set);
            let name = format!("{}-{hash}", prefix.get(..MAX_PREFIX).unwrap_or(prefix));
            let mut labels = spec.template.metadata.clone().unwrap_or_default().labels.unwrap_or_default();
            labels.insert(HASH.to_owned(), hash);
            let new = history::revision(self.set, name, labels, &spec.template, number);
            match self.context.create(self.key, &new).await {
                Ok(created) => return Ok(Arc::new(created)),
                Err(error) if Error::is_code(&error, 409) => {
                    let exists: ControllerRevision = self.context.fresh(&new).await?;
                    if history::has_template(&exists, &spec.template) {
                        return Ok(Arc::new(exists));
                    }
                    *collisions += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Deletes revisions that no Pod has, beyond the history limit.
    pub(super) async fn truncate(&self, pods: &[Arc<Pod>], revisions: &Revisions) -> Result<(), Error> {
        let limit = self.set.spec.as_ref().and_then(|spec| spec.revision_history_limit).unwrap_or(10);
        let Ok(limit) = usize::try_from(limit) else { return Ok(()) };
        let is_live = |revision: &ControllerRevision| {
            let name = meta::name(revision);
            let named =
                [&revisions.current, &revisions.update].iter().any(|live| meta::name(&***live) == name);
            named || pods.iter().any(|pod| identity::revision(pod) == name)
        };
        let old: Vec<_> = revisions.all.iter().filter(|revision| !is_live(revision)).collect();
        for revision in old.iter().take(old.len().saturating_sub(limit)) {
            self.context.delete(self.key, &***revision).await?;
        }
        Ok(())
    }
}

/// The template of a revision; the present one if it cannot be read.
pub(super) fn template(
    set: &StatefulSet,
    revision: &ControllerRevision,
) -> k8s_openapi::api::core::v1::PodTemplateSpec {
    let present = || set.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    history::template(revision).unwrap_or_else(present)
}

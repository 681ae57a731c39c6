//! The new ReplicaSet of a Deployment: found, or created, and its revision (`getAllReplicaSetsAndSyncRevision` upstream).

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::events::EventType;
use serde_json::json;

use super::strategy::{self, HASH};
use super::{Sync, revision, status};
use crate::controller::Error;
use crate::meta;
use crate::workloads::hash::template_hash;

/// The longest name of a ReplicaSet.
const MAX_NAME: usize = 253;

/// The new ReplicaSet, if it is there, and the old ones.
pub(super) type Sets = (Option<Arc<ReplicaSet>>, Vec<Arc<ReplicaSet>>);

impl Sync<'_> {
    /// The new ReplicaSet and the old ones, after revisions were brought up to date. Nothing if the Deployment was written.
    pub(super) async fn sets_and_revision(&mut self, create: bool) -> Result<Option<Sets>, Error> {
        let new = strategy::find_new(&self.deployment, &self.sets).cloned();
        let mut old = self.sets.clone();
        old.retain(|set| new.as_ref().is_none_or(|new| meta::uid(&**set) != meta::uid(&**new)));
        let next = revision::max(&old) + 1;
        match new {
            Some(found) => self.found(found, old, next).await,
            None if create => self.create(old, next).await,
            None => Ok(Some((None, old))),
        }
    }

    async fn found(
        &mut self,
        found: Arc<ReplicaSet>,
        old: Vec<Arc<ReplicaSet>>,
        next: i64,
    ) -> Result<Option<Sets>, Error> {
        let empty = BTreeMap::new();
        let before = found.metadata.annotations.as_ref().unwrap_or(&empty);
        let annotations = revision::annotate(&self.deployment, before, next, true);
        let min_ready = |spec: Option<i32>| spec.unwrap_or_default();
        let wanted = min_ready(self.deployment.spec.as_ref().and_then(|spec| spec.min_ready_seconds));
        let has = min_ready(found.spec.as_ref().and_then(|spec| spec.min_ready_seconds));
        if annotations != *before || wanted != has {
            let mut patch = json!({"metadata": {"annotations": annotations}});
            if wanted != has {
                patch["spec"] = json!({"minReadySeconds": wanted});
            }
            let patched = Arc::new(self.context.patch(self.key, &*found, patch).await?);
            self.replace(&patched);
            return Ok(Some((Some(patched), old)));
        }
        let text = before.get(revision::REVISION).cloned().unwrap_or_default();
        let mut written = self.set_revision(text);
        let has_deadline = strategy::progress_deadline(&self.deployment).is_some();
        if has_deadline && status::find(&self.deployment, status::PROGRESSING).is_none() {
            let message = format!("Found new replica set \"{}\"", meta::name(&*found));
            let now = self.context.now();
            let condition =
                status::condition(status::PROGRESSING, "True", "FoundNewReplicaSet", message, now);
            status::set(self.deployment.status.get_or_insert_default(), condition);
            written = true;
        }
        if written {
            self.context.update_status(self.key, &self.deployment).await?;
            return Ok(None);
        }
        Ok(Some((Some(found), old)))
    }

    async fn create(&mut self, old: Vec<Arc<ReplicaSet>>, next: i64) -> Result<Option<Sets>, Error> {
        let Some(spec) = &self.deployment.spec else { return Ok(None) };
        let collisions = self.deployment.status.as_ref().and_then(|status| status.collision_count);
        let hash = template_hash(&spec.template, collisions);
        let deployment_name = meta::name(&self.deployment);
        let longest = deployment_name.len().min(MAX_NAME - hash.len() - 1);
        let name = format!("{}-{hash}", deployment_name.get(..longest).unwrap_or(deployment_name));
        let mut template = spec.template.clone();
        let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
        labels.insert(HASH.to_owned(), hash.clone());
        let labels = labels.clone();
        let mut selector = spec.selector.clone();
        selector.match_labels.get_or_insert_default().insert(HASH.to_owned(), hash);
        let replicas = strategy::new_replicas(&self.deployment, strategy::total(&old, strategy::wanted), 0);
        let annotations = revision::annotate(&self.deployment, &BTreeMap::new(), next, false);
        let new = ReplicaSet {
            metadata: ObjectMeta {
                name: Some(name.clone()),
                namespace: self.deployment.metadata.namespace.clone(),
                labels: Some(labels),
                annotations: Some(annotations),
                owner_references: Some(vec![meta::controller_reference(&self.deployment)]),
                ..ObjectMeta::default()
            },
            spec: Some(ReplicaSetSpec {
                replicas: Some(replicas),
                min_ready_seconds: spec.min_ready_seconds.filter(|seconds| *seconds != 0),
                selector,
                template: Some(template),
            }),
            status: None,
        };
        let now = self.context.now();
        match self.context.create(self.key, &new).await {
            Ok(created) => {
                if replicas > 0 {
                    let note = format!("Scaled up replica set {name} from 0 to {replicas}");
                    self.event(EventType::Normal, "ScalingReplicaSet", note);
                }
                let mut written = self.set_revision(next.to_string());
                if strategy::progress_deadline(&self.deployment).is_some() {
                    let message = format!("Created new replica set \"{name}\"");
                    let condition =
                        status::condition(status::PROGRESSING, "True", "NewReplicaSetCreated", message, now);
                    status::set(self.deployment.status.get_or_insert_default(), condition);
                    written = true;
                }
                if written {
                    self.context.update_status(self.key, &self.deployment).await?;
                    return Ok(None);
                }
                let created = Arc::new(created);
                self.sets.push(created.clone());
                Ok(Some((Some(created), old)))
            }
            Err(error) if Error::is_code(&error, 409) => {
                // A ReplicaSet of this name that is not the one: another hash next time.
                let exists: ReplicaSet = self.context.fresh(&new).await?;
                let is_own =
                    meta::controller(&exists).is_some_and(|owner| owner.uid == meta::uid(&self.deployment));
                let template = exists.spec.as_ref().and_then(|spec| spec.template.as_ref());
                if is_own && template.is_some_and(|its| strategy::is_same_template(its, &spec.template)) {
                    return Err(error.into());
                }
                let status = self.deployment.status.get_or_insert_default();
                status.collision_count = Some(collisions.unwrap_or_default() + 1);
                self.context.update_status(self.key, &self.deployment).await?;
                Err(error.into())
            }
            Err(error) if Error::is_namespace_terminating(&error) => Ok(None),
            Err(error) => {
                let message = format!("Failed to create new replica set \"{name}\": {}", Error::text(&error));
                if strategy::progress_deadline(&self.deployment).is_some() {
                    let text = message.clone();
                    let condition =
                        status::condition(status::PROGRESSING, "False", "ReplicaSetCreateError", text, now);
                    let before = self.deployment.status.clone();
                    status::set(self.deployment.status.get_or_insert_default(), condition);
                    if self.deployment.status != before {
                        self.context.update_status(self.key, &self.deployment).await?;
                    }
                }
                self.event(EventType::Warning, "ReplicaSetCreateError", message);
                Err(error.into())
            }
        }
    }

    /// Puts a written ReplicaSet in the place of the one that was read.
    pub(super) fn replace(&mut self, written: &Arc<ReplicaSet>) {
        for set in &mut self.sets {
            if meta::uid(&**set) == meta::uid(&**written) {
                *set = written.clone();
            }
        }
    }

    fn set_revision(&mut self, revision: String) -> bool {
        let annotations = self.deployment.metadata.annotations.get_or_insert_default();
        annotations.insert(revision::REVISION.to_owned(), revision.clone()) != Some(revision)
    }
}

//! Updates of a StatefulSet: Pods created, replaced and deleted in order (`stateful_set_control.go` upstream).

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::events::EventType;
use serde_json::json;

use super::{Sync, identity, revisions};
use crate::controller::Error;
use crate::meta;
use crate::pod;
use crate::workloads::int_or_percent::scaled;
use crate::workloads::pod_control::slow_start;

/// Whether the Pods that follow have to wait.
type Exit = bool;

impl Sync<'_> {
    /// One reconcile: revisions, Pods, status, history.
    pub(super) async fn run(
        &self,
        pods: Vec<Arc<Pod>>,
        revisions: Vec<Arc<ControllerRevision>>,
        now: Timestamp,
    ) -> Result<StatefulSetStatus, Error> {
        let revisions = self.revisions(revisions).await?;
        let names = (meta::name(&*revisions.current), meta::name(&*revisions.update));
        let templates = (
            revisions::template(self.set, &revisions.current),
            revisions::template(self.set, &revisions.update),
        );
        let mut replicas: Vec<Option<Arc<Pod>>> =
            vec![None; usize::try_from(identity::replicas(self.set)).unwrap_or_default()];
        let mut condemned = Vec::new();
        let start = identity::start(self.set);
        for pod in &pods {
            let Some(ordinal) = identity::ordinal(pod) else { continue };
            match usize::try_from(ordinal - start).ok().and_then(|place| replicas.get_mut(place)) {
                Some(replica) => *replica = Some(pod.clone()),
                None => condemned.push(pod.clone()),
            }
        }
        condemned.sort_by_key(|pod| std::cmp::Reverse(identity::ordinal(pod)));
        let replicas: Vec<Arc<Pod>> = replicas
            .into_iter()
            .zip(start..)
            .map(|(pod, ordinal)| {
                pod.unwrap_or_else(|| {
                    let (template, name) = if self.is_of_current(ordinal) {
                        (&templates.0, names.0)
                    } else {
                        (&templates.1, names.1)
                    };
                    Arc::new(identity::new_pod(self.set, template, name, ordinal))
                })
            })
            .collect();
        let mut status = StatefulSetStatus {
            observed_generation: self.set.metadata.generation,
            current_revision: Some(names.0.to_owned()),
            update_revision: Some(names.1.to_owned()),
            collision_count: Some(revisions.collisions),
            ..StatefulSetStatus::default()
        };
        let all = || replicas.iter().chain(&condemned).map(|pod| &**pod);
        count(&mut status, self.min_ready(), all(), names, now);
        let mut outcome = Ok(());
        if !meta::is_deleting(self.set) {
            let mut replaced = 0;
            outcome = self.update(&replicas, &condemned, names.1, now, &mut replaced).await;
            let current = status.current_replicas.unwrap_or_default() - replaced;
            // Upstream counts Pods of other revisions, too, and the server refuses what is negative then.
            let current = current.max(0);
            status.current_replicas = meta::non_zero(current);
        }
        self.write(&mut status).await?;
        self.truncate(&pods, &revisions).await?;
        outcome.map(|()| status)
    }

    fn min_ready(&self) -> i32 {
        self.set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or_default()
    }

    fn is_unavailable(&self, pod: &Pod, now: Timestamp) -> bool {
        !pod::is_available(pod, self.min_ready(), now) || meta::is_deleting(pod)
    }

    fn is_rolling(&self) -> bool {
        let strategy = self.set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
        strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("OnDelete")
    }

    fn rolling(&self) -> Option<&k8s_openapi::api::apps::v1::RollingUpdateStatefulSetStrategy> {
        self.set.spec.as_ref()?.update_strategy.as_ref()?.rolling_update.as_ref()
    }

    /// Is a new Pod of this ordinal of the current revision? `newVersionedStatefulSetPod`.
    fn is_of_current(&self, ordinal: i32) -> bool {
        let current = self.set.status.as_ref().and_then(|status| status.current_replicas).unwrap_or_default();
        let bound = match self.rolling() {
            Some(rolling) => rolling.partition.unwrap_or_default(),
            None if self.is_rolling() => current,
            None => return false,
        };
        ordinal < identity::start(self.set) + bound
    }

    /// Creates, deletes and replaces Pods as far as their order permits it. `replaced` counts the Pods of the current revision that go.
    async fn update(
        &self,
        replicas: &[Arc<Pod>],
        condemned: &[Arc<Pod>],
        update_revision: &str,
        now: Timestamp,
        replaced: &mut i32,
    ) -> Result<(), Error> {
        let parallel =
            self.set.spec.as_ref().and_then(|spec| spec.pod_management_policy.as_deref()) == Some("Parallel");
        if parallel {
            let process = |number: usize| self.process_replica(&replicas[number], false, now);
            let process = |number: usize| {
                let process = process(number);
                async move { process.await.map(|_| ()) }
            };
            slow_start(replicas.len(), process).await.1?;
        } else {
            for pod in replicas {
                if self.process_replica(pod, true, now).await? {
                    return Ok(());
                }
            }
        }
        for pod in condemned {
            if !self.claims_match(pod) {
                self.update_claims(pod).await.map_err(Error::Failed)?;
            }
        }
        let mut unavailable = replicas.iter().chain(condemned.iter().rev());
        let first_unavailable =
            unavailable.find(|pod| self.is_unavailable(pod, now)).map(|pod| meta::name(&**pod));
        for pod in condemned {
            if meta::is_deleting(&**pod) {
                if parallel {
                    continue;
                }
                return Ok(());
            }
            let is_running = pod::phase(pod) == "Running" && pod::is_available(pod, self.min_ready(), now);
            if !parallel && !is_running && first_unavailable != Some(meta::name(&**pod)) {
                return Ok(());
            }
            self.delete_pod(pod).await?;
            if !parallel {
                return Ok(());
            }
        }
        if self.is_rolling() {
            self.roll(replicas, update_revision, now, replaced).await?;
        }
        Ok(())
    }

    /// Replaces Pods of other revisions, from the highest ordinal on.
    async fn roll(
        &self,
        replicas: &[Arc<Pod>],
        revision: &str,
        now: Timestamp,
        replaced: &mut i32,
    ) -> Result<(), Error> {
        let rolling = self.rolling();
        let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or_default();
        let partition = usize::try_from(partition).unwrap_or_default();
        let is_old = |pod: &Pod| identity::revision(pod) != revision && !meta::is_deleting(pod);
        // Servers drop maxUnavailable while its feature gate is off, which is the default in 1.36.
        if let Some(value) = rolling.and_then(|rolling| rolling.max_unavailable.as_ref()) {
            let max = scaled(value, identity::replicas(self.set), false).max(1);
            let unavailable = replicas.iter().filter(|pod| self.is_unavailable(pod, now)).count();
            let count = usize::try_from(max).unwrap_or_default().saturating_sub(unavailable);
            let targets = replicas.iter().skip(partition).rev().filter(|pod| is_old(pod));
            for pod in targets.take(count) {
                self.delete_pod(pod).await?;
                *replaced += 1;
            }
            return Ok(());
        }
        for pod in replicas.iter().skip(partition).rev() {
            if is_old(pod) {
                self.delete_pod(pod).await?;
                *replaced += 1;
                return Ok(());
            }
            if self.is_unavailable(pod, now) {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn process_replica(&self, pod: &Pod, monotonic: bool, now: Timestamp) -> Result<Exit, Error> {
        match pod::phase(pod) {
            "Failed" | "Succeeded" => {
                if !meta::is_deleting(pod) {
                    self.delete_pod(pod).await?;
                }
                return Ok(true);
            }
            "" => {
                if !self.has_stale_claim(pod) {
                    self.create_pod(pod).await?;
                }
                return Ok(true);
            }
            "Pending" => {
                self.create_claims(pod).await.map_err(Error::Failed)?;
                let updated = self.update_claims(pod).await;
                self.report("Update", pod, updated)?;
            }
            _ => {}
        }
        let is_running = pod::phase(pod) == "Running" && pod::is_available(pod, self.min_ready(), now);
        if monotonic && (meta::is_deleting(pod) || !is_running) {
            return Ok(true);
        }
        if !identity::identity_matches(pod) || !self.claims_match(pod) {
            self.update_claims(pod).await.map_err(Error::Failed)?;
            if !identity::identity_matches(pod) {
                let mut new = pod.clone();
                identity::update_identity(&mut new, identity::ordinal(pod).unwrap_or_default());
                let patch = json!({"metadata": {"labels": new.metadata.labels}});
                self.context.patch(self.key, pod, patch).await?;
                self.success("Update", pod);
            }
        }
        Ok(false)
    }

    async fn create_pod(&self, pod: &Pod) -> Result<(), Error> {
        let claims = self.create_claims(pod).await;
        self.report("Create", pod, claims)?;
        match self.context.create(self.key, pod).await {
            Ok(_) => {}
            Err(error) if Error::is_code(&error, 409) => return Err(error.into()),
            Err(error) => {
                let text = Error::text(&error);
                self.failure("Create", pod, &text);
                return Err(error.into());
            }
        }
        let claims = self.update_claims(pod).await;
        self.report("Update", pod, claims)?;
        self.success("Create", pod);
        Ok(())
    }

    async fn delete_pod(&self, pod: &Pod) -> Result<(), Error> {
        match self.context.delete(self.key, pod).await {
            Ok(_) => {
                self.success("Delete", pod);
                Ok(())
            }
            Err(error) => {
                self.failure("Delete", pod, &Error::text(&error));
                Err(error.into())
            }
        }
    }

    pub(super) fn event(&self, type_: EventType, reason: &str, note: String) {
        self.context.event(self.set, type_, reason, reason, note);
    }

    fn success(&self, verb: &str, pod: &Pod) {
        let (set, pod) = (meta::name(self.set), meta::name(pod));
        let note = format!("{verb} Pod {pod} in StatefulSet {set} successful");
        self.event(EventType::Normal, &format!("Successful{verb}"), note);
    }

    fn failure(&self, verb: &str, pod: &Pod, error: &str) {
        let (set, pod) = (meta::name(self.set), meta::name(pod));
        let note = format!("{verb} Pod {pod} in StatefulSet {set} failed error: {error}");
        self.event(EventType::Warning, &format!("Failed{verb}"), note);
    }

    fn report(&self, verb: &str, pod: &Pod, result: Result<(), String>) -> Result<(), Error> {
        result.map_err(|error| {
            self.failure(verb, pod, &error);
            Error::Failed(error)
        })
    }

    /// Writes the status if it differs; an update that is complete makes its revision the current one.
    async fn write(&self, status: &mut StatefulSetStatus) -> Result<(), Error> {
        let desired = identity::replicas(self.set);
        let is_complete = status.updated_replicas.unwrap_or_default() == desired
            && status.ready_replicas.unwrap_or_default() == desired
            && status.replicas == desired;
        if self.is_rolling() && is_complete {
            status.current_replicas = status.updated_replicas;
            status.current_revision.clone_from(&status.update_revision);
        }
        let old = self.set.status.clone().unwrap_or_default();
        let same = StatefulSetStatus {
            conditions: old.conditions.clone(),
            collision_count: old.collision_count,
            ..status.clone()
        };
        if same != old {
            let mut new = StatefulSet::clone(self.set);
            new.status = Some(status.clone());
            self.context.update_status(self.key, &new).await?;
        }
        Ok(())
    }
}

/// The numbers of Pods: `computeReplicaStatus`.
fn count<'p>(
    status: &mut StatefulSetStatus,
    min_ready: i32,
    pods: impl Iterator<Item = &'p Pod>,
    (current, update): (&str, &str),
    now: Timestamp,
) {
    let (mut created, mut ready, mut available, mut of_current, mut of_update) = (0, 0, 0, 0, 0);
    for pod in pods.filter(|pod| !pod::phase(pod).is_empty()) {
        created += 1;
        if pod::phase(pod) == "Running" && pod::is_ready(pod) {
            ready += 1;
            available += i32::from(pod::is_available(pod, min_ready, now));
        }
        if !meta::is_deleting(pod) {
            of_current += i32::from(identity::revision(pod) == current);
            of_update += i32::from(identity::revision(pod) == update);
        }
    }
    status.replicas = created;
    status.ready_replicas = meta::non_zero(ready);
    status.available_replicas = Some(available);
    status.current_replicas = meta::non_zero(of_current);
    status.updated_replicas = meta::non_zero(of_update);
}

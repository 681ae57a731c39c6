//! Streams: opens them, and takes in what they report.

use std::sync::Arc;

use settled_watch::stream::Scope;
use tokio::time::Instant;

use super::{Down, Role, START_BACKOFF, Stream, Tracker};
use crate::condition::WaitCondition;
use crate::graph::Put;
use crate::id::{ObjectId, POLICY_REPORT_GROUP, POLICY_REPORT_KIND, Uid};
use crate::ids::{StreamId, TargetId};
use crate::policy::ended;
use crate::record::Record;
use crate::report::{Notice, Outcome};
use crate::stream::{Spec, Update, follow};

/// Whether a stream has the objects with the status of others.
pub(super) fn is_of_reports(stream: &Stream) -> bool {
    let resource = &stream.spec.scope.resource;
    &*resource.group == POLICY_REPORT_GROUP && &*resource.kind == POLICY_REPORT_KIND
}

impl Tracker {
    /// Assigns a target to a stream. Only what the stream has reported once can be missing in a relist.
    pub(super) fn assign(&mut self, number: TargetId, stream: StreamId) {
        if let Some(target) = self.targets.get_mut(number) {
            target.stream = Some((stream, 0));
        }
    }

    pub(super) fn open(&mut self, spec: Spec, role: Role) -> StreamId {
        let id = self.streams.next_id();
        let task =
            follow(self.cluster.clone(), spec.clone(), Arc::clone(&self.evaluator), id, self.sender.clone());
        self.start_stream(spec, role, task)
    }

    /// Adds a stream that this task feeds.
    pub(super) fn start_stream(
        &mut self,
        spec: Spec,
        role: Role,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> StreamId {
        tracing::debug!(scope = spec.scope.describe(), role = ?role, "stream started");
        self.streams.push(Stream {
            spec,
            role,
            synced: false,
            seen: false,
            epoch: 0,
            down: None,
            down_reported: false,
            denied: None,
            of_category: false,
            substitute: None,
            no_kind: false,
            ended: false,
            task: tokio::spawn(task).abort_handle(),
        })
    }

    /// Takes in an update of a stream.
    pub(super) fn update(&mut self, number: StreamId, update: Update) {
        let Some(stream) = self.streams.get_mut(number) else { return };
        if stream.ended {
            // Another one took its place.
            return;
        }
        match update {
            Update::Restart => {
                stream.epoch += 1;
                stream.synced = false;
            }
            Update::Put(mut record) => {
                let (epoch, role, resource) =
                    (stream.epoch, stream.role, Arc::clone(&stream.spec.scope.resource));
                if role == Role::Crds {
                    // A CRD has changed: perhaps that of a kind that is waited for.
                    self.rediscover = self.rediscover.map(|(_, pause)| (Instant::now(), pause));
                    return;
                }
                let mut known = self.target_id(&record.id);
                if role == Role::Targets && known.is_none() {
                    // Of the same name in another namespace.
                    return;
                }
                if role == Role::Selection && known.is_none() {
                    let target = self.add_target(record.id.clone(), Some(resource), None, true);
                    self.assign(target, number);
                    known = Some(target);
                }
                if let Some(known) = known {
                    if role == Role::Children {
                        // Its own stream reports it, and evaluates the conditions of the wait.
                        return;
                    }
                    if let Some(target) = self.targets.get(known) {
                        record.id.clone_from(&target.id);
                    }
                    self.note_reported(known, number, epoch);
                    let now = self.now();
                    self.policy.record_transient(known, &record, now);
                }
                let (owners, kind) = (record.owners.clone(), record.id.clone());
                match self.graph.put(*record, number, epoch) {
                    Put::Stale => {}
                    Put::New => self.touch(&kind, &owners),
                    Put::Changed(old) => {
                        self.touch(&kind, &owners);
                        self.touch(&old.id, &old.owners);
                    }
                }
            }
            Update::Gone(last) => {
                let id = last.id.clone();
                self.lost(number, &id, Some(last));
            }
            Update::Missing(name) => {
                let Scope { resource, namespace, .. } = &stream.spec.scope;
                let namespace = namespace.as_deref().unwrap_or_default();
                let id = ObjectId::new(&*resource.group, &*resource.kind, namespace, &*name);
                self.lost(number, &id, None);
            }
            Update::Synced => {
                stream.synced = true;
                stream.seen = true;
                stream.no_kind = false;
                stream.down = None;
                if let Some(Notice { message, remedy }) = stream.substitute.take() {
                    self.notify(message, remedy);
                }
                self.mark_relisted(number);
            }
            Update::Up => {
                stream.down = None;
                if std::mem::take(&mut stream.down_reported) {
                    let message = format!("the watch of {} goes on", stream.spec.scope.describe());
                    self.notify(message, None);
                }
            }
            Update::Down(error, answers) => {
                let refused = error.code() == Some(401);
                stream.down = Some(match stream.down.take() {
                    // The server answers something in between: it is not lost.
                    Some(Down { since, error: before, answers }) if before.code() == error.code() => {
                        Down { since, error, answers }
                    }
                    Some(Down { since, .. }) => Down { since, error, answers },
                    None => Down { since: Instant::now(), error, answers },
                });
                if refused && stream.role != Role::Children {
                    let message = "the server refuses the credentials".to_owned();
                    let remedy = "log in again, or check the user of the kubeconfig";
                    self.give_up(message, remedy, Outcome::Unreachable);
                }
            }
            Update::Forbidden(verb, error) => self.forbidden(number, verb, &error),
            Update::Rejected(error) => self.rejected(number, &error),
            Update::NoKind => {
                if stream.role == Role::Children {
                    stream.ended = true;
                    stream.synced = true;
                    stream.task.abort();
                    self.mark_relisted(number);
                } else if !std::mem::replace(&mut stream.no_kind, true) {
                    // Its CRD may have been deleted, and its objects with it; or it is at another version now.
                    stream.synced = false;
                    self.rediscover = Some((Instant::now(), START_BACKOFF));
                }
            }
        }
    }

    /// Notes that a stream has reported a target.
    pub(super) fn note_reported(&mut self, target: TargetId, stream: StreamId, epoch: u32) {
        let Some(target) = self.targets.get_mut(target) else { return };
        match &mut target.stream {
            Some((own, reported)) if *own == stream => *reported = epoch,
            None => target.stream = Some((stream, epoch)),
            Some(_) => match target.also.iter_mut().find(|(other, _)| *other == stream) {
                Some((_, reported)) => *reported = epoch,
                None => target.also.push((stream, epoch)),
            },
        }
    }

    /// The initial list or a relist of a stream is complete: what was not in it is gone.
    pub(super) fn mark_relisted(&mut self, number: StreamId) {
        let Some(stream) = self.streams.get(number) else { return };
        let (epoch, role) = (stream.epoch, stream.role);
        if role == Role::Children {
            for gone in self.graph.vanished(number, epoch) {
                self.lost(number, &gone, None);
            }
            self.note_missing(number);
            self.watch_dependents();
            // Only now it is known who uses them.
            self.dirty.extend(&self.claims);
            if self.streams.get(number).is_some_and(is_of_reports) {
                let policies =
                    self.targets.entries().filter(|(_, t)| t.id.is("networking.k8s.io", "NetworkPolicy"));
                self.dirty.extend(policies.map(|(number, _)| number));
            }
            return;
        }
        let mut vanished = Vec::new();
        for (index, target) in self.targets.entries() {
            let own = target.stream.filter(|(own, _)| *own == number);
            if own.is_some() {
                self.dirty.insert(index);
            }
            let reported = own.or_else(|| target.also.iter().copied().find(|(other, _)| *other == number));
            if reported.is_some_and(|(_, reported)| reported != epoch) {
                vanished.push(target.id.clone());
            }
        }
        for gone in vanished {
            if self.graph.get(&gone).is_some() {
                self.lost(number, &gone, None);
            }
        }
    }

    /// A stream does not report an object any more: it is gone, unless another stream has it.
    pub(super) fn lost(&mut self, stream: StreamId, gone: &ObjectId, last: Option<Box<Record>>) {
        if let Some(number) = self.target_id(gone) {
            if let Some(last) = &last {
                let now = self.now();
                self.policy.record_transient(number, last, now);
            }
            let Some(target) = self.targets.get_mut(number) else { return };
            target.also.retain(|(other, _)| *other != stream);
            if target.stream.is_none_or(|(own, _)| own != stream) {
                return;
            }
            if let Some(other) = target.also.pop() {
                target.stream = Some(other);
                return;
            }
        } else if let (Some(known), Some(last)) = (self.graph.get(gone), &last) {
            let others = self.graph.reporter(gone).is_some_and(|reporter| reporter != stream);
            if known.uid != last.uid || others && known.resource_version >= last.resource_version {
                return;
            }
        }
        self.gone(gone, last);
        self.note_missing(stream);
    }

    pub(super) fn gone(&mut self, gone: &ObjectId, last: Option<Box<Record>>) {
        let known = self.graph.remove(gone);
        let owners =
            known.as_ref().or(last.as_deref()).map(|record| record.owners.clone()).unwrap_or_default();
        self.touch(gone, &owners);
        let Some(number) = self.target_id(gone) else { return };
        let Some(target) = self.targets.get_mut(number) else { return };
        let last = last.or_else(|| known.map(Box::new));
        let has_ended = last.as_deref().and_then(ended).is_some();
        if target.selected
            && !has_ended
            && !self.evaluator.conditions().iter().any(WaitCondition::waits_for_absence)
        {
            // It is no longer selected, so nobody waits for it. What has an end and reached it counts all the same.
            self.index.remove(number, &self.targets);
            self.policy.drop_target(number);
            return;
        }
        target.last = last;
    }

    /// Something happened to an object: the targets above it are to be looked at again.
    pub(super) fn touch(&mut self, id: &ObjectId, owners: &[Uid]) {
        self.dirty.extend(self.target_id(id));
        self.dirty.extend(self.referred.get(id).into_iter().flatten());
        let mut todo: Vec<(Uid, usize)> = owners.iter().map(|owner| (owner.clone(), 0)).collect();
        while let Some((uid, depth)) = todo.pop() {
            let Some(owner) = self.graph.by_uid(&uid) else { continue };
            self.dirty.extend(self.target_id(&owner.id));
            self.dirty.extend(self.referred.get(&owner.id).into_iter().flatten());
            if depth < 8 {
                todo.extend(owner.owners.iter().map(|owner| (owner.clone(), depth + 1)));
            }
        }
        if id.is("", "Pod") || id.is("storage.k8s.io", "StorageClass") {
            self.dirty.extend(&self.claims);
        }
    }
}

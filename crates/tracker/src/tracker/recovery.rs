//! Recovery of streams: kinds that are not served, or not at that version, and missing permissions.

use std::sync::Arc;
use std::time::Duration;

use settled_watch::{RequestError, Verb};
use tokio::time::Instant;

use super::targets::MAX_WATCHES_BY_NAME;
use super::{Answer, Followed, Role, Tracker};
use crate::ids::{StreamId, TargetId};
use crate::report::{Notice, Outcome};
use crate::stream::{Spec, poll};
use crate::target::KindName;

impl Tracker {
    /// The kinds of some targets aren't there: notices when they come.
    pub(super) fn await_kinds(&mut self) {
        self.rediscover = Some((Instant::now() + Duration::from_secs(1), Duration::from_secs(1)));
        if let Some(crds) = self.resources.of_kind("apiextensions.k8s.io", None, "CustomResourceDefinition") {
            let mut spec = Spec::new(&Arc::clone(crds), None);
            spec.scope.metadata = true;
            self.open(spec, Role::Crds);
        }
    }

    /// Asks again which kinds there are.
    pub(super) fn discover(&mut self) {
        if !self.lacks_kinds() {
            self.rediscover = None;
            return;
        }
        let (cluster, to) = (self.cluster.clone(), self.answer_to.clone());
        tokio::spawn(async move {
            if let Ok(resources) = cluster.resources().await {
                let _gone = to.send(Answer::Resources(resources)).await;
            }
        });
    }

    /// Whether the kind of some target isn't there.
    pub(super) fn lacks_kinds(&self) -> bool {
        !self.unknown.is_empty() || self.streams.iter().any(|stream| stream.no_kind && !stream.ended)
    }

    /// Kinds that are not served any more as they are watched: watches them at another version, or takes all of them for gone.
    pub(super) fn follow_versions(&mut self) {
        for number in self.streams.ids() {
            let Some(stream) = self.streams.get_mut(number) else { return };
            if !stream.no_kind || stream.ended {
                continue;
            }
            let old = &stream.spec.scope.resource;
            match self.resources.of_kind(&old.group, Some(&old.version), &old.kind) {
                None => {
                    (stream.synced, stream.seen) = (true, true);
                    stream.epoch += 1;
                    self.mark_relisted(number);
                }
                Some(new) if new.version != old.version => {
                    let mut spec = stream.spec.clone();
                    spec.scope.resource = Arc::clone(new);
                    stream.ended = true;
                    stream.task.abort();
                    let role = stream.role;
                    let opened = self.open(spec, role);
                    self.moved(number, opened, false);
                }
                // It will be there again in a moment, or not be listed any more.
                Some(_) => {}
            }
        }
    }

    /// Looks whether the server has the kind of a target now, and watches the target if so.
    pub(super) fn kind_appeared(&mut self, number: TargetId, name: KindName) {
        let Some(resource) = name.find(&self.resources).cloned() else {
            self.unknown.push((number, name));
            return;
        };
        let Some(mut id) = self.targets.get(number).map(|target| target.id.clone()) else { return };
        if !resource.namespaced && !id.namespace.is_empty() {
            id = self.evaluator.id(&id.group, &id.kind, "", &id.name);
            self.index.remove(number, &self.targets);
            if let Some(target) = self.targets.get_mut(number) {
                target.id = id.clone();
            }
            self.index.insert(number, &self.targets);
        }
        if let Some(target) = self.targets.get_mut(number) {
            target.kind = Some(Arc::clone(&resource));
        }
        let namespace = Some(id.namespace.clone()).filter(|namespace| !namespace.is_empty());
        let mut spec = Spec::new(&resource, namespace.as_deref());
        spec.target = true;
        self.open_each(&spec, &[number]);
        self.dirty.insert(number);
    }

    /// The user may not do something: finds another way, or gives up.
    pub(super) fn forbidden(&mut self, number: StreamId, verb: Verb, error: &RequestError) {
        let Some(stream) = self.streams.get_mut(number) else { return };
        let (spec, role) = (stream.spec.clone(), stream.role);
        let synced = stream.synced;
        stream.ended = true;
        let what = spec.scope.describe();
        let scope = match &spec.scope.namespace {
            Some(namespace) => format!(" in {namespace}"),
            None if spec.scope.resource.namespaced => " in all namespaces".to_owned(),
            None => String::new(),
        };
        let remedy = |verbs: &str| format!("grant {verbs} on {}{scope}", spec.scope.resource.qualified());
        match role {
            // Then they are only asked for from time to time.
            Role::Crds => {}
            Role::Children => {
                let message =
                    format!("no permission to {} {what}: causes there cannot be shown", verb.as_str());
                let remedy = remedy("list and watch");
                self.notify(message, Some(remedy));
            }
            Role::Targets | Role::Selection if verb == Verb::Watch => {
                // They may be listed: then they are, again and again.
                let mut spec = spec.clone();
                let mut resource = (*spec.scope.resource).clone();
                resource.watch = false;
                spec.scope.resource = Arc::new(resource);
                let message =
                    format!("watch is forbidden for {what}: listing them every few seconds instead");
                let notice = Notice { message, remedy: Some(remedy("list and watch")) };
                let new = self.open(spec, role);
                if let Some(stream) = self.streams.get_mut(new) {
                    stream.substitute = Some(notice);
                }
                self.moved(number, new, synced);
            }
            Role::Targets if verb == Verb::List => {
                let numbers: Vec<TargetId> = self.of_stream(number);
                if spec.scope.fields.is_none() && numbers.len() <= MAX_WATCHES_BY_NAME {
                    // Roles may name the objects: then each may be watched by its name.
                    self.open_each(&spec, &numbers);
                    return;
                }
                let message = format!(
                    "{} is forbidden for {what}: asking for each object every few seconds instead",
                    verb.as_str()
                );
                let substitute = Some(Notice { message, remedy: Some(remedy("get, list and watch")) });
                let names =
                    numbers.iter().filter_map(|n| Some(self.targets.get(*n)?.id.name.clone())).collect();
                let task = poll(
                    self.cluster.clone(),
                    spec.clone(),
                    names,
                    Arc::clone(&self.evaluator),
                    self.streams.next_id(),
                    self.sender.clone(),
                );
                let new = self.start_stream(spec, role, task);
                if let Some(stream) = self.streams.get_mut(new) {
                    stream.substitute = substitute;
                }
                self.moved(number, new, synced);
            }
            Role::Selection if self.leave_out(number) => {}
            Role::Targets | Role::Selection => {
                let namespace = match &spec.scope.namespace {
                    Some(namespace) => format!(" in namespace \"{namespace}\""),
                    None if spec.scope.resource.namespaced => " in all namespaces".to_owned(),
                    None => String::new(),
                };
                let message = format!(
                    "cannot {} {}{namespace}: {error}",
                    verb.as_str(),
                    spec.scope.resource.qualified()
                );
                let remedy =
                    remedy(if role == Role::Selection { "list and watch" } else { "get, list and watch" });
                self.deny(number, message, remedy);
            }
        }
    }

    /// The server calls a request malformed: which targets it selects cannot be known.
    pub(super) fn rejected(&mut self, number: StreamId, error: &RequestError) {
        let Some(stream) = self.streams.get_mut(number) else { return };
        let what = stream.spec.scope.describe();
        stream.ended = true;
        if !stream.is_of_targets() {
            if stream.role == Role::Children {
                self.notify(format!("cannot list {what}: causes there cannot be shown ({error})"), None);
            }
            return;
        }
        self.give_up(format!("cannot list {what}: {error}"), "", Outcome::Rejected);
    }

    fn of_stream(&self, stream: StreamId) -> Vec<TargetId> {
        let is_of = |target: &Followed| target.stream.is_some_and(|(own, _)| own == stream);
        self.targets.entries().filter(|(_, target)| is_of(target)).map(|(id, _)| id).collect()
    }

    /// Another stream takes over the targets of one.
    fn moved(&mut self, from: StreamId, to: StreamId, synced: bool) {
        for number in self.of_stream(from) {
            self.assign(number, to);
        }
        if let Some(stream) = self.streams.get_mut(to) {
            // What was seen stays seen.
            stream.synced = synced;
            stream.seen = synced;
        }
    }
}

//! Watches of related objects for explanations: dependents of targets that aren't done, and what they refer to.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use kstatus::Status;
use settled_watch::Resource;

use super::{Role, Tracker};
use crate::dependents::{By, children, is_custom, remaining, selector};
use crate::id::ObjectId;
use crate::ids::{StreamId, TargetId};
use crate::link::Link;
use crate::record::{Record, missing};
use crate::report::State;
use crate::stream::Spec;

/// More selectors of children in a namespace are watched as one.
const MAX_SELECTORS: usize = 4;
/// Not more objects that others refer to are watched.
const MAX_REFERENCES: usize = 64;

impl Tracker {
    /// Watches what belongs to a target that isn't done.
    pub(super) fn watch_related(&mut self, number: TargetId) {
        let Some(target) = self.targets.get_mut(number) else { return };
        let Some(record) = self.graph.get(&target.id) else { return };
        // Whose children are to be watched.
        let mut parents = Vec::new();
        if target.explored.as_ref() != Some(&record.uid) {
            target.explored = Some(record.uid.clone());
            parents.push(record.id.clone());
            if self.streams.iter().all(|s| s.synced || s.ended || s.role != Role::Children) {
                // If all is watched already, nothing else leads to another look.
                self.dirty.insert(number);
            }
        }
        if record.id.is("", "Namespace") && record.deleted.is_some() {
            let holder = record.id.name.clone();
            let left: Vec<_> = remaining(&record.verdict.message)
                .into_iter()
                .filter_map(|name| self.resources.named(name))
                .cloned()
                .collect();
            for resource in left {
                self.cover(&resource, &holder, None, None);
            }
            return;
        }
        let custom =
            Some(record.id.clone()).filter(|id| is_custom(id) && record.verdict.status != Status::Current);
        let mut references: Vec<ObjectId> = Vec::new();
        let mut seen = HashSet::from([&record.id]);
        let mut todo = vec![(record, 0)];
        while let Some((record, depth)) = todo.pop() {
            for id in referred(record) {
                let id = self.in_its_place(id);
                // A Service that is fine by itself may have no endpoints.
                let other = self
                    .graph
                    .get(&id)
                    .filter(|other| other.verdict.status != Status::Current || other.id.is("", "Service"));
                if let Some(other) = other.filter(|other| depth < 4 && seen.insert(&other.id)) {
                    if self.explored.insert(other.uid.clone()) {
                        parents.push(other.id.clone());
                    }
                    todo.push((other, depth + 1));
                }
                if references.len() < MAX_REFERENCES && !references.contains(&id) {
                    references.push(id);
                }
            }
            let owned = self.graph.owned(&record.uid).filter(|child| child.verdict.status != Status::Current);
            todo.extend(owned.filter(|child| depth < 4 && seen.insert(&child.id)).map(|c| (c, depth + 1)));
        }
        for parent in parents {
            self.watch_children(&parent);
        }
        if let Some(owner) = custom {
            self.search_dependents(&owner);
        }
        for id in references {
            if let Some(by) = self.referred.get_mut(&id) {
                by.insert(number);
            } else if self.referred.len() < MAX_REFERENCES {
                self.watch_reference(id, number);
            }
        }
    }

    /// Notes that an object does not exist which a stream was opened for, because a target refers to it.
    pub(super) fn note_missing(&mut self, stream: StreamId) {
        let Some(stream) =
            self.streams.get(stream).filter(|s| s.role == Role::Children && s.synced && !s.ended)
        else {
            return;
        };
        let Some(name) =
            stream.spec.scope.fields.as_deref().and_then(|fields| fields.strip_prefix("metadata.name="))
        else {
            return;
        };
        let (resource, namespace) =
            (&stream.spec.scope.resource, stream.spec.scope.namespace.as_deref().unwrap_or_default());
        let id = self.evaluator.id(&resource.group, &resource.kind, namespace, name);
        if self.graph.get(&id).is_none()
            && self.graph.missing(&id).is_none()
            && self.referred.contains_key(&id)
        {
            self.dirty.extend(self.referred.get(&id).into_iter().flatten());
            self.graph.set_missing(missing(id));
        }
    }

    /// An object that is referred to, without a namespace where its kind has none.
    fn in_its_place(&self, id: ObjectId) -> ObjectId {
        let resource = self.resources.of_kind(&id.group, None, &id.kind);
        match resource {
            Some(resource) if !resource.namespaced && !id.namespace.is_empty() => {
                ObjectId::new(id.group.clone(), id.kind.clone(), "", id.name.clone())
            }
            _ => id,
        }
    }

    /// Whether all objects of a kind in a namespace are watched for explanations.
    pub(super) fn covers_all(&self, resource: &Resource, namespace: &str) -> bool {
        let key = (format!("{} ", resource.qualified()), namespace.to_owned());
        self.covered.get(&key).is_some_and(|covered| covered.whole)
    }

    /// Watches an object that a target refers to, directly or not.
    fn watch_reference(&mut self, id: ObjectId, number: TargetId) {
        self.referred.insert(id.clone(), BTreeSet::from([number]));
        let resource = self.resources.of_kind(&id.group, None, &id.kind).filter(|r| r.watch).cloned();
        let Some(resource) = resource.filter(|_| self.target_id(&id).is_none()) else { return };
        let namespace = resource.namespaced.then_some(&*id.namespace);
        let spec = Spec::new(&resource, namespace).name(&id.name);
        self.open(spec, Role::Children);
    }

    /// Watches the kinds that belong to an object.
    fn watch_children(&mut self, parent: &ObjectId) {
        let Some(record) = self.graph.get(parent) else { return };
        // Of a Service that is done, only the endpoints are of interest.
        let target = self.target_id(parent).and_then(|number| self.policy.state(number));
        let done = target == Some(State::Done);
        let kinds: Vec<_> = children(record).iter().filter(|child| !done || child.kind != "Pod").collect();
        let labels: Vec<Option<String>> = kinds.iter().map(|child| selector(record, child.by)).collect();
        let namespace = parent.namespace.clone();
        if is_custom(parent) {
            // What a controller makes of it is often of its own group.
            let same = |r: &&Arc<Resource>| {
                *r.group == *parent.group
                    && *r.kind != *parent.kind
                    && r.list
                    && r.watch
                    && (r.namespaced || namespace.is_empty())
            };
            let same: Vec<_> = self.resources.preferred().filter(same).cloned().collect();
            for resource in same {
                self.cover(&resource, &namespace, None, None);
            }
        }
        for (child, labels) in kinds.iter().zip(labels) {
            // What belongs to an object of the cluster may be anywhere: that is too much to look at.
            let resource = self.resources.of_kind(child.group, None, child.kind).cloned();
            let Some(resource) = resource.filter(|r| !r.namespaced || !namespace.is_empty()) else {
                continue;
            };
            let fields = (child.by == By::Refusal).then_some("reason=FailedCreate");
            self.cover(&resource, &namespace, labels, fields);
        }
    }

    /// Watches a kind in a namespace for explanations: by selectors while there are few, then all of it.
    pub(super) fn cover(
        &mut self,
        resource: &Arc<Resource>,
        namespace: &str,
        labels: Option<String>,
        fields: Option<&str>,
    ) {
        if !resource.watch || !resource.list {
            return;
        }
        let key = format!("{} {}", resource.qualified(), fields.unwrap_or_default());
        let covered = self.covered.entry((key, namespace.to_owned())).or_default();
        if covered.whole {
            return;
        }
        let labels = labels.filter(|_| covered.selectors.len() < MAX_SELECTORS);
        match &labels {
            Some(labels) => {
                if !covered.selectors.insert(labels.clone()) {
                    return;
                }
            }
            None => covered.whole = true,
        }
        // The targets' own stream may have it already.
        let reported = self.streams.iter().any(|stream| {
            !stream.ended
                && stream.spec.scope.resource == *resource
                && stream.spec.scope.labels.is_none()
                && stream.spec.scope.fields.is_none()
                && stream.spec.only.is_none()
                && stream.spec.scope.namespace.as_deref().is_none_or(|of| *of == *namespace)
        });
        if reported && fields.is_none() {
            return;
        }
        let within = Some(namespace).filter(|namespace| resource.namespaced && !namespace.is_empty());
        let mut spec = Spec::new(resource, within);
        spec.scope.labels = labels.map(Into::into);
        spec.scope.fields = fields.map(Into::into);
        self.open(spec, Role::Children);
    }
}

/// What an object refers to, as ids.
fn referred(record: &Record) -> Vec<ObjectId> {
    let refs = record.facts.iter().flat_map(|facts| &facts.refs);
    // The Pods of a Service are found by its selector.
    refs.filter(|r| r.link != Link::Lists)
        .map(|r| {
            let cluster =
                matches!(&*r.kind, "PersistentVolume" | "StorageClass" | "IngressClass" | "GatewayClass");
            let namespace = if cluster { "" } else { r.namespace.as_deref().unwrap_or(&record.id.namespace) };
            ObjectId::new(&*r.group, &*r.kind, namespace, &*r.name)
        })
        .collect()
}

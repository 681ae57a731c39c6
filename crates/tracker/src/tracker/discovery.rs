//! Dependents in other API groups: custom kinds of any group whose objects have owner references to a target that isn't done.
//!
//! Candidates are listed by their metadata alone, at most so many, and only those that hold a dependent are watched.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use http::Method;
use kstatus::{Object, Status};
use settled_manifest::ListItems;
use settled_watch::{Cluster, PARTIAL_LIST, RequestError, Resource, Verb};
use tokio::time::Instant;

use super::{Answer, Tracker};
use crate::dependents::is_custom;
use crate::id::{ObjectId, Uid};
use crate::ids::TargetId;
use crate::record::owners;
use crate::report::State;

/// So many kinds are candidates in one search, and so many lists are made in all.
const MAX_KINDS: usize = 40;
const MAX_LISTS: usize = 400;
/// Of a kind, so many objects are looked at.
const PAGE: usize = 500;
/// So many lists at a time.
const MAX_CONCURRENT: usize = 8;
/// When to search again, as dependents come later than what owns them; twice as long each time.
const FIRST_INTERVAL: Duration = Duration::from_secs(2);
const MAX_INTERVAL: Duration = Duration::from_secs(60);

/// An object by its uid, and those of its owners.
type Owned = (Uid, Vec<Uid>);

/// The objects of each kind that have owners.
type OwnedByKind = Vec<(Arc<Resource>, Vec<Owned>)>;

/// The lists of one search.
pub(super) type Listed = Vec<(Arc<Resource>, Result<Vec<Owned>, RequestError>)>;

/// What was searched, and when.
#[derive(Debug, Default)]
pub(super) struct Searches {
    /// How many are under way.
    pub(super) running: usize,
    lists: usize,
    namespaces: HashMap<String, Searched>,
    forbidden: BTreeSet<String>,
    /// The latest lists of each namespace: what owns their objects may be seen later than they are.
    listed: HashMap<String, OwnedByKind>,
}

#[derive(Debug)]
struct Searched {
    again: Instant,
    pause: Duration,
    running: bool,
}

impl Tracker {
    /// Searches the namespace of a custom object that isn't done for dependents in other groups, if it is time to.
    pub(super) fn search_dependents(&mut self, owner: &ObjectId) {
        let now = Instant::now();
        let namespace = owner.namespace.to_string();
        if self.searches.lists >= MAX_LISTS {
            return;
        }
        if self.searches.namespaces.get(&namespace).is_some_and(|s| s.running || s.again > now) {
            return;
        }
        let candidates = self.candidates(owner);
        if candidates.is_empty() {
            return;
        }
        self.searches.lists += candidates.len();
        self.searches.running += 1;
        let searched = self.searches.namespaces.entry(namespace.clone()).or_insert(Searched {
            again: now,
            pause: FIRST_INTERVAL,
            running: true,
        });
        searched.again = now + searched.pause;
        searched.pause = (searched.pause * 2).min(MAX_INTERVAL);
        searched.running = true;
        let (cluster, to) = (self.cluster.clone(), self.answer_to.clone());
        tokio::spawn(async move {
            let lists = futures::stream::iter(candidates).map(|resource| {
                let (cluster, namespace) = (&cluster, &namespace);
                async move {
                    let owned = list(cluster, &resource, namespace).await;
                    (resource, owned)
                }
            });
            let listed: Listed = lists.buffer_unordered(MAX_CONCURRENT).collect().await;
            let _gone = to.send(Answer::Listed(namespace, listed)).await;
        });
    }

    /// The custom kinds that may hold a dependent and are not watched yet, those of related groups first.
    fn candidates(&self, owner: &ObjectId) -> Vec<Arc<Resource>> {
        let namespace = &*owner.namespace;
        let is_candidate = |resource: &&Arc<Resource>| {
            resource.list
                && resource.watch
                && resource.namespaced != namespace.is_empty()
                // Of its own group all kinds are watched already.
                && *resource.group != *owner.group
                && is_custom(&ObjectId::new(&*resource.group, "", "", ""))
                && !self.searches.forbidden.contains(&resource.qualified())
                && !self.covers_all(resource, namespace)
        };
        let mut found: Vec<Arc<Resource>> =
            self.resources.preferred().filter(is_candidate).cloned().collect();
        found.sort_by_key(|resource| {
            (std::cmp::Reverse(related(&resource.group, &owner.group)), resource.qualified())
        });
        found.truncate(MAX_KINDS);
        found
    }

    /// Takes in the lists of a search.
    pub(super) fn take_listed(&mut self, namespace: &str, listed: Listed) {
        self.searches.running = self.searches.running.saturating_sub(1);
        if let Some(searched) = self.searches.namespaces.get_mut(namespace) {
            searched.running = false;
        }
        let mut forbidden = Vec::new();
        let mut lists: OwnedByKind = Vec::new();
        for (resource, owned) in listed {
            match owned {
                Ok(owned) => lists.push((resource, owned)),
                Err(error) if error.is_forbidden() => forbidden.push(resource.qualified()),
                // The next search may have more luck.
                Err(_) => {}
            }
        }
        self.searches.listed.insert(namespace.to_owned(), lists);
        self.watch_dependents();
        if !forbidden.is_empty() {
            forbidden.sort();
            let place = if namespace.is_empty() { String::new() } else { format!(" in {namespace}") };
            let message = format!(
                "no permission to list {}{place}: dependents of these kinds cannot be shown",
                forbidden.join(", ")
            );
            self.searches.forbidden.extend(forbidden);
            self.notify(
                message,
                Some(
                    "grant the verb list on them, or ignore this where they have nothing to do with it"
                        .to_owned(),
                ),
            );
        }
    }

    /// Watches the kinds whose lists hold dependents of what isn't done.
    pub(super) fn watch_dependents(&mut self) {
        let mut kinds: Vec<(String, Arc<Resource>)> = Vec::new();
        for (namespace, lists) in &self.searches.listed {
            // A dependent may own others, in any of the lists.
            let mut dependents: HashSet<&Uid> = HashSet::new();
            loop {
                let known = dependents.len();
                for (resource, owned) in lists {
                    for (uid, owners) in owned {
                        let is_open = |owner: &Uid| {
                            self.graph.by_uid(owner).is_some_and(|r| r.verdict.status != Status::Current)
                        };
                        if owners.iter().any(|owner| dependents.contains(owner) || is_open(owner))
                            && dependents.insert(uid)
                        {
                            kinds.push((namespace.clone(), Arc::clone(resource)));
                        }
                    }
                }
                if dependents.len() == known {
                    break;
                }
            }
        }
        for (namespace, resource) in kinds {
            self.cover(&resource, &namespace, None, None);
        }
    }

    /// When dependents are to be searched for again.
    pub(super) fn next_search(&self) -> Option<Instant> {
        let open = |s: &&Searched| !s.running && self.searches.lists < MAX_LISTS;
        self.searches.namespaces.values().filter(open).map(|s| s.again).min()
    }

    /// Searches again where it is time to, for what is still not done. `last`: the wait is over, and this is the last look.
    pub(super) fn search_again(&mut self, last: bool) {
        let now = Instant::now();
        for searched in self.searches.namespaces.values_mut().filter(|_| last) {
            searched.again = now;
        }
        let is_open =
            |number: TargetId| matches!(self.policy.state(number), Some(State::Waiting | State::Failed));
        let is_searched = |id: &ObjectId| self.searches.namespaces.contains_key(&*id.namespace);
        let targets = self.targets.entries();
        let open: Vec<ObjectId> = targets
            .filter(|(number, target)| is_open(*number) && is_custom(&target.id) && is_searched(&target.id))
            .map(|(_, target)| target.id.clone())
            .collect();
        for owner in &open {
            self.search_dependents(owner);
        }
        // Where nothing is open any more there is nothing to search for.
        let due: Vec<String> = self
            .searches
            .namespaces
            .iter()
            .filter(|(_, s)| !s.running && s.again <= now)
            .map(|(n, _)| n.clone())
            .collect();
        for namespace in due {
            if let Some(searched) = self.searches.namespaces.get_mut(&namespace) {
                searched.again = now + MAX_INTERVAL;
            }
        }
    }
}

/// How many labels the ends of two groups have in common: `acme.cert-manager.io` and `cert-manager.io` have two.
fn related(one: &str, other: &str) -> usize {
    one.rsplit('.').zip(other.rsplit('.')).take_while(|(one, other)| one == other).count()
}

/// The objects of a kind in a namespace that have owners: their metadata alone.
async fn list(cluster: &Cluster, resource: &Resource, namespace: &str) -> Result<Vec<Owned>, RequestError> {
    let within = Some(namespace).filter(|namespace| !namespace.is_empty());
    let path = format!("{}?limit={PAGE}", resource.path(within, None));
    let bytes = cluster.fetch(Verb::List, Method::GET, &path, PARTIAL_LIST, None).await?;
    let mut owned = Vec::new();
    let mut items = ListItems::default();
    let each = |item: &[u8]| {
        let Some(object) = Object::parse(item).ok() else { return };
        let Some(metadata) = object.root().get("metadata") else { return };
        let (uid, owners) =
            (metadata.get("uid").and_then(|uid| uid.as_str()), owners(metadata.get("ownerReferences")));
        if let Some(uid) = uid.filter(|_| !owners.is_empty()) {
            owned.push((Uid::from(&*uid), owners));
        }
    };
    items.push(&bytes, each).map_err(RequestError::answer)?;
    Ok(owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn related_groups_share_their_end() {
        assert_eq!(related("acme.cert-manager.io", "cert-manager.io"), 2);
        assert_eq!(related("infrastructure.cluster.x-k8s.io", "cluster.x-k8s.io"), 3);
        assert_eq!(related("example.com", "cert-manager.io"), 0);
    }
}

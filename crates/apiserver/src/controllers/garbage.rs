//! Garbage collector: deletes objects without existing owners, and finishes foreground and orphan deletion
//! (`pkg/controller/garbagecollector` upstream).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, LazyLock};

use memchr::memmem::Finder;
use serde_json::{Value, json};
use settled_store::{Entry, Key, Resource, Scope};
use tokio::task::JoinSet;

use super::feed::{Feed, News};
use super::graph::{FOREGROUND, Graph, Meta, ORPHAN, Owner};
use super::retry::{PARALLEL, backoff, call, is_over};
use crate::error::ApiError;
use crate::kinds::definition::{Catalog, Definition};
use crate::kinds::names::{Part, api_version};
use crate::object::{self, finalizers, metadata_mut};
use crate::options::{DeleteOptions, Propagation, WriteOptions};
use crate::state::State;
use crate::state::call::Target;
use crate::verbs::change::Change;
use crate::verbs::{create, delete, update};

/// What is to be done with an object.
#[derive(Debug, PartialEq)]
enum Step {
    Nothing,
    /// An owner is of a kind that isn't served, or not yet.
    Unknown,
    /// It is in no namespace and names an owner that is in one.
    Invalid(Owner),
    /// If it is still as it was looked at: it may have a new owner.
    Delete {
        uid: String,
        revision: u64,
        propagation: Propagation,
    },
    /// It has owners; these it names are none any more.
    Disown {
        uid: String,
        owners: Vec<String>,
    },
    /// The finalizer has done its work.
    Release {
        uid: String,
        finalizer: &'static str,
    },
    /// The dependents go their own way; then the finalizer goes.
    Orphan {
        uid: String,
        dependents: Vec<Key>,
    },
    /// It is in a circle with what it waits for: it blocks nobody, and is deleted.
    Unblock {
        uid: String,
    },
}

/// Whether an owner is there.
enum Found {
    There(Meta),
    Gone,
    Unknown,
    Invalid,
}

/// Has an object owners, or is it being deleted? Without any of these words in it, it is of no interest, and is not parsed.
fn matters(entry: &Entry) -> bool {
    // Made once: that takes longer than most searches.
    static WORDS: LazyLock<[Finder<'static>; 2]> = LazyLock::new(|| {
        ["\"ownerReferences\"", "\"deletionTimestamp\""].map(|word| Finder::new(word.as_bytes()))
    });
    WORDS.iter().any(|word| word.find(entry.value()).is_some())
}

/// The kind of an owner.
fn find_kind<'a>(catalog: &'a Catalog, owner: &Owner) -> Option<&'a Arc<Definition>> {
    let (group, version) = owner.api_version.rsplit_once('/').unwrap_or(("", &owner.api_version));
    catalog
        .resources(group, version)
        .find(|definition| definition.names.kind == owner.kind && definition.verbs.contains(&"get"))
}

fn look_up(state: &State, catalog: &Catalog, key: &Key, owner: &Owner) -> Found {
    let Some(definition) = find_kind(catalog, owner) else { return Found::Unknown };
    if definition.namespaced && key.namespace().is_empty() {
        return Found::Invalid;
    }
    let namespace = if definition.namespaced { key.namespace() } else { "" };
    let entry =
        Key::new(&definition.resource, namespace, &owner.name).ok().and_then(|key| state.store.get(&key));
    match entry.map(|entry| Meta::of(&entry)) {
        Some(meta) if meta.uid == owner.uid => Found::There(meta),
        // Another object of that name is another object.
        _ => Found::Gone,
    }
}

/// Decides about an object as it is now.
fn decide(state: &State, catalog: &Catalog, graph: &Graph, key: &Key) -> Step {
    let Some(entry) = state.store.get(key) else { return Step::Nothing };
    let meta = Meta::of(&entry);
    let (uid, revision) = (meta.uid.clone(), entry.mod_revision().0);
    if meta.is_terminating() {
        if meta.has(ORPHAN) {
            return Step::Orphan { dependents: graph.dependents(&uid), uid };
        }
        if meta.is_foreground() && !graph.is_blocked(&uid) {
            return Step::Release { uid, finalizer: FOREGROUND };
        }
        return Step::Nothing;
    }
    let (mut solid, mut dangling, mut waiting) = (false, Vec::new(), Vec::new());
    for owner in &meta.owner_references {
        match look_up(state, catalog, key, owner) {
            Found::There(found) if found.is_foreground() => waiting.push(owner.uid.clone()),
            Found::There(_) => solid = true,
            Found::Gone => dangling.push(owner.uid.clone()),
            Found::Unknown => return Step::Unknown,
            Found::Invalid => return Step::Invalid(owner.clone()),
        }
    }
    if meta.owner_references.is_empty() {
        return Step::Nothing;
    }
    if solid {
        dangling.append(&mut waiting);
        return match dangling.is_empty() {
            true => Step::Nothing,
            false => Step::Disown { uid, owners: dangling },
        };
    }
    if !waiting.is_empty() {
        let dependents = graph.dependents(&uid);
        if !dependents.is_empty() {
            let blocks = meta.owner_references.iter().any(|owner| owner.block_owner_deletion == Some(true));
            let circle = blocks
                && dependents
                    .iter()
                    .any(|key| state.store.get(key).is_some_and(|entry| Meta::of(&entry).is_foreground()));
            return match circle {
                true => Step::Unblock { uid },
                false => Step::Delete { uid, revision, propagation: Propagation::Foreground },
            };
        }
    }
    let propagation = match () {
        () if meta.has(ORPHAN) => Propagation::Orphan,
        () if meta.has(FOREGROUND) => Propagation::Foreground,
        () => Propagation::Background,
    };
    Step::Delete { uid, revision, propagation }
}

/// The driver's books.
struct Collector {
    state: Arc<State>,
    graph: Graph,
    /// Where the objects of a resource are served.
    definitions: HashMap<Resource, Arc<Definition>>,
    /// Objects of which an owner is of a kind that isn't served.
    unknown: HashSet<Key>,
    /// Objects that something is being done with, and whether they have to be looked at again after that.
    running: HashMap<Key, bool>,
    attempts: HashMap<Key, u32>,
    tasks: JoinSet<(Key, Result<(), ApiError>)>,
    followed: HashSet<Resource>,
}

/// Follows all objects until the server stops.
pub(super) async fn run(state: Arc<State>) {
    let mut feed = Feed::new(&state, Scope::All, |definition| definition.resource.as_str() != "events");
    let mut collector = Collector {
        state,
        graph: Graph::default(),
        definitions: HashMap::new(),
        unknown: HashSet::new(),
        running: HashMap::new(),
        attempts: HashMap::new(),
        tasks: JoinSet::new(),
        followed: HashSet::new(),
    };
    loop {
        // The graph is whole up to here before anything is decided by it.
        while let Some(news) = feed.try_next() {
            collector.learn(&news);
        }
        collector.begin();
        tokio::select! {
            news = feed.next() => match news {
                Some(news) => collector.learn(&news),
                None => return,
            },
            Some(done) = collector.tasks.join_next(), if !collector.tasks.is_empty() => {
                if let Ok((key, result)) = done {
                    collector.done(key, result);
                }
            }
        }
    }
}

impl Collector {
    fn learn(&mut self, news: &News) {
        match news {
            News::Event(event) => self.learn_event(event),
            News::Snapshot(snapshot) => {
                for entry in snapshot.iter(&Scope::All).filter(|entry| matters(entry)) {
                    let meta = Meta::of(entry);
                    if !meta.owner_references.is_empty() || meta.is_terminating() {
                        self.graph.put(entry.key(), &meta);
                    }
                }
                if !self.followed.insert(snapshot.resource().clone()) {
                    let present = snapshot.iter(&Scope::All).map(|entry| entry.key().clone()).collect();
                    self.graph.missed(snapshot.resource(), &present);
                }
            }
            News::Catalog => {
                let catalog = self.state.catalog();
                self.definitions = catalog
                    .preferred()
                    .iter()
                    .map(|definition| (definition.resource.clone(), definition.clone()))
                    .collect();
                let served = &self.definitions;
                let gone: Vec<Resource> = self
                    .followed
                    .iter()
                    .filter(|resource| !served.contains_key(*resource))
                    .cloned()
                    .collect();
                for resource in gone {
                    self.followed.remove(&resource);
                    self.graph.missed(&resource, &HashSet::new());
                }
                for key in std::mem::take(&mut self.unknown) {
                    self.graph.enqueue(&key);
                }
            }
        }
    }

    fn learn_event(&mut self, event: &settled_store::Event) {
        let key = event.key();
        match event.entry() {
            Some(entry) => {
                // A new object of an old name: the one before is gone.
                if matters(entry) || event.previous().is_some_and(|before| matters(before)) {
                    self.graph.put(key, &Meta::of(entry));
                }
            }
            None => {
                let uid = event.previous().map(|entry| Meta::of(entry).uid).unwrap_or_default();
                self.unknown.remove(key);
                self.graph.remove(key, &uid);
            }
        }
    }

    /// Begins with as much work as may be done at once.
    fn begin(&mut self) {
        let catalog = self.state.catalog();
        while self.tasks.len() < PARALLEL {
            let Some(key) = self.graph.next() else { return };
            if let Some(again) = self.running.get_mut(&key) {
                *again = true;
                continue;
            }
            let step = decide(&self.state, &catalog, &self.graph, &key);
            let Some(definition) = self.definitions.get(key.resource()).cloned() else { continue };
            match step {
                Step::Nothing => {
                    self.attempts.remove(&key);
                }
                Step::Unknown => {
                    self.unknown.insert(key);
                }
                step => {
                    self.running.insert(key.clone(), false);
                    let attempts = self.attempts.get(&key).copied();
                    let state = self.state.clone();
                    let definitions = match &step {
                        Step::Orphan { dependents, .. } => dependents
                            .iter()
                            .filter_map(|key| {
                                Some((key.resource().clone(), self.definitions.get(key.resource())?.clone()))
                            })
                            .collect(),
                        _ => BTreeMap::new(),
                    };
                    self.tasks.spawn(async move {
                        if let Some(attempts) = attempts {
                            tokio::time::sleep(backoff(attempts)).await;
                        }
                        let result = carry_out(&state, &definition, &definitions, &key, &step).await;
                        (key, result)
                    });
                }
            }
        }
    }

    fn done(&mut self, key: Key, result: Result<(), ApiError>) {
        let again = self.running.remove(&key).unwrap_or(false);
        // What has changed meanwhile is looked at again at once.
        let (failed, changed) = match result {
            Ok(()) => (false, false),
            Err(error) => (!is_over(&error) && error.code != 409, error.code == 409),
        };
        if failed {
            *self.attempts.entry(key.clone()).or_default() += 1;
        } else {
            self.attempts.remove(&key);
        }
        if again || failed || changed {
            self.graph.enqueue(&key);
        }
    }
}

async fn carry_out(
    state: &Arc<State>,
    definition: &Arc<Definition>,
    definitions: &BTreeMap<Resource, Arc<Definition>>,
    key: &Key,
    step: &Step,
) -> Result<(), ApiError> {
    match step {
        Step::Nothing | Step::Unknown => Ok(()),
        Step::Invalid(owner) => warn(state, definition, key, owner).await,
        Step::Delete { uid, revision, propagation } => {
            delete(state, definition, key, uid, Some(*revision), *propagation).await
        }
        Step::Disown { uid, owners } => disown(state, definition, key, uid, owners).await,
        Step::Release { uid, finalizer } => release(state, definition, key, uid, finalizer).await,
        Step::Unblock { uid } => {
            let unblock = |new: &mut Value| {
                let owners = new.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
                for owner in owners.into_iter().flatten() {
                    owner["blockOwnerDeletion"] = false.into();
                }
            };
            change(state, definition, key, Some(uid), &unblock).await?;
            delete(state, definition, key, uid, None, Propagation::Foreground).await
        }
        Step::Orphan { uid, dependents } => {
            let mut tasks: JoinSet<Result<(), ApiError>> = JoinSet::new();
            let check = |done: Option<Result<Result<(), ApiError>, tokio::task::JoinError>>| match done {
                Some(Ok(Err(error))) if error.code != 404 => Err(error),
                _ => Ok(()),
            };
            for dependent in dependents {
                let Some(definition) = definitions.get(dependent.resource()).cloned() else { continue };
                if tasks.len() >= PARALLEL {
                    check(tasks.join_next().await)?;
                }
                let (state, dependent, owner) = (state.clone(), dependent.clone(), [uid.clone()]);
                tasks.spawn(async move { disown(&state, &definition, &dependent, "", &owner).await });
            }
            while !tasks.is_empty() {
                check(tasks.join_next().await)?;
            }
            release(state, definition, key, uid, ORPHAN).await
        }
    }
}

async fn delete(
    state: &State,
    definition: &Definition,
    key: &Key,
    uid: &str,
    revision: Option<u64>,
    propagation: Propagation,
) -> Result<(), ApiError> {
    let options = DeleteOptions {
        uid: Some(uid.to_owned()),
        resource_version: revision.map(|revision| revision.to_string()),
        propagation: Some(propagation),
        ..DeleteOptions::default()
    };
    delete::delete(state, &call(), &target(definition, key), &options).await.map(|_| ())
}

fn target<'a>(definition: &'a Definition, key: &'a Key) -> Target<'a> {
    Target { definition, namespace: key.namespace(), name: key.name() }
}

/// Takes references to owners out of an object.
async fn disown(
    state: &State,
    definition: &Definition,
    key: &Key,
    uid: &str,
    owners: &[String],
) -> Result<(), ApiError> {
    let disown = |new: &mut Value| {
        let metadata = metadata_mut(new);
        if let Some(list) = metadata.get_mut("ownerReferences").and_then(Value::as_array_mut) {
            list.retain(|owner| !owners.iter().any(|uid| uid == object::text(owner, "uid")));
            if list.is_empty() {
                metadata.remove("ownerReferences");
            }
        }
    };
    change(state, definition, key, Some(uid).filter(|uid| !uid.is_empty()), &disown).await
}

/// Takes a finalizer off an object.
async fn release(
    state: &State,
    definition: &Definition,
    key: &Key,
    uid: &str,
    finalizer: &str,
) -> Result<(), ApiError> {
    let release = |new: &mut Value| {
        let rest: Vec<Value> =
            finalizers(new).into_iter().filter(|name| *name != finalizer).map(Value::from).collect();
        metadata_mut(new).insert("finalizers".to_owned(), rest.into());
    };
    change(state, definition, key, Some(uid), &release).await
}

async fn change(
    state: &State,
    definition: &Definition,
    key: &Key,
    uid: Option<&str>,
    change: &(dyn Fn(&mut Value) + Sync),
) -> Result<(), ApiError> {
    let target = target(definition, key);
    // It must be there: an update must not make it anew.
    state.get(&target)?;
    let change = |old: &Value| {
        let mut new = old.clone();
        if uid.is_some_and(|uid| uid != object::meta(old, "uid")) {
            return Err(target.not_found());
        }
        change(&mut new);
        Ok(new)
    };
    update::update(state, &mut call(), &target, Part::Main, Change::With(&change), &WriteOptions::internal())
        .await?;
    Ok(())
}

/// Says in an Event that an owner cannot be one.
async fn warn(state: &State, definition: &Definition, key: &Key, owner: &Owner) -> Result<(), ApiError> {
    let catalog = state.catalog();
    let Some(events) = catalog.find("", "v1", "events") else { return Ok(()) };
    let entry = state.get(&target(definition, key))?;
    let uid = Meta::of(&entry).uid;
    let now = state.now();
    let name = format!("{}.{:x}", key.name(), now.as_nanosecond());
    let namespace = if key.namespace().is_empty() { "default" } else { key.namespace() };
    let message = format!(
        "ownerRef [{}/{}, namespace: {}, name: {}, uid: {}] does not exist in namespace {:?}",
        owner.api_version,
        owner.kind,
        key.namespace(),
        owner.name,
        owner.uid,
        key.namespace(),
    );
    let source = "garbage-collector-controller";
    let event = json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": {
            "apiVersion": api_version(&definition.names.group, &definition.names.version), "kind": definition.names.kind,
            "name": key.name(), "uid": uid,
        },
        "type": "Warning", "reason": "OwnerRefInvalidNamespace", "message": message,
        "source": {"component": source}, "reportingComponent": source, "reportingInstance": "",
        "firstTimestamp": object::time(now), "lastTimestamp": object::time(now), "count": 1,
    });
    let target = Target { definition: events, namespace, name: &name };
    create::create(state, &mut call(), &target, event, &WriteOptions::internal()).await?;
    Ok(())
}

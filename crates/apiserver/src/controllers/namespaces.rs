//! Namespace controller: deletes the content of terminating namespaces, then finalizes them (`pkg/controller/namespace`
//! upstream).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use settled_store::{At, Entry, Scope};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::feed::{Feed, News, is_stored};
use super::retry::{LONGEST_RETRY, PARALLEL, backoff, call, is_over};
use crate::error::ApiError;
use crate::kinds::definition::Definition;
use crate::kinds::names::Part;
use crate::object::{self, finalizers, is_terminating};
use crate::options::{DeleteOptions, Propagation, WriteOptions};
use crate::state::State;
use crate::state::call::Target;
use crate::verbs::change::Change;
use crate::verbs::delete::{self, Deleted};
use crate::verbs::update;

/// The finalizer in the spec of every namespace.
const FINALIZER: &str = "kubernetes";

/// Type, reason and message of each condition when all is well.
const CONDITIONS: [[&str; 3]; 5] = [
    ["NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"],
    [
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ],
    [
        "NamespaceDeletionContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ],
    ["NamespaceContentRemaining", "ContentRemoved", "All content successfully removed"],
    ["NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"],
];

/// What is left in a namespace after everything in it was deleted once.
#[derive(Debug, Default)]
struct Left {
    /// By `pods.` or `deployments.apps`.
    resources: BTreeMap<String, usize>,
    finalizers: BTreeMap<String, usize>,
    errors: BTreeSet<String>,
}

impl Left {
    fn is_nothing(&self) -> bool {
        self.resources.is_empty() && self.errors.is_empty()
    }

    fn count(&mut self, definition: &Definition, entries: impl Iterator<Item = Arc<Entry>>) {
        for entry in entries {
            *self
                .resources
                .entry(format!("{}.{}", definition.names.plural, definition.names.group))
                .or_default() += 1;
            let object: Value = serde_json::from_slice(entry.value()).unwrap_or_default();
            for finalizer in finalizers(&object) {
                *self.finalizers.entry(finalizer.to_owned()).or_default() += 1;
            }
        }
    }

    /// What is not as it should be: type, reason and message.
    fn conditions(&self) -> Vec<[String; 3]> {
        let mut conditions = Vec::new();
        let listed = |counts: &BTreeMap<String, usize>, word: &str| {
            let mut texts: Vec<String> = counts
                .iter()
                .map(|(name, count)| format!("{name} {word} {count} resource instances"))
                .collect();
            texts.sort();
            texts.join(", ")
        };
        let mut add = |kind: &str, reason: &str, message: String| {
            conditions.push([kind.to_owned(), reason.to_owned(), message]);
        };
        if !self.errors.is_empty() {
            let errors: Vec<&str> = self.errors.iter().map(String::as_str).collect();
            let message = format!(
                "Failed to delete all resource types, {} remaining: {}",
                errors.len(),
                errors.join(", ")
            );
            add("NamespaceDeletionContentFailure", "ContentDeletionFailed", message);
        }
        if !self.resources.is_empty() {
            let message = format!("Some resources are remaining: {}", listed(&self.resources, "has"));
            add("NamespaceContentRemaining", "SomeResourcesRemain", message);
        }
        if !self.finalizers.is_empty() {
            let message = format!(
                "Some content in the namespace has finalizers remaining: {}",
                listed(&self.finalizers, "in")
            );
            add("NamespaceFinalizersRemaining", "SomeFinalizersRemain", message);
        }
        conditions
    }
}

/// Brings the conditions of a namespace up to date. Those that are as they were keep their times.
fn set_conditions(namespace: &mut Value, left: &Left, now: jiff::Timestamp) {
    let wrong = left.conditions();
    let status = object::member_mut(namespace, "status");
    let list = status.entry("conditions").or_insert_with(|| json!([]));
    let Some(list) = list.as_array_mut() else { return };
    for [kind, reason, message] in CONDITIONS {
        let found = wrong.iter().find(|condition| condition[0] == kind);
        let (state, reason, message) = match found {
            Some([_, reason, message]) => ("True", reason.as_str(), message.as_str()),
            None => ("False", reason, message),
        };
        let before = list.iter_mut().find(|condition| object::text(condition, "type") == kind);
        match before {
            None => list.push(json!({
                "type": kind, "status": state, "lastTransitionTime": object::time(now),
                "reason": reason, "message": message,
            })),
            Some(condition) => {
                if object::text(condition, "status") != state {
                    condition["lastTransitionTime"] = object::time(now);
                }
                condition["status"] = state.into();
                condition["reason"] = reason.into();
                condition["message"] = message.into();
            }
        }
    }
}

/// Is there something to do for a namespace?
fn is_due(namespace: &Value) -> bool {
    let held = namespace.pointer("/spec/finalizers").and_then(Value::as_array);
    is_terminating(namespace) && held.is_some_and(|list| list.iter().any(|name| name == FINALIZER))
}

/// Follows the namespaces until the server stops.
pub(super) async fn run(state: Arc<State>) {
    let mut feed = Feed::new(&state, Scope::All, |definition| definition.is("", "namespaces"));
    let mut running: BTreeSet<String> = BTreeSet::new();
    let mut tasks: JoinSet<String> = JoinSet::new();
    loop {
        let mut names: Vec<String> = Vec::new();
        tokio::select! {
            news = feed.next() => match news {
                Some(News::Snapshot(snapshot)) => {
                    names.extend(snapshot.iter(&Scope::All).map(|entry| entry.key().name().to_owned()));
                }
                Some(News::Event(event)) => names.push(event.key().name().to_owned()),
                Some(News::Catalog) => {}
                None => return,
            },
            Some(done) = tasks.join_next(), if !tasks.is_empty() => {
                if let Ok(name) = done {
                    running.remove(&name);
                    // One of that name may have come and gone meanwhile.
                    names.push(name);
                }
            }
        }
        for name in names {
            if !running.contains(&name)
                && namespace(&state, &name).is_some_and(|namespace| is_due(&namespace))
            {
                running.insert(name.clone());
                let state = state.clone();
                tasks.spawn(async move {
                    empty(&state, &name).await;
                    name
                });
            }
        }
    }
}

fn definition(state: &State) -> Option<Arc<Definition>> {
    state.catalog().find("", "v1", "namespaces").cloned()
}

fn namespace(state: &State, name: &str) -> Option<Value> {
    let definition = definition(state)?;
    let target = Target { definition: &definition, namespace: "", name };
    Some(definition.read(&*state.get(&target).ok()?))
}

/// Empties a namespace and lets it go, however long that takes.
async fn empty(state: &Arc<State>, name: &str) {
    let mut feed = Feed::new(state, Scope::Namespace(name.to_owned()), |definition| definition.namespaced);
    let mut attempts = 0;
    while namespace(state, name).is_some_and(|namespace| is_due(&namespace)) {
        // What has happened up to now, the next look sees.
        while feed.try_next().is_some() {}
        let begun = Instant::now();
        let left = delete_content(state, name).await;
        let failed = !left.errors.is_empty();
        let result = match report(state, name, &left).await {
            Ok(()) if left.is_nothing() => finalize(state, name).await,
            other => other,
        };
        match result {
            Ok(()) if left.is_nothing() => return,
            Ok(()) if !failed => {
                attempts = 0;
                // Whatever frees the rest is an event here.
                if feed.next().await.is_none() {
                    return;
                }
                // At most half of the time is spent on looking.
                tokio::time::sleep(begun.elapsed().min(LONGEST_RETRY)).await;
            }
            Err(error) if is_over(&error) => return,
            _ => {
                tokio::time::sleep(backoff(attempts)).await;
                attempts += 1;
            }
        }
    }
}

/// Deletes everything once; pods before the rest, which they may need until they end.
async fn delete_content(state: &Arc<State>, name: &str) -> Left {
    let catalog = state.catalog();
    let (pods, others): (Vec<_>, Vec<_>) = catalog
        .preferred()
        .iter()
        .filter(|definition| definition.namespaced && is_stored(definition))
        .partition(|definition| definition.is("", "pods"));
    let mut left = Left::default();
    for definition in pods {
        delete_all(state, definition, name, &mut left).await;
    }
    if left.is_nothing() {
        for definition in others {
            delete_all(state, definition, name, &mut left).await;
        }
    }
    left
}

async fn delete_all(state: &Arc<State>, definition: &Arc<Definition>, namespace: &str, left: &mut Left) {
    let scope = Scope::Namespace(namespace.to_owned());
    let Ok(snapshot) = state.store.snapshot(&definition.resource, At::Latest) else { return };
    if snapshot.len(&scope) == 0 {
        return;
    }
    let mut tasks: JoinSet<Result<Deleted, ApiError>> = JoinSet::new();
    let mut failed = |done: Option<Result<Result<Deleted, ApiError>, tokio::task::JoinError>>| {
        if let Some(Ok(Err(error))) = done
            && error.code != 404
        {
            left.errors.insert(error.message);
        }
    };
    for entry in snapshot.iter(&scope) {
        if tasks.len() >= PARALLEL {
            failed(tasks.join_next().await);
        }
        let (state, definition, key) = (state.clone(), definition.clone(), entry.key().clone());
        tasks.spawn(async move {
            let target = Target { definition: &definition, namespace: key.namespace(), name: key.name() };
            let options =
                DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
            delete::delete(&state, &call(), &target, &options).await
        });
    }
    while !tasks.is_empty() {
        failed(tasks.join_next().await);
    }
    if let Ok(snapshot) = state.store.snapshot(&definition.resource, At::Latest) {
        left.count(definition, snapshot.iter(&scope).cloned());
    }
}

/// Writes the conditions.
async fn report(state: &State, name: &str, left: &Left) -> Result<(), ApiError> {
    change(state, name, Part::Status, &|old| {
        let mut new = old.clone();
        if is_terminating(old) {
            set_conditions(&mut new, left, state.now());
        }
        Ok(new)
    })
    .await
}

/// Takes the finalizer off the spec. If it was the last, the namespace is gone.
async fn finalize(state: &State, name: &str) -> Result<(), ApiError> {
    change(state, name, Part::Finalize, &|old| {
        let mut new = old.clone();
        if is_terminating(old)
            && let Some(list) = new.pointer_mut("/spec/finalizers").and_then(Value::as_array_mut)
        {
            list.retain(|finalizer| finalizer != FINALIZER);
        }
        Ok(new)
    })
    .await
}

async fn change(
    state: &State,
    name: &str,
    part: Part,
    change: &(dyn Fn(&Value) -> Result<Value, ApiError> + Sync),
) -> Result<(), ApiError> {
    let definition = definition(state).ok_or_else(|| ApiError::internal("namespaces are not served"))?;
    let target = Target { definition: &definition, namespace: "", name };
    debug_assert!(!name.is_empty());
    update::update(state, &mut call(), &target, part, Change::With(change), &WriteOptions::internal())
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::meta;

    #[test]
    fn conditions_keep_their_times_until_they_change() {
        let mut namespace = json!({"metadata": {"name": "shop"}});
        let at = |second: i64| jiff::Timestamp::from_second(second).unwrap();
        let mut left = Left::default();
        left.resources.insert("pods.".into(), 2);
        left.finalizers.insert("example.com/hold".into(), 1);
        set_conditions(&mut namespace, &left, at(0));
        let message = |namespace: &Value, index: usize| {
            namespace["status"]["conditions"][index]["message"].as_str().unwrap().to_owned()
        };
        assert_eq!(message(&namespace, 3), "Some resources are remaining: pods. has 2 resource instances");
        assert_eq!(
            message(&namespace, 4),
            "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
        );
        set_conditions(&mut namespace, &Left::default(), at(60));
        let conditions = namespace["status"]["conditions"].as_array().unwrap();
        assert_eq!(conditions.len(), 5);
        let times: Vec<&str> =
            conditions.iter().map(|condition| condition["lastTransitionTime"].as_str().unwrap()).collect();
        let (first, second) = ("1970-01-01T00:00:00Z", "1970-01-01T00:01:00Z");
        assert_eq!(times, [first, first, first, second, second]);
        assert!(conditions.iter().all(|condition| condition["status"] == "False"));
        assert_eq!(meta(&namespace, "name"), "shop");
    }
}

//! CRD controller: accepts names, serves resources, and finalizes CRDs that are deleted.
//!
//! A resource is in the catalog before its definition says that it is established.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use settled_store::{At, Scope};

use crate::error::ApiError;
use crate::kinds::apiextensions::custom_resource_definition::{
    CLEANUP, accept_names, is_true, report_approval,
};
use crate::kinds::crd::{self, GROUP, PLURAL};
use crate::kinds::definition::Definition;
use crate::kinds::names::Part;
use crate::object::{self, finalizers, is_terminating, meta, metadata_mut, text};
use crate::options::{DeleteOptions, WriteOptions};
use crate::state::State;
use crate::state::call::{Call, Target};
use crate::verbs::change::Change;
use crate::verbs::delete::{self, Deleted};
use crate::verbs::update;

/// How long to wait before trying again what failed.
const RETRY: Duration = Duration::from_millis(100);

fn crd_definition(state: &State) -> Result<Arc<Definition>, ApiError> {
    let catalog = state.catalog();
    catalog.find(GROUP, "v1", PLURAL).cloned().ok_or_else(|| ApiError::internal("definitions are not served"))
}

/// All definitions as they are.
fn crds(state: &State) -> Result<Vec<Value>, ApiError> {
    crds_where(state, |_| true)
}

fn crds_where(state: &State, fits: impl Fn(&str) -> bool) -> Result<Vec<Value>, ApiError> {
    let definition = crd_definition(state)?;
    let snapshot = state.store.snapshot(&crd::resource()?, At::Latest).map_err(ApiError::internal)?;
    let entries = snapshot.iter(&Scope::All).filter(|entry| fits(entry.key().name()));
    Ok(entries.map(|entry| definition.read(entry)).collect())
}

/// Serves what the stored definitions describe: at the start, before anything else.
pub(crate) fn load(state: &State) -> Result<(), ApiError> {
    for crd in crds(state)? {
        if is_true(&crd, "Established") {
            serve_crd(state, &crd)?;
        }
    }
    Ok(())
}

/// Puts the versions of a definition into the catalog. What served it before is retired: its watches end. While a definition is
/// terminating they go on, as upstream's do: they report the deletion of the custom resources.
fn serve_crd(state: &State, crd: &Value) -> Result<(), ApiError> {
    let revision = meta(crd, "resourceVersion").parse().unwrap_or_default();
    let definitions = crd::definitions(crd, revision)?;
    let group = text(crd.get("spec").unwrap_or(&Value::Null), "group").to_owned();
    let plural = crd.pointer("/status/acceptedNames/plural").and_then(Value::as_str).unwrap_or_default();
    let terminating = is_terminating(crd);
    state.change_catalog(|catalog| {
        let replaced: Vec<_> = catalog.versions_of(&group, plural).into_iter().cloned().collect();
        catalog.remove(&group, plural);
        for mut definition in definitions {
            let version = &definition.names.version;
            let same = replaced.iter().find(|old| terminating && old.names.version == *version);
            if let Some(old) = same {
                definition.keep_watches_of(old);
            }
            catalog.insert(Arc::new(definition));
        }
        for old in replaced {
            let kept = terminating && catalog.find(&group, &old.names.version, plural).is_some();
            if !kept {
                old.retire();
            }
        }
    });
    Ok(())
}

fn withdraw_crd(state: &State, name: &str) {
    // The name is the plural one and the group.
    let Some((plural, group)) = name.split_once('.') else { return };
    state.change_catalog(|catalog| {
        for old in catalog.versions_of(group, plural) {
            old.retire();
        }
        catalog.remove(group, plural);
    });
}

/// Follows the definitions until the server stops.
pub(crate) async fn run(state: Arc<State>) {
    let Ok(resource) = crd::resource() else { return };
    loop {
        let Ok((snapshot, mut watch)) = state.store.snapshot_and_watch(&resource, &Scope::All) else {
            return;
        };
        let mut names: Vec<String> =
            snapshot.iter(&Scope::All).map(|entry| entry.key().name().to_owned()).collect();
        loop {
            for name in std::mem::take(&mut names) {
                settle_crd(state.clone(), name).await;
            }
            match watch.recv().await {
                Ok(event) => {
                    let name = event.key().name().to_owned();
                    if event.entry().is_none() {
                        withdraw_crd(&state, &name);
                        // Its names are free now.
                        names = crds(&state)
                            .unwrap_or_default()
                            .iter()
                            .map(|crd| meta(crd, "name").to_owned())
                            .collect();
                    } else {
                        names.push(name);
                    }
                }
                Err(settled_store::WatchError::Stopped) => return,
                // Too slow: begin anew.
                Err(_) => break,
            }
        }
    }
}

/// Brings one definition as far as it can get now. What fails is tried again.
async fn settle_crd(state: Arc<State>, name: String) {
    while let Err(error) = try_settle_crd(state.clone(), &name).await {
        if error.code == 404 || error.code == 503 {
            return;
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn try_settle_crd(state: Arc<State>, name: &str) -> Result<(), ApiError> {
    let definition = crd_definition(&state)?;
    let target = Target { definition: &definition, namespace: "", name };
    let entry = state.get(&target)?;
    let crd = definition.read(&entry);
    if is_terminating(&crd) {
        if is_served(&state, &crd, true) {
            return Ok(());
        }
        serve_crd(&state, &crd)?;
        state.lifecycle.spawn(clean_up(state.clone(), name.to_owned()));
        return Ok(());
    }
    let spec_names = crd.pointer("/spec/names");
    let settled = spec_names == crd.pointer("/status/acceptedNames") && is_true(&crd, "Established");
    if settled {
        if !is_served(&state, &crd, false) {
            serve_crd(&state, &crd)?;
        }
        return Ok(());
    }
    // A definition's name ends with its group: those of others need not be read, which large clusters have hundreds of.
    let end = format!(".{}", text(crd.get("spec").unwrap_or(&Value::Null), "group"));
    let others = crds_where(&state, |other| {
        other != name && other.strip_suffix(&end).is_some_and(|plural| !plural.contains('.'))
    })?;
    let mut accepted = crd.clone();
    let now = state.now();
    accept_names(&mut accepted, &others, now);
    report_approval(&mut accepted, now);
    if is_true(&accepted, "Established") && !is_served(&state, &accepted, false) {
        serve_crd(&state, &accepted)?;
    }
    let status = accepted.get("status").cloned().unwrap_or_default();
    if Some(&status) == crd.get("status") {
        return Ok(());
    }
    let revision = meta(&crd, "resourceVersion").to_owned();
    let change = |old: &Value| {
        if meta(old, "resourceVersion") != revision {
            return Err(ApiError::conflict(definition.group_resource(), name, "it changed"));
        }
        let mut new = old.clone();
        new["status"] = status.clone();
        Ok(new)
    };
    let mut call = Call::new("kube-apiserver");
    let options = WriteOptions::internal();
    update::update(&state, &mut call, &target, Part::Status, Change::With(&change), &options).await?;
    Ok(())
}

/// Is the definition served as it is?
fn is_served(state: &State, crd: &Value, terminating: bool) -> bool {
    let group = crd.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default();
    let plural = crd.pointer("/status/acceptedNames/plural").and_then(Value::as_str).unwrap_or_default();
    let catalog = state.catalog();
    let versions = catalog.versions_of(group, plural);
    let generation =
        object::metadata(crd).and_then(|metadata| metadata.get("generation")).and_then(Value::as_i64);
    !versions.is_empty()
        && versions.iter().all(|definition| {
            definition.model.custom().is_some_and(|custom| {
                custom.terminating == terminating
                    && (terminating || Some(custom.generation) == generation)
                    && crd.pointer("/status/acceptedNames") == Some(&custom.names)
            })
        })
}

/// Deletes the objects of a definition that is being deleted, then lets it go.
async fn clean_up(state: Arc<State>, name: String) {
    while let Err(error) = try_clean_up(&state, &name).await {
        if error.code == 404 || error.code == 503 {
            return;
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn try_clean_up(state: &State, name: &str) -> Result<(), ApiError> {
    let definition = crd_definition(state)?;
    let target = Target { definition: &definition, namespace: "", name };
    let entry = state.get(&target)?;
    let crd = definition.read(&entry);
    let group = crd.pointer("/spec/group").and_then(Value::as_str).unwrap_or_default();
    let plural = crd.pointer("/spec/names/plural").and_then(Value::as_str).unwrap_or_default();
    let catalog = state.catalog();
    let versions = catalog.versions_of(group, plural);
    if let Some(served) = versions.first() {
        let mut call = Call::new("kube-apiserver");
        let options = DeleteOptions::default();
        loop {
            let begun = state.store.snapshot_and_watch(&served.resource, &Scope::All);
            let (snapshot, mut watch) = begun.map_err(ApiError::internal)?;
            if snapshot.is_empty() {
                break;
            }
            let mut waits = false;
            for entry in snapshot.iter(&Scope::All) {
                call.now = state.now();
                let key = entry.key();
                let target = Target { definition: served, namespace: key.namespace(), name: key.name() };
                match delete::delete(state, &call, &target, &options).await {
                    Ok(Deleted::Gone(_)) => {}
                    Ok(Deleted::Pending(_)) => waits = true,
                    Err(error) if error.code == 404 => {}
                    Err(error) => return Err(error),
                }
            }
            // Objects with finalizers are gone once these are removed.
            if waits {
                while watch.recv().await.map_err(ApiError::internal)?.entry().is_some() {}
            }
        }
    }
    let change = |old: &Value| {
        let mut new = old.clone();
        let rest: Vec<Value> =
            finalizers(old).into_iter().filter(|finalizer| *finalizer != CLEANUP).map(Value::from).collect();
        metadata_mut(&mut new).insert("finalizers".to_owned(), rest.into());
        Ok(new)
    };
    let mut call = Call::new("kube-apiserver");
    let options = WriteOptions::internal();
    update::update(state, &mut call, &target, Part::Main, Change::With(&change), &options).await?;
    Ok(())
}

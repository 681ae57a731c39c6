//! PVC, PV and VolumeAttributesClass protection: removes their finalizers once nothing uses them
//! (`pkg/controller/volume/*protection` upstream).
//!
//! They get a finalizer when they are created. Without this, nobody would take it off, and a namespace with a claim would stay for ever.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;
use settled_apimachinery::unstructured::string_at;
use settled_store::{Key, Scope};

use super::feed::{Feed, News};
use super::retry::{backoff, call, is_over};
use crate::error::ApiError;
use crate::kinds::definition::Definition;
use crate::kinds::names::Part;
use crate::object::{finalizers, is_terminating, metadata_mut};
use crate::options::WriteOptions;
use crate::state::State;
use crate::state::call::Target;
use crate::verbs::change::Change;
use crate::verbs::update;

/// The finalizer of a kind that is protected.
fn finalizer(definition: &Definition) -> Option<&'static str> {
    match (definition.names.group.as_str(), definition.names.plural.as_str()) {
        ("", "persistentvolumeclaims") => Some("kubernetes.io/pvc-protection"),
        ("", "persistentvolumes") => Some("kubernetes.io/pv-protection"),
        ("storage.k8s.io", "volumeattributesclasses") => Some("kubernetes.io/vac-protection"),
        _ => None,
    }
}

/// Does a pod that was given a node use the claim?
fn uses_claim(pod: &Value, claim: &str) -> bool {
    let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
    !string_at(pod, "/spec/nodeName").is_empty()
        && volumes.into_iter().flatten().any(|volume| {
            let made = || format!("{}-{}", string_at(pod, "/metadata/name"), string_at(volume, "/name"));
            string_at(volume, "/persistentVolumeClaim/claimName") == claim
                || (volume.get("ephemeral").is_some() && made() == claim)
        })
}

/// Does a claim or a volume name the class?
fn names_class(object: &Value, class: &str) -> bool {
    let places = [
        "/spec/volumeAttributesClassName",
        "/status/currentVolumeAttributesClassName",
        "/status/modifyVolumeStatus/targetVolumeAttributesClassName",
    ];
    places.iter().any(|place| string_at(object, place) == class)
}

/// Follows what is protected, and those that use it, until the server stops.
pub(super) async fn run(state: Arc<State>) {
    let mut feed = Feed::new(&state, Scope::All, |definition| {
        finalizer(definition).is_some() || definition.is("", "pods")
    });
    let mut held: HashSet<Key> = HashSet::new();
    let mut attempts = 0;
    let mut failed = false;
    loop {
        let retry = async {
            match failed {
                true => tokio::time::sleep(backoff(attempts)).await,
                false => std::future::pending().await,
            }
        };
        let mut news = tokio::select! {
            news = feed.next() => match news {
                None => return,
                news => news,
            },
            () = retry => None,
        };
        while let Some(one) = news {
            match one {
                // Of those that aren't protected, the next look makes an end.
                News::Snapshot(snapshot) => {
                    held.extend(snapshot.iter(&Scope::All).map(|entry| entry.key().clone()));
                }
                News::Event(event) if event.entry().is_some_and(crate::kinds::index::is_terminating) => {
                    held.insert(event.key().clone());
                }
                News::Event(_) | News::Catalog => {}
            }
            news = feed.try_next();
        }
        failed = false;
        for key in held.clone() {
            match let_go(&state, &key).await {
                Ok(true) => {}
                Err(error) if !is_over(&error) => failed = true,
                _ => {
                    held.remove(&key);
                }
            }
        }
        attempts = if failed { attempts + 1 } else { 0 };
    }
}

/// Removes the finalizer from unused objects. True if the object is in use.
async fn let_go(state: &State, key: &Key) -> Result<bool, ApiError> {
    let catalog = state.catalog();
    let definition = catalog.preferred().iter().find(|definition| definition.resource == *key.resource());
    let Some((definition, finalizer)) = definition.and_then(|found| Some((found, finalizer(found)?))) else {
        return Ok(false);
    };
    let target = Target { definition, namespace: key.namespace(), name: key.name() };
    let object = definition.read(&*state.get(&target)?);
    if !is_terminating(&object) || !finalizers(&object).contains(&finalizer) {
        return Ok(false);
    }
    let any = |plural: &str, namespace: &str, uses: &dyn Fn(&Value) -> bool| {
        state.stored("", plural, namespace).iter().any(|(_, object)| uses(object))
    };
    let name = key.name();
    let used = match definition.names.plural.as_str() {
        "persistentvolumeclaims" => any("pods", key.namespace(), &|pod| uses_claim(pod, name)),
        "persistentvolumes" => string_at(&object, "/status/phase") == "Bound",
        _ => ["persistentvolumeclaims", "persistentvolumes"]
            .iter()
            .any(|plural| any(plural, "", &|object| names_class(object, name))),
    };
    if used {
        return Ok(true);
    }
    let change = |old: &Value| {
        let mut new = old.clone();
        let rest: Vec<Value> =
            finalizers(old).into_iter().filter(|name| *name != finalizer).map(Value::from).collect();
        metadata_mut(&mut new).insert("finalizers".to_owned(), rest.into());
        Ok(new)
    };
    update::update(state, &mut call(), &target, Part::Main, Change::With(&change), &WriteOptions::internal())
        .await?;
    Ok(false)
}

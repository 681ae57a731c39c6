//! Discovery of the kinds of edits: once for all runs, not for each edit.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use http::Method;
use serde_json::Value;
use settled_apiserver::Server;

use crate::cluster::{ObjectKey, text};
use crate::request;
use crate::scenario::Reference;

const JSON: &str = "application/json";

/// Resource and whether it is namespaced, by apiVersion and kind.
pub(crate) type Kinds = BTreeMap<(String, String), (String, bool)>;

/// Finds the resource of an object, and its version.
pub(crate) async fn locate(
    server: &Server,
    kinds: &Kinds,
    object: &Reference,
) -> Option<(ObjectKey, String)> {
    let (group, version) = object.api_version.rsplit_once('/').unwrap_or(("", &object.api_version));
    let known = kinds.get(&(object.api_version.clone(), object.kind.clone())).cloned();
    let (resource, namespaced) = match known {
        Some(known) => known,
        None => discover(server, object).await?,
    };
    let key = ObjectKey {
        group: group.to_owned(),
        resource,
        namespace: if namespaced { object.namespace.clone() } else { String::new() },
        name: object.name.clone(),
    };
    Some((key, version.to_owned()))
}

/// Discovers the kind of an object and adds it.
pub(crate) async fn learn(server: &Server, kinds: &mut Kinds, object: &Reference) {
    let kind = (object.api_version.clone(), object.kind.clone());
    if let Entry::Vacant(kind) = kinds.entry(kind)
        && let Some(found) = discover(server, object).await
    {
        kind.insert(found);
    }
}

/// Discovers the resource of a kind, and whether it is namespaced.
async fn discover(server: &Server, object: &Reference) -> Option<(String, bool)> {
    let (group, version) = object.api_version.rsplit_once('/').unwrap_or(("", &object.api_version));
    let root = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let (_, list) = request::send(server, Method::GET, &root, JSON, None).await;
    let resources = list.get("resources").and_then(Value::as_array)?;
    let found = resources.iter().find(|resource| {
        resource.get("kind").is_some_and(|kind| *kind == object.kind)
            && !text(resource, "/name").contains('/')
    })?;
    let namespaced = found.get("namespaced").and_then(Value::as_bool).unwrap_or_default();
    Some((text(found, "/name").to_owned(), namespaced))
}

//! Objects of the API on a server: read, apply, change and restore them. The rest of the commands is pure.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
pub use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Resource as _, ResourceExt as _};
use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use settled_controller::{ObjectView, Projection};

use crate::crds::{ConfigSchema, definitions};
use crate::inventory::{Id, Inventory, Kind, text};
use crate::types::{GROUP, PAUSED_ANNOTATION, VERSION};

/// Objects of a page.
const PAGE: u32 = 500;
/// Field manager of the commands.
pub const FIELD_MANAGER: &str = "settled";

/// A request that failed.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The server does not have the API.
    #[error("the server has no kinds of {GROUP}")]
    NotInstalled,
    /// A request failed.
    #[error("cannot {action}: {}", answer(source))]
    Request {
        /// What it was for.
        action: String,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
}

/// The message of the server, without the rest of its status.
fn answer(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

impl LiveError {
    fn request(action: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let action = action.into();
        move |source| Self::Request { action, source: Box::new(source) }
    }

    /// The code of the server's answer, if there was one.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Request { source, .. } => match &**source {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            Self::NotInstalled => None,
        }
    }
}

/// The resource of a kind.
#[must_use]
pub fn resource(kind: Kind) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(GROUP, VERSION, kind.as_str()), kind.plural())
}

fn api(client: &Client, id: &Id) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), &id.namespace, &resource(id.kind))
}

fn value(object: &DynamicObject, kind: Kind) -> Value {
    let mut value = json!(object);
    name(&mut value, kind);
    value
}

/// Names the kind of an object: items of lists may have neither version nor kind.
fn name(object: &mut Value, kind: Kind) {
    if let Some(members) = object.as_object_mut() {
        members.insert("apiVersion".to_owned(), format!("{GROUP}/{VERSION}").into());
        members.insert("kind".to_owned(), kind.as_str().into());
    }
}

/// What a page of a list says of the next one.
#[derive(Deserialize)]
struct Head {
    metadata: ListMeta,
}

/// A page of a list. Objects are taken as they are: all their types would be made and written again for nothing.
#[derive(Deserialize)]
struct Page<'p> {
    #[serde(borrow)]
    items: Vec<&'p RawValue>,
}

/// The objects of a page, without managed fields, which an [`Inventory`] does not have.
fn items(page: &str) -> Result<Vec<Value>, serde_json::Error> {
    let projection = Projection::without_managed_fields();
    let page: Page<'_> = serde_json::from_str(page)?;
    let item = |item: &&RawValue| {
        let object = ObjectView::parse(item.get().as_bytes()).map_err(serde_json::Error::custom)?;
        serde_json::from_slice(&projection.apply(&object))
    };
    page.items.iter().map(item).collect()
}

/// Adds the objects of a path, page after page. A page is parsed while the next one is on its way.
async fn list(client: &Client, path: &str, kind: Kind, objects: &mut Vec<Value>) -> kube::Result<()> {
    let request = kube::core::Request::new(path);
    let mut parameters = ListParams::default().limit(PAGE);
    let mut pages = Vec::new();
    loop {
        let built = request.list(&parameters).map_err(kube::Error::BuildRequest)?;
        let text = client.request_text(built).await?;
        let head: Head = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
        pages.push(tokio::task::spawn_blocking(move || items(&text)));
        match head.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => break,
        }
    }
    for page in pages {
        let page = page.await.map_err(|error| kube::Error::Service(Box::new(error)))?;
        objects.extend(page.map_err(kube::Error::SerdeError)?.into_iter().map(|mut object| {
            name(&mut object, kind);
            object
        }));
    }
    Ok(())
}

/// Reads all objects of the API, in one namespace or in all.
///
/// # Errors
/// The server cannot be reached or refuses, or does not have the API.
pub async fn read(client: &Client, namespace: Option<&str>) -> Result<Inventory, LiveError> {
    let mut objects = Vec::new();
    let mut missing = 0;
    for kind in Kind::ALL {
        let path = DynamicObject::url_path(&resource(kind), namespace);
        match list(client, &path, kind, &mut objects).await {
            Err(kube::Error::Api(status)) if status.code == 404 => missing += 1,
            listed => listed.map_err(LiveError::request(format!("list {}", kind.plural())))?,
        }
    }
    if missing == Kind::ALL.len() {
        return Err(LiveError::NotInstalled);
    }
    Ok(Inventory::new(objects, namespace.unwrap_or("default")))
}

/// Reads all Nodes.
///
/// # Errors
/// The server cannot be reached or refuses.
pub async fn nodes(client: &Client) -> Result<Vec<Value>, LiveError> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Node"));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let list = api.list(&ListParams::default()).await.map_err(LiveError::request("list nodes"))?;
    let node = |node: &DynamicObject| {
        let mut node = json!(node);
        node["apiVersion"] = "v1".into();
        node["kind"] = "Node".into();
        node
    };
    Ok(list.items.iter().map(node).collect())
}

/// Installs the API, or brings it up to date, with the schemas of these providers.
///
/// # Errors
/// The server cannot be reached or refuses.
pub async fn install(client: &Client, providers: &[ConfigSchema]) -> Result<(), LiveError> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    ));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    for definition in definitions(providers) {
        let name = definition.name_any();
        let applied = api.patch(&name, &parameters, &Patch::Apply(json!(definition))).await;
        applied.map_err(LiveError::request(format!("install {name}")))?;
    }
    for definition in definitions(providers) {
        let name = definition.name_any();
        let established =
            kube::runtime::wait::await_condition(api.clone(), &name, |object: Option<&DynamicObject>| {
                let conditions =
                    object.and_then(|object| object.data.pointer("/status/conditions")?.as_array());
                conditions.into_iter().flatten().any(|condition| {
                    text(condition, "/type") == "Established" && text(condition, "/status") == "True"
                })
            });
        // A watch that ends is begun again; the caller has the timeout.
        drop(established.await);
    }
    Ok(())
}

/// How objects are applied.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ApplyOptions {
    /// Whether nothing is stored.
    pub dry_run: bool,
    /// Whether fields of other managers are taken over.
    pub force: bool,
}

/// Applies an object on the server's side. Returns it as it is then, or would be.
///
/// # Errors
/// The server cannot be reached or refuses.
pub async fn apply(
    client: &Client,
    id: &Id,
    object: &Value,
    options: ApplyOptions,
) -> Result<Value, LiveError> {
    let mut object = object.clone();
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in [
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "managedFields",
            "selfLink",
            "ownerReferences",
        ] {
            metadata.remove(name);
        }
    }
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        force: options.force,
        dry_run: options.dry_run,
        ..PatchParams::default()
    };
    let applied = api(client, id).patch(&id.name, &parameters, &Patch::Apply(&object)).await;
    let applied = applied.map_err(LiveError::request(format!("apply {id}")))?;
    Ok(value(&applied, id.kind))
}

/// Changes an object by a merge patch.
///
/// # Errors
/// The server cannot be reached or refuses.
pub async fn patch(client: &Client, id: &Id, patch: &Value, dry_run: bool) -> Result<Value, LiveError> {
    let parameters =
        PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), dry_run, ..PatchParams::default() };
    let patched = api(client, id).patch(&id.name, &parameters, &Patch::Merge(patch)).await;
    Ok(value(&patched.map_err(LiveError::request(format!("patch {id}")))?, id.kind))
}

/// Sets the size of a group, by its scale subresource.
///
/// # Errors
/// The server cannot be reached or refuses.
pub async fn scale(client: &Client, id: &Id, replicas: u32) -> Result<(), LiveError> {
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let scaled = api(client, id).patch_scale(&id.name, &parameters, &patch).await;
    scaled.map(drop).map_err(LiveError::request(format!("scale {id}")))
}

/// Creates an object.
///
/// # Errors
/// The server cannot be reached or refuses.
pub async fn create(client: &Client, id: &Id, object: &Value) -> Result<Value, LiveError> {
    let action = format!("create {id}");
    let object: DynamicObject = serde_json::from_value(object.clone())
        .map_err(|error| LiveError::request(action.clone())(kube::Error::SerdeError(error)))?;
    let parameters = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let created = api(client, id).create(&parameters, &object).await.map_err(LiveError::request(action))?;
    Ok(value(&created, id.kind))
}

/// Deletes an object. Gone is fine.
///
/// # Errors
/// The server cannot be reached or refuses.
pub async fn delete(client: &Client, id: &Id) -> Result<(), LiveError> {
    match api(client, id).delete(&id.name, &DeleteParams::background()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(LiveError::request(format!("delete {id}"))(error)),
    }
}

/// Restores the objects of an export that do not exist, with their status: first all of them, paused, then owner references, and at last,
/// from Machines to Clusters, the controllers are let at them. Returns the ids of what was restored.
///
/// # Errors
/// The server cannot be reached or refuses. What was restored until then is paused; restoring again goes on.
pub async fn restore(client: &Client, export: &Inventory) -> Result<Vec<Id>, LiveError> {
    let mut restored = Vec::new();
    let mut uids: BTreeMap<String, String> = BTreeMap::new();
    for (id, object) in export.iter() {
        let mut paused = object.clone();
        let was_paused =
            object.pointer("/metadata/annotations").and_then(|all| all.get(PAUSED_ANNOTATION)).is_some();
        let status = paused.as_object_mut().and_then(|members| members.remove("status"));
        let old = text(object, "/metadata/uid").to_owned();
        if let Some(metadata) = paused.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("uid");
            metadata.remove("ownerReferences");
        }
        if !was_paused {
            paused["metadata"]["annotations"][PAUSED_ANNOTATION] = RESTORING.into();
        }
        let present = match create(client, id, &paused).await {
            Ok(created) => created,
            Err(error) if error.code() == Some(409) => {
                let found =
                    api(client, id).get(&id.name).await.map_err(LiveError::request(format!("get {id}")))?;
                let found = value(&found, id.kind);
                uids.insert(old.clone(), text(&found, "/metadata/uid").to_owned());
                // One that was restored partly has the mark; another one is left alone.
                let mark = found
                    .pointer("/metadata/annotations")
                    .and_then(|all| all.get(PAUSED_ANNOTATION)?.as_str());
                if mark != Some(RESTORING) {
                    continue;
                }
                found
            }
            Err(error) => return Err(error),
        };
        uids.insert(old, text(&present, "/metadata/uid").to_owned());
        if let Some(status) = status {
            let patch = Patch::Merge(json!({"status": status}));
            let written = api(client, id).patch_status(&id.name, &PatchParams::default(), &patch).await;
            written.map_err(LiveError::request(format!("restore the status of {id}")))?;
        }
        restored.push((id.clone(), was_paused));
    }
    for (id, _) in &restored {
        let owners =
            export.get(id).and_then(|object| object.pointer("/metadata/ownerReferences")?.as_array());
        let owners = owners.into_iter().flatten().filter_map(|owner| {
            let mut owner = owner.clone();
            owner["uid"] = uids.get(text(&owner, "/uid"))?.clone().into();
            Some(owner)
        });
        let owners: Vec<Value> = owners.collect();
        if !owners.is_empty() {
            patch(client, id, &json!({"metadata": {"ownerReferences": owners}}), false).await?;
        }
    }
    let order = [
        Kind::MachineClass,
        Kind::Host,
        Kind::Machine,
        Kind::MachineSet,
        Kind::MachineDeployment,
        Kind::MachineHealthCheck,
        Kind::Cluster,
    ];
    for kind in order {
        for (id, _) in restored.iter().filter(|(id, was_paused)| id.kind == kind && !was_paused) {
            patch(client, id, &json!({"metadata": {"annotations": {PAUSED_ANNOTATION: null}}}), false)
                .await?;
        }
    }
    Ok(restored.into_iter().map(|(id, _)| id).collect())
}

/// Value of the annotation of objects that are being restored.
const RESTORING: &str = "restoring";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_read_without_their_managed_fields() {
        let text = r#"{"items": [{"metadata": {"name": "a", "managedFields": [{"manager": "b"}]}, "spec": {"managedFields": 1}}]}"#;
        let read = items(text).expect("a page");
        assert_eq!(read, [json!({"metadata": {"name": "a"}, "spec": {"managedFields": 1}})]);
        assert!(items(r#"{"items": [1]}"#).is_err());
    }
}

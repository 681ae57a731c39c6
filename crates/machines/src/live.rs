//! Objects of the API on a server: read, apply, change and restore them. The rest of the commands is pure.

use std::collections::BTreeMap;

pub use kube::Client;
use kube::ResourceExt as _;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

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
    // Items of lists have neither.
    value["apiVersion"] = format!("{GROUP}/{VERSION}").into();
    value["kind"] = kind.as_str().into();
    value
}

/// Reads all objects of the API, in one namespace or in all.
///
/// # Errors
/// The server cannot be reached or refuses, or does not have the API.
pub async fn read(client: &Client, namespace: Option<&str>) -> Result<Inventory, LiveError> {
    let mut objects = Vec::new();
    let mut missing = 0;
    for kind in Kind::ALL {
        let resource = resource(kind);
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let mut parameters = ListParams::default().limit(PAGE);
        loop {
            let list = match api.list(&parameters).await {
                Ok(list) => list,
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    missing += 1;
                    break;
                }
                Err(error) => return Err(LiveError::request(format!("list {}", kind.plural()))(error)),
            };
            objects.extend(list.items.iter().map(|object| value(object, kind)));
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => parameters = parameters.continue_token(&token),
                None => break,
            }
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

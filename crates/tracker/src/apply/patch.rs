//! The requests that apply one object, and what they have changed.

use bytes::Bytes;
use http::{Method, StatusCode};
use kstatus::{Node, Object};
use serde_json::{Value, json};
use settled_watch::{Cluster, RequestError, Resources, Verb, encode};

use super::changes::{changed_fields, content};
use super::events::{Applied, ApplyOptions, Conflict, Versions};
use super::foreign::AppliedState;
use super::manifest::Manifest;
use super::migrate;
use super::refusal::{Refusal, conflicts_of, refused};
use super::retry::retry;
use crate::id::Uid;
use crate::observation::MinVersion;
use crate::target::{KindName, Target};

/// As kubectl's `maxPatchRetry`.
const MAX_MIGRATIONS: usize = 5;

/// What became of an object that was applied.
pub(super) struct Sent {
    pub(super) result: Applied,
    pub(super) target: Target,
    pub(super) uid: Option<String>,
    pub(super) state: Option<AppliedState>,
    pub(super) fields: Vec<String>,
    pub(super) took_over: Vec<String>,
    pub(super) versions: Option<Box<Versions>>,
}

/// Applies one object.
pub(super) async fn send(
    cluster: &Cluster,
    resources: &Resources,
    manifest: &Manifest,
    default: &str,
    options: &ApplyOptions,
) -> Result<Sent, Refusal> {
    let Manifest { id, version, json } = manifest;
    let Some(resource) = resources.of_kind(&id.group, version.as_deref(), &id.kind) else {
        let what =
            if id.group.is_empty() { id.kind.to_string() } else { format!("{}.{}", id.kind, id.group) };
        let remedy = "apply its CustomResourceDefinition first, or check apiVersion and kind";
        return Err(Refusal::new(format!("the cluster has no kind {what}"), Some(remedy.to_owned())));
    };
    let namespace = if id.namespace.is_empty() { default } else { &id.namespace };
    let path = resource.path(Some(namespace), Some(&encode(&id.name)));
    let refused = |error| refused(error, &resource.qualified(), id, options);
    // How it was: to tell what has changed, and whether a status may be from before.
    let mut missing = false;
    let before = match retry(|| cluster.get(Verb::Get, &path)).await {
        Ok(before) => Some(before),
        Err(error) if error.is_not_found() || error.is_forbidden() => {
            missing = error.is_not_found();
            None
        }
        Err(error) => return Err(refused(error)),
    };
    let request = Patch { cluster, path: &path, json, options };
    let (code, after, took_over) = match before.as_deref().map(client_side) {
        Some((object, managers)) if !managers.is_empty() => {
            let (code, after) = request.migrate(object, &managers).await.map_err(refused)?;
            (code, after, managers)
        }
        _ => {
            let (code, after) = request.apply(options.force).await.map_err(refused)?;
            (code, after, Vec::new())
        }
    };
    let (new, old) = (Head::read(&after), before.as_deref().map(Head::read));
    let (was, is) = (before.as_deref().and_then(content), content(&after));
    let mut fields = Vec::new();
    let result = match (&was, &is) {
        _ if missing || code == StatusCode::CREATED => Applied::Created,
        (Some(was), Some(is)) if was == is => Applied::Unchanged,
        (Some(was), Some(is)) => {
            fields = changed_fields(was, is);
            Applied::Configured
        }
        _ => Applied::ServerSideApplied,
    };
    let versions = is.filter(|_| options.versions).map(|after| {
        let mut versions = Versions { before: was, after };
        if id.is("", "Secret") {
            mask(&mut versions);
        }
        Box::new(versions)
    });
    let state = (!options.dry_run)
        .then(|| AppliedState::new(id.clone(), path.clone(), &options.field_manager, &after))
        .flatten();
    let uid = new.uid.as_ref().map(ToString::to_string);
    let min_version = MinVersion {
        uid: new.uid,
        generation: new.generation,
        resource_version: new.resource_version,
        changed: old.is_some_and(|old| old.generation != new.generation),
    };
    let target = Target::Object {
        kind: KindName::Exact {
            group: id.group.to_string(),
            version: version.clone(),
            kind: id.kind.to_string(),
        },
        namespace: Some(namespace.to_owned()),
        name: id.name.to_string(),
        min_version: (!options.dry_run).then_some(min_version),
    };
    Ok(Sent { result, target, uid, state, fields, took_over, versions })
}

/// The managers of kubectl's client-side apply, and the object if there are any.
fn client_side(json: &[u8]) -> (Value, Vec<String>) {
    // Most objects have none, and need not be parsed for that.
    if memchr::memmem::find(json, migrate::LAST_APPLIED.as_bytes()).is_none() {
        return (Value::Null, Vec::new());
    }
    let object: Value = serde_json::from_slice(json).unwrap_or_default();
    let managers = migrate::client_side_managers(&object);
    (object, managers)
}

/// The requests for one object.
struct Patch<'a> {
    cluster: &'a Cluster,
    path: &'a str,
    json: &'a [u8],
    options: &'a ApplyOptions,
}

impl Patch<'_> {
    async fn apply(&self, force: bool) -> Result<(StatusCode, Bytes), RequestError> {
        let manager = encode(&self.options.field_manager);
        self.send(&format!("{manager}&fieldValidation=Strict"), force, self.json).await
    }

    async fn send(
        &self,
        manager: &str,
        force: bool,
        json: &[u8],
    ) -> Result<(StatusCode, Bytes), RequestError> {
        let mut path = format!("{}?fieldManager={manager}", self.path);
        if force {
            path.push_str("&force=true");
        }
        if self.options.dry_run {
            path.push_str("&dryRun=All");
        }
        retry(async || {
            let body = Some(("application/apply-patch+yaml", json.to_vec()));
            let sent = self.cluster.send(Verb::Write, Method::PATCH, &path, "application/json", body);
            let answer = sent.await?;
            Ok((answer.status(), self.cluster.whole(answer).await?))
        })
        .await
    }

    /// Applies an object whose fields belong to kubectl's client-side apply: they are taken over, as long as nobody else objects.
    ///
    /// kubectl applies, migrates what the server has made of it, and applies again, so that fields go which are not in the manifest
    /// any more. The first apply would be a conflict here: only for the manager `kubectl` does the server make an exception.
    async fn migrate(
        &self,
        mut object: Value,
        managers: &[String],
    ) -> Result<(StatusCode, Bytes), RequestError> {
        let Self { options, .. } = self;
        match self.apply(options.force).await {
            Ok((code, after)) if options.dry_run => return Ok((code, after)),
            Ok((_, after)) => object = serde_json::from_slice(&after).unwrap_or(object),
            Err(error) => {
                let conflicts = conflicts_of(&error);
                let ours = |conflict: &Conflict| managers.contains(&conflict.manager);
                if conflicts.is_empty() || !conflicts.iter().all(ours) {
                    return Err(error);
                }
                if options.dry_run {
                    return self.apply(true).await;
                }
            }
        }
        if options.field_manager == migrate::KUBECTL {
            object = self.keep_last_applied(object).await?;
        }
        for attempt in 1.. {
            let Some(patch) = migrate::upgrade_patch(&object, managers, &options.field_manager) else {
                break;
            };
            let body = || Some(("application/json-patch+json", patch.to_string().into_bytes()));
            let migrated = retry(|| {
                self.cluster.fetch(Verb::Write, Method::PATCH, self.path, "application/json", body())
            });
            match migrated.await {
                Ok(_) => break,
                Err(error) if error.code() == Some(409) && attempt < MAX_MIGRATIONS => {
                    let fresh = retry(|| self.cluster.get(Verb::Get, self.path)).await?;
                    object = serde_json::from_slice(&fresh).unwrap_or_default();
                }
                Err(error) => return Err(error),
            }
        }
        self.apply(options.force).await
    }

    /// The server keeps the annotation up to date for the manager `kubectl`, if another one owns it.
    async fn keep_last_applied(&self, object: Value) -> Result<Value, RequestError> {
        let annotation = &object["metadata"]["annotations"][migrate::LAST_APPLIED];
        if !annotation.is_string() || migrate::has_last_applied_manager(&object) {
            return Ok(object);
        }
        let only = json!({"apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {
            "name": object["metadata"]["name"], "annotations": {migrate::LAST_APPLIED: annotation}}});
        let only = only.to_string().into_bytes();
        let (_, after) = self.send(migrate::LAST_APPLIED_MANAGER, false, &only).await?;
        Ok(serde_json::from_slice(&after).unwrap_or(object))
    }
}

/// Masks the data of a Secret as `kubectl diff` does: that a value has changed can be seen, the value cannot.
fn mask(versions: &mut Versions) {
    let Versions { before, after } = versions;
    for data in ["data", "stringData"] {
        let mut none = Value::Null;
        let old = before.as_mut().and_then(|before| before.get_mut(data)).unwrap_or(&mut none);
        let mut absent = Value::Null;
        let new = after.get_mut(data).unwrap_or(&mut absent);
        for (key, value) in old.as_object_mut().into_iter().flatten() {
            match new.get_mut(key) {
                Some(changed) if changed != value => {
                    *value = "*** (before)".into();
                    *changed = "*** (after)".into();
                }
                Some(same) => {
                    *value = "***".into();
                    *same = "***".into();
                }
                None => *value = "***".into(),
            }
        }
        for (key, value) in new.as_object_mut().into_iter().flatten() {
            if old.get(key).is_none() {
                *value = "***".into();
            }
        }
    }
}

/// What has to be known of an object before and after.
#[derive(Debug, Default)]
struct Head {
    uid: Option<Uid>,
    generation: Option<i64>,
    resource_version: Option<u64>,
}

impl Head {
    fn read(json: &[u8]) -> Self {
        let Ok(object) = Object::parse(json) else { return Self::default() };
        let Some(metadata) = object.root().get("metadata") else { return Self::default() };
        Self {
            uid: metadata.get("uid").and_then(|uid| uid.as_str()).map(|uid| Uid::from(&*uid)),
            generation: metadata.get("generation").and_then(Node::as_int),
            resource_version: metadata.get("resourceVersion").and_then(|r| r.as_str()?.parse().ok()),
        }
    }
}

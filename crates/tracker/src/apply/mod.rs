//! Applies manifests by server-side apply, in an order that works, and knows afterwards what to wait for.

mod applyset;
mod changes;
mod foreign;
mod migrate;

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Method, StatusCode};
use kstatus::{Node, Object};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use applyset::{ApplySetError, apply_set_id};
pub use foreign::{AppliedState, ForeignChange};

use self::applyset::ApplySet;
use self::changes::{changed_fields, content};
use crate::cluster::{Cluster, RequestError, Verb, encode};
use crate::id::{ObjectId, Uid};
use crate::order::{apply_rank, waves};
use crate::policy::{Floor, Limits};
use crate::report::{Outcome, Report};
use crate::resources::Resources;
use crate::target::{KindName, Target};
use crate::tracker::{Request, Tracker};

/// So many objects of a kind are sent at the same time.
const AT_ONCE: usize = 16;
/// How often a request is tried again that the server was too busy for.
const TRIES: u32 = 5;
/// How often a request is tried again that was not answered.
const RECONNECTS: u32 = 3;
/// As kubectl's `maxPatchRetry`.
const MIGRATIONS: usize = 5;
/// How long is waited for namespaces, definitions and the kinds that they define.
const AWAIT: Duration = Duration::from_secs(60);
/// Metadata is enough to find members.
const PARTIAL_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// How to apply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyOptions {
    /// Who owns the fields.
    pub field_manager: String,
    /// Take over fields that others own.
    pub force: bool,
    /// The server checks everything and stores nothing.
    pub dry_run: bool,
    /// The namespace of objects that name none; the client's if none.
    pub namespace: Option<String>,
    /// The ApplySet whose members these objects are, by the name of its parent: `NAME` of a Secret, or `KIND/NAME`. Members that are
    /// not among the objects are deleted.
    pub apply_set: Option<String>,
    /// Hand out each object as it was before and after.
    pub versions: bool,
}

impl Default for ApplyOptions {
    fn default() -> Self {
        Self {
            field_manager: "settled".to_owned(),
            force: false,
            dry_run: false,
            namespace: None,
            apply_set: None,
            versions: false,
        }
    }
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Applied {
    /// It was not there before.
    Created,
    /// It is another than before.
    Configured,
    /// It was so already.
    Unchanged,
    /// It is applied; how it was before could not be read.
    #[serde(rename = "serverside-applied")]
    ServerSideApplied,
}

/// An object before and after an apply, without its status and what the server records of writes. The data of Secrets is masked.
#[derive(Clone, Debug, PartialEq)]
pub struct Versions {
    /// None if it did not exist, or could not be read.
    pub before: Option<Value>,
    /// How the server stored it, or would have.
    pub after: Value,
}

/// A field that somebody else owns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Conflict {
    /// Who owns it.
    pub manager: String,
    /// Which field: `.spec.replicas`.
    pub field: String,
}

/// What happens while applying.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "event", rename_all = "camelCase")]
pub enum ApplyEvent {
    /// An object was applied.
    Applied {
        /// Which object.
        object: ObjectId,
        /// What became of it.
        result: Applied,
        /// The fields that have changed: `spec.template.spec.containers[app].image`.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        fields: Vec<String>,
        /// The managers of kubectl's client-side apply whose fields were taken over.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        took_over: Vec<String>,
        /// Before and after, if they were asked for.
        #[serde(skip)]
        versions: Option<Box<Versions>>,
    },
    /// An object was a member of the ApplySet, is not applied any more, and was deleted.
    Pruned {
        /// Which object.
        object: ObjectId,
    },
    /// An object was refused.
    Refused {
        /// Which object.
        object: ObjectId,
        /// What the server says.
        message: String,
        /// The fields that others own, if that is why.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        conflicts: Vec<Conflict>,
        /// What would help.
        #[serde(skip_serializing_if = "Option::is_none")]
        remedy: Option<String>,
    },
    /// These have to be there before the rest can be applied.
    Awaiting {
        /// Which objects.
        objects: Vec<ObjectId>,
    },
    /// They did not come in time; what needs them will be refused.
    NotAwaited(Box<Report>),
    /// The cluster does not answer any more: the rest was not sent.
    Lost {
        /// How many objects were not sent.
        remaining: usize,
        /// The error of the last request.
        message: String,
    },
    /// Something that a user should know.
    Warning {
        /// What is the matter.
        message: String,
    },
}

/// What came of applying.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyReport {
    /// What was applied, each with its generation and revision: nothing older is to be taken for it.
    pub targets: Vec<Target>,
    /// The state in which each was left, to notice changes by others.
    pub states: Vec<AppliedState>,
    /// What was deleted because it is not in the ApplySet any more.
    pub pruned: Vec<Target>,
    /// How many objects were not applied, or not pruned.
    pub refused: usize,
    /// How many of these for want of a permission or of an answer.
    pub unreachable: usize,
}

/// Why nothing was applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The cluster can't be asked which kinds it has.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The ApplySet can't be used.
    #[error(transparent)]
    ApplySet(#[from] ApplySetError),
}

/// An object to apply.
#[derive(Clone, Debug)]
struct Manifest {
    id: ObjectId,
    version: Option<String>,
    json: Vec<u8>,
}

/// Why an object was refused.
struct Refusal {
    message: String,
    conflicts: Vec<Conflict>,
    remedy: Option<String>,
    /// A permission or an answer is missing.
    unreachable: bool,
    /// There was no answer.
    lost: bool,
}

impl Refusal {
    fn new(message: String, remedy: Option<String>) -> Self {
        Self { message, conflicts: Vec::new(), remedy, unreachable: false, lost: false }
    }
}

/// What became of an object that was applied.
struct Sent {
    result: Applied,
    target: Target,
    uid: Option<String>,
    state: Option<AppliedState>,
    fields: Vec<String>,
    took_over: Vec<String>,
    versions: Option<Box<Versions>>,
}

/// Applies objects, given as JSON: namespaces and definitions first and awaited, then the rest in the order of their kinds. An object
/// that is refused does not keep the others from being applied. Nothing is deleted but members of [`ApplyOptions::apply_set`] that
/// are not among the objects, and those only if all objects were applied.
///
/// # Errors
/// The cluster can't be asked which kinds it has, or the ApplySet can't be used. Nothing was applied then.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use settled_tracker::{ApplyEvent, ApplyOptions, Applied, Cluster, apply};
/// let server = settled_apiserver::Server::in_memory().await?;
/// let cluster = Cluster::new(server.client());
/// let config = br#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"},"data":{"a":"b"}}"#;
/// let mut seen = Vec::new();
/// let report = apply(&cluster, vec![config.to_vec()], &ApplyOptions::default(), |event| seen.push(event)).await?;
/// assert!(matches!(seen[0], ApplyEvent::Applied { result: Applied::Created, .. }));
/// assert_eq!(report.targets.len(), 1);
/// # Ok(())
/// # }
/// ```
pub async fn apply(
    cluster: &Cluster,
    objects: Vec<Vec<u8>>,
    options: &ApplyOptions,
    mut each: impl FnMut(ApplyEvent),
) -> Result<ApplyReport, ApplyError> {
    let mut resources = retry(|| cluster.resources()).await?;
    let namespace = options.namespace.clone().unwrap_or_else(|| cluster.default_namespace());
    let mut report = ApplyReport::default();
    let mut manifests = Vec::new();
    for json in objects {
        match manifest(json, &resources, &namespace) {
            Ok(manifest) => manifests.push(manifest),
            Err((object, message)) => {
                report.refused += 1;
                each(ApplyEvent::Refused { object, message, conflicts: Vec::new(), remedy: None });
            }
        }
    }
    let set = match &options.apply_set {
        Some(name) => {
            let set = ApplySet::open(cluster, &resources, name, &namespace, options.dry_run).await?;
            manifests.iter_mut().try_for_each(|manifest| set.label(manifest))?;
            set.record_superset(cluster, &resources, &manifests).await?;
            Some(set)
        }
        None => None,
    };
    let ids: Vec<ObjectId> = manifests.iter().map(|manifest| manifest.id.clone()).collect();
    let mut unchanged = HashSet::new();
    let mut uids = BTreeSet::new();
    let mut sent = 0;
    'waves: for wave in waves(&ids) {
        let of_wave: Vec<&Manifest> = wave.objects.iter().filter_map(|index| manifests.get(*index)).collect();
        // One kind after another; within a kind, several at once.
        for chunk in of_wave.chunk_by(|a, b| rank(a) == rank(b)) {
            let answers =
                chunk.iter().map(|manifest| send(cluster, &resources, manifest, &namespace, options));
            let mut answers = futures::stream::iter(answers).buffered(AT_ONCE);
            let mut of_chunk = chunk.iter();
            while let (Some(answer), Some(manifest)) = (answers.next().await, of_chunk.next()) {
                sent += 1;
                let object = manifest.id.clone();
                match answer {
                    Ok(answer) => {
                        let Sent { result, target, uid, state, fields, took_over, versions } = answer;
                        if result == Applied::Unchanged {
                            unchanged.insert(object.clone());
                        }
                        report.targets.push(target);
                        report.states.extend(state);
                        uids.extend(uid);
                        each(ApplyEvent::Applied { object, result, fields, took_over, versions });
                    }
                    Err(Refusal { message, conflicts, remedy, unreachable, lost }) => {
                        report.refused += 1;
                        report.unreachable += usize::from(unreachable);
                        let remaining = manifests.len().saturating_sub(sent);
                        if lost && remaining > 0 {
                            each(ApplyEvent::Refused { object, message: message.clone(), conflicts, remedy });
                            report.refused += remaining;
                            report.unreachable += remaining;
                            each(ApplyEvent::Lost { remaining, message });
                            break 'waves;
                        }
                        each(ApplyEvent::Refused { object, message, conflicts, remedy });
                    }
                }
            }
        }
        let awaited: Vec<ObjectId> =
            wave.awaited.iter().filter_map(|index| ids.get(*index).cloned()).collect();
        if !awaited.is_empty() && !options.dry_run {
            // What was there before is there; it is looked at all the same.
            let objects: Vec<ObjectId> =
                awaited.iter().filter(|id| !unchanged.contains(id)).cloned().collect();
            if !objects.is_empty() {
                each(ApplyEvent::Awaiting { objects });
            }
            if let Some(report) = await_objects(cluster, &awaited).await {
                each(ApplyEvent::NotAwaited(Box::new(report)));
            }
            resources = settle_kinds(cluster, resources, &manifests).await?;
        }
    }
    if let Some(set) = set {
        if report.refused > 0 {
            let message = "nothing is pruned, because not everything was applied".to_owned();
            each(ApplyEvent::Warning { message });
        } else {
            prune(cluster, &resources, &set, &manifests, &uids, &mut report, &mut each).await?;
        }
    }
    Ok(report)
}

/// Deletes the members of an ApplySet that were not applied.
async fn prune(
    cluster: &Cluster,
    resources: &Resources,
    set: &ApplySet,
    manifests: &[Manifest],
    applied: &BTreeSet<String>,
    report: &mut ApplyReport,
    each: &mut impl FnMut(ApplyEvent),
) -> Result<(), ApplySetError> {
    for (group, kind) in set.unserved(resources) {
        let dot = if group.is_empty() { "" } else { "." };
        let message = format!(
            "the ApplySet contains objects of the kind {kind}{dot}{group}, which the cluster does not serve: none of them is pruned"
        );
        each(ApplyEvent::Warning { message });
    }
    let mut failed = false;
    for orphan in set.orphans(cluster, resources, applied).await? {
        let object = orphan.object.clone();
        let deleted = match orphan.terminating {
            true => Ok(()),
            false => set.delete(cluster, &orphan).await,
        };
        match deleted {
            Ok(()) => {
                report.pruned.push(Target::Object {
                    kind: KindName::Exact {
                        group: object.group.to_string(),
                        version: None,
                        kind: object.kind.to_string(),
                    },
                    namespace: Some(object.namespace.to_string()),
                    name: object.name.to_string(),
                    floor: None,
                });
                each(ApplyEvent::Pruned { object });
            }
            Err(error) => {
                failed = true;
                report.refused += 1;
                report.unreachable += usize::from(is_unreachable(&error));
                let message = format!("cannot be pruned: {error}");
                each(ApplyEvent::Refused { object, message, conflicts: Vec::new(), remedy: None });
            }
        }
    }
    // What could not be deleted is still a member.
    if failed { Ok(()) } else { set.record_latest(cluster, resources, manifests).await }
}

/// Whether a permission or an answer is missing.
fn is_unreachable(error: &RequestError) -> bool {
    matches!(error.code(), None | Some(401 | 429 | 502..=504)) || lacks_permission(error)
}

/// Whether the user may not do that. A quota and admission plugins answer with the same code, but then it is the object that is refused.
fn lacks_permission(error: &RequestError) -> bool {
    let RequestError::Status { code: 403, message, .. } = error else { return false };
    message.contains("User \"") && message.contains(" cannot ")
}

fn rank(manifest: &Manifest) -> usize {
    apply_rank(&manifest.id.group, &manifest.id.kind)
}

/// Reads an object that is to be applied; or which one it is, and what is wrong with it.
fn manifest(json: Vec<u8>, resources: &Resources, default: &str) -> Result<Manifest, (ObjectId, String)> {
    let nameless = |message: &str| Err((ObjectId::new("", "", "", ""), message.to_owned()));
    let target = match Target::manifest(&json) {
        Ok(target) => target,
        Err(error) => return nameless(&error.to_string()),
    };
    let Target::Object { kind, namespace, name, .. } = target else { return nameless("it is no object") };
    let resource = kind.find(resources);
    let KindName::Exact { group, version, kind } = kind else { return nameless("it has no kind") };
    let namespaced = resource.is_none_or(|resource| resource.namespaced);
    let namespace = if namespaced { namespace.unwrap_or_else(|| default.to_owned()) } else { String::new() };
    Ok(Manifest { id: ObjectId::new(group, kind, namespace, name), version, json })
}

/// Applies one object.
async fn send(
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
    let floor = Floor {
        uid: new.uid,
        generation: new.generation,
        revision: new.revision,
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
        floor: (!options.dry_run).then_some(floor),
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
                Err(error) if error.code() == Some(409) && attempt < MIGRATIONS => {
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
    revision: Option<u64>,
}

impl Head {
    fn read(json: &[u8]) -> Self {
        let Ok(object) = Object::parse(json) else { return Self::default() };
        let Some(metadata) = object.root().get("metadata") else { return Self::default() };
        Self {
            uid: metadata.get("uid").and_then(|uid| uid.as_str()).map(|uid| Uid::from(&*uid)),
            generation: metadata.get("generation").and_then(Node::as_int),
            revision: metadata.get("resourceVersion").and_then(|r| r.as_str()?.parse().ok()),
        }
    }
}

/// Tries again while the server is too busy, or has not answered. Applying twice does no harm.
async fn retry<T, F: Future<Output = Result<T, RequestError>>>(
    mut ask: impl FnMut() -> F,
) -> Result<T, RequestError> {
    let (mut tries, mut reconnects) = (0, 0);
    loop {
        match ask().await {
            Err(RequestError::Transport(_)) if reconnects < RECONNECTS => {
                reconnects += 1;
                tokio::time::sleep(Duration::from_millis(100 << reconnects)).await;
            }
            Err(RequestError::Status { code: 429 | 500 | 502..=504, retry_after, .. }) if tries < TRIES => {
                tries += 1;
                tokio::time::sleep(retry_after.unwrap_or_else(|| Duration::from_millis(100 << tries))).await;
            }
            answer => return answer,
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Causes {
    details: Details,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    causes: Vec<CauseOf>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CauseOf {
    reason: String,
    message: String,
    field: String,
}

fn conflicts_of(error: &RequestError) -> Vec<Conflict> {
    let RequestError::Status { body, .. } = error else { return Vec::new() };
    let causes: Causes = serde_json::from_slice(body).unwrap_or_default();
    let conflicts = causes.details.causes.into_iter().filter(|cause| cause.reason == "FieldManagerConflict");
    conflicts
        .map(|cause| {
            // conflict with "kubectl" using apps/v1
            let manager = cause.message.split('"').nth(1).unwrap_or(&cause.message).to_owned();
            Conflict { manager, field: cause.field }
        })
        .collect()
}

fn refused(error: RequestError, resource: &str, id: &ObjectId, options: &ApplyOptions) -> Refusal {
    let mut refusal = Refusal::new(error.to_string(), None);
    refusal.unreachable = is_unreachable(&error);
    refusal.conflicts = conflicts_of(&error);
    let place = match &*id.namespace {
        "" => String::new(),
        namespace => format!(" in {namespace}"),
    };
    refusal.remedy = match error.code() {
        None => {
            refusal.lost = true;
            None
        }
        _ if !refusal.conflicts.is_empty() => Some(
            "remove these fields from the manifest to leave them to their owners, or take them over with --force-conflicts"
                .to_owned(),
        ),
        _ if lacks_permission(&error) => Some(format!("grant get and patch on {resource}{place}")),
        Some(404) if options.dry_run && !id.namespace.is_empty() => {
            Some(format!("a dry run does not create namespace {}; create it first", id.namespace))
        }
        _ => None,
    };
    refusal
}

/// Waits until these are Current; if they don't become so, how they are.
async fn await_objects(cluster: &Cluster, objects: &[ObjectId]) -> Option<Report> {
    let targets = objects.iter().map(|id| Target::Object {
        kind: KindName::Exact { group: id.group.to_string(), version: None, kind: id.kind.to_string() },
        namespace: Some(id.namespace.to_string()),
        name: id.name.to_string(),
        floor: None,
    });
    let limits = Limits { timeout: Some(AWAIT), ..Limits::default() };
    let request = Request { limits, ..Request::new(targets) };
    let mut tracker = Tracker::start(cluster.clone(), request).await.ok()?;
    while let Some(event) = tracker.next().await {
        if let crate::report::Event::Finished(report) = event {
            return (report.outcome != Outcome::Settled).then_some(report);
        }
    }
    None
}

/// Which kinds there are, once those that were just defined are among them: an Established definition is served a moment later.
async fn settle_kinds(
    cluster: &Cluster,
    mut resources: Resources,
    manifests: &[Manifest],
) -> Result<Resources, RequestError> {
    let mut pause = Duration::from_millis(20);
    let missing = |resources: &Resources| {
        manifests
            .iter()
            .any(|manifest| resources.of_kind(&manifest.id.group, None, &manifest.id.kind).is_none())
    };
    while missing(&resources) && pause < Duration::from_secs(4) {
        resources = cluster.resources().await?;
        if missing(&resources) {
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }
    Ok(resources)
}

//! Applies manifests by server-side apply, in an order that works, and knows afterwards what to wait for.

use std::collections::HashSet;
use std::time::Duration;

use futures::StreamExt as _;
use http::{Method, StatusCode};
use kstatus::{Node, Object};
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
/// How long is waited for namespaces, definitions and the kinds that they define.
const AWAIT: Duration = Duration::from_secs(60);

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
}

impl Default for ApplyOptions {
    fn default() -> Self {
        Self { field_manager: "settled".to_owned(), force: false, dry_run: false, namespace: None }
    }
}

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Applied {
    /// It was not there before.
    Created,
    /// It is another than before.
    Changed,
    /// It was so already.
    Unchanged,
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
}

/// What came of applying.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplyReport {
    /// What was applied, each with its generation and revision: nothing older is to be taken for it.
    pub targets: Vec<Target>,
    /// How many objects were refused.
    pub refused: usize,
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
}

/// Applies objects, given as JSON: namespaces and definitions first and awaited, then the rest in the order of their kinds. Nothing is
/// ever deleted. An object that is refused does not keep the others from being applied.
///
/// # Errors
/// The cluster can't be asked which kinds it has.
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
) -> Result<ApplyReport, RequestError> {
    let mut resources = cluster.resources().await?;
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
    let ids: Vec<ObjectId> = manifests.iter().map(|manifest| manifest.id.clone()).collect();
    let mut unchanged = HashSet::new();
    for wave in waves(&ids) {
        let of_wave: Vec<&Manifest> = wave.objects.iter().filter_map(|index| manifests.get(*index)).collect();
        // One kind after another; within a kind, several at once.
        for chunk in of_wave.chunk_by(|a, b| rank(a) == rank(b)) {
            let sent = chunk.iter().map(|manifest| send(cluster, &resources, manifest, &namespace, options));
            let mut answers = futures::stream::iter(sent).buffered(AT_ONCE);
            let mut of_chunk = chunk.iter();
            while let (Some(answer), Some(manifest)) = (answers.next().await, of_chunk.next()) {
                let object = manifest.id.clone();
                match answer {
                    Ok((result, target)) => {
                        if result == Applied::Unchanged {
                            unchanged.insert(object.clone());
                        }
                        report.targets.push(target);
                        each(ApplyEvent::Applied { object, result });
                    }
                    Err(Refusal { message, conflicts, remedy }) => {
                        report.refused += 1;
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
    Ok(report)
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
) -> Result<(Applied, Target), Refusal> {
    let refusal = |message: String, remedy: Option<&str>| Refusal {
        message,
        conflicts: Vec::new(),
        remedy: remedy.map(str::to_owned),
    };
    let Manifest { id, version, json } = manifest;
    let Some(resource) = resources.of_kind(&id.group, version.as_deref(), &id.kind) else {
        let what =
            if id.group.is_empty() { id.kind.to_string() } else { format!("{}.{}", id.kind, id.group) };
        let remedy = "apply its CustomResourceDefinition first, or check apiVersion and kind";
        return Err(refusal(format!("the cluster has no kind {what}"), Some(remedy)));
    };
    let namespace = if id.namespace.is_empty() { default } else { &id.namespace };
    let path = resource.path(Some(namespace), Some(&encode(&id.name)));
    // How it was: to tell what has changed, and whether a status may be from before.
    let mut missing = false;
    let before = match retry(|| cluster.get(Verb::Get, &path)).await {
        Ok(before) => Some(before),
        Err(error) if error.is_not_found() || error.is_forbidden() => {
            missing = error.is_not_found();
            None
        }
        Err(error) => return Err(refused(error, options)),
    };
    let mut query = format!("{path}?fieldManager={}&fieldValidation=Strict", encode(&options.field_manager));
    if options.force {
        query.push_str("&force=true");
    }
    if options.dry_run {
        query.push_str("&dryRun=All");
    }
    let body = || Some(("application/apply-patch+yaml", json.clone()));
    let apply = async || {
        let answer = cluster.send(Verb::Write, Method::PATCH, &query, "application/json", body()).await?;
        Ok((answer.status(), cluster.whole(answer).await?))
    };
    let (code, after) = retry(apply).await.map_err(|error| refused(error, options))?;
    let (new, old) = (Head::read(&after), before.as_deref().map(Head::read));
    let result = match before.as_deref().and_then(content) {
        _ if missing || code == StatusCode::CREATED => Applied::Created,
        Some(before) if content(&after).is_some_and(|after| after == before) => Applied::Unchanged,
        _ => Applied::Changed,
    };
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
    Ok((result, target))
}

/// An object without what is not of its content: a status, which controllers write, and what the server notes of writes. Its revision
/// won't do: a server that writes down who owns a field, or a dry run, changes one without the other.
fn content(json: &[u8]) -> Option<Value> {
    let mut object: Value = serde_json::from_slice(json).ok()?;
    object.as_object_mut()?.remove("status");
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    for key in ["managedFields", "resourceVersion", "generation"] {
        metadata.remove(key);
    }
    Some(object)
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

/// Tries again while the server is too busy. Applying twice does no harm.
async fn retry<T, F: Future<Output = Result<T, RequestError>>>(
    mut ask: impl FnMut() -> F,
) -> Result<T, RequestError> {
    let mut tries = 0;
    loop {
        match ask().await {
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

fn refused(error: RequestError, options: &ApplyOptions) -> Refusal {
    let message = error.to_string();
    let RequestError::Status { code, reason, body, .. } = error else {
        return Refusal { message, conflicts: Vec::new(), remedy: None };
    };
    let causes: Causes = serde_json::from_slice(&body).unwrap_or_default();
    let conflicts: Vec<Conflict> = causes
        .details
        .causes
        .into_iter()
        .filter(|cause| cause.reason == "FieldManagerConflict")
        .map(|cause| {
            // conflict with "kubectl" using apps/v1
            let manager = cause.message.split('"').nth(1).unwrap_or(&cause.message).to_owned();
            Conflict { manager, field: cause.field }
        })
        .collect();
    let remedy = if !conflicts.is_empty() {
        Some("leave these fields to their owners by removing them from the manifest, or take them over with --force-conflicts".to_owned())
    } else if code == 403 && reason == "Forbidden" {
        Some("ask for a role with get and patch on it".to_owned())
    } else if code == 404 && options.dry_run {
        Some("in a dry run its namespace is not made: make it first".to_owned())
    } else {
        None
    };
    Refusal { message, conflicts, remedy }
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

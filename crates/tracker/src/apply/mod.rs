//! Server-side apply of manifests, in an order that works. Knows afterwards what to wait for.

mod applyset;
mod changes;
mod events;
mod foreign;
mod manifest;
mod migrate;
mod patch;
mod refusal;
mod retry;

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use futures::StreamExt as _;
use settled_watch::{Cluster, RequestError, Resources};

pub use applyset::{ApplySetError, apply_set_id};
pub use events::{Applied, ApplyError, ApplyEvent, ApplyOptions, ApplyReport, Conflict, Versions};
pub use foreign::AppliedState;

pub use crate::order::{Wave, apply_rank, waves};

use self::applyset::ApplySet;
use self::manifest::Manifest;
use self::patch::{Sent, send};
use self::refusal::{Refusal, is_unreachable};
use self::retry::retry;
use crate::id::ObjectId;
use crate::limits::Limits;
use crate::report::{Event, Outcome, Report};
use crate::target::{KindName, Target};
use crate::tracker::{Request, Tracker};

/// So many objects of a kind are sent at the same time.
const MAX_CONCURRENT: usize = 16;
/// How long is waited for namespaces, definitions and the kinds that they define.
const WAVE_TIMEOUT: Duration = Duration::from_secs(60);

/// Applies objects, given as JSON: namespaces and definitions first and awaited, then the rest in the order of their kinds. An object
/// that is refused does not keep the others from being applied. Nothing is deleted but members of [`ApplyOptions::apply_set`] that
/// are not among the objects, and those only if all objects were applied.
///
/// # Errors
/// The cluster cannot be asked which kinds it has, or the ApplySet cannot be used. Nothing was applied then.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use settled_tracker::apply::{ApplyEvent, ApplyOptions, Applied};
/// use settled_tracker::{Cluster, apply};
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
        match manifest::read(json, &resources, &namespace) {
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
            let mut answers = futures::stream::iter(answers).buffered(MAX_CONCURRENT);
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
                    min_version: None,
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

fn rank(manifest: &Manifest) -> usize {
    apply_rank(&manifest.id.group, &manifest.id.kind)
}

/// Waits until these are Current; if they don't become so, how they are.
async fn await_objects(cluster: &Cluster, objects: &[ObjectId]) -> Option<Report> {
    let targets = objects.iter().map(|id| Target::Object {
        kind: KindName::Exact { group: id.group.to_string(), version: None, kind: id.kind.to_string() },
        namespace: Some(id.namespace.to_string()),
        name: id.name.to_string(),
        min_version: None,
    });
    let limits = Limits { timeout: Some(WAVE_TIMEOUT), ..Limits::default() };
    let request = Request { limits, ..Request::new(targets) };
    let mut tracker = Tracker::start(cluster.clone(), request).await.ok()?;
    while let Some(event) = tracker.next().await {
        if let Event::Finished(report) = event {
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

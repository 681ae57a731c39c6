//! Helm's storage: a Secret or a ConfigMap for each revision of a release, with the manifest in it.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use flate2::read::GzDecoder;
use serde::Deserialize;
use settled_manifest::{Batch, Item, Scratch, Splitter};

use super::{
    Head, Hook, Inventory, InventoryError, Member, Members, Metadata, error, group_version, nullable, read,
};
use crate::ObjectId;

/// The type of a Secret that holds a revision.
const TYPE: &str = "helm.sh/release.v1";
/// An API server takes objects of about 1.5 MB; charts shrink to a tenth. Whatever becomes larger than this is no release.
const MAX_RELEASE: u64 = 64 << 20;

const GZIP: [u8; 3] = [0x1f, 0x8b, 0x08];

/// Where Helm keeps a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HelmStorage {
    /// The namespace of its Secrets, which need not be that of its objects.
    pub namespace: String,
    /// The name of the release.
    pub release: String,
    /// The revision, where one was named.
    pub revision: Option<u64>,
}

impl HelmStorage {
    /// The labels of all revisions, as a selector: `owner=helm,name=shop`.
    #[must_use]
    pub fn selector(&self) -> String {
        format!("owner=helm,name={}", self.release)
    }

    /// The name of the Secret (or ConfigMap) of the named revision: `sh.helm.release.v1.shop.v3`.
    #[must_use]
    pub fn object_name(&self) -> Option<String> {
        self.revision.map(|revision| format!("sh.helm.release.v1.{}.v{revision}", self.release))
    }
}

/// The revisions of a release whose objects count, by their places in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revisions {
    /// The newest that is deployed or about to be; failing that the newest that failed.
    pub current: usize,
    /// A newer one that failed: it is the one that is debugged, and what it created is in the cluster.
    pub failed: Option<usize>,
}

/// Which of a release's Secrets (or ConfigMaps) count.
///
/// # Errors
/// There is none: the release is not there, or was uninstalled.
///
/// ```
/// use settled_tracker::release::{Revisions, newest_revisions};
///
/// let stored = |revision: u32, status: &str| format!(
///     r#"{{"kind": "Secret", "type": "helm.sh/release.v1", "metadata": {{"name": "sh.helm.release.v1.shop.v{revision}",
///        "labels": {{"owner": "helm", "name": "shop", "version": "{revision}", "status": "{status}"}}}}}}"#);
/// let list = [stored(1, "superseded"), stored(10, "failed"), stored(9, "deployed")];
/// let list: Vec<&[u8]> = list.iter().map(|json| json.as_bytes()).collect();
/// assert_eq!(newest_revisions("shop", &list)?, Revisions { current: 2, failed: Some(1) });
/// # Ok::<(), settled_tracker::release::InventoryError>(())
/// ```
pub fn newest_revisions(release: &str, stored: &[&[u8]]) -> Result<Revisions, InventoryError> {
    let title = || format!("release {release}");
    let (mut chosen, mut failed, mut other) = (None, None, None);
    for (index, json) in stored.iter().enumerate() {
        let head: Head = read(json, &title())?;
        if head.metadata.label("name") != Some(release) || head.metadata.label("owner") != Some("helm") {
            continue;
        }
        let Some(revision) = head.metadata.label("version").and_then(|version| version.parse::<u64>().ok())
        else {
            return Err(error(title(), format!("the label version of {} is no number", head.metadata.name)));
        };
        let status = head.metadata.label("status").unwrap_or_default();
        let place = match status {
            "deployed" | "pending-install" | "pending-upgrade" | "pending-rollback" => &mut chosen,
            "failed" => &mut failed,
            _ => &mut other,
        };
        if place.as_ref().is_none_or(|(newest, _, _)| *newest < revision) {
            *place = Some((revision, index, status.to_owned()));
        }
    }
    match (chosen, failed, other) {
        (Some((revision, current, _)), failed, _) => {
            let newer = failed.filter(|(newer, _, _)| *newer > revision);
            Ok(Revisions { current, failed: newer.map(|(_, index, _)| index) })
        }
        (None, Some((_, index, _)), _) => Ok(Revisions { current: index, failed: Some(index) }),
        (None, None, Some((_, _, status))) => {
            Err(error(title(), format!("it is {status}: there is nothing to wait for")))
        }
        (None, None, None) => Err(error(
            title(),
            "there is none of this name in this namespace: `helm list -A` says where it is",
        )),
    }
}

/// Whether a Secret or ConfigMap holds a revision.
pub(super) fn is_release(head: &Head) -> bool {
    match &*head.kind {
        "Secret" => head.type_.as_ref().is_some_and(|type_| type_ == TYPE),
        _ => head.metadata.label("owner") == Some("helm") && head.metadata.label("version").is_some(),
    }
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Stored {
    kind: String,
    metadata: Metadata,
    data: Option<Data>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Data {
    release: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Release {
    name: String,
    namespace: String,
    version: u64,
    manifest: String,
    hooks: Option<Vec<ReleaseHook>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ReleaseHook {
    path: String,
    kind: String,
    manifest: String,
    events: Option<Vec<String>>,
    last_run: LastRun,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct LastRun {
    phase: String,
}

pub(super) fn release(json: &[u8]) -> Result<Inventory, InventoryError> {
    let Stored { kind, metadata, data } = read(json, "Helm's storage")?;
    let object = format!("{kind} {}", metadata.name);
    let text = data.unwrap_or_default().release;
    if text.is_empty() {
        return Err(error(object, "data.release is empty"));
    }
    let release = decode(&object, &kind, text)?;
    if release.name.is_empty() {
        return Err(error(object, "data.release holds no release: it has no name"));
    }
    let title = format!("release {}, revision {}", release.name, release.version);
    let namespace = if release.namespace.is_empty() { &metadata.namespace } else { &release.namespace };

    let mut left_out = Vec::new();
    let mut members = Members::default();
    for found in objects(&release.manifest, namespace, &mut left_out) {
        let member = found.map_err(|wrong| error(&title, format!("its manifest, {wrong}")))?;
        members.push(member, &title)?;
    }
    let mut hooks = Vec::new();
    for hook in release.hooks.unwrap_or_default() {
        if hook.kind != "Job" {
            continue;
        }
        for found in objects(&hook.manifest, namespace, &mut left_out) {
            let job = found.map_err(|wrong| error(&title, format!("its hook {}, {wrong}", hook.path)))?;
            if job.id.is("batch", "Job") && hooks.len() < super::MAX_MEMBERS {
                hooks.push(Hook {
                    job,
                    events: hook.events.clone().unwrap_or_default(),
                    phase: hook.last_run.phase.clone(),
                });
            }
        }
    }
    Ok(Inventory { title, members: members.list, hooks, left_out })
}

/// What is stored: base64 of gzip, or of plain JSON as Helm wrote it long ago; in a Secret all of it in base64 once more.
fn decode(object: &str, kind: &str, text: String) -> Result<Release, InventoryError> {
    let unbase = |text: &[u8]| {
        BASE64
            .decode(text)
            .map_err(|wrong| error(object, format!("data.release is not base64 as Helm writes it: {wrong}")))
    };
    let mut bytes = text.into_bytes();
    if kind == "Secret" {
        bytes = unbase(&bytes)?;
    }
    bytes = unbase(&bytes)?;
    if bytes.starts_with(&GZIP) {
        let mut unpacked = Vec::new();
        GzDecoder::new(bytes.as_slice())
            .take(MAX_RELEASE + 1)
            .read_to_end(&mut unpacked)
            .map_err(|wrong| error(object, format!("cannot decode data.release: {wrong}")))?;
        bytes = unpacked;
    }
    if bytes.len() as u64 > MAX_RELEASE {
        let most = MAX_RELEASE >> 20;
        return Err(error(
            object,
            format!("data.release unpacks to more than {most} MiB: that is no release of Helm"),
        ));
    }
    serde_json::from_slice(&bytes)
        .map_err(|wrong| error(object, format!("data.release holds no release: {wrong}")))
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Object {
    #[serde(deserialize_with = "nullable")]
    api_version: String,
    #[serde(deserialize_with = "nullable")]
    kind: String,
    #[serde(deserialize_with = "nullable")]
    metadata: ObjectMetadata,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ObjectMetadata {
    #[serde(deserialize_with = "nullable")]
    name: String,
    #[serde(deserialize_with = "nullable")]
    namespace: String,
    #[serde(deserialize_with = "nullable")]
    generate_name: String,
}

/// The objects of a manifest, or what is wrong in it and where; at most one more than an inventory may have.
fn objects(manifest: &str, namespace: &str, left_out: &mut Vec<String>) -> Vec<Result<Member, String>> {
    let mut found = Vec::new();
    let mut splitter = Splitter::new(manifest.as_bytes());
    let (mut batch, mut scratch) = (Batch::default(), Scratch::default());
    loop {
        batch = match splitter.next_batch(batch) {
            Ok(Some(batch)) => batch,
            Ok(None) => return found,
            Err(wrong) => {
                found.push(Err(wrong.to_string()));
                return found;
            }
        };
        batch.objects(&mut scratch, |item| {
            if found.len() > super::MAX_MEMBERS {
                return;
            }
            let object = match item {
                Item::Object(object) => object,
                Item::Malformed(wrong) => return found.push(Err(wrong.to_string())),
            };
            let place = || batch.position(&object, 0);
            let Object { api_version, kind, metadata } = match serde_json::from_slice(object.json) {
                Ok(read) => read,
                Err(wrong) => return found.push(Err(format!("{}: {wrong}", place()))),
            };
            if metadata.name.is_empty() && !metadata.generate_name.is_empty() {
                if left_out.len() < 100 {
                    left_out.push(format!("{kind} {}*: the server chose its name", metadata.generate_name));
                }
                return;
            }
            if kind.is_empty() || metadata.name.is_empty() {
                return found.push(Err(format!("{}: an object without kind or name", place())));
            }
            let (group, version) = group_version(&api_version);
            let default_namespace = metadata.namespace.is_empty();
            let namespace = if default_namespace { namespace } else { &metadata.namespace };
            found.push(Ok(Member {
                id: ObjectId::new(group, kind, namespace, metadata.name),
                version: Some(version).filter(|version| !version.is_empty()).map(Into::into),
                default_namespace,
            }));
        });
    }
}

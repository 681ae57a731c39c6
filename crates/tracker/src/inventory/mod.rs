//! Inventories: the objects of a release, an application or another set, from the object that keeps the list.
//!
//! | the object | [`Contents`] |
//! |---|---|
//! | Helm's Secret or ConfigMap of a revision | the objects of its manifest; Jobs of hooks apart |
//! | Flux `Kustomization` | `status.inventory` |
//! | Flux `HelmRelease` | `status.inventory`, else where Helm keeps the release of `status.history` |
//! | Argo CD `Application` | `status.resources`; hooks apart, and without what is to be pruned |
//! | ConfigMap with the label `cli-utils.sigs.k8s.io/inventory-id` (kpt, Config Sync) | its keys |
//! | parent of an ApplySet, with the label `applyset.kubernetes.io/id` | which kinds to list by which label, and where |
//!
//! All of it is a function of bytes, without I/O and without panics. What comes out is bounded, whatever goes in.

mod argo;
mod flux;
mod helm;
mod sets;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::ObjectId;

pub use helm::{HelmStorage, Revisions, newest_revisions};
pub(crate) use sets::{APPLY_SET_ID, INVENTORY_ID, KINDS, NAMESPACES, PART_OF, RESOURCES};
pub use sets::{ApplySet, KindName};

/// No inventory has more members.
const MAX_MEMBERS: usize = 50_000;

/// What an object says a set consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Contents {
    /// The objects themselves.
    Objects(Inventory),
    /// A release of Helm, whose objects are listed in its storage.
    Helm(HelmStorage),
    /// What has a label.
    ApplySet(ApplySet),
}

/// The objects of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// What the set is called: `release shop, revision 3`.
    pub title: String,
    /// Its objects, in the order of the list, each once.
    pub members: Vec<Member>,
    /// Jobs that ran, run or will run around the set and are no part of it.
    pub hooks: Vec<Hook>,
    /// What is on the list and cannot be found by it, in words: an object whose name the server chose.
    pub left_out: Vec<String>,
}

/// An object of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Which object.
    pub id: ObjectId,
    /// The version of the API in which it was written, where the list says it.
    pub version: Option<Box<str>>,
    /// The object names no namespace, and that of the id is the set's: it does not count for kinds of the cluster.
    pub default_namespace: bool,
}

/// A Job that runs before or after a set is applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The Job.
    pub job: Member,
    /// When it runs, in the words of its tool: `pre-install`, `post-upgrade`, `test`; empty where the list does not say it.
    pub events: Vec<String>,
    /// How its last run ended, in the words of its tool: `Succeeded`; empty if it did not run.
    pub phase: String,
}

/// Why an object can't say what its set consists of.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {message}")]
pub struct InventoryError {
    /// The object that was read: `Secret sh.helm.release.v1.shop.v3`.
    pub object: String,
    /// What is wrong with it, where in it, and what to do.
    pub message: String,
}

impl Contents {
    /// What the set that this object stands for consists of; none if it stands for no set.
    ///
    /// # Errors
    /// It stands for one and does not say what is in it: it was not applied yet, is applied to another cluster, or is broken.
    ///
    /// ```
    /// use settled_tracker::release::Contents;
    ///
    /// let contents = Contents::of(br#"{"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
    ///     "metadata": {"name": "apps", "namespace": "flux-system"},
    ///     "status": {"inventory": {"entries": [{"id": "shop_web_apps_Deployment", "v": "v1"}]}}}"#)?;
    /// let Some(Contents::Objects(inventory)) = contents else { panic!() };
    /// assert_eq!(inventory.title, "Kustomization apps");
    /// assert_eq!(inventory.members[0].id.full(), "Deployment.apps/web in shop");
    /// # Ok::<(), settled_tracker::release::InventoryError>(())
    /// ```
    pub fn of(json: &[u8]) -> Result<Option<Self>, InventoryError> {
        let head: Head = read(json, "")?;
        let group = head.api_version.split_once('/').map_or("", |(group, _)| group);
        let has_label = |key| head.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(key));
        Ok(Some(match (group, &*head.kind) {
            ("kustomize.toolkit.fluxcd.io", "Kustomization") => Self::Objects(flux::kustomization(json)?),
            ("helm.toolkit.fluxcd.io", "HelmRelease") => flux::helm_release(json)?,
            ("argoproj.io", "Application") => Self::Objects(argo::application(json)?),
            ("", "Secret" | "ConfigMap") if helm::is_release(&head) => Self::Objects(helm::release(json)?),
            ("", "ConfigMap") if has_label(INVENTORY_ID) => Self::Objects(sets::cli_utils(json)?),
            ("kpt.dev", "ResourceGroup") => Self::Objects(sets::resource_group(json)?),
            _ if has_label(APPLY_SET_ID) => Self::ApplySet(sets::apply_set(json)?),
            _ => return Ok(None),
        }))
    }
}

/// What is read of every object.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Head {
    api_version: String,
    kind: String,
    #[serde(rename = "type")]
    type_: Option<serde_json::Value>,
    metadata: Metadata,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Metadata {
    #[serde(deserialize_with = "nullable")]
    name: String,
    #[serde(deserialize_with = "nullable")]
    namespace: String,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

impl Metadata {
    fn label(&self, key: &str) -> Option<&str> {
        self.labels.as_ref()?.get(key).map(String::as_str)
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.as_ref()?.get(key).map(String::as_str)
    }
}

/// A value that may be null, which Go reads as if it were not there.
fn nullable<'de, D: serde::Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A reference to another cluster's kubeconfig: only whether there is one.
type Presence = Option<serde::de::IgnoredAny>;

fn error(object: impl Into<String>, message: impl Into<String>) -> InventoryError {
    InventoryError { object: object.into(), message: message.into() }
}

fn read<T: DeserializeOwned>(json: &[u8], object: &str) -> Result<T, InventoryError> {
    let object = if object.is_empty() { "the object" } else { object };
    // A list would do for the parser.
    if json.trim_ascii_start().first() != Some(&b'{') {
        return Err(error(object, "it is no JSON object"));
    }
    serde_json::from_slice(json)
        .map_err(|wrong| error(object, format!("it is not what its kind says: {wrong}")))
}

/// The group of an `apiVersion`, and the version.
fn group_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

/// Members in their order, each once.
#[derive(Default)]
struct Members {
    list: Vec<Member>,
    known: std::collections::HashSet<ObjectId>,
}

impl Members {
    fn push(&mut self, member: Member, object: &str) -> Result<(), InventoryError> {
        if self.list.len() >= MAX_MEMBERS {
            return Err(error(
                object,
                format!("it lists more than {MAX_MEMBERS} objects: wait for a part of them by a selector"),
            ));
        }
        if self.known.insert(member.id.clone()) {
            self.list.push(member);
        }
        Ok(())
    }
}

/// An id as cli-utils and Flux write it: `NAMESPACE_NAME_GROUP_KIND`, with `__` for each colon of the name.
fn parse_id(text: &str) -> Option<ObjectId> {
    let (namespace, rest) = text.split_once('_')?;
    let (rest, kind) = rest.rsplit_once('_')?;
    let (name, group) = rest.rsplit_once('_')?;
    if name.is_empty() || kind.is_empty() {
        return None;
    }
    let name: Cow<'_, str> = if name.contains("__") { name.replace("__", ":").into() } else { name.into() };
    Some(ObjectId::new(group, kind, namespace, name))
}

fn bad_id(text: &str) -> String {
    let shown: String = text.chars().take(100).collect();
    format!("{} is no id: NAMESPACE_NAME_GROUP_KIND was expected", settled_go::strconv::quote(&shown))
}

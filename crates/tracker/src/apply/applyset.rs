//! `--prune` by ApplySet (KEP-3659), as kubectl does it: a parent object records which kinds and namespaces have members, a label says
//! which objects are members, and members that are no longer applied are deleted.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use settled_manifest::ListItems;
use settled_watch::{Cluster, PARTIAL_LIST, RequestError, Resource, Resources, Verb, encode};

use super::manifest::Manifest;
use super::retry::retry;
use crate::id::ObjectId;
use crate::inventory::{APPLY_SET_ID, KINDS, NAMESPACES, PART_OF, RESOURCES};
use crate::order::apply_rank;

const TOOLING: &str = "applyset.kubernetes.io/tooling";
/// Set on a CRD whose objects may be parents.
const IS_PARENT_TYPE: &str = "applyset.kubernetes.io/is-parent-type";
const TOOL: &str = "settled";
const FIELD_MANAGER: &str = "settled-applyset";

/// Why an ApplySet cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplySetError {
    /// The parent or the members cannot be read or written.
    #[error("ApplySet {parent}: {source}")]
    Request {
        /// The parent, as it was named.
        parent: String,
        /// What the server says.
        source: Box<RequestError>,
    },
    /// The parent belongs to another tool, or something contradicts it.
    #[error("ApplySet {parent}: {message}")]
    Refused {
        /// The parent, as it was named.
        parent: String,
        /// What is wrong.
        message: String,
        /// What would help.
        remedy: Option<String>,
    },
}

/// A kind by its group and name.
type GroupKind = (String, String);

/// An ApplySet while its members are applied.
#[derive(Debug)]
pub(super) struct ApplySet {
    /// As the user named it.
    named: String,
    parent: ObjectId,
    api_version: String,
    path: String,
    id: String,
    dry_run: bool,
    /// What it contained before, according to its parent.
    kinds: BTreeSet<GroupKind>,
    namespaces: BTreeSet<String>,
}

/// A member that is not applied any more.
#[derive(Debug)]
pub(super) struct Orphan {
    pub(super) object: ObjectId,
    path: String,
    uid: String,
    /// Its deletion has begun.
    pub(super) terminating: bool,
}

/// The label value of a parent: `applyset-<base64(sha256(<name>.<namespace>.<kind>.<group>))>-v1`.
///
/// ```
/// use settled_tracker::apply::apply_set_id;
/// use settled_tracker::ObjectId;
/// let parent = ObjectId::new("", "Secret", "test", "my-set");
/// assert_eq!(apply_set_id(&parent), "applyset-0eFHV8ySqp7XoShsGvyWFQD3s96yqwHmzc4e0HR1dsY-v1");
/// ```
#[must_use]
pub fn apply_set_id(parent: &ObjectId) -> String {
    let name = format!("{}.{}.{}.{}", parent.name, parent.namespace, parent.kind, parent.group);
    format!("applyset-{}-v1", URL_SAFE_NO_PAD.encode(digest(&SHA256, name.as_bytes())))
}

impl ApplySet {
    /// Reads the parent `NAME` (a Secret) or `KIND/NAME`, and checks that it is ours to use.
    pub(super) async fn open(
        cluster: &Cluster,
        resources: &Resources,
        named: &str,
        namespace: &str,
        dry_run: bool,
    ) -> Result<Self, ApplySetError> {
        let refused = |message: String, remedy: Option<String>| ApplySetError::Refused {
            parent: named.to_owned(),
            message,
            remedy,
        };
        let (kind, name) = named.split_once('/').unwrap_or(("secrets", named));
        if name.is_empty() || name.contains('/') {
            return Err(refused("a parent is named NAME, configmap/NAME or KIND/NAME".to_owned(), None));
        }
        let Some(resource) = resources.named(kind) else {
            return Err(refused(format!("the cluster has no kind {kind:?}"), None));
        };
        let builtin = resource.group.is_empty() && matches!(&*resource.kind, "Secret" | "ConfigMap");
        let place = if resource.namespaced { namespace } else { "" };
        let parent = ObjectId::new(&*resource.group, &*resource.kind, place, name);
        let mut set = Self {
            named: named.to_owned(),
            id: apply_set_id(&parent),
            api_version: resource.api_version(),
            path: resource.path(Some(place), Some(&encode(name))),
            parent,
            dry_run,
            kinds: BTreeSet::new(),
            namespaces: BTreeSet::new(),
        };
        if !builtin {
            set.check_parent_type(cluster, resource).await?;
        }
        match retry(|| cluster.get(Verb::Get, &set.path)).await {
            Ok(json) => set.read(&json, resources)?,
            Err(error) if error.is_not_found() && builtin => {}
            Err(error) if error.is_not_found() => {
                let message = format!("there is no {} {name}", set.parent.kind);
                let remedy = "only a Secret or a ConfigMap is created as a parent: create this one first";
                return Err(refused(message, Some(remedy.to_owned())));
            }
            Err(source) => return Err(set.request_error(source)),
        }
        Ok(set)
    }

    fn request_error(&self, source: RequestError) -> ApplySetError {
        ApplySetError::Request { parent: self.named.clone(), source: Box::new(source) }
    }

    fn refused(&self, message: impl Into<String>, remedy: Option<String>) -> ApplySetError {
        ApplySetError::Refused { parent: self.named.clone(), message: message.into(), remedy }
    }

    /// Custom resources are parents if their CRD says so.
    async fn check_parent_type(&self, cluster: &Cluster, resource: &Resource) -> Result<(), ApplySetError> {
        let list = format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?labelSelector={}",
            encode(IS_PARENT_TYPE)
        );
        let crd = format!("{}.{}", resource.plural, resource.group);
        let allowed = members(cluster, &list).await.map_err(|error| self.request_error(error))?;
        if allowed.iter().any(|found| found["metadata"]["name"] == *crd) {
            return Ok(());
        }
        let remedy =
            format!("use a Secret or a ConfigMap, or label the CRD {crd} with {IS_PARENT_TYPE}=true");
        Err(self.refused(format!("{} is no kind of parents", self.parent.kind), Some(remedy)))
    }

    /// Takes over what the parent records, if it is a parent and ours.
    fn read(&mut self, json: &[u8], resources: &Resources) -> Result<(), ApplySetError> {
        let object: Value = serde_json::from_slice(json).unwrap_or_default();
        let metadata = &object["metadata"];
        let annotation = |key: &str| metadata["annotations"][key].as_str();
        let exists = format!("{} {} exists", self.parent.kind, self.parent.name);
        let Some(tooling) = annotation(TOOLING) else {
            let message = format!("{exists} and has no annotation {TOOLING}: it is no parent of an ApplySet");
            return Err(self.refused(message, Some("choose another name for the ApplySet".to_owned())));
        };
        let tool = tooling.rsplit_once('/').map_or(tooling, |(tool, _)| tool);
        if tool != TOOL {
            let place = match &*self.parent.namespace {
                "" => String::new(),
                namespace => format!(" -n {namespace}"),
            };
            let remedy = format!(
                "to hand it over for good: kubectl annotate --overwrite {}/{}{place} {TOOLING}={}",
                self.parent.kind.to_lowercase(),
                self.parent.name,
                tooling_id()
            );
            return Err(
                self.refused(format!("{exists} and is managed by {tool:?}, not {TOOL:?}"), Some(remedy))
            );
        }
        match metadata["labels"][APPLY_SET_ID].as_str() {
            Some(id) if id == self.id => {}
            Some(id) => {
                let message = format!("{exists} and has the label {APPLY_SET_ID}={id}, expected {}", self.id);
                return Err(self.refused(message, None));
            }
            None => return Err(self.refused(format!("{exists} and has no label {APPLY_SET_ID}"), None)),
        }
        let names = |text: &str| -> BTreeSet<String> {
            text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
        };
        let split = |name: &String| -> GroupKind {
            let (kind, group) = name.split_once('.').unwrap_or((name, ""));
            (group.to_owned(), kind.to_owned())
        };
        self.kinds = match (annotation(KINDS), annotation(RESOURCES)) {
            (Some(kinds), _) => names(kinds).iter().map(split).collect(),
            (None, Some(plurals)) => {
                let of = |plural: &String| resources.named(plural);
                names(plurals)
                    .iter()
                    .filter_map(of)
                    .map(|r| (r.group.to_string(), r.kind.to_string()))
                    .collect()
            }
            (None, None) => {
                return Err(self.refused(format!("{exists} and has no annotation {KINDS}"), None));
            }
        };
        self.namespaces = names(annotation(NAMESPACES).unwrap_or_default());
        if !self.parent.namespace.is_empty() {
            self.namespaces.insert(self.parent.namespace.to_string());
        }
        Ok(())
    }

    /// Labels an object as a member.
    pub(super) fn label(&self, manifest: &mut Manifest) -> Result<(), ApplySetError> {
        let wrong = |what: &str| self.refused(format!("{}: {what}", manifest.id.full()), None);
        let mut object: Value =
            serde_json::from_slice(&manifest.json).map_err(|error| wrong(&error.to_string()))?;
        let metadata = object["metadata"].as_object_mut().ok_or_else(|| wrong("metadata is no object"))?;
        let labels = metadata.entry("labels").or_insert(Value::Null);
        if labels.is_null() {
            *labels = json!({});
        }
        let labels = labels.as_object_mut().ok_or_else(|| wrong("metadata.labels is no object"))?;
        if labels.contains_key(PART_OF) {
            return Err(wrong(&format!(
                "the label {PART_OF} is set by --applyset: remove it from the manifest"
            )));
        }
        labels.insert(PART_OF.to_owned(), self.id.clone().into());
        manifest.json = object.to_string().into_bytes();
        Ok(())
    }

    /// Records what it will contain in addition, before anything is applied: whatever happens then, no member is lost sight of.
    pub(super) async fn record_superset(
        &self,
        cluster: &Cluster,
        resources: &Resources,
        manifests: &[Manifest],
    ) -> Result<(), ApplySetError> {
        let (mut kinds, mut namespaces) = contents(resources, manifests);
        kinds.extend(self.kinds.iter().cloned());
        namespaces.extend(self.namespaces.iter().cloned());
        self.write(cluster, &kinds, &namespaces).await
    }

    /// Records what it contains, after all else is deleted. Kinds that the server does not serve at present stay.
    pub(super) async fn record_latest(
        &self,
        cluster: &Cluster,
        resources: &Resources,
        manifests: &[Manifest],
    ) -> Result<(), ApplySetError> {
        let (mut kinds, mut namespaces) = contents(resources, manifests);
        let unserved = self.unserved(resources);
        if !unserved.is_empty() {
            kinds.extend(unserved);
            namespaces.extend(self.namespaces.iter().cloned());
        }
        self.write(cluster, &kinds, &namespaces).await
    }

    /// The kinds it contained of which the server knows nothing: a CRD is gone, or an aggregated server is down.
    pub(super) fn unserved(&self, resources: &Resources) -> Vec<GroupKind> {
        let is_unserved = |(group, kind): &&GroupKind| resources.of_kind(group, None, kind).is_none();
        self.kinds.iter().filter(is_unserved).cloned().collect()
    }

    async fn write(
        &self,
        cluster: &Cluster,
        kinds: &BTreeSet<GroupKind>,
        namespaces: &BTreeSet<String>,
    ) -> Result<(), ApplySetError> {
        let kind = |(group, kind): &GroupKind| match &**group {
            "" => kind.clone(),
            group => format!("{kind}.{group}"),
        };
        let mut kinds: Vec<String> = kinds.iter().map(kind).collect();
        kinds.sort();
        let others = namespaces.iter().map(String::as_str).filter(|name| *name != &*self.parent.namespace);
        let mut metadata = json!({
            "name": &*self.parent.name,
            "labels": {APPLY_SET_ID: self.id},
            "annotations": {
                TOOLING: tooling_id(),
                KINDS: kinds.join(","),
                NAMESPACES: others.collect::<Vec<_>>().join(","),
            },
        });
        if !self.parent.namespace.is_empty() {
            metadata["namespace"] = (*self.parent.namespace).into();
        }
        let parent =
            json!({"apiVersion": self.api_version, "kind": &*self.parent.kind, "metadata": metadata});
        let parent = parent.to_string().into_bytes();
        let write = async |force: &str| {
            let dry_run = if self.dry_run { "&dryRun=All" } else { "" };
            let path = format!("{}?fieldManager={FIELD_MANAGER}{force}{dry_run}", self.path);
            let body = || Some(("application/apply-patch+yaml", parent.clone()));
            retry(|| cluster.fetch(Verb::Write, Method::PATCH, &path, "application/json", body())).await
        };
        let written = match write("").await {
            // These fields are ours, whichever manager has written them.
            Err(error) if error.code() == Some(409) => write("&force=true").await,
            written => written,
        };
        written.map(|_| ()).map_err(|error| self.request_error(error))
    }

    /// The members that are not among the objects with these UIDs, in the order in which they are to be deleted.
    pub(super) async fn orphans(
        &self,
        cluster: &Cluster,
        resources: &Resources,
        applied: &BTreeSet<String>,
    ) -> Result<Vec<Orphan>, ApplySetError> {
        let mut lists: BTreeMap<String, &Resource> = BTreeMap::new();
        for (group, kind) in &self.kinds {
            let Some(resource) = resources.of_kind(group, None, kind) else { continue };
            let namespaces: Vec<Option<&str>> = match resource.namespaced {
                true => self.namespaces.iter().map(|namespace| Some(&**namespace)).collect(),
                false => vec![None],
            };
            for namespace in namespaces {
                let selector = encode(&format!("{PART_OF}={}", self.id));
                let path = format!("{}?labelSelector={selector}", resource.path(namespace, None));
                lists.insert(path, resource);
            }
        }
        let mut orphans = Vec::new();
        for (path, resource) in lists {
            // Nothing is deleted unless all lists are there.
            let found = members(cluster, &path).await.map_err(|error| self.request_error(error))?;
            for member in found {
                let text = |key: &str| member["metadata"][key].as_str().unwrap_or_default();
                let (namespace, name, uid) = (text("namespace"), text("name"), text("uid"));
                // Whatever a server lists: only what has the label is a member.
                if applied.contains(uid) || member["metadata"]["labels"][PART_OF] != *self.id {
                    continue;
                }
                orphans.push(Orphan {
                    object: ObjectId::new(&*resource.group, &*resource.kind, namespace, name),
                    path: resource.path(Some(namespace), Some(&encode(name))),
                    uid: uid.to_owned(),
                    terminating: !text("deletionTimestamp").is_empty(),
                });
            }
        }
        orphans
            .sort_by_key(|orphan| std::cmp::Reverse(apply_rank(&orphan.object.group, &orphan.object.kind)));
        Ok(orphans)
    }

    /// Deletes a member, unless it is another object by now.
    pub(super) async fn delete(&self, cluster: &Cluster, orphan: &Orphan) -> Result<(), RequestError> {
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background",
            "preconditions": {"uid": orphan.uid}});
        if self.dry_run {
            options["dryRun"] = json!(["All"]);
        }
        let options = options.to_string().into_bytes();
        let body = || Some(("application/json", options.clone()));
        let delete = || cluster.fetch(Verb::Write, Method::DELETE, &orphan.path, "application/json", body());
        match retry(delete).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}

fn tooling_id() -> String {
    format!("{TOOL}/v{}", env!("CARGO_PKG_VERSION"))
}

/// The kinds and namespaces of what is applied.
fn contents(resources: &Resources, manifests: &[Manifest]) -> (BTreeSet<GroupKind>, BTreeSet<String>) {
    let kinds = manifests.iter().map(|m| (m.id.group.to_string(), m.id.kind.to_string()));
    let namespaced = |m: &&Manifest| {
        let resource = resources.of_kind(&m.id.group, m.version.as_deref(), &m.id.kind);
        !m.id.namespace.is_empty() && resource.is_none_or(|resource| resource.namespaced)
    };
    let namespaces = manifests.iter().filter(namespaced).map(|m| m.id.namespace.to_string());
    (kinds.collect(), namespaces.collect())
}

/// The metadata of all objects of a list.
async fn members(cluster: &Cluster, path: &str) -> Result<Vec<Value>, RequestError> {
    let fetch = || cluster.fetch(Verb::List, Method::GET, path, PARTIAL_LIST, None);
    let list = retry(fetch).await?;
    let (mut items, mut found) = (ListItems::default(), Vec::new());
    items.push(&list, |item| found.extend(serde_json::from_slice(item))).map_err(RequestError::answer)?;
    Ok(found)
}

//! cli-utils' inventory in a ConfigMap or in kpt's ResourceGroup, and the parents of ApplySets.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;

use super::{Inventory, InventoryError, Member, Members, Metadata, bad_id, error, nullable, parse_id, read};
use crate::id::ObjectId;

pub(crate) const INVENTORY_ID: &str = "cli-utils.sigs.k8s.io/inventory-id";
pub(crate) const APPLY_SET_ID: &str = "applyset.kubernetes.io/id";
pub(crate) const PART_OF: &str = "applyset.kubernetes.io/part-of";
pub(crate) const KINDS: &str = "applyset.kubernetes.io/contains-group-kinds";
/// As kubectl wrote it before 1.30.
pub(crate) const RESOURCES: &str = "applyset.kubernetes.io/contains-group-resources";
pub(crate) const NAMESPACES: &str = "applyset.kubernetes.io/additional-namespaces";

/// The members of an ApplySet: what has a label, of some kinds, in some namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplySet {
    /// What the set is called: `ApplySet shop`.
    pub title: String,
    /// The selector of labels that all members have: `applyset.kubernetes.io/part-of=ID`.
    pub selector: String,
    /// The kinds that members may have.
    pub kinds: Vec<KindName>,
    /// Where members of kinds with namespaces may be. Those of the cluster have none.
    pub namespaces: Vec<String>,
}

/// How a kind is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KindName {
    /// `Deployment.apps`
    Kind {
        /// The API group, empty for the core group.
        group: Box<str>,
        /// The kind.
        kind: Box<str>,
    },
    /// `deployments.apps`, as older tools write it.
    Resource {
        /// The API group, empty for the core group.
        group: Box<str>,
        /// The plural.
        resource: Box<str>,
    },
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ConfigMap {
    metadata: Metadata,
    data: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Actuation {
    strategy: String,
}

pub(super) fn cli_utils(json: &[u8]) -> Result<Inventory, InventoryError> {
    let ConfigMap { metadata, data } = read(json, "ConfigMap")?;
    let title = format!("inventory {}", metadata.name);
    let mut members = Members::default();
    for (key, status) in data.unwrap_or_default() {
        let Some(id) = parse_id(&key) else { return Err(error(title, format!("data: {}", bad_id(&key)))) };
        // An object that is being pruned is on the list until it is gone.
        let strategy = serde_json::from_str::<Actuation>(&status).unwrap_or_default().strategy;
        if strategy != "Delete" {
            members.push(Member { id, version: None, default_namespace: false }, &title)?;
        }
    }
    Ok(Inventory { title, members: members.list, ..Inventory::default() })
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ResourceGroup {
    metadata: Metadata,
    spec: Option<Listed>,
    status: Option<Acted>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Listed {
    resources: Option<Vec<Entry>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Acted {
    resource_statuses: Option<Vec<Entry>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    #[serde(deserialize_with = "nullable")]
    group: String,
    #[serde(deserialize_with = "nullable")]
    kind: String,
    #[serde(deserialize_with = "nullable")]
    namespace: String,
    #[serde(deserialize_with = "nullable")]
    name: String,
    /// In the status alone.
    #[serde(deserialize_with = "nullable")]
    strategy: String,
}

impl Entry {
    fn id(&self) -> ObjectId {
        ObjectId::new(&*self.group, &*self.kind, &*self.namespace, &*self.name)
    }
}

pub(super) fn resource_group(json: &[u8]) -> Result<Inventory, InventoryError> {
    let ResourceGroup { metadata, spec, status } = read(json, "ResourceGroup")?;
    let title = format!("inventory {}", metadata.name);
    let acted = status.and_then(|status| status.resource_statuses).unwrap_or_default();
    // An object that is being pruned is on the list until it is gone.
    let pruned: HashSet<ObjectId> =
        acted.iter().filter(|entry| entry.strategy == "Delete").map(Entry::id).collect();
    let mut members = Members::default();
    let listed = spec.and_then(|spec| spec.resources).unwrap_or_default();
    for (number, entry) in listed.iter().enumerate() {
        if entry.kind.is_empty() || entry.name.is_empty() {
            return Err(error(title, format!("spec.resources[{number}] has no kind or no name")));
        }
        let id = entry.id();
        if !pruned.contains(&id) {
            members.push(Member { id, version: None, default_namespace: false }, &title)?;
        }
    }
    Ok(Inventory { title, members: members.list, ..Inventory::default() })
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Parent {
    metadata: Metadata,
}

pub(super) fn apply_set(json: &[u8]) -> Result<ApplySet, InventoryError> {
    let Parent { metadata } = read(json, "the parent of an ApplySet")?;
    let title = format!("ApplySet {}", metadata.name);
    let id = metadata.label(APPLY_SET_ID).unwrap_or_default();
    if id.is_empty()
        || id.len() > 63
        || !id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    {
        return Err(error(title, format!("the label {APPLY_SET_ID} is no id, such as applyset-…-v1")));
    }
    let split = |text: &str| -> (Box<str>, Box<str>) {
        let (name, group) = text.split_once('.').unwrap_or((text, ""));
        (name.into(), group.into())
    };
    let names = |text: &str| {
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let kinds: Vec<_> = match (metadata.annotation(KINDS), metadata.annotation(RESOURCES)) {
        (Some(kinds), _) => names(kinds)
            .iter()
            .map(|name| split(name))
            .map(|(kind, group)| KindName::Kind { group, kind })
            .collect(),
        (None, Some(resources)) => names(resources)
            .iter()
            .map(|name| split(name))
            .map(|(resource, group)| KindName::Resource { group, resource })
            .collect(),
        (None, None) => {
            return Err(error(
                title,
                format!("the annotation {KINDS} is not there: its tool does not say which kinds it contains"),
            ));
        }
    };
    let mut namespaces = names(metadata.annotation(NAMESPACES).unwrap_or_default());
    if !metadata.namespace.is_empty() {
        namespaces.push(metadata.namespace.clone());
    }
    namespaces.sort();
    namespaces.dedup();
    Ok(ApplySet { title, selector: format!("{PART_OF}={id}"), kinds, namespaces })
}

//! Description of clusters: a tree of Cluster, groups, Machines, Nodes and hosts with their states. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::inventory::{Id, Inventory, Kind, text};
use crate::types::PAUSED_ANNOTATION;

/// State of an object.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum State {
    /// It is as declared.
    Ready,
    /// It is on its way.
    Reconciling,
    /// Only a change of its spec helps.
    Stalled,
    /// It is being deleted.
    Deleting,
    /// The controllers leave it alone.
    Paused,
    /// Nothing was reported.
    Unknown,
}

impl State {
    /// The name in output.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Reconciling => "Reconciling",
            Self::Stalled => "Stalled",
            Self::Deleting => "Deleting",
            Self::Paused => "Paused",
            Self::Unknown => "Unknown",
        }
    }
}

/// An object with what belongs to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Branch {
    /// `Kind/name`, or how many there are.
    pub name: String,
    /// Its state.
    pub state: State,
    /// Versions, sizes, addresses.
    pub summary: String,
    /// Why it is not ready.
    pub message: String,
    /// What belongs to it.
    pub children: Vec<Self>,
}

/// How many equal Machines are listed one by one.
const EQUAL_MAX: usize = 3;

/// Describes all objects. Equal Machines of a group are counted, unless all are asked for.
#[must_use]
pub fn describe(inventory: &Inventory, all: bool) -> Vec<Branch> {
    let mut children: BTreeMap<Option<Id>, Vec<Id>> = BTreeMap::new();
    for (id, object) in inventory.iter().filter(|(id, _)| id.kind != Kind::MachineHealthCheck) {
        if matches!(id.kind, Kind::MachineClass | Kind::Host) {
            continue;
        }
        children.entry(parent(id, object, inventory)).or_default().push(id.clone());
    }
    branches(None, &children, inventory, all)
}

/// What an object belongs to: its controller, or else its Cluster.
fn parent(id: &Id, object: &Value, inventory: &Inventory) -> Option<Id> {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    let controller = owners.into_iter().flatten().find(|owner| owner["controller"] == true);
    if let Some(owner) = controller
        && let Some(kind) = Kind::parse(text(owner, "/kind"))
    {
        let owner = Id::new(kind, &id.namespace, text(owner, "/name"));
        if inventory.get(&owner).is_some() {
            return Some(owner);
        }
    }
    let name = match id.kind {
        Kind::Machine => text(object, "/spec/clusterName"),
        _ => text(object, "/spec/template/spec/clusterName"),
    };
    let cluster = Id::new(Kind::Cluster, &id.namespace, name);
    (id.kind != Kind::Cluster && inventory.get(&cluster).is_some()).then_some(cluster)
}

fn branches(
    of: Option<&Id>,
    children: &BTreeMap<Option<Id>, Vec<Id>>,
    inventory: &Inventory,
    all: bool,
) -> Vec<Branch> {
    let ids = children.get(&of.cloned()).map(Vec::as_slice).unwrap_or_default();
    let mut found: Vec<Branch> = Vec::new();
    // Machines in the same state with the same versions, in the order of the first of each.
    let mut equal: Vec<(Branch, usize)> = Vec::new();
    for id in ids {
        let Some(object) = inventory.get(id) else { continue };
        let mut branch = branch(id, object);
        branch.children.extend(branches(Some(id), children, inventory, all));
        if all || id.kind != Kind::Machine {
            found.push(branch);
            continue;
        }
        let is_equal = |(other, _): &&mut (Branch, usize)| {
            other.state == branch.state
                && other.message == branch.message
                && versions(&other.summary) == versions(&branch.summary)
        };
        match equal.iter_mut().find(is_equal) {
            Some((_, count)) => *count += 1,
            None => equal.push((branch, 1)),
        }
    }
    let total: usize = equal.iter().map(|(_, count)| count).sum();
    if total <= EQUAL_MAX && total > 0 {
        let single = ids.iter().filter(|id| id.kind == Kind::Machine);
        found.extend(single.filter_map(|id| Some(branch(id, inventory.get(id)?))));
        return found;
    }
    for (branch, count) in equal {
        found.push(match count {
            1 => branch,
            count => Branch {
                name: format!("{count} Machines"),
                summary: versions(&branch.summary).to_owned(),
                children: Vec::new(),
                ..branch
            },
        });
    }
    found
}

/// The versions of a summary, without Node and host.
fn versions(summary: &str) -> &str {
    summary.split(" on ").next().unwrap_or_default()
}

fn branch(id: &Id, object: &Value) -> Branch {
    let condition = |name: &str| {
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        conditions
            .into_iter()
            .flatten()
            .find(|found| text(found, "/type") == name && text(found, "/status") == "True")
    };
    let is_paused =
        object.pointer("/metadata/annotations").is_some_and(|all| all.get(PAUSED_ANNOTATION).is_some())
            || object.pointer("/spec/paused") == Some(&Value::Bool(true));
    let says = |condition: &Value| match (text(condition, "/reason"), text(condition, "/message")) {
        (reason, "") => reason.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    };
    let is_observed = object.pointer("/status/observedGeneration") == object.pointer("/metadata/generation");
    let (state, message) = if object.pointer("/metadata/deletionTimestamp").is_some() {
        (State::Deleting, condition("Reconciling").map(says).unwrap_or_default())
    } else if let Some(stalled) = condition("Stalled") {
        (State::Stalled, says(stalled))
    } else if is_paused {
        (State::Paused, String::new())
    } else if let Some(reconciling) = condition("Reconciling") {
        (State::Reconciling, says(reconciling))
    } else if condition("Ready").is_some() && is_observed {
        (State::Ready, String::new())
    } else if object.get("status").is_some_and(Value::is_object) {
        (State::Reconciling, "the latest generation is not observed".to_owned())
    } else {
        (State::Unknown, String::new())
    };
    Branch { name: id.to_string(), state, summary: summary(id.kind, object), message, children: Vec::new() }
}

fn summary(kind: Kind, object: &Value) -> String {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
    match kind {
        Kind::Cluster => {
            let version = match text(object, "/status/version") {
                "" => text(object, "/spec/controlPlane/version"),
                version => version,
            };
            let host = text(object, "/status/apiEndpoints/0/host");
            let endpoint = match host {
                "" => "no endpoint".to_owned(),
                host => format!("{host}:{}", number("/status/apiEndpoints/0/port")),
            };
            format!(
                "{version}, {} of {} machines ready, {endpoint}",
                number("/status/readyMachines"),
                number("/status/machines")
            )
        }
        Kind::MachineDeployment => format!(
            "{} of {} available, {} updated",
            number("/status/availableReplicas"),
            number("/spec/replicas"),
            number("/status/updatedReplicas")
        ),
        Kind::MachineSet => {
            format!("{} of {} available", number("/status/availableReplicas"), number("/spec/replicas"))
        }
        Kind::Machine => {
            // A machine of the control plane may have no kubelet.
            let versions = |of: &str| {
                let pointer = |name: &str| format!("/{of}/versions/{name}");
                match (text(object, &pointer("kubelet")), text(object, &pointer("controlPlane"))) {
                    ("", "") => None,
                    ("", control_plane) => Some(format!("control plane {control_plane}")),
                    (kubelet, _) => Some(kubelet.to_owned()),
                }
            };
            let wanted = || format!("{} wanted", versions("spec").unwrap_or_default());
            let mut summary = versions("status").unwrap_or_else(wanted);
            let runtime = text(object, "/status/versions/containerRuntime/name");
            if !runtime.is_empty() {
                summary.push_str(&format!(
                    ", {runtime} {}",
                    text(object, "/status/versions/containerRuntime/version")
                ));
            }
            let places = [
                ("Node", "/status/nodeRef/name"),
                ("Host", "/status/host"),
                ("", "/status/addresses/0/address"),
            ];
            let places = places
                .iter()
                .map(|(name, pointer)| (name, text(object, pointer)))
                .filter(|(_, place)| !place.is_empty());
            let places: Vec<String> =
                places.map(|(name, place)| format!("{name} {place}").trim_start().to_owned()).collect();
            if !places.is_empty() {
                summary.push_str(&format!(" on {}", places.join(", ")));
            }
            summary
        }
        _ => String::new(),
    }
}

//! Comparison of what really runs: versions of the Machines of each group.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::difference::{Comparison, Difference, Part};
use super::normalize::{Options, Role};
use crate::inventory::{Inventory, Kind, text};
use crate::types::DEPLOYMENT_LABEL;

/// Versions by component, and how many Machines run each.
type Versions = BTreeMap<&'static str, BTreeMap<String, u64>>;

/// Compares the versions that run in two clusters, by group: the control plane, each MachineDeployment and MachineSet, and other Machines.
#[must_use]
pub fn compare_observed(a: &Inventory, b: &Inventory, options: Options) -> Comparison {
    let (one, other) = (groups(a), groups(b));
    let roles: BTreeSet<&Role> = one.keys().chain(other.keys()).collect();
    let mut differences = Vec::new();
    for role in roles {
        let (one, other) = (one.get(role), other.get(role));
        let components: BTreeSet<&str> =
            one.into_iter().chain(other).flat_map(|versions| versions.keys().copied()).collect();
        for component in components {
            let value = |versions: Option<&Versions>| Some(json(versions?.get(component)?, options));
            let (a, b) = (value(one), value(other));
            if a != b {
                let path = format!("/status/versions/{component}");
                differences.push(Difference { role: role.clone(), path, part: Part::Observed, a, b });
            }
        }
    }
    Comparison { differences }
}

fn json(versions: &BTreeMap<String, u64>, options: Options) -> Value {
    match options.ignore_replicas {
        true => versions.keys().cloned().collect(),
        false => Value::Object(
            versions.iter().map(|(name, count)| (name.clone(), json!(count))).collect::<Map<_, _>>(),
        ),
    }
}

fn groups(inventory: &Inventory) -> BTreeMap<Role, Versions> {
    let mut clusters = inventory.of_kind(Kind::Cluster);
    let cluster = match (clusters.next(), clusters.next()) {
        (Some((id, _)), None) => Some(id.name.as_str()),
        _ => None,
    };
    let without_cluster = |name: &str| {
        let rest = cluster.and_then(|cluster| name.strip_prefix(cluster)?.strip_prefix('-'));
        rest.filter(|rest| !rest.is_empty()).unwrap_or(name).to_owned()
    };
    let mut groups: BTreeMap<Role, Versions> = BTreeMap::new();
    for (id, machine) in inventory.of_kind(Kind::Machine) {
        let deployment =
            machine.pointer("/metadata/labels").and_then(|labels| labels.get(DEPLOYMENT_LABEL)?.as_str());
        let owners = machine.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let set = owners.into_iter().flatten().find(|owner| owner["kind"] == "MachineSet");
        let role = if machine.pointer("/spec/versions/controlPlane").is_some_and(Value::is_string) {
            Role { kind: Kind::Machine, name: "control-plane".to_owned() }
        } else if let Some(name) = deployment {
            Role { kind: Kind::MachineDeployment, name: without_cluster(name) }
        } else if let Some(set) = set {
            Role { kind: Kind::MachineSet, name: without_cluster(text(set, "/name")) }
        } else {
            Role { kind: Kind::Machine, name: without_cluster(&id.name) }
        };
        let versions = groups.entry(role).or_default();
        let mut count = |component, version: String| {
            if !version.is_empty() {
                *versions.entry(component).or_default().entry(version).or_default() += 1;
            }
        };
        count("kubelet", text(machine, "/status/versions/kubelet").to_owned());
        count("controlPlane", text(machine, "/status/versions/controlPlane").to_owned());
        let runtime = text(machine, "/status/versions/containerRuntime/name");
        if !runtime.is_empty() {
            let version = text(machine, "/status/versions/containerRuntime/version");
            count("containerRuntime", format!("{runtime} {version}"));
        }
        if text(machine, "/status/versions/kubelet").is_empty() {
            count("kubelet", "unknown".to_owned());
        }
    }
    groups
}

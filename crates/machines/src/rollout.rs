//! Changes that commands make to rollouts and versions: merge patches of specs. Pure.

use serde_json::{Value, json};

use crate::inventory::{Id, Inventory, Kind, text};
use crate::plan::merge_patch;
use crate::types::{DEPLOYMENT_LABEL, GROUP, REVISION_ANNOTATION, TEMPLATE_HASH_LABEL};

/// Why a rollout cannot be changed so.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RolloutError {
    /// There is no such revision.
    #[error("there is no revision {0} in its history")]
    NoRevision(u64),
    /// There is none before.
    #[error("there is no earlier revision in its history")]
    NoEarlier,
    /// Its Machines are changed themselves.
    #[error("its strategy is UpdateMachines: a Machine is replaced when it is deleted")]
    InPlace,
}

/// Pauses or resumes a MachineDeployment.
#[must_use]
pub fn pause(is_paused: bool) -> Value {
    json!({"spec": {"paused": is_paused}})
}

/// Makes a MachineDeployment replace all its Machines.
///
/// # Errors
/// Its Machines are changed themselves.
pub fn restart(deployment: &Value, now: &str) -> Result<Value, RolloutError> {
    if text(deployment, "/spec/strategy/type") == "UpdateMachines" {
        return Err(RolloutError::InPlace);
    }
    let annotation = format!("{GROUP}/restartedAt");
    Ok(json!({"spec": {"template": {"spec": {"metadata": {"annotations": {annotation: now}}}}}}))
}

fn revision(set: &Value) -> Option<u64> {
    set.pointer("/metadata/annotations")?.get(REVISION_ANNOTATION)?.as_str()?.parse().ok()
}

/// Goes back to the template of an earlier revision, among these MachineSets.
///
/// # Errors
/// There is no such revision.
pub fn undo(deployment: &Value, sets: &[&Value], to: Option<u64>) -> Result<Value, RolloutError> {
    let uid = text(deployment, "/metadata/uid");
    let is_own = |set: &&&Value| {
        let owners = set.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        owners.into_iter().flatten().any(|owner| text(owner, "/uid") == uid)
    };
    let template = deployment.pointer("/spec/template").cloned().unwrap_or_default();
    let mut history: Vec<(u64, Value)> = sets
        .iter()
        .filter(is_own)
        .filter_map(|set| {
            let mut template = set.pointer("/spec/template")?.clone();
            if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
                labels.retain(|key, _| key != TEMPLATE_HASH_LABEL && key != DEPLOYMENT_LABEL);
            }
            Some((revision(set)?, template))
        })
        .collect();
    history.sort_by_key(|(revision, _)| *revision);
    let target = match to {
        Some(wanted) => {
            let found = history.iter().find(|(revision, _)| *revision == wanted);
            &found.ok_or(RolloutError::NoRevision(wanted))?.1
        }
        None => {
            let earlier = history.iter().rev().find(|(_, earlier)| earlier["spec"] != template["spec"]);
            &earlier.ok_or(RolloutError::NoEarlier)?.1
        }
    };
    Ok(merge_patch(&template, target).map_or_else(|| json!({}), |patch| json!({"spec": {"template": patch}})))
}

/// Changes of versions, in the order in which they are made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Upgrade {
    /// The Cluster, and the machines of its control plane.
    pub control_plane: Vec<(Id, Value)>,
    /// Groups and other Machines.
    pub workers: Vec<(Id, Value)>,
}

/// Not a version.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0:?} is no version such as v1.36.0")]
pub struct InvalidVersion(String);

/// Changes the versions of a Cluster, up or down.
///
/// # Errors
/// The version is malformed.
pub fn plan_upgrade(inventory: &Inventory, cluster: &Id, version: &str) -> Result<Upgrade, InvalidVersion> {
    let numbers: Vec<&str> =
        version.trim_start_matches('v').split(['-', '+']).next().unwrap_or_default().split('.').collect();
    let is_number = |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if numbers.len() != 3 || !numbers.iter().all(is_number) {
        return Err(InvalidVersion(version.to_owned()));
    }
    let mut upgrade = Upgrade::default();
    let of_cluster = inventory.of_cluster(&cluster.namespace, &cluster.name);
    for (id, object) in of_cluster.iter() {
        let is = |pointer: &str| text(object, pointer) == version;
        let is_controlled = {
            let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            owners.into_iter().flatten().any(|owner| owner["controller"] == true)
        };
        match id.kind {
            Kind::Cluster if !is("/spec/controlPlane/version") => {
                upgrade
                    .control_plane
                    .push((id.clone(), json!({"spec": {"controlPlane": {"version": version}}})));
            }
            Kind::Machine if !is_controlled => {
                let has_control_plane =
                    object.pointer("/spec/versions/controlPlane").is_some_and(Value::is_string);
                let mut versions = json!({"kubelet": version});
                if has_control_plane {
                    versions["controlPlane"] = version.into();
                }
                let is_done =
                    is("/spec/versions/kubelet") && (!has_control_plane || is("/spec/versions/controlPlane"));
                let list = if has_control_plane { &mut upgrade.control_plane } else { &mut upgrade.workers };
                if !is_done {
                    list.push((id.clone(), json!({"spec": {"versions": versions}})));
                }
            }
            Kind::MachineDeployment | Kind::MachineSet
                if !is_controlled && !is("/spec/template/spec/versions/kubelet") =>
            {
                let patch = json!({"spec": {"template": {"spec": {"versions": {"kubelet": version}}}}});
                upgrade.workers.push((id.clone(), patch));
            }
            _ => {}
        }
    }
    Ok(upgrade)
}

#[cfg(test)]
mod tests {
    use super::*;

    const API: &str = "cluster.settled.dev/v1alpha1";

    fn deployment(kubelet: &str) -> Value {
        json!({"apiVersion": API, "kind": "MachineDeployment", "metadata": {"name": "web", "uid": "u"},
            "spec": {"template": {"metadata": {"labels": {"app": "web"}}, "spec": {"clusterName": "prod", "versions": {"kubelet": kubelet}}}}})
    }

    fn set(revision: &str, kubelet: &str) -> Value {
        json!({"apiVersion": API, "kind": "MachineSet",
            "metadata": {"name": revision, "ownerReferences": [{"uid": "u", "controller": true}], "annotations": {REVISION_ANNOTATION: revision}},
            "spec": {"template": {"metadata": {"labels": {"app": "web", TEMPLATE_HASH_LABEL: "x", DEPLOYMENT_LABEL: "web"}}, "spec": {"clusterName": "prod", "versions": {"kubelet": kubelet}}}}})
    }

    #[test]
    fn an_undo_is_the_template_of_before() {
        let (first, second, third) = (set("1", "v1.34.0"), set("2", "v1.35.0"), set("3", "v1.36.0"));
        let sets = [&third, &first, &second];
        let back = |to| undo(&deployment("v1.36.0"), &sets, to);
        let template =
            |kubelet: &str| Ok(json!({"spec": {"template": {"spec": {"versions": {"kubelet": kubelet}}}}}));
        assert_eq!(back(None), template("v1.35.0"));
        assert_eq!(back(Some(1)), template("v1.34.0"));
        assert_eq!(back(Some(7)), Err(RolloutError::NoRevision(7)));
        assert_eq!(undo(&deployment("v1.36.0"), &[&third], None), Err(RolloutError::NoEarlier));
    }

    #[test]
    fn an_upgrade_is_the_control_plane_and_then_the_workers() {
        let cluster = json!({"apiVersion": API, "kind": "Cluster", "metadata": {"name": "prod"}, "spec": {"controlPlane": {"version": "v1.36.0"}}});
        let machine = json!({"apiVersion": API, "kind": "Machine", "metadata": {"name": "cp"}, "spec": {"clusterName": "prod", "versions": {"kubelet": "v1.36.0", "controlPlane": "v1.36.0"}}});
        let inventory =
            Inventory::new([cluster, machine, deployment("v1.36.0"), set("1", "v1.36.0")], "default");
        let id = Id::new(Kind::Cluster, "default", "prod");
        let names = |steps: &[(Id, Value)]| steps.iter().map(|(id, _)| id.to_string()).collect::<Vec<_>>();
        for version in ["v1.37.0", "v1.35.9"] {
            let upgrade = plan_upgrade(&inventory, &id, version).expect("a version");
            assert_eq!(names(&upgrade.control_plane), ["Cluster/prod", "Machine/cp"]);
            assert_eq!(names(&upgrade.workers), ["MachineDeployment/web"]);
        }
        assert_eq!(plan_upgrade(&inventory, &id, "v1.36.0"), Ok(Upgrade::default()));
        assert!(plan_upgrade(&inventory, &id, "latest").is_err());
    }
}

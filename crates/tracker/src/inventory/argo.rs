//! Argo CD: `status.resources` of an `Application`.

use serde::Deserialize;

use super::{Hook, Inventory, InventoryError, Member, Members, Metadata, error, read};
use crate::ObjectId;

/// How an Application names the cluster that it is in itself.
const THIS_CLUSTER: [&str; 2] = ["https://kubernetes.default.svc", "in-cluster"];

#[derive(Deserialize, Default)]
#[serde(default)]
struct Application {
    metadata: Metadata,
    spec: Spec,
    status: Option<Status>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Spec {
    destination: Destination,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Destination {
    server: String,
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Status {
    resources: Option<Vec<Resource>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Resource {
    group: String,
    version: String,
    kind: String,
    namespace: String,
    name: String,
    hook: bool,
    requires_pruning: bool,
}

pub(super) fn application(json: &[u8]) -> Result<Inventory, InventoryError> {
    let Application { metadata, spec, status } = read(json, "Application")?;
    let title = format!("Application {}", metadata.name);
    let Destination { server, name } = spec.destination;
    let cluster = if name.is_empty() { server.trim_end_matches('/') } else { &name };
    if !cluster.is_empty() && !THIS_CLUSTER.contains(&cluster) {
        return Err(error(
            title,
            format!(
                "spec.destination is another cluster, {cluster}: choose it with --context, and name the objects there by files or selectors"
            ),
        ));
    }
    let Some(resources) = status.and_then(|status| status.resources) else {
        return Err(error(
            title,
            "status.resources is not there: Argo CD has not compared it yet; wait for the Application itself",
        ));
    };
    let mut members = Members::default();
    let mut hooks = Vec::new();
    for (index, resource) in resources.into_iter().enumerate() {
        let Resource { group, version, kind, namespace, name, hook, requires_pruning } = resource;
        if kind.is_empty() || name.is_empty() {
            return Err(error(title, format!("status.resources[{index}] has no kind or no name")));
        }
        let version = Some(version.into_boxed_str()).filter(|version| !version.is_empty());
        let member =
            Member { id: ObjectId::new(group, kind, namespace, name), version, default_namespace: false };
        match hook {
            _ if requires_pruning => {}
            true if member.id.is("batch", "Job") => {
                hooks.push(Hook { job: member, events: Vec::new(), phase: String::new() });
            }
            true => {}
            false => members.push(member, &title)?,
        }
    }
    Ok(Inventory { title, members: members.list, hooks, left_out: Vec::new() })
}

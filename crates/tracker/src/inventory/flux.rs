//! Flux: the inventories of its `Kustomization` and `HelmRelease`, and where Helm keeps the latter.

use serde::Deserialize;

use super::{
    Contents, HelmStorage, Inventory, InventoryError, Member, Members, Metadata, Presence, bad_id, error,
    parse_id, read,
};

#[derive(Deserialize, Default)]
#[serde(default)]
struct Applied {
    metadata: Metadata,
    spec: Spec,
    status: Option<Status>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    kube_config: Presence,
    release_name: String,
    target_namespace: String,
    storage_namespace: String,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    inventory: Option<Entries>,
    history: Option<Vec<Snapshot>>,
    storage_namespace: String,
    /// Of `v2beta1`, which knew no history.
    last_release_revision: u64,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Entries {
    entries: Option<Vec<Entry>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Entry {
    id: String,
    v: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Snapshot {
    name: String,
    version: u64,
}

fn of_this_cluster(title: &str, spec: &Spec) -> Result<(), InventoryError> {
    match spec.kube_config {
        None => Ok(()),
        Some(_) => Err(error(
            title,
            "spec.kubeConfig names another cluster: choose it with --context, and name the objects there by files or selectors",
        )),
    }
}

fn objects(title: String, entries: Entries) -> Result<Inventory, InventoryError> {
    let mut members = Members::default();
    for (index, entry) in entries.entries.unwrap_or_default().into_iter().enumerate() {
        let Some(id) = parse_id(&entry.id) else {
            return Err(error(title, format!("status.inventory.entries[{index}].id: {}", bad_id(&entry.id))));
        };
        let version = Some(entry.v.into_boxed_str()).filter(|version| !version.is_empty());
        members.push(Member { id, version, default_namespace: false }, &title)?;
    }
    Ok(Inventory { title, members: members.list, ..Inventory::default() })
}

pub(super) fn kustomization(json: &[u8]) -> Result<Inventory, InventoryError> {
    let Applied { metadata, spec, status } = read(json, "Kustomization")?;
    let title = format!("Kustomization {}", metadata.name);
    of_this_cluster(&title, &spec)?;
    match status.and_then(|status| status.inventory) {
        Some(entries) => objects(title, entries),
        None => Err(error(
            title,
            "status.inventory is not there: Flux has not applied it yet; wait for the Kustomization itself",
        )),
    }
}

pub(super) fn helm_release(json: &[u8]) -> Result<Contents, InventoryError> {
    let Applied { metadata, spec, status } = read(json, "HelmRelease")?;
    let title = format!("HelmRelease {}", metadata.name);
    of_this_cluster(&title, &spec)?;
    let status = status.unwrap_or_default();
    if let Some(entries) = status.inventory {
        return objects(title, entries).map(Contents::Objects);
    }
    let namespace = [status.storage_namespace, spec.storage_namespace, metadata.namespace];
    let namespace = namespace.into_iter().find(|namespace| !namespace.is_empty()).unwrap_or_default();
    let latest = status.history.unwrap_or_default().into_iter().max_by_key(|snapshot| snapshot.version);
    let (release, revision) = match latest {
        Some(snapshot) if !snapshot.name.is_empty() => (snapshot.name, snapshot.version),
        Some(_) => return Err(error(title, "status.history has a release without a name")),
        None if status.last_release_revision > 0 => {
            let release = match (&*spec.release_name, &*spec.target_namespace) {
                ("", "") => metadata.name,
                ("", target) => format!("{target}-{}", metadata.name),
                (name, _) => name.to_owned(),
            };
            (release, status.last_release_revision)
        }
        None => {
            return Err(error(
                title,
                "status.history is not there: Flux has released nothing yet; wait for the HelmRelease itself",
            ));
        }
    };
    Ok(Contents::Helm(HelmStorage { namespace, release, revision: Some(revision) }))
}

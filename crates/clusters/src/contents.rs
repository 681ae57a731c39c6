//! Contents of a cluster: its objects on the server that manages it, in the order in which they are created.

use std::collections::BTreeSet;

use kube::api::{DynamicObject, ListParams};
use serde_json::{Value, json};
use settled_machines::types::{CLUSTER_LABEL, Machine, kubeconfig_secret};

use crate::error::Error;
use crate::kinds::{API_VERSION, KINDS, api};
use crate::management::Management;

/// The objects of a cluster.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// With their kinds, each one after those that it refers to.
    pub objects: Vec<(String, DynamicObject)>,
    /// Those that others use, too: they are copied, and stay.
    pub shared: BTreeSet<(String, String)>,
}

fn text<'v>(object: &'v DynamicObject, pointer: &str) -> Option<&'v str> {
    object.data.pointer(pointer)?.as_str()
}

/// The Cluster of an object.
fn cluster_of<'v>(kind: &str, object: &'v DynamicObject) -> Option<&'v str> {
    match kind {
        "Cluster" => object.metadata.name.as_deref(),
        "Machine" => text(object, "/spec/clusterName"),
        "MachineSet" | "MachineDeployment" => text(object, "/spec/template/spec/clusterName"),
        _ => object.metadata.labels.as_ref()?.get(CLUSTER_LABEL).map(String::as_str),
    }
}

/// The MachineClass that an object uses.
fn class_of(object: &DynamicObject) -> Option<&str> {
    let own = text(object, "/spec/providerSpec/valueFrom/machineClass/name");
    own.or_else(|| text(object, "/spec/template/spec/providerSpec/valueFrom/machineClass/name"))
}

fn name(object: &DynamicObject) -> &str {
    object.metadata.name.as_deref().unwrap_or_default()
}

/// What a selector of a health check selects: whether it selects a Machine of the cluster.
fn selects(check: &DynamicObject, machines: &[Machine]) -> bool {
    let selector = check.data.pointer("/spec/selector").cloned().unwrap_or_default();
    let selector: settled_machines::types::Selector = serde_json::from_value(selector).unwrap_or_default();
    machines.iter().any(|machine| selector.matches(machine.metadata.labels.as_ref()))
}

impl Contents {
    /// Reads the objects of a cluster.
    ///
    /// # Errors
    /// The server refuses it.
    pub async fn read(management: &Management, namespace: &str, cluster: &str) -> Result<Self, Error> {
        let mut all: Vec<(String, DynamicObject)> = Vec::new();
        for (_, kind) in KINDS {
            let objects = api(&management.client, kind, namespace);
            let list = objects.list(&ListParams::default()).await;
            let list =
                list.map_err(Error::request(format!("list {kind} objects in namespace {namespace}")))?;
            all.extend(list.items.into_iter().map(|object| (kind.to_owned(), object)));
        }
        Ok(Self::of(all, cluster))
    }

    /// Those of a cluster among all objects of a namespace.
    fn of(all: Vec<(String, DynamicObject)>, cluster: &str) -> Self {
        let is_of = |kind: &str, object: &DynamicObject| cluster_of(kind, object) == Some(cluster);
        let machines: Vec<Machine> = all
            .iter()
            .filter(|(kind, object)| kind == "Machine" && is_of(kind, object))
            .filter_map(|(_, object)| machine(object))
            .collect();
        let used = |used_here: bool| -> BTreeSet<(String, String)> {
            let mut used = BTreeSet::new();
            for (kind, object) in &all {
                let is_group = matches!(kind.as_str(), "Machine" | "MachineSet" | "MachineDeployment");
                if is_group && is_of(kind, object) == used_here {
                    used.extend(class_of(object).map(|class| ("MachineClass".to_owned(), class.to_owned())));
                    if let Some(host) = text(object, "/status/host") {
                        used.insert(("Host".to_owned(), host.to_owned()));
                    }
                }
            }
            used
        };
        let (here, elsewhere) = (used(true), used(false));
        let keys = |hosts: &dyn Fn(&str) -> bool| -> BTreeSet<String> {
            let hosts = all.iter().filter(|(kind, object)| kind == "Host" && hosts(name(object)));
            hosts.filter_map(|(_, host)| text(host, "/spec/key/name").map(str::to_owned)).collect()
        };
        let is_used_host = |host: &str| here.contains(&("Host".to_owned(), host.to_owned()));
        let (keys_here, keys_elsewhere) = (keys(&is_used_host), keys(&|host| !is_used_host(host)));
        let kubeconfig = kubeconfig_secret(cluster);
        let mut contents = Self::default();
        for (kind, object) in all.iter().cloned() {
            let id = (kind.clone(), name(&object).to_owned());
            let belongs = match kind.as_str() {
                "MachineHealthCheck" => is_of(&kind, &object) || selects(&object, &machines),
                "MachineClass" | "Host" => is_of(&kind, &object) || here.contains(&id),
                "Secret" => is_of(&kind, &object) || id.1 == kubeconfig || keys_here.contains(&id.1),
                _ => is_of(&kind, &object),
            };
            if !belongs {
                continue;
            }
            let is_key = kind == "Secret" && keys_elsewhere.contains(&id.1);
            if elsewhere.contains(&id) || is_key {
                contents.shared.insert(id);
            }
            contents.objects.push((kind, object));
        }
        contents
    }

    /// The Machines.
    #[must_use]
    pub fn machines(&self) -> Vec<Machine> {
        let machines = self.objects.iter().filter(|(kind, _)| kind == "Machine");
        machines.filter_map(|(_, object)| machine(object)).collect()
    }

    /// The objects of a kind.
    pub fn of_kind<'c>(&'c self, kind: &'c str) -> impl Iterator<Item = &'c DynamicObject> {
        self.objects.iter().filter(move |(of, _)| of == kind).map(|(_, object)| object)
    }

    /// The objects as values, with their kinds.
    #[must_use]
    pub fn into_values(self) -> Vec<Value> {
        let value = |(kind, object): (String, DynamicObject)| {
            let api_version = KINDS
                .iter()
                .find(|(_, known)| *known == kind)
                .map_or(API_VERSION, |(api_version, _)| api_version);
            let mut value = json!(object);
            value["apiVersion"] = (*api_version).into();
            value["kind"] = kind.into();
            value
        };
        self.objects.into_iter().map(value).collect()
    }
}

fn machine(object: &DynamicObject) -> Option<Machine> {
    let mut value = json!(object);
    value["apiVersion"] = API_VERSION.into();
    value["kind"] = "Machine".into();
    serde_json::from_value(value).ok()
}

//! Policies of a cluster, the objects that they select, and what runs there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use settled_netpol::cluster::Known;
use settled_netpol::detect::{self, Inventory, Workload};
use settled_netpol::parse::{ParseError, parse_policy};
use settled_netpol::profile::{OwnKinds, Profiles};
use settled_tracker::connection::{Resource, Resources};
use settled_tracker::{Cluster, RequestError};

use super::files::{Contents, Entry, Others};
use super::row::Unread;
use super::snapshot::Collected;
use crate::cli::args::ClusterArgs;
use crate::cli::netpol::PolicyArgs;
use crate::cluster;
use crate::error::CommandError;
use crate::patience::Patience;
use crate::requests::Warnings;
use crate::session;

/// The group of the kinds for administrators.
const ADMIN_GROUP: &str = "policy.networking.k8s.io";
const ADMIN_KINDS: [(&str, &str); 3] = [
    ("AdminNetworkPolicy", "AdminNetworkPolicies"),
    ("BaselineAdminNetworkPolicy", "BaselineAdminNetworkPolicies"),
    ("ClusterNetworkPolicy", "ClusterNetworkPolicies"),
];
/// How many policies of other kinds are counted.
const OTHERS_MAX: usize = 500;

/// Which namespaces' policies are read.
#[derive(Clone, Debug)]
pub(super) enum Scope {
    /// Those that the arguments name, or that of the context.
    Arguments,
    Namespaces(Vec<String>),
    Everywhere,
}

/// What is to be read.
#[derive(Clone, Debug)]
pub(super) struct Wanted<'p> {
    /// Profiles of providers, which name kinds of their own.
    pub(super) profiles: &'p Profiles,
    /// Policies of these namespaces, and the objects that they select.
    pub(super) policies: Option<Scope>,
    /// What runs, for the profiles.
    pub(super) providers: bool,
}

/// What was read.
#[derive(Debug)]
pub(super) struct Live {
    pub(super) contents: Contents,
    pub(super) inventory: Option<Inventory>,
}

/// Reads the cluster; None if the user interrupts it.
pub(super) fn read(
    args: &PolicyArgs,
    access: &ClusterArgs,
    wanted: &Wanted<'_>,
) -> Result<Option<Live>, CommandError> {
    let patience = Patience::with_timeout(Some(args.timeout));
    session::run(async {
        let cluster = cluster::connect(access, patience, Warnings::Ignored).await?;
        tokio::select! {
            live = patience.reach(&cluster, read_from(&cluster, args, wanted)) => live,
            () = patience.exhausted() => {
                let error = format!("the cluster was not read within {}", patience.limit());
                Err(CommandError::cluster(error).hint("--timeout allows more time"))
            }
        }
    })
}

async fn read_from(cluster: &Cluster, args: &PolicyArgs, wanted: &Wanted<'_>) -> Result<Live, CommandError> {
    let resources = cluster.resources().await.map_err(|error| cluster::unreachable_at(cluster, &error))?;
    let mut contents = Contents::default();
    let own_kinds = OwnKinds::new(wanted.profiles);
    let reader = Reader { own_kinds: &own_kinds, cluster, resources: &resources };
    if let Some(scope) = &wanted.policies {
        let namespaces = match (scope, &args.namespace) {
            (Scope::Everywhere, _) => None,
            (Scope::Namespaces(names), _) => Some(names.clone()),
            (Scope::Arguments, _) if args.all_namespaces => None,
            (Scope::Arguments, None) => Some(vec![cluster.default_namespace()]),
            (Scope::Arguments, Some(list)) => Some(cluster::namespaces(Some(list))?),
        };
        reader.policies(namespaces.as_deref(), &mut contents).await?;
        reader.selected(&mut contents).await?;
    }
    let inventory = match wanted.providers {
        true => Some(reader.inventory(wanted.profiles).await?),
        false => None,
    };
    Ok(Live { contents, inventory })
}

struct Reader<'a> {
    own_kinds: &'a OwnKinds,
    cluster: &'a Cluster,
    resources: &'a Resources,
}

impl Reader<'_> {
    fn unreachable(&self, error: &RequestError) -> CommandError {
        cluster::unreachable_at(self.cluster, error)
    }

    async fn policies(
        &self,
        namespaces: Option<&[String]>,
        contents: &mut Contents,
    ) -> Result<(), CommandError> {
        if let Some(resource) = self.resources.of_kind("networking.k8s.io", None, "NetworkPolicy") {
            for namespace in places(namespaces) {
                let list = self.entries(resource, namespace).await;
                contents.add(list.map_err(|error| self.unreachable(&error))?);
            }
        }
        for (kind, plural) in ADMIN_KINDS {
            let Some(resource) = self.resources.of_kind(ADMIN_GROUP, None, kind) else { continue };
            match self.entries(resource, None).await {
                Ok(entries) => contents.add(entries),
                Err(error) if error.is_forbidden() => {
                    contents.unread.push(Unread { objects: plural, reason: error.to_string() });
                }
                Err(error) => return Err(self.unreachable(&error)),
            }
        }
        let others = self.resources.preferred().filter(|resource| resource.list).filter_map(|resource| {
            Some((resource, Others::of(self.own_kinds, &resource.api_version(), &resource.kind)?))
        });
        for (resource, others) in others.collect::<Vec<_>>() {
            for namespace in places(namespaces.filter(|_| resource.namespaced)) {
                // Who may not list them may still check the rest.
                let names =
                    self.cluster.names(resource, namespace, None, OTHERS_MAX).await.unwrap_or_default();
                if !names.is_empty() {
                    let key = (resource.api_version(), resource.kind.to_string());
                    let known = contents.others.entry(key).or_default();
                    *known = Others { count: known.count + names.len() as u64, ..others.clone() };
                }
            }
        }
        contents.objects += contents.policies.len() as u64;
        Ok(())
    }

    async fn entries(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
    ) -> Result<Vec<Result<Entry, ParseError>>, RequestError> {
        let keep = |json: &[u8]| {
            let value: Value = serde_json::from_slice(json).ok()?;
            Some(parse_policy(&value, namespace.unwrap_or_default()).map(Entry::of_cluster))
        };
        self.cluster.list(resource, namespace, keep).await
    }

    /// What policies select: of all namespaces, since peers may be in any.
    async fn selected(&self, contents: &mut Contents) -> Result<(), CommandError> {
        for (kind, objects) in
            [("Pod", "pods"), ("Namespace", "namespaces"), ("Node", "nodes"), ("Service", "services")]
        {
            let Some(resource) = self.resources.of_kind("", None, kind) else { continue };
            let keep = |json: &[u8]| {
                let value: Value = serde_json::from_slice(json).ok()?;
                Collected::read(kind, &value, "")
            };
            match self.cluster.list(resource, None, keep).await {
                Ok(list) => list.into_iter().for_each(|found| contents.snapshot.add(found)),
                Err(error) if error.is_forbidden() => {
                    contents.unread.push(Unread { objects, reason: error.to_string() });
                }
                Err(error) => return Err(self.unreachable(&error)),
            }
        }
        Ok(())
    }

    /// What runs, as far as profiles ask for it.
    async fn inventory(&self, profiles: &Profiles) -> Result<Inventory, CommandError> {
        let crds = self.resources.iter().map(|resource| resource.qualified());
        let crds: BTreeSet<String> = crds.collect();
        let (mut workloads, mut refused) = (Vec::new(), None);
        for kind in detect::kinds(profiles) {
            let Some(resource) = self.resources.of_kind("apps", None, kind) else { continue };
            let named = detect::namespaces(profiles, kind);
            // There are few DaemonSets in a cluster. Of other kinds there are many, and their namespaces are known.
            let everywhere = kind == "DaemonSet" || named.is_none();
            if everywhere {
                match self.workloads(resource, None).await {
                    Ok(list) => {
                        workloads.extend(list);
                        continue;
                    }
                    Err(error) if error.is_forbidden() => refused = Some(error),
                    Err(error) => return Err(self.unreachable(&error)),
                }
            }
            for namespace in named.into_iter().flatten() {
                match self.workloads(resource, Some(namespace)).await {
                    Ok(list) => workloads.extend(list),
                    Err(error) if error.is_forbidden() => refused = Some(error),
                    Err(error) => return Err(self.unreachable(&error)),
                }
            }
        }
        let workloads = match refused {
            Some(error) if workloads.is_empty() => Known::Unread(error.to_string().into()),
            _ => Known::Read(workloads),
        };
        let crds = crds.into_iter().map(Arc::from).collect();
        let mut inventory = Inventory {
            workloads,
            crds: Known::Read(crds),
            kubelets: BTreeSet::new(),
            objects: BTreeMap::new(),
            config_maps: BTreeMap::new(),
            failed: Vec::new(),
        };
        self.look_up(profiles, &mut inventory).await?;
        Ok(inventory)
    }

    /// What says versions and options of what runs. What may not be read is noted.
    async fn look_up(&self, profiles: &Profiles, inventory: &mut Inventory) -> Result<(), CommandError> {
        let lookups = detect::lookups(profiles, inventory.workloads.read().unwrap_or_default());
        let mut failed = |what: String, error: RequestError| {
            if error.is_forbidden() {
                inventory.failed.push(format!("not read: {what}: {error}").into());
            } else if !error.is_not_found() {
                return Err(self.unreachable(&error));
            }
            Ok(())
        };
        if lookups.kubelets
            && let Some(resource) = self.resources.of_kind("", None, "Node")
        {
            let version = |json: &[u8]| {
                let node: Value = serde_json::from_slice(json).ok()?;
                Some(Arc::from(node.pointer("/status/nodeInfo/kubeletVersion")?.as_str()?))
            };
            match self.cluster.list(resource, None, version).await {
                Ok(versions) => inventory.kubelets = versions.into_iter().collect(),
                Err(error) => failed("kubelet versions".to_owned(), error)?,
            }
        }
        for object in lookups.objects {
            let (group, version) = object.api_version.split_once('/').unwrap_or(("", &object.api_version));
            let Some(resource) = self.resources.of_kind(group, Some(version), &object.kind) else { continue };
            match self.cluster.object(resource, None, &object.name).await {
                Ok(json) => {
                    if let Ok(value) = serde_json::from_slice(&json) {
                        inventory.objects.insert(object, value);
                    }
                }
                Err(error) => failed(format!("{} {}", object.kind, object.name), error)?,
            }
        }
        let Some(resource) = self.resources.of_kind("", None, "ConfigMap") else { return Ok(()) };
        for (namespace, name) in lookups.config_maps {
            match self.cluster.object(resource, Some(&namespace), &name).await {
                Ok(json) => {
                    let object: Value = serde_json::from_slice(&json).unwrap_or_default();
                    let data = object.get("data").and_then(Value::as_object).into_iter().flatten();
                    let data =
                        data.filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())));
                    inventory.config_maps.insert((namespace, name), data.collect());
                }
                Err(error) => failed(format!("ConfigMap {namespace}/{name}"), error)?,
            }
        }
        Ok(())
    }

    async fn workloads(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
    ) -> Result<Vec<Workload>, RequestError> {
        let keep = |json: &[u8]| Workload::read(&serde_json::from_slice(json).ok()?);
        self.cluster.list(resource, namespace, keep).await
    }
}

/// The namespaces to list, None being all.
fn places(namespaces: Option<&[String]>) -> Vec<Option<&str>> {
    match namespaces {
        Some(list) => list.iter().map(|name| Some(name.as_str())).collect(),
        None => vec![None],
    }
}

//! Detection of the cluster's providers: caches of workloads and CRDs, and what is read beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{BoxStream, SelectAll};
use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind, PartialObjectMeta};
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;
use settled_controller::cache::{Cache, CacheStatus};
use settled_controller::{Projection, predicate};
use settled_netpol::cluster::{Known, Labels};
use settled_netpol::detect::{self, Detection, Inventory, Workload};
use settled_netpol::profile::{Profiles, ProviderRef};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep};

use crate::Config;

/// Nodes in one page of a list.
const PAGE: u32 = 500;
/// How soon a lookup is tried again that the API server did not answer.
const RETRY: Duration = Duration::from_secs(5);

/// The providers of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Providers {
    /// Those that run, in all their variants and versions.
    pub(crate) found: Vec<ProviderRef>,
    /// Why nobody knows which runs.
    pub(crate) unknown: Option<String>,
}

impl Providers {
    fn known(found: impl IntoIterator<Item = ProviderRef>) -> Self {
        let mut distinct: Vec<ProviderRef> = Vec::new();
        for reference in found {
            if !distinct.contains(&reference) {
                distinct.push(reference);
            }
        }
        Self { found: distinct, unknown: None }
    }

    const fn unknown(reason: String) -> Self {
        Self { found: Vec::new(), unknown: Some(reason) }
    }

    fn describe(&self) -> String {
        match &self.unknown {
            Some(reason) => reason.clone(),
            None => self.found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        }
    }
}

/// Follows the providers of a cluster. None until the first answer is known; never ends.
pub(crate) async fn follow(
    client: &Client,
    config: &Config,
    providers: &watch::Sender<Option<Arc<Providers>>>,
) {
    if !config.providers.is_empty() {
        let known = Providers::known(config.providers.iter().cloned());
        providers.send_replace(Some(Arc::new(known)));
        return std::future::pending().await;
    }
    let caches = Caches::start(client, &config.profiles);
    let mut changes = caches.changes();
    let mut poll = interval_at(Instant::now() + config.poll_interval, config.poll_interval);
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        // While the API server does not answer, what was found stays.
        caches.settle().await;
        let Ok(found) = caches.detect(client, &config.profiles).await else {
            sleep(RETRY).await;
            continue;
        };
        let found = Arc::new(found);
        providers.send_if_modified(|known| {
            let is_new = known.as_ref() != Some(&found);
            if is_new {
                tracing::info!(providers = found.describe(), "detected providers");
                *known = Some(Arc::clone(&found));
            }
            is_new
        });
        tokio::select! {
            biased;
            _ = changes.next() => {}
            _ = poll.tick() => {}
        }
        // What changes at once is evaluated at once.
        while changes.next().now_or_never().flatten().is_some() {}
    }
}

/// The API server did not answer. It is asked again.
struct Later;

/// The providers of a detection, or why there are none.
fn named(detection: &Detection) -> Providers {
    let found: Vec<ProviderRef> = detection.providers.iter().map(|found| found.reference.clone()).collect();
    if !found.is_empty() {
        return Providers::known(found);
    }
    Providers::unknown(match &*detection.unread {
        [] => "no known network provider runs in the cluster".to_owned(),
        [reason, ..] => format!("the network provider cannot be detected: {reason}"),
    })
}

struct Caches {
    /// The kind and its objects.
    workloads: Vec<(String, Cache<DynamicObject>)>,
    crds: Cache<PartialObjectMeta<CustomResourceDefinition>>,
}

impl Caches {
    fn start(client: &Client, profiles: &Profiles) -> Self {
        let fields = ["containers", "initContainers"].into_iter().flat_map(|list| {
            ["name", "image", "command", "args"].map(|field| format!("spec.template.spec.{list}.{field}"))
        });
        let own = ["metadata.labels", "metadata.annotations"].map(str::to_owned);
        let fields: Vec<String> = fields.chain(own).collect();
        let workloads = detect::kinds(profiles).into_iter().map(|kind| {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("apps", "v1", kind));
            // Rollouts change their status, and nothing that says a version.
            let says_a_version = predicate::generation_changed()
                .or(predicate::labels_changed())
                .or(predicate::annotations_changed());
            let cache = Cache::of_resource(client.clone(), &resource)
                .events(says_a_version)
                .projection(Projection::only(fields.iter().map(String::as_str)))
                .start();
            (kind.to_owned(), cache)
        });
        let workloads = workloads.collect();
        let crds = Cache::builder(client.clone())
            .events(predicate::generation_changed())
            .projection(Projection::only(["metadata.name"]))
            .start();
        Self { workloads, crds }
    }

    fn changes(&self) -> SelectAll<BoxStream<'static, ()>> {
        let mut changes = SelectAll::new();
        for (_, cache) in &self.workloads {
            changes.push(cache.changes().map(drop).boxed());
        }
        changes.push(self.crds.changes().map(drop).boxed());
        for status in self.statuses() {
            let status = futures::stream::unfold(status, |mut status| async move {
                status.changed().await.ok()?;
                Some(((), status))
            });
            changes.push(status.boxed());
        }
        changes
    }

    fn statuses(&self) -> Vec<watch::Receiver<CacheStatus>> {
        let workloads = self.workloads.iter().map(|(_, cache)| cache.watch_status());
        workloads.chain([self.crds.watch_status()]).collect()
    }

    /// Waits until each kind was read, or cannot be for a reason that stays.
    async fn settle(&self) {
        for mut status in self.statuses() {
            let is_settled =
                |status: &CacheStatus| !matches!(status, CacheStatus::Syncing | CacheStatus::Unreachable(_));
            drop(status.wait_for(is_settled).await);
        }
    }

    async fn detect(&self, client: &Client, profiles: &Profiles) -> Result<Providers, Later> {
        let mut failed: Vec<Arc<str>> = Vec::new();
        let mut workloads = Vec::new();
        for (kind, cache) in &self.workloads {
            failed.extend(unread(&format!("{}s", kind.to_lowercase()), &cache.status()));
            workloads.extend(cache.state().iter().filter_map(|object| {
                let mut object = serde_json::to_value(&**object).ok()?;
                object["kind"] = kind.as_str().into();
                Workload::read(&object)
            }));
        }
        let crds = match unread("customresourcedefinitions", &self.crds.status()) {
            Some(reason) => Known::Unread(reason),
            None => Known::Read(self.crds.state().iter().map(|crd| Arc::from(crd.name_any())).collect()),
        };
        let lookups = detect::lookups(profiles, &workloads);
        let mut inventory = Inventory {
            // What was read may prove a provider all the same.
            workloads: match failed.first() {
                Some(reason) if workloads.is_empty() => Known::Unread(Arc::clone(reason)),
                _ => Known::Read(workloads),
            },
            crds,
            kubelets: BTreeSet::new(),
            objects: BTreeMap::new(),
            config_maps: BTreeMap::new(),
            failed,
        };
        match look_up(client, &lookups, &mut inventory).await {
            Ok(()) => Ok(named(&detect::detect(profiles, &inventory))),
            Err(LookUpError::Later) => Err(Later),
            // An option that may be on changes verdicts.
            Err(LookUpError::Forbidden(reason)) => Ok(Providers::unknown(format!(
                "the version or an option of the network provider cannot be read: {reason}"
            ))),
        }
    }
}

fn unread(objects: &str, status: &CacheStatus) -> Option<Arc<str>> {
    let reason = match status {
        CacheStatus::Synced => return None,
        CacheStatus::Syncing => "not yet listed".to_owned(),
        CacheStatus::Forbidden(_) => format!("forbidden (needs verbs \"list\" and \"watch\" on {objects:?})"),
        CacheStatus::Unreachable(error) | CacheStatus::Rejected(error) => error.to_string(),
        CacheStatus::NoKind => "not served".to_owned(),
    };
    Some(format!("cannot read {objects}: {reason}").into())
}

enum LookUpError {
    /// The API server did not answer.
    Later,
    /// It refuses, for this reason.
    Forbidden(String),
}

/// What it means that an object cannot be read.
fn refused(verb: &str, what: &str, resource: &str, error: &kube::Error) -> LookUpError {
    match error {
        kube::Error::Api(status) if status.code == 403 => LookUpError::Forbidden(format!(
            "cannot {verb} {what}: forbidden (needs verb {verb:?} on {resource:?})"
        )),
        kube::Error::Api(status) if status.code < 500 && status.code != 429 => {
            LookUpError::Forbidden(format!("cannot {verb} {what}: {}", status.message))
        }
        error => {
            tracing::warn!(%error, "cannot {verb} {what}; it is tried again");
            LookUpError::Later
        }
    }
}

/// Reads what no cache has: few objects, which change rarely.
async fn look_up(
    client: &Client,
    lookups: &detect::Lookups,
    inventory: &mut Inventory,
) -> Result<(), LookUpError> {
    if lookups.kubelets {
        let mut parameters = ListParams::default().limit(PAGE);
        loop {
            let page = Api::<Node>::all(client.clone()).list(&parameters).await;
            let page = page.map_err(|error| refused("list", "nodes", "nodes", &error))?;
            let version = |node: &Node| {
                let info = node.status.as_ref()?.node_info.as_ref()?;
                Some(Arc::from(info.kubelet_version.as_str()))
            };
            inventory.kubelets.extend(page.items.iter().filter_map(version));
            match page.metadata.continue_.filter(|next| !next.is_empty()) {
                Some(next) => parameters = parameters.continue_token(&next),
                None => break,
            }
        }
    }
    for object in &lookups.objects {
        let (group, version) = object.api_version.split_once('/').unwrap_or(("", &object.api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &object.kind));
        let found = Api::<DynamicObject>::all_with(client.clone(), &resource).get_opt(&object.name).await;
        let what = format!("{} {}", resource.plural, object.name);
        if let Some(found) = found.map_err(|error| refused("get", &what, &resource.plural, &error))? {
            let value = serde_json::to_value(&found).unwrap_or(Value::Null);
            inventory.objects.insert(object.clone(), value);
        }
    }
    for (namespace, name) in &lookups.config_maps {
        let found = Api::<ConfigMap>::namespaced(client.clone(), namespace).get_opt(name).await;
        let what = format!("configmap {namespace}/{name}");
        let found = found.map_err(|error| refused("get", &what, "configmaps", &error))?;
        let data = found.and_then(|map| map.data).unwrap_or_default();
        let data: Labels = data.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        inventory.config_maps.insert((namespace.clone(), name.clone()), data);
    }
    Ok(())
}

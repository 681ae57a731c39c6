//! A controller as one writes it with kube-rs: a `Site` becomes a load balancer in a cloud, a ConfigMap and a Secret.
//!
//! The cloud is no part of the cluster. A finalizer keeps the `Site` until its load balancer is gone, which is made under the UID of
//! the `Site`, so that asking twice gives the same one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use settled_faults::{CallFailed, Context, Effect, External, World};

/// What keeps a `Site` until its load balancer is gone.
pub const FINALIZER: &str = "example.com/balancer";
/// Who owns the fields that are applied.
pub const MANAGER: &str = "site-controller";

/// The load balancers of a cloud, by the key under which they were asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cloud {
    balancers: BTreeMap<String, Balancer>,
    made: u32,
}

/// A load balancer.
#[derive(Clone, Debug, PartialEq)]
pub struct Balancer {
    /// Its address.
    pub address: String,
    /// What it serves.
    pub host: String,
}

impl Cloud {
    /// Makes a load balancer, or changes the one that there is under the key.
    pub fn ensure(&mut self, key: &str, host: &str) -> String {
        if let Some(balancer) = self.balancers.get_mut(key) {
            host.clone_into(&mut balancer.host);
            return balancer.address.clone();
        }
        self.made += 1;
        let address = format!("192.0.2.{}", self.made);
        self.balancers.insert(key.to_owned(), Balancer { address: address.clone(), host: host.to_owned() });
        address
    }

    /// Removes the load balancer, if it is there.
    pub fn remove(&mut self, key: &str) {
        self.balancers.remove(key);
    }

    /// The load balancer under a key.
    pub fn get(&self, key: &str) -> Option<&Balancer> {
        self.balancers.get(key)
    }
}

impl World for Cloud {
    fn effects(&self) -> Vec<Effect> {
        self.balancers.iter().map(|(key, balancer)| Effect::new(&balancer.address, key, "balancer")).collect()
    }
}

/// Why a `Site` is not as it should be. It is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused something.
    #[error(transparent)]
    Kube(#[from] kube::Error),
    /// The cloud did not answer.
    #[error(transparent)]
    Cloud(#[from] CallFailed),
}

/// The resource of sites.
pub fn resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Site"))
}

/// Which objects the controller begins with.
#[allow(dead_code, reason = "the program explores the first, tests all of them")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lists {
    /// Those that there are: kube's default.
    Consistent,
    /// Those that the API server's cache has, which may be behind.
    Cached,
    /// The same, as a stream.
    CachedStream,
    /// The same; what is done outside of the cluster is done for what is there.
    CachedAndConfirmed,
}

struct Shared {
    client: Client,
    cloud: External<Cloud>,
    now: Arc<dyn Fn() -> jiff::Timestamp + Send + Sync>,
    lists: Lists,
}

/// Runs until it is dropped.
pub async fn run(context: Context<Cloud>) {
    run_with(Lists::Consistent, context).await;
}

/// The same with other lists.
pub async fn run_with(lists: Lists, context: Context<Cloud>) {
    let client = context.client();
    let shared = Shared { client: client.clone(), cloud: context.external(), now: context.clock(), lists };
    let config = match lists {
        Lists::Consistent => watcher::Config::default(),
        // With pages, kube asks for consistent lists whatever the semantic is.
        Lists::Cached | Lists::CachedAndConfirmed => {
            watcher::Config { page_size: None, ..watcher::Config::default().any_semantic() }
        }
        Lists::CachedStream => watcher::Config::default().streaming_lists(),
    };
    Controller::new_with(
        Api::<DynamicObject>::all_with(client.clone(), &resource()),
        config.clone(),
        resource(),
    )
    .owns(Api::<ConfigMap>::all(client.clone()), config.clone())
    .owns(Api::<Secret>::all(client), config)
    .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), Arc::new(shared))
    .for_each(|_| std::future::ready(()))
    .await;
}

async fn reconcile(site: Arc<DynamicObject>, shared: Arc<Shared>) -> Result<Action, Error> {
    let namespace = site.namespace().unwrap_or_default();
    let sites: Api<DynamicObject> = Api::namespaced_with(shared.client.clone(), &namespace, &resource());
    let (name, key) = (site.name_any(), site.uid().unwrap_or_default());
    let finalizers = site.finalizers();
    let version = site.resource_version();
    let guarded = |mut patch: Value| {
        patch["metadata"]["resourceVersion"] = json!(version);
        Patch::Merge(patch)
    };
    if site.meta().deletion_timestamp.is_some() {
        if finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
            shared.cloud.call("remove balancer", |cloud| cloud.remove(&key)).await?;
            let rest: Vec<&String> = finalizers.iter().filter(|finalizer| *finalizer != FINALIZER).collect();
            let patch = guarded(json!({"metadata": {"finalizers": rest}}));
            sites.patch(&name, &PatchParams::default(), &patch).await?;
        }
        return Ok(Action::await_change());
    }
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        let more: Vec<&str> = finalizers.iter().map(String::as_str).chain([FINALIZER]).collect();
        let patch = guarded(json!({"metadata": {"finalizers": more}}));
        sites.patch(&name, &PatchParams::default(), &patch).await?;
        // The next event has it.
        return Ok(Action::await_change());
    }
    if shared.lists == Lists::CachedAndConfirmed {
        let Some(present) = sites.get_opt(&name).await? else { return Ok(Action::await_change()) };
        if present.resource_version() != version {
            // The watch has not caught up.
            return Ok(Action::requeue(Duration::from_secs(1)));
        }
    }
    let host = site.data.pointer("/spec/host").and_then(Value::as_str).unwrap_or_default().to_owned();
    let address = shared.cloud.call("ensure balancer", |cloud| cloud.ensure(&key, &host)).await?;

    let (ours, kind) = (PatchParams::apply(MANAGER).force(), resource());
    let metadata = json!({"name": name, "ownerReferences": [site.controller_owner_ref(&kind)]});
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"host": host}});
    Api::<ConfigMap>::namespaced(shared.client.clone(), &namespace)
        .patch(&name, &ours, &Patch::Apply(config))
        .await?;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"address": ByteString(address.clone().into_bytes())}});
    Api::<Secret>::namespaced(shared.client.clone(), &namespace)
        .patch(&name, &ours, &Patch::Apply(secret))
        .await?;

    let status = status(&site.data, site.meta().generation, &address, (shared.now)());
    if site.data.get("status") != Some(&status) {
        sites.patch_status(&name, &PatchParams::default(), &guarded(json!({"status": status}))).await?;
    }
    Ok(Action::await_change())
}

/// The status of a `Site` that has what it needs.
fn status(site: &Value, generation: Option<i64>, address: &str, now: jiff::Timestamp) -> Value {
    let ready =
        site.pointer("/status/conditions/0").filter(|ready| ready.get("status") == Some(&json!("True")));
    let since = ready.and_then(|ready| ready.get("lastTransitionTime")).cloned();
    json!({
        "observedGeneration": generation,
        "address": address,
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "Served", "message": "", "observedGeneration": generation,
            "lastTransitionTime": since.unwrap_or_else(|| json!(format!("{now:.0}"))),
        }],
    })
}

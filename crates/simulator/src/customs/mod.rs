//! Custom resources: their controllers are played, from the scenario, from the Gateway API, or from a table of statuses over time.

mod gateway;
mod kinds;
mod play;
mod step;

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::ApiResource;
use serde_json::Value;
use settled_controller::ObjectKey;
use settled_controller::cache::Cache;
use settled_controller::worker::{self, Next};
use tokio::task::{AbortHandle, JoinSet};

use self::kinds::{Kind, Kinds};
use self::play::{Played, Timeline};
pub use self::step::CustomStep;
use crate::controller::{Error, Shared};

/// What the controllers of custom resources report, for those that the scenario does not mention.
pub trait CustomResources: Send + Sync {
    /// The statuses of an object, one after the other; none if nobody knows.
    fn steps(&self, api_version: &str, kind: &str, object: &Value) -> Option<Vec<CustomStep>>;
}

/// Where the statuses of custom resources come from. Nothing, unless something else is said.
#[derive(Clone, Default)]
pub struct Customs(Option<Arc<dyn CustomResources>>);

impl Customs {
    /// From a table.
    #[must_use]
    pub fn new(table: Arc<dyn CustomResources>) -> Self {
        Self(Some(table))
    }
}

impl std::fmt::Debug for Customs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Customs").field(&self.0.is_some()).finish()
    }
}

/// Plays the controllers of all custom resources, of kinds that come later as well.
pub(crate) async fn run(shared: Shared, customs: Customs) {
    let definitions: Cache<CustomResourceDefinition> =
        Cache::<CustomResourceDefinition>::of::<CustomResourceDefinition>(shared.client.clone()).start();
    let mut changes = definitions.changes();
    let mut services = shared.informers.services.changes();
    let kinds = Arc::new(Kinds::default());
    let player = Arc::new(Player { shared, customs, kinds: Arc::clone(&kinds) });
    let mut tasks = JoinSet::new();
    let mut running: HashMap<String, (ApiResource, AbortHandle)> = HashMap::new();
    loop {
        let change = tokio::select! {
            change = changes.next() => change,
            service = services.next() => {
                // Routes go to Services: only whether they are there matters.
                if service.is_some_and(|change| change.old.is_none() != change.new.is_none()) {
                    kinds.wake_group(gateway::GROUP);
                }
                continue;
            }
        };
        let Some(change) = change else { return };
        let name = change.key.name.to_string();
        let wanted = change.new.as_deref().and_then(kinds::resource_of);
        let is_same = match (&wanted, running.get(&name)) {
            (Some((resource, ..)), Some((before, _))) => resource == before,
            (None, None) => true,
            _ => false,
        };
        if is_same {
            continue;
        }
        if let Some((resource, task)) = running.remove(&name) {
            task.abort();
            kinds.remove(&resource);
        }
        if let Some((resource, is_namespaced, has_status)) = wanted {
            let kind = Arc::new(Kind::new(player.client(), resource.clone(), is_namespaced, has_status));
            kinds.insert(Arc::clone(&kind));
            let task = tasks.spawn(follow(Arc::clone(&player), kind));
            running.insert(name, (resource, task));
        }
    }
}

/// Plays the controller of a kind.
async fn follow(player: Arc<Player>, kind: Arc<Kind>) {
    let mut changes = kind.cache.changes();
    let timelines = Timeline::default();
    let work = worker::run(&kind.queue, 2, None, |key: ObjectKey| {
        let (player, kind, timelines) = (&player, &kind, &timelines);
        async move { player.reconcile(kind, &key, timelines).await }
    });
    let wake = async {
        while let Some(change) = changes.next().await {
            kind.queue.add(change.key.clone(), 0);
            let generation = |object: &Option<Arc<DynamicObject>>| {
                object.as_ref().map(|object| object.metadata.generation.unwrap_or_default())
            };
            if kind.resource.group == gateway::GROUP && generation(&change.old) != generation(&change.new) {
                player.kinds.wake_group(gateway::GROUP);
            }
        }
    };
    tokio::join!(work, wake);
}

struct Player {
    shared: Shared,
    customs: Customs,
    kinds: Arc<Kinds>,
}

impl Player {
    fn client(&self) -> &kube::Client {
        &self.shared.client
    }

    /// The statuses of an object over time.
    fn steps(&self, kind: &Kind, object: &DynamicObject) -> Option<Vec<CustomStep>> {
        let (version, name) =
            (&kind.resource.api_version, object.metadata.name.as_deref().unwrap_or_default());
        let namespace = object.metadata.namespace.as_deref().unwrap_or_default();
        if let Some(script) = self.shared.scenario.resource(version, &kind.resource.kind, namespace, name) {
            let steps = script.play.iter().map(|step| CustomStep::new(step.after.0, step.status.clone()));
            return Some(steps.collect());
        }
        if kind.resource.group == gateway::GROUP
            && let Some(steps) = gateway::steps(&kind.resource.kind, object, &self.kinds, &self.shared)
        {
            return Some(steps);
        }
        let value = serde_json::to_value(object).ok()?;
        self.customs.0.as_ref()?.steps(version, &kind.resource.kind, &value)
    }

    async fn reconcile(&self, kind: &Kind, key: &ObjectKey, timelines: &Timeline) -> Result<Next, Error> {
        let Some(object) = kind.cache.get(key) else {
            timelines.forget(key);
            return Ok(Next::AwaitChange);
        };
        if object.metadata.deletion_timestamp.is_some() {
            return Ok(Next::AwaitChange);
        }
        let Some(steps) = self.steps(kind, &object) else { return Ok(Next::AwaitChange) };
        let now = self.shared.clock.now();
        let since = timelines.since(key, &object, now);
        let Played { status, next } = play::at(&steps, now.duration_since(since));
        if let Some(status) = status {
            let before = object.data.get("status").unwrap_or(&Value::Null);
            let status = play::complete(status, before, object.metadata.generation.unwrap_or(1), now);
            if *before != status {
                let mut new = DynamicObject::clone(&object);
                new.data["status"] = status;
                let api: Api<DynamicObject> = match kind.is_namespaced {
                    true => Api::namespaced_with(self.client().clone(), &key.namespace, &kind.resource),
                    false => Api::all_with(self.client().clone(), &kind.resource),
                };
                let written = match kind.has_status {
                    true => api.replace_status(&key.name, &PostParams::default(), &new).await,
                    false => api.replace(&key.name, &PostParams::default(), &new).await,
                };
                match written {
                    Ok(_) => {}
                    // Gone, or changed: the watch shows it.
                    Err(error) if Error::is_code(&error, 404) || Error::is_code(&error, 409) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(next.map_or(Next::AwaitChange, Next::RequeueAfter))
    }
}

//! Numbers of a pool, in status: the name of a second object is the lock; a cache is none.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::Store;
use kube::runtime::watcher;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use settled_faults::{Check, Context, Fault, Options, Scenario, explore};

use crate::controller::resource;
use crate::scenario::{definition, site};

struct Shared {
    client: Client,
    /// What the cache has. None: a ConfigMap is the lock.
    cache: Option<Store<DynamicObject>>,
}

fn number(site: &Value) -> Option<i64> {
    site.pointer("/status/number").and_then(Value::as_i64)
}

async fn run(by_cache: bool, context: Context) {
    let client = context.client();
    let sites = Api::<DynamicObject>::all_with(client.clone(), &resource());
    let controller = Controller::new_with(sites, watcher::Config::default(), resource())
        .with_config(Config::default().concurrency(1));
    let cache = by_cache.then(|| controller.store());
    controller
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), Arc::new(Shared { client, cache }))
        .for_each(|_| std::future::ready(()))
        .await;
}

async fn reconcile(site: Arc<DynamicObject>, shared: Arc<Shared>) -> Result<Action, kube::Error> {
    if number(&site.data).is_some() {
        return Ok(Action::await_change());
    }
    let number = match &shared.cache {
        Some(cache) => {
            let taken: BTreeSet<i64> = cache.state().iter().filter_map(|site| number(&site.data)).collect();
            (1..).find(|number| !taken.contains(number)).unwrap_or_default()
        }
        None => lock(&site, &shared.client).await?,
    };
    let sites: Api<DynamicObject> = Api::namespaced_with(shared.client.clone(), "default", &resource());
    let patch =
        json!({"metadata": {"resourceVersion": site.resource_version()}, "status": {"number": number}});
    sites.patch_status(&site.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(Action::await_change())
}

/// Takes the first free number: creating an object of its name is what only one can do.
async fn lock(site: &DynamicObject, client: &Client) -> Result<i64, kube::Error> {
    let locks: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let Some(owner) = site.controller_owner_ref(&resource()) else { return Ok(0) };
    for number in 1.. {
        let mut lock = ConfigMap::default();
        lock.metadata.name = Some(format!("number-{number}"));
        lock.metadata.owner_references = Some(vec![owner.clone()]);
        match locks.create(&PostParams::default(), &lock).await {
            Ok(_) => return Ok(number),
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
                let held = locks.get(&lock.name_any()).await?;
                if held.owner_references().iter().any(|holder| holder.uid == owner.uid) {
                    return Ok(number);
                }
            }
            Err(error) => return Err(error),
        }
    }
    unreachable!("there are always more numbers");
}

fn scenario() -> Scenario {
    Scenario::new("numbers")
        .object(definition())
        .object(site("a", ""))
        .create(site("b", ""))
        .create(site("c", ""))
        .grants(|site| number(site).map(|number| number.to_string()).into_iter().collect())
        .finally("each site has a number", |view| {
            match view.objects("Site").find(|site| number(site).is_none()) {
                Some(site) => Err(site["metadata"]["name"].to_string()),
                None => Ok(()),
            }
        })
        // Which one has which depends on the order.
        .ignore("/status/number")
        .ignore("/metadata/ownerReferences")
}

#[test]
fn a_cache_is_no_lock() {
    let options = Options::default().faults([Fault::Stale(1), Fault::Edit]);
    let report = explore(|context| run(true, context), &scenario(), &options).unwrap();
    assert!(report.failures.iter().any(|failure| failure.violation.check == Check::DoubleGrant), "{report}");
}

#[test]
fn a_name_is_a_lock() {
    let report = explore(|context| run(false, context), &scenario(), &Options::share(60)).unwrap();
    assert!(report.is_clean(), "{report}");
}

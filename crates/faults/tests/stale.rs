//! Controllers that trust what is behind: lists of an API server's cache, and one watch beside another.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::{self, Store, reflector};
use kube::runtime::watcher;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use settled_faults::{Check, Context, Fault, Options, Report, Scenario, World, explore, replay};

use crate::controller::{self, Cloud, Lists, resource};
use crate::scenario::{checked, definition, site};

fn all_but(left_out: &[Fault]) -> Options {
    let faults = Fault::ALL.into_iter().filter(|fault| !left_out.contains(fault));
    Options::default().faults(faults).without_pairs()
}

/// The failure of a check, which one fault alone shows.
fn failure(report: &Report, check: Check) -> &settled_faults::Failure {
    let found = report.failures.iter().find(|failure| failure.violation.check == check);
    let failure = found.unwrap_or_else(|| panic!("{report}"));
    assert_eq!(failure.schedule.injections.len(), 1, "{failure}");
    failure
}

fn replays<W: World, F: Future>(
    controller: impl Fn(Context<W>) -> F + Sync,
    scenario: &Scenario<W>,
    failure: &settled_faults::Failure,
) {
    let again = replay(controller, scenario, &failure.schedule, &Options::default()).unwrap();
    assert!(again.iter().any(|again| again.violation.check == failure.violation.check), "{failure}");
}

const STALE_LISTS: [Fault; 2] = [Fault::StaleList(1), Fault::StaleList(3)];

/// A site is made and deleted.
fn deleted() -> Scenario<Cloud> {
    checked(Scenario::with_world("deleted", Cloud::default()))
        .object(definition())
        .object(site("shop", "a.example.com"))
        .delete("example.com/v1", "Site", "default/shop")
}

/// It sees a `Site` that is gone, and makes a load balancer for it that nobody will remove.
#[test]
fn a_list_of_the_past_brings_back_what_was_deleted() {
    for lists in [Lists::Cached, Lists::CachedStream] {
        let controller = |context| controller::run_with(lists, context);
        let options = Options::default().faults(STALE_LISTS).without_pairs();
        let report = explore(controller, &deleted(), &options).unwrap();
        let failure = failure(&report, Check::Leak);
        assert!(failure.schedule.to_string().starts_with("stale-list("), "{lists:?}: {failure}");
        assert!(failure.to_string().contains("the cache of the API server is behind"), "{failure}");
        replays(controller, &deleted(), failure);
    }
    // No other fault finds it.
    let cached = |context| controller::run_with(Lists::Cached, context);
    let report = explore(cached, &deleted(), &all_but(&STALE_LISTS)).unwrap();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn a_controller_that_confirms_what_a_cached_list_has_passes() {
    let controller = |context| controller::run_with(Lists::CachedAndConfirmed, context);
    let options = Options::default().faults(STALE_LISTS).without_pairs();
    let report = explore(controller, &deleted(), &options).unwrap();
    assert!(report.is_clean(), "{report}");
    assert_eq!(report.possible, 3 + 2 * report.writes, "stale lists are explored: {report}");
}

#[test]
fn consistent_lists_are_never_of_the_past() {
    let options = Options::default().faults(STALE_LISTS).without_pairs();
    let report = explore(controller::run, &deleted(), &options).unwrap();
    // Twice without faults, and with the edit while it is down.
    assert!(report.is_clean() && report.possible == 3, "{report}");
}

const STALE_WATCHES: [Fault; 2] =
    [Fault::StaleWatch { watch: 0, events: 1 }, Fault::StaleWatch { watch: 0, events: 3 }];

struct Shared {
    client: Client,
    children: Store<ConfigMap>,
    generated: bool,
}

/// Gives each `Site` a ConfigMap. What it knows of those is from a watch of their own, to which it gives a second to catch up.
async fn run(generated: bool, context: Context) {
    let client = context.client();
    let (children, writer) = reflector::store();
    let configs = watcher(Api::<ConfigMap>::default_namespaced(client.clone()), watcher::Config::default());
    let follow = reflector(writer, configs).for_each(|_| std::future::ready(()));
    let sites = Api::<DynamicObject>::all_with(client.clone(), &resource());
    let reconcile = Controller::new_with(sites, watcher::Config::default(), resource())
        .with_config(Config::default().concurrency(1))
        .run(
            reconcile,
            |_, _, _| Action::requeue(Duration::from_secs(1)),
            Arc::new(Shared { client, children, generated }),
        )
        .for_each(|_| std::future::ready(()));
    futures::join!(follow, reconcile);
}

async fn reconcile(site: Arc<DynamicObject>, shared: Arc<Shared>) -> Result<Action, kube::Error> {
    let Shared { client, children, generated } = &*shared;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (name, uid) = (site.name_any(), site.uid().unwrap_or_default());
    let is_own = |config: &ConfigMap| config.owner_references().iter().any(|owner| owner.uid == uid);
    let child = match children.find(is_own) {
        Some(child) => child.name_any(),
        None => {
            let mut child = ConfigMap::default();
            child.metadata.owner_references = site.controller_owner_ref(&resource()).map(|owner| vec![owner]);
            match generated {
                true => child.metadata.generate_name = Some(format!("{name}-")),
                false => child.metadata.name = Some(name.clone()),
            }
            let configs = Api::<ConfigMap>::default_namespaced(client.clone());
            match configs.create(&PostParams::default(), &child).await {
                Ok(child) => child.name_any(),
                Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => name.clone(),
                Err(error) => return Err(error),
            }
        }
    };
    if site.data.pointer("/status/child").and_then(Value::as_str) != Some(&child) {
        let sites: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource());
        let patch = json!({"status": {"child": child}});
        sites.patch_status(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    Ok(Action::await_change())
}

fn children() -> Scenario {
    Scenario::new("children").object(definition()).object(site("a", "")).create(site("b", ""))
}

/// The `Site` with the name of its ConfigMap arrives, the ConfigMap does not: it is made again.
#[test]
fn one_watch_that_lags_behind_another_is_found() {
    let controller = |context| run(true, context);
    let options = Options::default().faults(STALE_WATCHES).without_pairs();
    let report = explore(controller, &children(), &options).unwrap();
    let failure = failure(&report, Check::Convergence);
    // The watch of ConfigMaps, at the write of one; shrunk from three events to one.
    assert!(failure.schedule.to_string().ends_with(",1)@1"), "{failure}");
    assert!(failure.to_string().contains("watches of configmaps lag by 1 events"), "{failure}");
    replays(controller, &children(), failure);
    // No other fault finds it.
    let report = explore(controller, &children(), &all_but(&STALE_WATCHES)).unwrap();
    assert!(report.is_clean(), "{report}");
}

#[test]
fn a_child_with_a_name_of_its_own_needs_no_watch() {
    let report = explore(|context| run(false, context), &children(), &all_but(&[])).unwrap();
    assert!(report.is_clean(), "{report}");
    // Each of the two watches, by one and by three events.
    assert_eq!(report.possible, 3 + 14 * report.writes, "{report}");
}

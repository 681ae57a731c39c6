//! Fault scenarios of the Site example, and their checks.

use serde_json::{Value, json};
use settled_apiserver::{Controller, Controllers};
use settled_controller::Clock;
use settled_controller::faults::{
    Context, ExploreError, Failure, Options, Report, Scenario, Schedule, explore, replay,
};
use settled_controller::health::Health;
use settled_controller::metrics::Metrics;
use settled_controller::run::{Runtime, Shutdown};

#[path = "controller.rs"]
pub mod controller;
#[path = "kind.rs"]
pub mod kind;

/// The controller, as it starts in a new process.
async fn start(context: Context) {
    let (_never, shutdown) = Shutdown::new();
    let runtime = Runtime {
        client: context.client(),
        clock: Clock::from(&context),
        metrics: Metrics::new(),
        health: Health::new(),
        shutdown,
        token: None,
    };
    controller::run(runtime).await;
}

fn site(page: &str) -> Value {
    let metadata = json!({"name": "shop", "namespace": "default"});
    json!({"apiVersion": "example.com/v1", "kind": "Site", "metadata": metadata, "spec": {"page": page}})
}

fn checked(name: &str) -> Scenario {
    Scenario::new(name).object(json!(kind::definition())).ready_means(|site, view| {
        let map = view.get("ConfigMap", "default", "shop");
        let stored = map.and_then(|map| map.pointer("/data/index.html"));
        if stored == site.pointer("/spec/page") { Ok(()) } else { Err(format!("the page is {stored:?}")) }
    })
}

/// A Site is changed, emptied, filled again, and deleted.
fn edited() -> Scenario {
    checked("site")
        .object(site("Hello"))
        .patch("example.com/v1", "Site", "default/shop", json!({"spec": {"page": "Good day"}}))
        .patch("example.com/v1", "Site", "default/shop", json!({"spec": {"page": ""}}))
        .patch("example.com/v1", "Site", "default/shop", json!({"spec": {"page": "Back"}}))
        .delete("example.com/v1", "Site", "default/shop")
}

/// A quota denies the page, and later does not.
fn denied() -> Scenario {
    let few = |maps: &str| json!({"hard": {"count/configmaps": maps}});
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": "default"}, "spec": few("0"),
    });
    checked("site: quota")
        .controllers(Controllers::none().with(Controller::Garbage).with(Controller::Quotas))
        .object(quota)
        .object(site("Hello"))
        .patch("v1", "ResourceQuota", "default/few", json!({"spec": few("9")}))
        .delete("example.com/v1", "Site", "default/shop")
}

/// Runs the first scenario with the faults of a schedule.
pub fn replay_edited(schedule: &Schedule) -> Result<Vec<Failure>, ExploreError> {
    replay(start, &edited(), schedule, &Options::default())
}

/// Explores all of it.
pub fn explore_all(options: &Options) -> Result<Vec<Report>, ExploreError> {
    Ok(vec![explore(start, &edited(), options)?, explore(start, &denied(), options)?])
}

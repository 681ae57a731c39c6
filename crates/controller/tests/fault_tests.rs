//! The example controllers under faults, as docs/controller.md shows it.

use serde_json::{Value, json};
use settled_controller::Clock;
use settled_controller::faults::{Context, Options, Scenario, explore};
use settled_controller::health::Health;
use settled_controller::metrics::Metrics;
use settled_controller::run::{Runtime, Shutdown};

use crate::site::{controller, kind};

/// The controller of Sites, as it starts in a new process.
async fn start(context: Context) {
    let clock = context.clock();
    let (_never, shutdown) = Shutdown::new();
    let runtime = Runtime {
        client: context.client(),
        clock: Clock::new(move || clock()),
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

#[test]
fn no_fault_makes_a_site_lie() {
    let scenario = Scenario::new("site")
        .object(serde_json::to_value(kind::definition()).unwrap())
        .object(site("Hello"))
        .patch("example.com/v1", "Site", "default/shop", json!({"spec": {"page": "Good day"}}))
        .patch("example.com/v1", "Site", "default/shop", json!({"spec": {"page": ""}}))
        .patch("example.com/v1", "Site", "default/shop", json!({"spec": {"page": "Back"}}))
        .delete("example.com/v1", "Site", "default/shop")
        .ready_means(|site, view| {
            let map = view.get("ConfigMap", "default", "shop");
            let stored = map.and_then(|map| map.pointer("/data/index.html"));
            if stored == site.pointer("/spec/page") { Ok(()) } else { Err(format!("the page is {stored:?}")) }
        });
    let report = explore(start, &scenario, &Options::share(150)).unwrap();
    assert!(report.failures.is_empty(), "{report}");
}

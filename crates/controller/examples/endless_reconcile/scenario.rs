//! Fault scenarios of the endless reconcile example, for both variants of its controller.

use serde_json::{Value, json};
use settled_controller::Clock;
use settled_controller::faults::{Context as Start, ExploreError, Fault, Options, Report, Scenario, explore};
use settled_controller::status::StatusWriter;
use tokio::sync::watch;

#[path = "controller.rs"]
pub mod controller;

use controller::{Context, MANAGER, Reporting, Website};
use kube::CustomResourceExt as _;

async fn start(start: Start, reporting: Reporting) {
    let (client, clock) = (start.client(), Clock::from(&start));
    let writer = StatusWriter::new(client.clone(), MANAGER).clock(clock.clone());
    let (reconciles, _) = watch::channel(0);
    controller::run(Context { client, clock, reporting, writer, reconciles }, std::future::pending()).await;
}

/// What the Deployment controller reports.
fn rollout(scenario: Scenario, generation: i64, available: &str) -> Scenario {
    let condition = json!({"type": "Available", "status": available, "reason": "Played", "message": "as the scenario has it"});
    let status = json!({"observedGeneration": generation, "conditions": [condition]});
    scenario.patch_status("apps/v1", "Deployment", "default/shop", status)
}

fn image(tag: u8) -> Value {
    json!({"image": format!("registry.example.com/shop:{tag}")})
}

/// A Website whose Deployment becomes available, is rolled out anew, and fails.
fn scenario(reporting: Reporting) -> Scenario {
    let metadata = json!({"name": "shop", "namespace": "default"});
    let website =
        json!({"apiVersion": "example.com/v1", "kind": "Website", "metadata": metadata, "spec": image(1)});
    let scenario =
        Scenario::new(&format!("website: {reporting:?}")).object(json!(Website::crd())).object(website);
    let scenario = rollout(scenario, 1, "True");
    let change = json!({"spec": image(2)});
    let scenario = scenario.patch("example.com/v1", "Website", "default/shop", change);
    rollout(scenario, 2, "False").finally("the Website says what the Deployment says", |view| {
        let of = |kind: &str| {
            let object = view.get(kind, "default", "shop")?;
            let conditions = object.pointer("/status/conditions")?.as_array()?;
            Some(&conditions.iter().find(|condition| condition["type"] == "Available")?["status"])
        };
        match (of("Website"), of("Deployment")) {
            (Some(website), Some(deployment)) if website == deployment => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
}

/// Explores a variant.
pub fn explore_variant(reporting: Reporting, options: &Options) -> Result<Report, ExploreError> {
    // An early edit would find no Deployment. The annotation of a conflict is a new generation of the Deployment, which the
    // scenario does not roll out.
    let options = options.clone().without(Fault::Edit).without(Fault::Conflict);
    explore(|context| start(context, reporting), &scenario(reporting), &options)
}

/// Explores the variant with the kit.
pub fn explore_all(options: &Options) -> Result<Vec<Report>, ExploreError> {
    Ok(vec![explore_variant(Reporting::Kit, options)?])
}

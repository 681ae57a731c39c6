//! The controller of docs/controller.md, tested as the page does.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use settled_controller::Clock;
use settled_controller::conditions::meta::find_status_condition;
use settled_controller::health::Health;
use settled_controller::metrics::Metrics;
use settled_controller::run::{Runtime, Shutdown};

use crate::harness::{api, server, wait};

#[allow(dead_code, unreachable_pub, reason = "the example is a program of its own")]
#[path = "../examples/site/scenario.rs"]
pub(crate) mod scenario;

use scenario::controller;
use scenario::kind::{self, Site};

/// Status and reason of a condition at the present generation.
fn condition<'s>(site: &'s Site, name: &str) -> Option<(&'s str, &'s str)> {
    let found = find_status_condition(&site.status.as_ref()?.conditions, name)?;
    let is_current = found.observed_generation == site.metadata.generation;
    is_current.then_some((found.status.as_str(), found.reason.as_str()))
}

#[tokio::test]
async fn a_site_is_published_and_says_so() {
    let server = server(&[kind::definition()]).await;
    let client = server.client();
    let (stop, shutdown) = Shutdown::new();
    let runtime = Runtime {
        client: client.clone(),
        clock: Clock::system(),
        metrics: Metrics::new(),
        health: Health::new(),
        shutdown,
        token: None,
    };
    let running = tokio::spawn(controller::run(runtime));

    let sites = api::<Site>(&client);
    sites
        .create(&PostParams::default(), &Site::new("shop", kind::SiteSpec { page: "Hello".to_owned() }))
        .await
        .unwrap();
    let site = wait(sites.clone(), "shop", |site| condition(site, "Ready").is_some()).await;
    assert_eq!(condition(&site, "Ready"), Some(("True", "AsExpected")));
    assert_eq!(condition(&site, "Published"), Some(("True", "Stored")));
    let map = api::<ConfigMap>(&client).get("shop").await.unwrap();
    assert_eq!(map.data.unwrap()["index.html"], "Hello");

    // Only a change of the spec helps, and the status says so.
    let empty = json!({"spec": {"page": ""}});
    sites.patch("shop", &PatchParams::default(), &Patch::Merge(empty)).await.unwrap();
    let site = wait(sites, "shop", |site| condition(site, "Stalled").is_some()).await;
    assert_eq!(condition(&site, "Published"), Some(("False", "EmptyPage")));

    stop.send_replace(true);
    running.await.unwrap();
}

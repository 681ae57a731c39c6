//! The controller of docs/controller.md, tested as the page does.

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::{conditions::is_crd_established, wait::await_condition};
use serde_json::json;
use settled_apiserver::Server;
use settled_controller::Clock;
use settled_controller::conditions::meta::find_status_condition;
use settled_controller::health::Health;
use settled_controller::metrics::Metrics;
use settled_controller::run::{Runtime, Shutdown};

#[allow(dead_code, unreachable_pub, reason = "the example is a program of its own")]
#[path = "../examples/site/scenario.rs"]
pub(crate) mod scenario;

use scenario::controller;
use scenario::kind::{self, Site};

/// Status and reason of a condition at the present generation.
pub(crate) fn condition<'s>(site: &'s Site, name: &str) -> Option<(&'s str, &'s str)> {
    let found = find_status_condition(&site.status.as_ref()?.conditions, name)?;
    let is_current = found.observed_generation == site.metadata.generation;
    is_current.then_some((found.status.as_str(), found.reason.as_str()))
}

/// The Site, as soon as it has a condition at its present generation.
async fn with_condition(sites: &Api<Site>, name: &str) -> Site {
    let has_condition = |site: Option<&Site>| site.is_some_and(|site| condition(site, name).is_some());
    await_condition(sites.clone(), "shop", has_condition).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_site_is_published_and_says_so() {
    let server = Server::in_memory().await.unwrap();
    let client = server.client();
    let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
    crds.create(&PostParams::default(), &kind::definition()).await.unwrap();
    await_condition(crds, "sites.example.com", is_crd_established()).await.unwrap();
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

    let sites: Api<Site> = Api::default_namespaced(client.clone());
    let shop = Site::new("shop", kind::SiteSpec { page: "Hello".to_owned() });
    sites.create(&PostParams::default(), &shop).await.unwrap();
    let site = with_condition(&sites, "Ready").await;
    assert_eq!(condition(&site, "Ready"), Some(("True", "AsExpected")));
    assert_eq!(condition(&site, "Published"), Some(("True", "Stored")));
    let map = Api::<ConfigMap>::default_namespaced(client).get("shop").await.unwrap();
    assert_eq!(map.data.unwrap()["index.html"], "Hello");

    // Only a change of the spec helps, and the status says so.
    let empty = json!({"spec": {"page": ""}});
    sites.patch("shop", &PatchParams::default(), &Patch::Merge(empty)).await.unwrap();
    let site = with_condition(&sites, "Stalled").await;
    assert_eq!(condition(&site, "Published"), Some(("False", "EmptyPage")));

    stop.send_replace(true);
    running.await.unwrap();
}

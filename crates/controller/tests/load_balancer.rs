//! KEP-2527's first example: Service load balancer addresses, requested and automatic.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Service;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher;
use serde_json::json;
use settled_apiserver::Server;
use settled_controller::Clock;
use settled_controller::decision::RepairScan;
use settled_controller::decision::pool::AddressRange;
use tokio::sync::Notify;

use crate::harness::{Running, api, client_with_role, object, server, wait, wait_gone};
use crate::intercept::{failure, intercept};

#[allow(dead_code, unreachable_pub, reason = "the example is a program of its own")]
#[path = "../examples/load_balancer/memory.rs"]
mod memory;
#[allow(dead_code, unreachable_pub, reason = "the example is a program of its own")]
#[path = "../examples/load_balancer/scenario.rs"]
pub(crate) mod scenario;

use memory::Network;
use scenario::controller::{self, CONDITION, FINALIZER, published};

/// Three addresses.
async fn start(server: &Server, network: &Network) -> Running {
    let pool = AddressRange::new(address("192.0.2.1"), address("192.0.2.3")).unwrap();
    let role = include_str!("../examples/load_balancer/rbac.yaml");
    let (client, network) = (client_with_role(server, role).await, network.clone());
    Running::start(|stop| {
        controller::run(client, network, pool, Clock::system(), watcher::Config::default(), stop)
    })
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

async fn create(client: &Client, name: &str, requested: Option<&str>) {
    let spec = json!({"type": "LoadBalancer", "loadBalancerIP": requested, "ports": [{"port": 80}]});
    let service = object(json!({"metadata": {"name": name}, "spec": spec}));
    api::<Service>(client).create(&PostParams::default(), &service).await.unwrap();
}

async fn request(client: &Client, name: &str, requested: &str) {
    let patch = json!({"spec": {"loadBalancerIP": requested}});
    api::<Service>(client).patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

/// Status and reason of the answer.
fn answer(service: &Service) -> Option<(&str, &str)> {
    let conditions = service.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|condition| condition.type_ == CONDITION)?;
    Some((&condition.status, &condition.reason))
}

#[tokio::test]
async fn an_address_is_chosen_announced_and_withdrawn() {
    let server = server(&[]).await;
    let (client, network) = (server.client(), Network::default());
    let running = start(&server, &network).await;
    create(&client, "web", None).await;

    let service = wait(api(&client), "web", |service| answer(service).is_some()).await;
    assert_eq!(answer(&service), Some(("True", "Granted")));
    let granted = published(&service).unwrap();
    assert_eq!(network.addresses(), [granted]);
    assert_eq!(service.metadata.finalizers, Some(vec![FINALIZER.to_owned()]));

    api::<Service>(&client).delete("web", &DeleteParams::default()).await.unwrap();
    wait_gone::<Service>(api(&client), "web").await;
    assert!(network.addresses().is_empty());
    running.stop().await;
}

#[tokio::test]
async fn a_requested_address_is_granted_deferred_or_refused_never_passed_over_in_silence() {
    let server = server(&[]).await;
    let (client, network) = (server.client(), Network::default());
    let running = start(&server, &network).await;

    create(&client, "first", Some("192.0.2.2")).await;
    let first = wait(api(&client), "first", |service| answer(service).is_some()).await;
    assert_eq!((answer(&first), published(&first)), (Some(("True", "Granted")), Some(address("192.0.2.2"))));

    create(&client, "second", Some("192.0.2.2")).await;
    let second = wait(api(&client), "second", |service| answer(service).is_some()).await;
    assert_eq!((answer(&second), published(&second)), (Some(("Unknown", "InUse")), None));

    create(&client, "third", Some("198.51.100.1")).await;
    let third = wait(api(&client), "third", |service| answer(service).is_some()).await;
    assert_eq!((answer(&third), published(&third)), (Some(("False", "NotInPool")), None));

    // The refused one asks for something else.
    request(&client, "third", "192.0.2.3").await;
    let third = wait(api(&client), "third", |service| published(service).is_some()).await;
    assert_eq!(answer(&third), Some(("True", "Granted")));
    running.stop().await;
}

#[tokio::test]
async fn a_new_address_is_announced_before_the_old_one_is_withdrawn() {
    let server = server(&[]).await;
    let (client, network) = (server.client(), Network::default());
    let running = start(&server, &network).await;
    create(&client, "web", Some("192.0.2.1")).await;
    wait(api::<Service>(&client), "web", |service| published(service).is_some()).await;

    request(&client, "web", "192.0.2.3").await;
    let replaced = |service: &Service| published(service) == Some(address("192.0.2.3"));
    wait(api(&client), "web", replaced).await;
    // A refused request keeps the last good address.
    request(&client, "web", "198.51.100.1").await;
    let service = wait(api(&client), "web", |service| answer(service) == Some(("False", "NotInPool"))).await;
    assert_eq!(published(&service), Some(address("192.0.2.3")));
    running.stop().await;
    assert_eq!(network.addresses(), [address("192.0.2.3")]);
}

#[tokio::test]
async fn after_a_crash_nothing_is_granted_twice() {
    let server = server(&[]).await;
    let (client, network) = (server.client(), Network::default());
    let running = start(&server, &network).await;
    create(&client, "a", None).await;
    let before = wait(api(&client), "a", |service| published(service).is_some()).await;
    running.kill().await;

    create(&client, "b", None).await;
    let running = start(&server, &network).await;
    let other = wait(api(&client), "b", |service| published(service).is_some()).await;
    assert_ne!(published(&before), published(&other));
    let same = api::<Service>(&client).get("a").await.unwrap();
    // Nothing was written to it: its answer stood.
    assert_eq!(same.metadata.resource_version, before.metadata.resource_version);
    running.stop().await;
}

#[tokio::test]
async fn an_address_that_was_announced_before_a_crash_is_in_use() {
    let server = server(&[]).await;
    let (client, network) = (server.client(), Network::default());
    let running = start(&server, &network).await;
    create(&client, "first", Some("192.0.2.1")).await;
    wait(api::<Service>(&client), "first", |service| published(service).is_some()).await;
    running.stop().await;

    // The second address is announced, and its answer is never stored.
    request(&client, "first", "192.0.2.2").await;
    let announced = Arc::new(Notify::new());
    let notify = Arc::clone(&announced);
    let (failing, _) = intercept(client.clone(), move |request| {
        let is_status = request.starts_with("PATCH") && request.ends_with("/first/status");
        if is_status {
            notify.notify_one();
        }
        Box::pin(async move { is_status.then(|| failure(500, "InternalError", "not now")) })
    });
    let pool = AddressRange::new(address("192.0.2.1"), address("192.0.2.3")).unwrap();
    let run = |client, labels: &str| {
        let (config, network, pool) =
            (watcher::Config::default().labels(labels), network.clone(), pool.clone());
        Running::start(|stop| controller::run(client, network, pool, Clock::system(), config, stop))
    };
    let running = run(failing, "");
    announced.notified().await;
    running.kill().await;
    assert_eq!(network.addresses(), [address("192.0.2.1"), address("192.0.2.2")]);

    // The next controller takes up another Service first.
    let running = run(client.clone(), "first=no");
    create(&client, "second", Some("192.0.2.2")).await;
    let label = json!({"metadata": {"labels": {"first": "no"}}});
    api::<Service>(&client).patch("second", &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    let second = wait(api(&client), "second", |service| answer(service).is_some()).await;
    assert_eq!((answer(&second), published(&second)), (Some(("Unknown", "InUse")), None));
    running.stop().await;
}

#[tokio::test]
async fn a_service_that_is_no_load_balancer_any_more_gives_its_address_back() {
    let server = server(&[]).await;
    let (client, network) = (server.client(), Network::default());
    let running = start(&server, &network).await;
    create(&client, "web", None).await;
    wait(api::<Service>(&client), "web", |service| published(service).is_some()).await;

    let patch = json!({"spec": {"type": "ClusterIP", "loadBalancerIP": null}});
    api::<Service>(&client).patch("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    let service = wait(api::<Service>(&client), "web", |service| {
        service.metadata.finalizers.is_none() && published(service).is_none()
    })
    .await;
    assert_eq!(answer(&service), None);
    assert!(network.addresses().is_empty());
    running.stop().await;
}

#[tokio::test]
async fn an_address_whose_service_lost_its_finalizer_is_withdrawn_after_a_grace_period() {
    let server = server(&[]).await;
    let (client, network) = (server.client(), Network::default());
    let running = start(&server, &network).await;
    create(&client, "web", None).await;
    wait(api::<Service>(&client), "web", |service| published(service).is_some()).await;
    // Nobody watches while the user removes the finalizer and the Service.
    running.stop().await;
    let services = api::<Service>(&client);
    let strip = json!({"metadata": {"finalizers": null}});
    services.patch("web", &PatchParams::default(), &Patch::Merge(strip)).await.unwrap();
    services.delete("web", &DeleteParams::default()).await.unwrap();
    assert_eq!(network.addresses().len(), 1);

    let seconds = Arc::new(AtomicI64::new(0));
    let clock = Clock::new({
        let seconds = Arc::clone(&seconds);
        move || jiff::Timestamp::from_second(seconds.load(Ordering::Relaxed)).unwrap()
    });
    let pool = AddressRange::new(address("192.0.2.1"), address("192.0.2.3")).unwrap();
    let context = controller::Context::new(client, network.clone(), pool, clock);
    let mut scan = RepairScan::new(Duration::from_secs(300));
    for (now, left) in [(0, 1), (299, 1), (300, 0)] {
        seconds.store(now, Ordering::Relaxed);
        controller::repair(&context, &mut scan).await.unwrap();
        assert_eq!(network.addresses().len(), left, "after {now} s");
    }
}

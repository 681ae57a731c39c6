//! A controller process: an orderly end, a lost lease, health and metrics.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use settled_apiserver::Server;
use settled_controller::health::{self, Health};
use settled_controller::leader::Election;
use settled_controller::metrics::Metrics;
use settled_controller::run::{RunError, Runner, Runtime};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::harness::{api, object, server_in_virtual_time};

/// A server whose time is tokio's.
async fn server() -> Server {
    server_in_virtual_time(&[]).await.0
}

async fn create(client: &Client, name: &str) {
    let map: ConfigMap = object(json!({"metadata": {"name": name}}));
    api::<ConfigMap>(client).create(&PostParams::default(), &map).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_write_that_has_begun_is_finished_before_the_process_ends() {
    let server = server().await;
    let begun = Arc::new(Notify::new());
    let controller = {
        let begun = Arc::clone(&begun);
        async move |runtime: Runtime| {
            begun.notify_one();
            runtime.shutdown.requested().await;
            // In the middle of its work.
            tokio::time::sleep(Duration::from_secs(20)).await;
            create(&runtime.client, "last").await;
        }
    };
    let runner = Runner::new(server.client()).elect("default", "web");
    runner.run_until(begun.notified(), controller).await.unwrap();
    assert!(api::<ConfigMap>(&server.client()).get_opt("last").await.unwrap().is_some());
    // Nobody has to wait for the lease.
    let lease = api::<Lease>(&server.client()).get("web").await.unwrap();
    assert_eq!(lease.spec.unwrap().holder_identity.as_deref(), Some(""));
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_does_not_stop_is_ended_after_its_grace_period() {
    let server = server().await;
    let runner = Runner::new(server.client()).shutdown_grace(Duration::from_secs(5));
    let ended = runner.run_until(std::future::ready(()), |_| std::future::pending()).await;
    assert!(
        matches!(ended, Err(RunError::Unfinished(grace)) if grace == Duration::from_secs(5)),
        "{ended:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_ends_by_itself_is_an_error() {
    let server = server().await;
    let ended = Runner::new(server.client()).run_until(std::future::pending(), async |_| {}).await;
    assert!(matches!(ended, Err(RunError::Ended)), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_loses_its_lease_ends_and_another_one_leads() {
    let server = server().await;
    let client = server.client();
    let runner = Runner::new(client.clone()).election(Election::new("default", "web", "first"));
    let metrics = runner.metrics().clone();
    let leading = "leader_election_master_status{name=\"web\"} 1\n";
    let controller = async |runtime: Runtime| {
        assert!(metrics.encode().unwrap().contains(leading));
        assert_eq!(runtime.token, Some(0));
        let robbed = json!({"spec": {"holderIdentity": "another"}});
        api::<Lease>(&client).patch("web", &PatchParams::default(), &Patch::Merge(robbed)).await.unwrap();
        std::future::pending().await
    };
    let ended = runner.run_until(std::future::pending(), controller).await;
    assert!(matches!(ended, Err(RunError::LeaseLost)), "{ended:?}");
    assert!(!metrics.encode().unwrap().contains(leading));
}

/// Status line and body of a response.
async fn get(address: std::net::SocketAddr, path: &str) -> (String, String) {
    let mut connection = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_owned(), body.to_owned())
}

#[tokio::test]
async fn health_and_metrics_are_served() {
    let (health, metrics) = (Health::new(), Metrics::new());
    let _controller = metrics.controller("web", 1);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(health::serve(listener, health.clone(), metrics, std::future::pending()));

    let ok = ("HTTP/1.1 200 OK".to_owned(), "ok\n".to_owned());
    assert_eq!(get(address, "/readyz").await, ok);
    health.set_ready("cache of pods", false);
    let unavailable = |text: &str| ("HTTP/1.1 503 Service Unavailable".to_owned(), text.to_owned());
    assert_eq!(get(address, "/readyz").await, unavailable("not ready: cache of pods\n"));
    health.set_ready("cache of pods", true);
    assert_eq!(get(address, "/readyz").await, ok);

    assert_eq!(get(address, "/livez").await, ok);
    health.beat("worker", Duration::ZERO);
    assert_eq!(get(address, "/livez").await, unavailable("silent: worker\n"));
    health.remove("worker");
    assert_eq!(get(address, "/healthz").await, ok);

    let (status, text) = get(address, "/metrics").await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(
        text.contains("controller_runtime_max_concurrent_reconciles{controller=\"web\"} 1\n")
            && text.ends_with("# EOF\n"),
        "{text}"
    );
    assert_eq!(get(address, "/other").await.0, "HTTP/1.1 404 Not Found");
    serving.abort();
}

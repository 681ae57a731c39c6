//! A controller that is woken by its own writes: without the kit it never becomes quiet, with it it does. In virtual time.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, CustomResourceExt, ResourceExt};
use serde_json::json;
use settled_apiserver::Server;
use settled_controller::Clock;
use settled_controller::conditions::{Status, status_at};
use settled_controller::status::StatusWriter;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::bucket::at;
use crate::harness::server_in_virtual_time;

#[allow(dead_code, unreachable_pub, reason = "the example is a program of its own")]
#[path = "../examples/endless_reconcile/scenario.rs"]
pub(crate) mod scenario;

use scenario::controller::{Context, MANAGER, Reporting, Website, WebsiteSpec, run};

const HOUR: Duration = Duration::from_secs(3600);

/// A server with a Website, in virtual time.
async fn server() -> Server {
    let (server, _) = server_in_virtual_time(&[Website::crd()]).await;
    let client = server.client();
    let website = Website::new("shop", WebsiteSpec { image: "registry.example.com/shop:1".to_owned() });
    websites(&client).create(&PostParams::default(), &website).await.unwrap();
    server
}

fn websites(client: &Client) -> Api<Website> {
    Api::default_namespaced(client.clone())
}

/// The controller while it runs.
struct Running {
    reconciles: watch::Receiver<u64>,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    fn start(client: Client, reporting: Reporting, writer: StatusWriter<Website>) -> Self {
        let (count, reconciles) = watch::channel(0);
        let (stop, stopped) = oneshot::channel();
        // A second for each look: each reconcile takes its time, and none hides behind the precision of metav1.Time.
        let second = AtomicI64::new(0);
        let clock = Clock::new(move || at(second.fetch_add(1, Ordering::Relaxed)));
        let context = Context { client, clock, reporting, writer, reconciles: count };
        let task = tokio::spawn(run(context, stopped.map(|_| ())));
        Self { reconciles, stop, task }
    }

    fn count(&self) -> u64 {
        *self.reconciles.borrow()
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}

/// What the Deployment controller would do.
async fn play_rollout(client: &Client, available: &str) {
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let condition = json!({"type": "Available", "status": available, "reason": "Played", "message": "as the test wants it"});
    let status = json!({"status": {"observedGeneration": 1, "conditions": [condition]}});
    deployments.patch_status("shop", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_the_kit_it_never_becomes_quiet() {
    let server = server().await;
    let client = server.client();
    let writer = StatusWriter::new(client.clone(), MANAGER);
    let mut running = Running::start(client, Reporting::Naive, writer);
    // Virtual time passes only when nothing is left to do: a controller that is quiet would let the hour pass.
    let is_endless = timeout(HOUR, running.reconciles.wait_for(|count| *count >= 500)).await.is_ok();
    assert!(is_endless, "quiet after {} reconciles", running.count());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn with_the_kit_it_becomes_quiet() {
    let server = server().await;
    let client = server.client();
    let writer = StatusWriter::new(client.clone(), MANAGER);
    let running = Running::start(client.clone(), Reporting::Kit, writer.clone());
    let version = async || websites(&client).get("shop").await.unwrap().resource_version().unwrap();
    let available = async || {
        let website = websites(&client).get("shop").await.unwrap();
        status_at(&website.status.unwrap().conditions, "Ready", website.metadata.generation)
    };

    // Created; its own status write; the Deployment.
    sleep(HOUR).await;
    let (first, quiet) = (running.count(), version().await);
    assert!((1..=4).contains(&first), "{first} reconciles");
    assert_eq!(available().await, Status::Unknown);
    sleep(10 * HOUR).await;
    assert_eq!((running.count(), version().await), (first, quiet));
    assert_eq!(writer.counts().written, 1);

    // What changes is reported, and then it is quiet again.
    for (status, wanted) in [("True", Status::True), ("False", Status::False)] {
        let before = running.count();
        play_rollout(&client, status).await;
        sleep(HOUR).await;
        assert_eq!(available().await, wanted);
        let more = running.count() - before;
        assert!((1..=3).contains(&more), "{more} reconciles");
    }
    let counts = writer.counts();
    assert_eq!((counts.written, counts.written + counts.unchanged), (3, running.count()));
    running.stop().await;
}

//! The endless reconcile: a controller that is woken by its own status write, and the same controller with the kit.
//!
//! `controller.rs` is both, and `tests/endless_reconcile.rs` is the test. This lets each run for three seconds on an API server in the process, while
//! nobody changes anything:
//!
//! ```sh
//! cargo run --package settled-controller --example endless_reconcile
//! ```
#![allow(missing_docs, unreachable_pub, clippy::print_stdout, reason = "an example")]

mod controller;

use std::time::Duration;

use controller::{Context, MANAGER, Reporting, Website, WebsiteSpec, run};
use futures::FutureExt;
use kube::api::PostParams;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, CustomResourceExt};
use settled_apiserver::Server;
use settled_controller::Clock;
use settled_controller::status::StatusWriter;
use tokio::sync::{oneshot, watch};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    for reporting in [Reporting::Naive, Reporting::Kit] {
        let server = Server::in_memory().await?;
        let client = server.client();
        let crds = Api::all(client.clone());
        crds.create(&PostParams::default(), &Website::crd()).await?;
        await_condition(crds, "websites.example.com", conditions::is_crd_established()).await?;
        let website = Website::new("shop", WebsiteSpec { image: "registry.example.com/shop:1".to_owned() });
        Api::default_namespaced(client.clone()).create(&PostParams::default(), &website).await?;
        println!("{reporting:?}: {} reconciles in 3 seconds", reconciles(client, reporting).await?);
    }
    Ok(())
}

/// How many reconciles a controller makes in three seconds.
async fn reconciles(client: Client, reporting: Reporting) -> Result<u64, Box<dyn std::error::Error>> {
    let writer = StatusWriter::new(client.clone(), MANAGER);
    let (reconciles, count) = watch::channel(0);
    let (stop, stopped) = oneshot::channel();
    // Transition times have seconds: so that a second does not hide what is wrong, this clock is faster.
    let start = std::time::Instant::now();
    let clock = Clock::new(move || {
        let seconds = i64::try_from(start.elapsed().as_micros()).unwrap_or(i64::MAX);
        jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::MAX)
    });
    let controller =
        tokio::spawn(run(Context { client, clock, reporting, writer, reconciles }, stopped.map(|_| ())));
    tokio::time::sleep(Duration::from_secs(3)).await;
    let _ended = stop.send(());
    controller.await?;
    Ok(*count.borrow())
}

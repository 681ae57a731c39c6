//! The controller of docs/controller.md.
//!
//! ```sh
//! settled serve --memory     # and in another terminal, with the line that it prints:
//! cargo run --package settled-controller --example site --features schemars
//! ```
#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::print_stdout,
    reason = "an example, whose parts the tests use too"
)]

mod controller;
mod kind;

use kube::api::{Api, Patch, PatchParams};
use kube::runtime::{conditions, wait::await_condition};
use settled_controller::run::Runner;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = kube::Client::try_default().await?;
    let crds = Api::all(client.clone());
    let ours = PatchParams::apply(controller::MANAGER).force();
    crds.patch("sites.example.com", &ours, &Patch::Apply(kind::definition())).await?;
    await_condition(crds, "sites.example.com", conditions::is_crd_established()).await?;

    println!("health and metrics at http://127.0.0.1:8080; press Ctrl-C to stop");
    Runner::new(client)
        .listen("127.0.0.1:8080")
        .elect("default", "site-controller")
        .run(controller::run)
        .await?;
    Ok(())
}

//! Binds Buckets to instances that their namespace may use: KEP-2527's third example. `controller.rs` is the controller.
//!
//! ```sh
//! settled serve --memory     # and in another terminal, with the line that it prints:
//! cargo run --package settled-controller --example bucket
//! ```
#![allow(
    missing_docs,
    unreachable_pub,
    dead_code,
    clippy::print_stdout,
    reason = "an example, whose parts the tests use too"
)]

mod controller;

use kube::api::{Patch, PatchParams};
use kube::runtime::{conditions, wait::await_condition};
use kube::{Api, Client, CustomResourceExt as _, ResourceExt as _};
use settled_controller::Clock;
use settled_controller::decision::Permit;

struct Printer;

impl controller::ObjectStore for Printer {
    async fn allow(&self, permit: &Permit, instance: &str) -> Result<(), controller::Error> {
        println!("{} may use {instance}", permit.key());
        Ok(())
    }

    async fn revoke(&self, permit: &Permit) -> Result<(), controller::Error> {
        println!("{} may use nothing", permit.key());
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    let crds = Api::all(client.clone());
    let ours = PatchParams::apply("bucket-controller").force();
    for crd in [controller::Bucket::crd(), controller::BucketInstance::crd()] {
        crds.patch(&crd.name_any(), &ours, &Patch::Apply(&crd)).await?;
        await_condition(crds.clone(), &crd.name_any(), conditions::is_crd_established()).await?;
    }
    println!("binding Buckets; press Ctrl-C to stop");
    controller::run(client, Printer, Clock::system(), async { drop(tokio::signal::ctrl_c().await) }).await;
    Ok(())
}

//! The way to test a controller: `controller.rs` and `leader.rs` are one, and `tests/controller.rs` is its test.
//!
//! This runs it for real, on the cluster that the kubeconfig names:
//!
//! ```sh
//! settled serve --memory     # and in another terminal, with the line that it prints:
//! cargo run --package settled-apiserver --example controller
//! ```
#![allow(missing_docs, unreachable_pub, clippy::print_stdout, reason = "an example")]

mod controller;
mod leader;

use kube::api::{Patch, PatchParams};
use kube::runtime::{conditions, wait::await_condition, watcher};
use kube::{Api, Client, CustomResourceExt};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = Client::try_default().await?;
    let ours = PatchParams::apply(controller::MANAGER).force();
    let crds = Api::all(client.clone());
    crds.patch("webapps.example.com", &ours, &Patch::Apply(controller::WebApp::crd())).await?;
    await_condition(crds, "webapps.example.com", conditions::is_crd_established()).await?;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    let routes = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": controller::ROUTES}});
    namespaces.patch(controller::ROUTES, &ours, &Patch::Apply(routes)).await?;

    let leader = leader::Leader::new(
        client.clone(),
        "default",
        "webapp-controller",
        &format!("{}", std::process::id()),
    );
    println!("waiting to lead");
    leader.acquire().await?;
    println!("leading; Ctrl-C ends it");
    let keep = async {
        let mut interval = tokio::time::interval(std::time::Duration::from_secs(5));
        loop {
            interval.tick().await;
            if !leader.renew().await.unwrap_or(false) {
                return;
            }
        }
    };
    tokio::select! {
        () = controller::run(client, watcher::Config::default(), std::future::pending()) => {}
        () = keep => println!("another one leads"),
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    leader.release().await?;
    Ok(())
}

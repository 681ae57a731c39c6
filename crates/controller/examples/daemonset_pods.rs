//! The Pods that DaemonSets own, among all Pods of a cluster: where they run and in which phase they are, in a few megabytes.
//!
//! ```sh
//! cargo run --profile dist -p settled-controller --example daemonset_pods [NAMESPACE]
//! ```
//!
//! An informer keeps every Pod, since no selector can say "owned by a DaemonSet": with 15,000 Pods that is more than 1 GiB. Here a Pod
//! that does not matter is dropped while its bytes arrive, and of one that does, two fields are parsed. It prints `synced N` when all
//! Pods were read, and then `changed NAME` for each change; it ends with its standard input.
//!
//! The Pods are less than a megabyte of it. Most of the rest is the program itself: what `cargo rustc` makes with
//! `-- -C opt-level=s -C target-feature=+crt-static` is smaller by megabytes.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it reports what it sees")]

use std::error::Error;
use std::io::Read as _;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use settled_controller::{Cache, Projection, predicate};
use settled_watch::KubeconfigOptions;

/// What is kept of a Pod, beside its name.
#[derive(Debug, Deserialize)]
struct Placement {
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<Box<str>>,
}

#[derive(Debug, Default, Deserialize)]
struct Status {
    phase: Option<Box<str>>,
}

// One thread is enough for a watch.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // The cluster of the kubeconfig, or the one that this Pod runs in: a round trip takes less than a millisecond then, and few bytes
    // of the list need to be on their way.
    let near = KubeconfigOptions { receive_window: Some(128 << 10), ..KubeconfigOptions::default() };
    let cluster = near.connect().await?;
    let mut pods = Cache::<Placement>::of::<Pod>(cluster)
        .objects(predicate::owned_by("DaemonSet"))
        .projection(Projection::only(["spec.nodeName", "status.phase"]))
        .index_field("spec.nodeName");
    if let Some(namespace) = std::env::args().nth(1) {
        pods = pods.namespace(&namespace);
    }
    let pods = pods.start();
    pods.wait_until_ready().await?;
    let running = pods.find(|pod| pod.status.phase.as_deref() == Some("Running"));
    if let Some(node) = running.and_then(|pod| pod.spec.node_name.clone()) {
        let beside = pods.indexed("spec.nodeName", &node)?.len();
        eprintln!("{beside} of them run on {node}");
    }
    let mut changes = pods.later_changes();
    println!("synced {}", pods.len());
    tokio::spawn(async move {
        while let Some(change) = changes.next().await {
            println!("changed {}", change.key.name);
        }
    });
    tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
    Ok(())
}

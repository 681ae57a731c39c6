//! The rival that most of Rust's controllers are built on: kube-rs' reflector, which keeps all objects of a kind. It runs in a
//! process of its own, whose memory is nobody else's.

use std::io::Read;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client};

use crate::Outcome;

/// The hidden task that is the process.
pub(crate) const CHILD: &str = "reflector-child";

/// Keeps all Pods of a namespace, those of the cluster that `KUBECONFIG` names, until the standard input ends. When the store has been
/// filled it prints `synced N` with the number of Pods.
pub(crate) fn child(words: &[&str]) -> Outcome<bool> {
    let [namespace] = words else { return Err(format!("usage: {CHILD} NAMESPACE").into()) };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        // Both ring and aws-lc may be in the build.
        drop(rustls::crypto::ring::default_provider().install_default());
        let pods: Api<Pod> = Api::namespaced(Client::try_default().await?, namespace);
        let (store, writer) = reflector::store();
        let stream = watcher(pods, watcher::Config::default()).default_backoff().reflect(writer);
        tokio::spawn(stream.for_each(|_| futures::future::ready(())));
        store.wait_until_ready().await?;
        println!("synced {}", store.len());
        tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
        Ok(true)
    })
}

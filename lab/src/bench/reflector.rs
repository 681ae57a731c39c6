//! Competitor: a kube-rs reflector, which stores all objects of a kind, in a separate process to measure its memory.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, ResourceExt as _};

use crate::Outcome;

/// Name of the hidden task.
pub(crate) const CHILD: &str = "reflector-child";
/// Second argument: reports changes of Pods owned by DaemonSets, as `changed NAME`.
pub(crate) const REPORT: &str = "--report";

/// Stores all Pods of a namespace of the cluster in `KUBECONFIG` until standard input is closed. After the initial
/// list, prints `synced N` with the number of Pods.
pub(crate) fn child(words: &[&str]) -> Outcome<bool> {
    let (namespace, report) = match words {
        [namespace] => (namespace, false),
        [namespace, REPORT] => (namespace, true),
        _ => return Err(format!("usage: {CHILD} NAMESPACE [{REPORT}]").into()),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        // The build may have both ring and aws-lc.
        drop(rustls::crypto::ring::default_provider().install_default());
        let pods: Api<Pod> = Api::namespaced(Client::try_default().await?, namespace);
        let (store, writer) = reflector::store();
        let stream = watcher(pods, watcher::Config::default()).default_backoff().reflect(writer);
        let synced = Arc::new(AtomicBool::new(false));
        let reports = Arc::clone(&synced);
        tokio::spawn(stream.touched_objects().for_each(move |pod| {
            if let Some(pod) = pod.ok().filter(|pod| reports.load(Ordering::Relaxed) && is_daemon_set(pod)) {
                println!("changed {}", pod.name_any());
            }
            futures::future::ready(())
        }));
        store.wait_until_ready().await?;
        synced.store(report, Ordering::Relaxed);
        println!("synced {}", store.len());
        tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
        Ok(true)
    })
}

fn is_daemon_set(pod: &Pod) -> bool {
    pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet" && owner.controller == Some(true))
}

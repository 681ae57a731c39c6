//! Completion lookups: names from the cluster and the kubeconfig, within a time limit and without any other output.

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use settled_tracker::connection::{KubeconfigNames, Resources};
use settled_tracker::release::{ReleaseKind, release_names};
use settled_tracker::{Cluster, KubeconfigOptions};

use super::VALUES_MAX;
use super::line::Line;
use crate::cluster;
use crate::patience;
use crate::session;

/// How long a completion may take, from the start of the process.
pub(super) const WITHIN: Duration = Duration::from_millis(1500);

/// Runs something until the time is over. The runtime's threads are left behind: the process ends.
fn within<T: Default>(work: impl Future<Output = Option<T>>) -> T {
    let Ok(runtime) = session::runtime() else { return T::default() };
    let found = runtime.block_on(async { tokio::time::timeout_at(patience::started() + WITHIN, work).await });
    runtime.shutdown_background();
    found.ok().flatten().unwrap_or_default()
}

async fn connect(line: &Line) -> Option<Cluster> {
    let access = KubeconfigOptions { non_interactive: true, ..cluster::access(&line.cluster) };
    access.connect().await.ok()
}

/// The kinds that the cluster has; none if it does not answer.
pub(super) fn resources(line: &Line) -> Option<Resources> {
    within(async { Some(connect(line).await?.resources().await.ok()) })
}

/// The namespaces of the cluster.
pub(super) fn namespaces(line: &Line) -> Vec<String> {
    within(async {
        let cluster = connect(line).await?;
        let resources = cluster.resources().await.ok()?;
        let namespaces = resources.of_kind("", None, "Namespace")?;
        cluster.names(namespaces, None, None, VALUES_MAX).await.ok()
    })
}

/// The names of all objects of these types, in the namespaces of the command line.
pub(super) fn names(line: &Line, types: &[&str]) -> Vec<String> {
    within(async {
        let cluster = connect(line).await?;
        let resources = cluster.resources().await.ok()?;
        let namespaces = in_namespaces(line, &cluster);
        let kinds = types.iter().filter_map(|name| resources.named(name));
        let lists = kinds.flat_map(|kind| {
            // A kind of the cluster is listed once.
            let places = if kind.namespaced { &*namespaces } else { &[] };
            let places = places.iter().map(|name| Some(&**name)).chain((!kind.namespaced).then_some(None));
            places.map(|place| cluster.names(kind, place, None, VALUES_MAX)).collect::<Vec<_>>()
        });
        let mut all = BTreeSet::new();
        for list in lists {
            all.extend(list.await.unwrap_or_default());
        }
        Some(all.into_iter().collect())
    })
}

/// The names of all releases of this kind, in the namespaces of the command line.
pub(super) fn releases(line: &Line, release_kind: ReleaseKind) -> Vec<String> {
    within(async {
        let cluster = connect(line).await?;
        let resources = cluster.resources().await.ok()?;
        let mut all = BTreeSet::new();
        for namespace in in_namespaces(line, &cluster) {
            all.extend(release_names(&cluster, &resources, release_kind, &namespace, VALUES_MAX).await);
        }
        Some(all.into_iter().collect())
    })
}

fn in_namespaces(line: &Line, cluster: &Cluster) -> Vec<String> {
    if line.namespaces.is_empty() { vec![cluster.default_namespace()] } else { line.namespaces.clone() }
}

/// Names of kubeconfig entries.
pub(super) fn kubeconfig(line: &Line) -> KubeconfigNames {
    let access = cluster::access(&line.cluster);
    within(async {
        // The file may be on a disk that does not answer.
        tokio::task::spawn_blocking(move || access.kubeconfig_names().ok()).await.ok().flatten()
    })
}

//! Connections of Clusters: one is open for each Cluster that has a Secret with a kubeconfig.

use settled_controller::ObjectKey;
use settled_controller::worker::Next;

use super::controller::{Context, Controller, Error};
use super::informers::{AnyChange, Informers};
use crate::types::{KUBECONFIG_SECRET_SUFFIX, kubeconfig_secret};

/// The controller of connections.
pub(super) struct RemoteClusters;

impl Controller for RemoteClusters {
    const NAME: &'static str = "remote-cluster-controller";

    fn wake(&self, change: &AnyChange, _informers: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::Cluster(change) => vec![change.key.clone()],
            AnyChange::Secret(change) => {
                let name = change.key.name.strip_suffix(KUBECONFIG_SECRET_SUFFIX);
                name.map(|name| ObjectKey::new(&change.key.namespace, name)).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let informers = &*context.informers;
        let cluster = informers.clusters.get(key);
        let secret = informers.secrets.get(ObjectKey::new(&key.namespace, &kubeconfig_secret(&key.name)));
        let kubeconfig = cluster.and(secret).and_then(|secret| secret.kubeconfig());
        context.remotes.sync(key, kubeconfig);
        Ok(Next::AwaitChange)
    }
}

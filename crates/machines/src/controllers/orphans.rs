//! Orphans: hosts and Nodes whose Machine is gone are deleted. Users remove finalizers, and creations land after deletions.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::Client;
use settled_controller::ObjectKey;
use settled_controller::decision::RepairScan;
use settled_controller::worker::Next;

use super::controller::{Context, Controller, Error, REMOTE_TIMEOUT};
use super::informers::{AnyChange, Informers};
use super::meta;
use super::place::delete_node;
use super::remote::Reach;
use crate::provider::Registry;
use crate::small::Node;

/// How often hosts are listed.
const PERIOD: Duration = Duration::from_secs(60);
/// For how long something has no Machine before it is deleted.
const GRACE: Duration = Duration::from_secs(60);

/// The collector.
pub(super) struct Orphans {
    registry: Registry,
    hosts: Mutex<RepairScan<(String, String)>>,
    nodes: Mutex<RepairScan<String>>,
}

impl Orphans {
    pub(super) fn new(registry: Registry) -> Self {
        Self {
            registry,
            hosts: Mutex::new(RepairScan::new(GRACE)),
            nodes: Mutex::new(RepairScan::new(GRACE)),
        }
    }
}

impl Controller for Orphans {
    const NAME: &'static str = "orphan-collector";

    fn initial(&self) -> Vec<ObjectKey> {
        vec![ObjectKey::new("", "orphans")]
    }

    fn wake(&self, _change: &AnyChange, _informers: &Informers) -> Vec<ObjectKey> {
        Vec::new()
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let informers = &*context.informers;
        let now = context.now();
        let mut inventory = Vec::new();
        for entry in self.registry.entries() {
            let hosts = entry.provider.list().await?;
            inventory.extend(hosts.into_iter().map(|host| (entry.name(), host.key.as_str().to_owned())));
        }
        let machines = informers.machines.state();
        let live: BTreeSet<&str> = machines.iter().map(|machine| machine.host_key()).collect();
        let owned =
            inventory.iter().filter(|(_, uid)| live.contains(uid.as_str())).cloned().collect::<Vec<_>>();
        let orphans = {
            let mut scan = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
            scan.orphans(inventory, owned, now)
        };
        for (provider, uid) in orphans {
            if let Ok(entry) = self.registry.by_name(&provider) {
                tracing::warn!(%provider, %uid, "deleting a host without a Machine");
                entry.provider.delete(&crate::provider::HostKey::new(&uid)).await?;
            }
        }
        let has_machine = |node: &Node| {
            let machine = node.machine().and_then(|name| name.split_once('/'));
            machine.is_none_or(|(namespace, name)| {
                informers.machines.get(ObjectKey::new(namespace, name)).is_some()
            })
        };
        let mut stray: Vec<(Option<Client>, Arc<Node>)> = informers
            .nodes
            .state_filter(|node| !has_machine(node))
            .into_iter()
            .map(|node| (None, node))
            .collect();
        for (cluster, remote) in context.remotes.all() {
            // Of one that is paused, the Machines are being moved.
            let is_left_alone =
                informers.is_cluster_paused(&cluster.namespace, Some(&cluster.name.to_string()));
            let nodes = remote.nodes_of_machines().into_iter().filter(|node| !has_machine(node));
            if let (Some(client), false, Reach::Connected) = (remote.client(), is_left_alone, remote.reach())
            {
                stray.extend(nodes.map(|node| (Some(client.clone()), node)));
            }
        }
        let uids = stray.iter().map(|(_, node)| meta::uid(&**node).to_owned());
        let orphans = {
            let mut scan = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
            scan.orphans(uids, [], now)
        };
        for (client, node) in stray {
            if !orphans.iter().any(|uid| uid == meta::uid(&*node)) {
                continue;
            }
            tracing::warn!(node = meta::name(&*node), "deleting a Node without a Machine");
            match client {
                None => context.delete_global(key, &*node).await?,
                // What does not answer is asked again in the next round.
                Some(client) => {
                    let deleted = tokio::time::timeout(REMOTE_TIMEOUT, delete_node(client, &node)).await;
                    if let Ok(Err(error)) = deleted {
                        tracing::warn!(node = meta::name(&*node), %error, "cannot delete a Node without a Machine");
                    }
                }
            }
        }
        Ok(Next::RequeueAfter(PERIOD))
    }
}

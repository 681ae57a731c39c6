//! Orphans: hosts and Nodes whose Machine is gone are deleted. Users remove finalizers, and creations land after deletions.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use settled_controller::ObjectKey;
use settled_controller::decision::RepairScan;
use settled_controller::worker::Next;

use super::controller::{Context, Controller, Error};
use super::informers::{AnyChange, Informers};
use super::meta;
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
        let stray = informers.nodes.state_filter(|node| !has_machine(node));
        let uids = stray.iter().map(|node| meta::uid(&**node).to_owned());
        let orphans = {
            let mut scan = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
            scan.orphans(uids, [], now)
        };
        for node in stray.iter().filter(|node| orphans.iter().any(|uid| uid == meta::uid(&***node))) {
            tracing::warn!(node = meta::name(&**node), "deleting a Node without a Machine");
            context.delete_global(key, &**node).await?;
        }
        Ok(Next::RequeueAfter(PERIOD))
    }
}

//! Leases of Nodes: a Node whose Lease has expired is reported as unknown (`node-lifecycle-controller` upstream).

use std::time::Duration;

use jiff::Timestamp;
use settled_controller::ObjectKey;
use settled_controller::worker::Next;

use super::controller::{Context, Controller, Error};
use super::informers::{AnyChange, Informers, LEASES};
use super::lease_expiry::{expiry, report};

/// The controller of Leases of Nodes that are of Machines.
pub(super) struct NodeLeases;

impl Controller for NodeLeases {
    const NAME: &'static str = "node-lease-controller";

    fn wake(&self, change: &AnyChange, _informers: &Informers) -> Vec<ObjectKey> {
        match change {
            // A Lease that is renewed needs nobody: the next look is due when it would have expired.
            AnyChange::Lease(change) if change.old.is_none() => vec![change.key.clone()],
            AnyChange::Node(change) if change.old.is_none() => vec![ObjectKey::new(LEASES, &change.key.name)],
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let informers = &*context.informers;
        let Some(node) = informers.nodes.get(ObjectKey::new("", &key.name)) else {
            return Ok(Next::AwaitChange);
        };
        let Some(lease) = informers.leases.get(key) else { return Ok(Next::AwaitChange) };
        let (Some(expiry), Some(_)) = (expiry(&lease, Timestamp::MIN), node.machine()) else {
            return Ok(Next::AwaitChange);
        };
        let now = context.now();
        if let Ok(left) = Duration::try_from(expiry.duration_since(now))
            && !left.is_zero()
        {
            return Ok(Next::RequeueAfter(left));
        }
        if node.ready() != "Unknown" {
            report(&node, Timestamp::MIN, now, &context.client).await?;
        }
        // It may come back, with a Lease that is renewed.
        Ok(Next::RequeueAfter(Duration::from_secs(10)))
    }
}

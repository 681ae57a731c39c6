//! Leases of Nodes: a Node whose Lease has expired is reported as unknown (`node-lifecycle-controller` upstream).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use settled_controller::ObjectKey;
use settled_controller::worker::Next;

use super::controller::{Context, Controller, Error, is_code};
use super::informers::{AnyChange, Informers, LEASES};
use crate::small::{Lease, Node};
use crate::types::whole_second;

/// How long a Lease is valid that does not say it.
const DURATION: i32 = 40;

/// The controller of Leases of Nodes that are of Machines.
pub(super) struct NodeLeases;

pub(super) fn expiry(lease: &Lease) -> Option<Timestamp> {
    let seconds = i64::from(lease.spec.lease_duration_seconds.unwrap_or(DURATION));
    lease.spec.renew_time.as_ref()?.0.checked_add(SignedDuration::from_secs(seconds)).ok()
}

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
        let (Some(expiry), Some(_)) = (expiry(&lease), node.machine()) else { return Ok(Next::AwaitChange) };
        let now = context.now();
        if let Ok(left) = Duration::try_from(expiry.duration_since(now))
            && !left.is_zero()
        {
            return Ok(Next::RequeueAfter(left));
        }
        if node.ready() != "Unknown" {
            report(&node, now, &context.client).await?;
        }
        // It may come back, with a Lease that is renewed.
        Ok(Next::RequeueAfter(Duration::from_secs(10)))
    }
}

pub(super) async fn report(node: &Node, now: Timestamp, client: &Client) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let condition = json!({
        "type": "Ready", "status": "Unknown", "lastTransitionTime": whole_second(now),
        "reason": "NodeStatusUnknown", "message": "the Lease of the Node has expired",
    });
    let meta = &node.metadata;
    let patch = json!({
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "status": {"conditions": [condition]},
    });
    let name = meta.name.as_deref().unwrap_or_default();
    match nodes.patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await {
        Ok(_) => Ok(()),
        // It has just reported, or is gone.
        Err(error) if is_code(&error, 404) || is_code(&error, 409) => Ok(()),
        Err(error) => Err(error),
    }
}

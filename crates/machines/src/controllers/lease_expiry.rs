//! Expiry of the Lease of a Node, and the condition of a Node whose Lease has expired.

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::informers::LEASES;
use super::meta::is_code;
use crate::small::{Lease, Node};
use crate::types::whole_second;

/// How long a Lease is valid that does not say it.
const DURATION: i32 = 40;

/// When a Lease expires of whose time only that from `since` on counts.
pub(super) fn expiry(lease: &Lease, since: Timestamp) -> Option<Timestamp> {
    let seconds = i64::from(lease.spec.lease_duration_seconds.unwrap_or(DURATION));
    let renewed = lease.spec.renew_time.as_ref()?.0.max(since);
    renewed.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// Whether a Lease has expired.
pub(super) fn is_expired(lease: &Lease, since: Timestamp, now: Timestamp) -> bool {
    expiry(lease, since).is_some_and(|expiry| expiry <= now)
}

/// Reports a Node as unknown, unless its Lease was renewed in the meantime: caches are behind after a reconnect.
pub(super) async fn report(
    node: &Node,
    since: Timestamp,
    now: Timestamp,
    client: &Client,
) -> Result<(), kube::Error> {
    let name = node.metadata.name.as_deref().unwrap_or_default();
    let leases: Api<Lease> = Api::namespaced(client.clone(), LEASES);
    if leases.get_opt(name).await?.is_none_or(|lease| !is_expired(&lease, since, now)) {
        return Ok(());
    }
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
    match nodes.patch_status(name, &PatchParams::default(), &Patch::Strategic(patch)).await {
        Ok(_) => Ok(()),
        // It has just reported, or is gone.
        Err(error) if is_code(&error, 404) || is_code(&error, 409) => Ok(()),
        Err(error) => Err(error),
    }
}

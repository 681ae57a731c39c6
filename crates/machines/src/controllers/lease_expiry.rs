//! Expiry of the Lease of a Node, and the condition of a Node whose Lease has expired.

use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::meta::is_code;
use crate::small::{Lease, Node};
use crate::types::whole_second;

/// How long a Lease is valid that does not say it.
const DURATION: i32 = 40;

/// When a Lease expires.
pub(super) fn expiry(lease: &Lease) -> Option<Timestamp> {
    let seconds = i64::from(lease.spec.lease_duration_seconds.unwrap_or(DURATION));
    lease.spec.renew_time.as_ref()?.0.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// Reports a Node as unknown.
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

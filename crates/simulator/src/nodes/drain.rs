//! Drain: a Node is cordoned and its Pods are evicted as far as their budgets permit, as `kubectl drain --ignore-daemonsets` does.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, EvictParams};
use serde_json::json;
use settled_controller::ObjectKey;

use crate::controller::{Context, Error};
use crate::meta;
use crate::pod as pods;
use crate::scenario::NodeScript;
use crate::selector;

/// The Node is drained by the simulation. An uncordoned one is not cordoned again. The prefix of a scenario's annotations would make it a
/// field of an entry.
const DRAIN: &str = "nodes.simulator.settled.dev/draining";
/// How long kubectl waits before it asks a budget again.
const RETRY: Duration = Duration::from_secs(5);

/// Is the Node being drained?
pub(super) fn is_draining(node: &Node) -> bool {
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    is_cordoned && selector::label(node.metadata.annotations.as_ref(), DRAIN).is_some()
}

/// Does a drain leave this Pod alone?
fn stays(pod: &Pod) -> bool {
    let is_mirror =
        selector::label(pod.metadata.annotations.as_ref(), "kubernetes.io/config.mirror").is_some();
    let is_daemon = meta::controller(pod).is_some_and(|owner| owner.kind == "DaemonSet");
    let is_over = matches!(pods::phase(pod), "Succeeded" | "Failed");
    is_mirror || is_daemon && !is_over || meta::is_deleting(pod)
}

/// Drains a Node if it is time. When to go on.
pub(super) async fn drain(
    key: &ObjectKey,
    node: &Node,
    script: Option<&NodeScript>,
    begin: Timestamp,
    context: &Context,
) -> Result<Option<Timestamp>, Error> {
    let Some(drains) = script.and_then(|script| script.drains) else { return Ok(None) };
    let due = begin + SignedDuration::try_from(drains.0).unwrap_or(SignedDuration::MAX / 4);
    let now = context.now();
    if now < due {
        return Ok(Some(due));
    }
    if selector::label(node.metadata.annotations.as_ref(), DRAIN).is_none() {
        let patch = json!({"metadata": {"annotations": {DRAIN: "true"}}, "spec": {"unschedulable": true}});
        return match context.patch(key, node, patch).await {
            Err(error) if Error::is_code(&error, 409) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(None),
        };
    }
    if !is_draining(node) {
        return Ok(None);
    }
    let mut is_refused = false;
    for pod in context.informers.pods_on(meta::name(node)) {
        if stays(&pod) {
            continue;
        }
        let api: Api<Pod> = Api::namespaced(context.client.clone(), meta::namespace(&*pod));
        match api.evict(meta::name(&*pod), &EvictParams::default()).await {
            Ok(_) => {}
            Err(error) if Error::is_code(&error, 404) => {}
            // The budget permits none now.
            Err(error) if Error::is_code(&error, 429) => is_refused = true,
            Err(error) => return Err(error.into()),
        }
    }
    let retry = SignedDuration::try_from(RETRY).unwrap_or_default();
    Ok(is_refused.then(|| now + retry))
}

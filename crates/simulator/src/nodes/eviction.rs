//! Taint eviction: Pods leave Nodes with taints that they do not tolerate, or not for longer (`tainteviction`).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodCondition, Taint, Toleration};
use kube::runtime::events::EventType;
use settled_controller::ObjectKey;
use settled_controller::status::StatusWriter;
use settled_controller::worker::Next;

use crate::controller::{Context, Controller, Error, Shared};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::pod as pods;
use crate::scheduler::{set_condition, taints};

/// The controller that evicts Pods from Nodes with taints.
pub(crate) struct TaintEviction {
    status: StatusWriter<Pod>,
    /// Since when Pods are to be evicted. A taint that knows its time decides instead.
    since: Mutex<HashMap<ObjectKey, Timestamp>>,
}

impl TaintEviction {
    pub(crate) fn new(shared: &Shared) -> Self {
        let status = Context::status_writer(&shared.client, &shared.clock, Self::NAME);
        Self { status, since: Mutex::default() }
    }

    fn forget(&self, key: &ObjectKey) -> bool {
        self.since.lock().unwrap_or_else(PoisonError::into_inner).remove(key).is_some()
    }
}

/// How long a Pod may stay with these taints: no time, some time, or for ever (`None`).
fn patience(taints: &[&Taint], tolerations: &[Toleration]) -> Option<Duration> {
    let mut shortest: Option<Duration> = None;
    for taint in taints {
        let used = tolerations.iter().find(|toleration| taints::tolerates(toleration, taint));
        let Some(used) = used else { return Some(Duration::ZERO) };
        if let Some(seconds) = used.toleration_seconds {
            let time = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
            shortest = Some(shortest.map_or(time, |shortest| shortest.min(time)));
        }
    }
    shortest
}

fn no_execute(node: &k8s_openapi::api::core::v1::Node) -> Vec<&Taint> {
    let all = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    all.iter().filter(|taint| taint.effect == "NoExecute").collect()
}

impl Controller for TaintEviction {
    const NAME: &'static str = "taint-eviction-controller";

    fn wake(&self, change: &AnyChange, informers: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::Node(change) => {
                let taints = |node: &Option<std::sync::Arc<_>>| -> Vec<Taint> {
                    node.as_deref().map(no_execute).unwrap_or_default().into_iter().cloned().collect()
                };
                if taints(&change.old) == taints(&change.new) {
                    return Vec::new();
                }
                informers.pods_on(&change.key.name).iter().map(|pod| meta::key(&**pod)).collect()
            }
            AnyChange::Pod(change) => {
                let facts = |pod: &Pod| {
                    let spec = pod.spec.as_ref();
                    (
                        spec.and_then(|spec| spec.node_name.clone()),
                        spec.and_then(|spec| spec.tolerations.clone()),
                    )
                };
                let (old, new) = (change.old.as_deref().map(facts), change.new.as_deref().map(facts));
                if old == new { Vec::new() } else { vec![change.key.clone()] }
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Some(pod) = context.informers.pods.get(key) else {
            self.forget(key);
            return Ok(Next::AwaitChange);
        };
        let node = context.informers.nodes.get(ObjectKey::new("", pods::node_name(&pod)));
        let taints = node.as_deref().map(no_execute).unwrap_or_default();
        let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
        let patience = match taints.is_empty() {
            true => None,
            false => patience(&taints, tolerations),
        };
        let Some(patience) = patience else {
            if self.forget(key) && !meta::is_deleting(&*pod) {
                let note = format!("Cancelling deletion of Pod {key}");
                context.event(&*pod, EventType::Normal, "TaintManagerEviction", "TaintManagerEviction", note);
            }
            return Ok(Next::AwaitChange);
        };
        if meta::is_deleting(&*pod) {
            self.forget(key);
            return Ok(Next::AwaitChange);
        }
        let now = context.now();
        let added = taints.iter().filter_map(|taint| taint.time_added.as_ref()).map(|time| time.0).max();
        let since = {
            let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
            *since.entry(key.clone()).or_insert_with(|| added.unwrap_or(now))
        };
        let due = since + SignedDuration::try_from(patience).unwrap_or(SignedDuration::MAX / 4);
        if let Ok(left) = Duration::try_from(now.duration_until(due))
            && !left.is_zero()
        {
            return Ok(Next::RequeueAfter(left));
        }
        let mut status = pod.status.clone().unwrap_or_default();
        let condition = PodCondition {
            type_: "DisruptionTarget".to_owned(),
            status: "True".to_owned(),
            reason: Some("DeletionByTaintManager".to_owned()),
            message: Some("Taint manager: deleting due to NoExecute taint".to_owned()),
            observed_generation: pod.metadata.generation,
            ..PodCondition::default()
        };
        set_condition(status.conditions.get_or_insert_default(), condition, now);
        let note = format!("Marking for deletion Pod {key}");
        context.event(&*pod, EventType::Normal, "TaintManagerEviction", "TaintManagerEviction", note);
        context.write_status(key, &self.status, &pod, &status).await?;
        context.delete(key, &*pod).await?;
        self.forget(key);
        Ok(Next::AwaitChange)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn pods_stay_as_long_as_they_tolerate_all_taints() {
        let taint =
            |key: &str| Taint { key: key.to_owned(), effect: "NoExecute".to_owned(), ..Taint::default() };
        let (a, b) = (taint("a"), taint("b"));
        let of = |tolerations: Value| {
            let tolerations: Vec<Toleration> = serde_json::from_value(tolerations).expect("tolerations");
            patience(&[&a, &b], &tolerations).map(|time| time.as_secs())
        };
        assert_eq!(of(json!([])), Some(0));
        assert_eq!(of(json!([{"key": "a", "operator": "Exists"}])), Some(0));
        assert_eq!(of(json!([{"operator": "Exists"}])), None);
        let both = |seconds: Value| json!([{"key": "a", "operator": "Exists", "tolerationSeconds": 300}, {"key": "b", "operator": "Exists", "tolerationSeconds": seconds}]);
        assert_eq!(of(both(json!(30))), Some(30));
        assert_eq!(of(both(json!(null))), Some(300));
        assert_eq!(of(both(json!(-1))), Some(0));
    }
}

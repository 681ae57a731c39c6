//! PodDisruptionBudgets: how many Pods may be evicted now (`pkg/controller/disruption`).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, OwnerReference, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::runtime::events::EventType;
use settled_controller::ObjectKey;
use settled_controller::status::StatusWriter;
use settled_controller::worker::Next;

use crate::controller::{Context, Controller, Error, Shared};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::pod as pods;
use crate::selector_index::SelectorIndex;
use crate::workloads::int_or_percent::scaled;

/// How long an evicted Pod may take to be deleted.
const DELETION: SignedDuration = SignedDuration::from_secs(120);
/// The condition.
const ALLOWED: &str = "DisruptionAllowed";

/// The controller of budgets.
pub(crate) struct Budgets {
    status: StatusWriter<PodDisruptionBudget>,
    index: SelectorIndex,
}

impl Budgets {
    pub(crate) fn new(shared: &Shared) -> Self {
        let status = Context::status_writer(&shared.client, &shared.clock, Self::NAME);
        Self { status, index: SelectorIndex::default() }
    }
}

/// A controller of Pods: its UID, and how many Pods it should have.
type Scale = (String, i32);

/// The scale of the controller of a Pod, or why there is none.
fn scale(owner: &OwnerReference, pod: &Pod, informers: &Informers) -> Result<Scale, String> {
    let key = ObjectKey::new(meta::namespace(pod), &owner.name);
    let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
    let not_found = || format!("found no controllers for pod {:?}", meta::name(pod));
    match (group, owner.kind.as_str()) {
        ("apps", "ReplicaSet") => {
            let set = informers.replica_sets.get(&key).filter(|set| meta::uid(&**set) == owner.uid);
            let set = set.ok_or_else(not_found)?;
            if let Some(above) = meta::controller(&*set).filter(|above| above.kind == "Deployment") {
                let key = ObjectKey::new(meta::namespace(pod), &above.name);
                let deployment = informers
                    .deployments
                    .get(&key)
                    .filter(|deployment| meta::uid(&**deployment) == above.uid);
                let deployment = deployment.ok_or_else(not_found)?;
                let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
                return Ok((above.uid.clone(), replicas));
            }
            Ok((owner.uid.clone(), set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)))
        }
        ("apps", "StatefulSet") => {
            let set = informers.stateful_sets.get(&key).filter(|set| meta::uid(&**set) == owner.uid);
            let set = set.ok_or_else(not_found)?;
            Ok((owner.uid.clone(), set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)))
        }
        (group, kind) => {
            let mut resource = format!("{}s", kind.to_ascii_lowercase());
            if !group.is_empty() {
                resource = format!("{resource}.{group}");
            }
            Err(format!("{resource} does not implement the scale subresource"))
        }
    }
}

/// What a budget asks for.
#[derive(Debug, PartialEq, Eq)]
struct Expected {
    pods: i32,
    healthy: i32,
    /// Pods without a controller, though the number of Pods of controllers matters.
    has_unmanaged: bool,
}

/// `getExpectedPodCount`.
fn expected<'p>(
    budget: &PodDisruptionBudget,
    pods: impl ExactSizeIterator<Item = &'p Pod>,
    scale: impl Fn(&OwnerReference, &Pod) -> Result<Scale, String>,
) -> Result<Expected, String> {
    let spec = budget.spec.clone().unwrap_or_default();
    if spec.max_unavailable.is_none()
        && let Some(IntOrString::Int(healthy)) = spec.min_available
    {
        let pods = i32::try_from(pods.len()).unwrap_or(i32::MAX);
        return Ok(Expected { pods, healthy, has_unmanaged: false });
    }
    let (Some(value), is_max) =
        (spec.max_unavailable.as_ref().or(spec.min_available.as_ref()), spec.max_unavailable.is_some())
    else {
        return Ok(Expected { pods: 0, healthy: 0, has_unmanaged: false });
    };
    let mut scales: BTreeMap<String, i32> = BTreeMap::new();
    let mut has_unmanaged = false;
    for pod in pods {
        match meta::controller(pod) {
            None => has_unmanaged = true,
            Some(owner) => {
                let (uid, replicas) = scale(owner, pod)?;
                scales.insert(uid, replicas);
            }
        }
    }
    let total = scales.values().sum();
    let number = scaled(value, total, true);
    let healthy = if is_max { (total - number).max(0) } else { number };
    Ok(Expected { pods: total, healthy, has_unmanaged })
}

/// Pods that are evicted and not deleted yet, and when the first of them should have been.
fn disrupted(
    budget: &PodDisruptionBudget,
    pods: &[std::sync::Arc<Pod>],
    now: Timestamp,
) -> (BTreeMap<String, Time>, Option<Timestamp>) {
    let before = budget.status.as_ref().and_then(|status| status.disrupted_pods.as_ref());
    let mut left = BTreeMap::new();
    let mut recheck: Option<Timestamp> = None;
    for pod in pods.iter().filter(|pod| !meta::is_deleting(&***pod)) {
        let Some(time) = before.and_then(|before| before.get(meta::name(&**pod))) else { continue };
        let due = time.0 + DELETION;
        if due >= now {
            recheck = Some(recheck.map_or(due, |recheck| recheck.min(due)));
            left.insert(meta::name(&**pod).to_owned(), time.clone());
        }
    }
    (left, recheck)
}

fn set_condition(
    status: &mut PodDisruptionBudgetStatus,
    is_true: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let observed_generation = status.observed_generation;
    let conditions = status.conditions.get_or_insert_default();
    let value = if is_true { "True" } else { "False" };
    let before = conditions.iter_mut().find(|condition| condition.type_ == ALLOWED);
    let since = before.as_ref().filter(|before| before.status == value);
    let new = Condition {
        type_: ALLOWED.to_owned(),
        status: value.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation,
        last_transition_time: since
            .map_or_else(|| meta::time(now), |before| before.last_transition_time.clone()),
    };
    match before {
        Some(before) => *before = new,
        None => conditions.push(new),
    }
}

/// The status that follows.
fn status(
    budget: &PodDisruptionBudget,
    expected: &Expected,
    pods: &[std::sync::Arc<Pod>],
    disrupted: BTreeMap<String, Time>,
    now: Timestamp,
) -> PodDisruptionBudgetStatus {
    let is_healthy = |pod: &Pod| {
        let is_leaving = disrupted.get(meta::name(pod)).is_some_and(|time| time.0 + DELETION > now);
        !meta::is_deleting(pod) && !is_leaving && pods::is_ready(pod)
    };
    let healthy = i32::try_from(pods.iter().filter(|pod| is_healthy(pod)).count()).unwrap_or(i32::MAX);
    let allowed = if expected.pods <= 0 { 0 } else { (healthy - expected.healthy).max(0) };
    let mut status = PodDisruptionBudgetStatus {
        current_healthy: Some(healthy),
        desired_healthy: Some(expected.healthy),
        expected_pods: Some(expected.pods),
        disruptions_allowed: Some(allowed),
        disrupted_pods: Some(disrupted).filter(|pods| !pods.is_empty()),
        observed_generation: budget.metadata.generation,
        conditions: budget.status.as_ref().and_then(|status| status.conditions.clone()),
    };
    let reason = if allowed > 0 { "SufficientPods" } else { "InsufficientPods" };
    set_condition(&mut status, allowed > 0, reason, "", now);
    status
}

impl Controller for Budgets {
    const NAME: &'static str = "controllermanager";

    fn wake(&self, change: &AnyChange, _: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::PodDisruptionBudget(change) => {
                self.index.budget(change);
                vec![change.key.clone()]
            }
            AnyChange::Pod(change) => {
                let facts = |pod: &Pod| {
                    let controller = meta::controller(pod).map(|owner| owner.uid.clone());
                    (pods::is_ready(pod), meta::is_deleting(pod), controller, pod.metadata.labels.clone())
                };
                let (old, new) = (change.old.as_deref(), change.new.as_deref());
                if old.map(facts) == new.map(facts) {
                    return Vec::new();
                }
                let mut keys: Vec<_> =
                    old.into_iter().chain(new).flat_map(|pod| self.index.candidates(pod)).collect();
                keys.sort();
                keys.dedup();
                keys
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let informers = &context.informers;
        let Some(budget) = informers.budgets.get(key) else { return Ok(Next::AwaitChange) };
        let now = context.now();
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let pods =
            selector.map(|selector| informers.pods_matching(&key.namespace, selector)).unwrap_or_default();
        let event = |type_, reason: &str, note: String| context.event(&*budget, type_, reason, reason, note);
        if pods.is_empty() {
            event(EventType::Normal, "NoPods", "No matching pods found".to_owned());
        }
        let all = pods.iter().map(|pod| &**pod);
        match expected(&budget, all, |owner, pod| scale(owner, pod, informers)) {
            Ok(expected) => {
                if expected.has_unmanaged {
                    let note = "Pods selected by this PodDisruptionBudget were found to be unmanaged. As a result, the \
                                status of the PDB cannot be calculated correctly, which may result in undefined behavior. \
                                To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer \
                                value.";
                    event(EventType::Warning, "UnmanagedPods", note.to_owned());
                }
                let (disrupted, recheck) = disrupted(&budget, &pods, now);
                let status = status(&budget, &expected, &pods, disrupted, now);
                context.write_status(key, &self.status, &budget, &status).await?;
                Ok(match recheck.and_then(|due| Duration::try_from(now.duration_until(due)).ok()) {
                    Some(left) => Next::RequeueAfter(left + Duration::from_secs(1)),
                    None => Next::AwaitChange,
                })
            }
            Err(why) => {
                let note = format!("Failed to calculate the number of expected pods: {why}");
                event(EventType::Warning, "CalculateExpectedPodCountFailed", note);
                // Better no eviction than a wrong one.
                let mut status = budget.status.clone().unwrap_or_default();
                status.disruptions_allowed = Some(0);
                set_condition(&mut status, false, "SyncFailed", &why, now);
                context.write_status(key, &self.status, &budget, &status).await?;
                Err(Error::Failed(why))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn pod(name: &str, owner: Option<&str>, ready: &str) -> Arc<Pod> {
        let owners: Vec<Value> = owner
            .map(|uid| json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": uid, "uid": uid, "controller": true}))
            .into_iter()
            .collect();
        let conditions = json!([{"type": "Ready", "status": ready}]);
        let pod = json!({"metadata": {"name": name, "ownerReferences": owners}, "status": {"conditions": conditions}});
        Arc::new(serde_json::from_value(pod).expect("a Pod"))
    }

    fn budget(spec: Value) -> PodDisruptionBudget {
        serde_json::from_value(json!({"metadata": {"generation": 2}, "spec": spec})).expect("a budget")
    }

    #[test]
    fn disruptions_are_allowed_as_upstream() {
        let pods = [pod("a", Some("s"), "True"), pod("b", Some("s"), "True"), pod("c", Some("s"), "False")];
        let scale = |owner: &OwnerReference, _: &Pod| Ok((owner.uid.clone(), 4));
        let allowed = |spec: Value| {
            let budget = budget(spec);
            let expected = expected(&budget, pods.iter().map(|pod| &**pod), scale).expect("a number");
            let status = status(&budget, &expected, &pods, BTreeMap::new(), Timestamp::UNIX_EPOCH);
            let reason = status.conditions.as_ref().map(|all| all[0].reason.clone()).unwrap_or_default();
            (status.expected_pods, status.desired_healthy, status.disruptions_allowed, reason)
        };
        let (enough, few) = ("SufficientPods".to_owned(), "InsufficientPods".to_owned());
        assert_eq!(allowed(json!({"minAvailable": 1})), (Some(3), Some(1), Some(1), enough.clone()));
        assert_eq!(allowed(json!({"minAvailable": 2})), (Some(3), Some(2), Some(0), few.clone()));
        assert_eq!(allowed(json!({"minAvailable": "30%"})), (Some(4), Some(2), Some(0), few.clone()));
        assert_eq!(allowed(json!({"maxUnavailable": 3})), (Some(4), Some(1), Some(1), enough));
        assert_eq!(allowed(json!({"maxUnavailable": "25%"})), (Some(4), Some(3), Some(0), few));
    }

    #[test]
    fn evicted_pods_do_not_count_until_they_should_be_gone() {
        let mut budget = budget(json!({"minAvailable": 1}));
        let time = Time(Timestamp::UNIX_EPOCH);
        let status = PodDisruptionBudgetStatus {
            disrupted_pods: Some([("a".to_owned(), time.clone()), ("gone".to_owned(), time)].into()),
            ..PodDisruptionBudgetStatus::default()
        };
        budget.status = Some(status);
        let pods = [pod("a", None, "True"), pod("b", None, "True")];
        let at = |seconds: i64| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds);
        let (left, recheck) = disrupted(&budget, &pods, at(60));
        assert_eq!((left.len(), recheck), (1, Some(at(120))));
        let expected = Expected { pods: 2, healthy: 1, has_unmanaged: false };
        assert_eq!(super::status(&budget, &expected, &pods, left, at(60)).current_healthy, Some(1));
        assert_eq!(disrupted(&budget, &pods, at(121)), (BTreeMap::new(), None));
    }

    #[test]
    fn pods_of_other_controllers_are_no_basis_for_percentages() {
        let informed = |_: &OwnerReference, _: &Pod| {
            Err("jobs.batch does not implement the scale subresource".to_owned())
        };
        let pods = [pod("a", Some("s"), "True")];
        let of = |spec: Value| expected(&budget(spec), pods.iter().map(|pod| &**pod), informed);
        assert!(of(json!({"maxUnavailable": 1})).is_err());
        assert!(of(json!({"minAvailable": 1})).is_ok());
    }
}

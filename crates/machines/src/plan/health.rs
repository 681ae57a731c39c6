//! MachineHealthCheck: which Machines are unhealthy, and which are replaced. If too many are, the problem is elsewhere, and none is.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::small::Node;
use crate::types::{ErrorReason, Machine, MachineHealthCheckSpec};

/// A Machine that is checked.
pub(crate) struct Target<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) node: Option<&'a Node>,
}

/// What a health check reports and does.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct HealthPlan {
    /// Machines that are checked.
    pub(crate) expected: usize,
    /// Unhealthy ones, with the reason.
    pub(crate) unhealthy: Vec<(String, String)>,
    /// Whether too many are unhealthy.
    pub(crate) is_frozen: bool,
    /// Machines to delete: their owners make others.
    pub(crate) remediate: Vec<String>,
    /// When a Machine may become unhealthy by time alone.
    pub(crate) next: Option<Duration>,
}

enum Health {
    Healthy,
    Unhealthy(Timestamp, String),
    /// It waits to register, until then.
    Starting(Timestamp),
    /// It will be unhealthy from then on.
    Suspect(Timestamp),
}

/// Plans a health check. Nodes are given their timeouts anew from `thawed` on, when too many were unhealthy last: the last ones to come
/// back after an outage are not replaced because they are few.
pub(crate) fn plan_health(
    spec: &MachineHealthCheckSpec,
    targets: &[Target<'_>],
    thawed: Option<Timestamp>,
    now: Timestamp,
) -> HealthPlan {
    let mut plan = HealthPlan { expected: targets.len(), ..HealthPlan::default() };
    let mut candidates = Vec::new();
    let (mut in_flight, mut suspects) = (0, 0);
    for target in targets {
        let name = target.machine.metadata.name.clone().unwrap_or_default();
        let is_deleting = target.machine.metadata.deletion_timestamp.is_some();
        in_flight += usize::from(is_deleting);
        match health(spec, target, thawed, now) {
            Health::Healthy => {}
            health @ (Health::Starting(until) | Health::Suspect(until)) => {
                suspects += usize::from(matches!(health, Health::Suspect(_)));
                let left = Duration::try_from(until.duration_since(now)).unwrap_or_default();
                plan.next = Some(plan.next.map_or(left, |next| next.min(left)));
            }
            Health::Unhealthy(since, reason) => {
                plan.unhealthy.push((name.clone(), reason));
                if !is_deleting && is_replaceable(target.machine) {
                    candidates.push((since, name));
                }
            }
        }
    }
    let total = i32::try_from(targets.len()).unwrap_or(i32::MAX);
    let bound = |number: i32| usize::try_from(number).unwrap_or_default();
    // When all Nodes fall silent at once, the first one to exceed its timeout is not the only one: those that will follow count.
    plan.is_frozen = plan.unhealthy.len() + suspects > bound(spec.max_unhealthy.of(total, false));
    if !plan.is_frozen {
        candidates.sort();
        let room = bound(spec.max_in_flight.of(total, true)).saturating_sub(in_flight);
        plan.remediate = candidates.into_iter().take(room).map(|(_, name)| name).collect();
    }
    plan
}

/// Whether a Machine has an owner that makes another one, and another one would be better.
fn is_replaceable(machine: &Machine) -> bool {
    let is_owned =
        machine.metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true));
    let reason = machine.status.as_ref().and_then(|status| status.error_reason);
    is_owned && !matches!(reason, Some(ErrorReason::InvalidConfiguration | ErrorReason::UnsupportedChange))
}

fn health(
    spec: &MachineHealthCheckSpec,
    target: &Target<'_>,
    thawed: Option<Timestamp>,
    now: Timestamp,
) -> Health {
    let after = |time: Timestamp, seconds: i64| {
        time.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
    };
    let status = target.machine.status.as_ref();
    let Some(node) = target.node else {
        let began = status.and_then(|status| status.provisioning_since.as_ref()).map(|since| since.0);
        // A Machine that waits for its control plane, or is refused, has no host that could be unhealthy.
        let Some(began) = began.filter(|_| spec.node_startup_timeout_seconds > 0) else {
            return Health::Healthy;
        };
        let until = after(began, spec.node_startup_timeout_seconds);
        return match until <= now {
            true => Health::Unhealthy(until, "the Node has not registered".to_owned()),
            false => Health::Starting(until),
        };
    };
    let mut next: Option<Timestamp> = None;
    for unhealthy in &spec.unhealthy_conditions {
        let Some(condition) = node.condition(&unhealthy.type_) else { continue };
        if condition.status != unhealthy.status {
            continue;
        }
        let since = condition.last_transition_time.as_ref().map_or(now, |time| time.0);
        let until = after(thawed.map_or(since, |thawed| since.max(thawed)), unhealthy.timeout_seconds);
        if until <= now {
            let reason = format!("condition {} of the Node is {}", unhealthy.type_, unhealthy.status);
            return Health::Unhealthy(until, reason);
        }
        next = Some(next.map_or(until, |next| next.min(until)));
    }
    next.map_or(Health::Healthy, Health::Suspect)
}

//! MachineHealthChecks: deletes unhealthy Machines whose owners make others.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use settled_controller::ObjectKey;
use settled_controller::conditions::{ConditionType as _, Conditions};
use settled_controller::status::StatusWriter;
use settled_controller::worker::Next;

use super::controller::{Context, Controller, Error, GROUP_BATCH, Shared, status_writer};
use super::informers::{AnyChange, Informers};
use super::meta;
use super::place::Place;
use crate::plan::{HealthPlan, Target, plan_health};
use crate::small::Node;
use crate::types::{HealthCheckCondition, Machine, MachineHealthCheck, MachineHealthCheckStatus};

/// How many names of unhealthy Machines a status has.
const MAX_NAMES: usize = 32;

/// Too many Machines are unhealthy.
const FROZEN: &str = "TooManyUnhealthy";
/// Too many were. The condition's time is when that ended.
const THAWED: &str = "AllowedAgain";

/// The controller of MachineHealthChecks.
pub(super) struct HealthChecks {
    status: StatusWriter<MachineHealthCheck>,
}

impl HealthChecks {
    pub(super) fn new(shared: &Shared) -> Self {
        Self { status: status_writer(shared, Self::NAME) }
    }
}

fn checks_in(namespace: &str, informers: &Informers) -> Vec<ObjectKey> {
    let checks = informers.in_namespace::<MachineHealthCheck>(namespace);
    checks.iter().map(|check| meta::key(&**check)).collect()
}

/// What was reported of remediation last.
fn last(check: &MachineHealthCheck) -> Option<&Condition> {
    let mut conditions = check.status.iter().flat_map(|status| &status.conditions);
    conditions
        .find(|condition| condition.type_ == HealthCheckCondition::RemediationAllowed.declaration().name)
}

/// When the last plan that would have replaced too many Machines ended; `now` if it is the last one.
fn thawed(check: &MachineHealthCheck, now: Timestamp) -> Option<Timestamp> {
    let last = last(check)?;
    match last.reason.as_str() {
        FROZEN => Some(now),
        THAWED => Some(last.last_transition_time.0),
        _ => None,
    }
}

fn status(
    check: &MachineHealthCheck,
    plan: &HealthPlan,
    context: &Context,
) -> Result<MachineHealthCheckStatus, Error> {
    let observed = check.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let mut conditions =
        Conditions::<HealthCheckCondition>::new(observed, check.metadata.generation, &context.clock);
    let message = match plan.unhealthy.first() {
        Some((name, reason)) => {
            format!(
                "{} of {} Machines are unhealthy, such as {name}: {reason}",
                plan.unhealthy.len(),
                plan.expected
            )
        }
        None => format!("all of {} Machines are healthy", plan.expected),
    };
    let reason = match (plan.is_frozen, last(check)) {
        (true, _) => FROZEN,
        (false, Some(last)) if [FROZEN, THAWED].contains(&last.reason.as_str()) => THAWED,
        (false, _) => "Allowed",
    };
    conditions.set(HealthCheckCondition::RemediationAllowed, !plan.is_frozen, reason, message);
    Ok(MachineHealthCheckStatus {
        observed_generation: check.metadata.generation,
        expected_machines: meta::count(plan.expected),
        current_healthy: meta::count(plan.expected - plan.unhealthy.len()),
        frozen: plan.is_frozen,
        unhealthy_machines: plan.unhealthy.iter().take(MAX_NAMES).map(|(name, _)| name.clone()).collect(),
        conditions: conditions.finish()?,
    })
}

impl Controller for HealthChecks {
    const NAME: &'static str = "machinehealthcheck-controller";
    const BATCH: Duration = GROUP_BATCH;

    fn wake(&self, change: &AnyChange, informers: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::MachineHealthCheck(change) => vec![change.key.clone()],
            AnyChange::Machine(change) => checks_in(&change.key.namespace, informers),
            AnyChange::Node(change) | AnyChange::RemoteNode(_, change) => {
                let node = change.new.as_ref().or(change.old.as_ref());
                let namespace = node.and_then(|node| node.machine()).and_then(|name| name.split_once('/'));
                namespace.map(|(namespace, _)| checks_in(namespace, informers)).unwrap_or_default()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let informers = &*context.informers;
        let Some(check) = informers.checks.get(key) else { return Ok(Next::AwaitChange) };
        if meta::is_deleting(&*check) || meta::is_paused(&*check) {
            return Ok(Next::AwaitChange);
        }
        let machines = informers.in_namespace::<Machine>(&key.namespace);
        let selected: Vec<(Arc<Machine>, Option<Arc<Node>>)> = machines
            .into_iter()
            .filter(|machine| check.spec.selector.matches(machine.metadata.labels.as_ref()))
            .filter(|machine| {
                !informers.is_cluster_paused(&key.namespace, machine.spec.cluster_name.as_ref())
            })
            .filter_map(|machine| {
                let place = Place::of(&machine, context);
                // Of what is not known, nothing is unhealthy.
                if place.problem().is_some() {
                    return None;
                }
                let id = machine.status.as_ref().and_then(|status| status.provider_id.as_deref());
                let node = id.and_then(|id| place.node_of(&machine, Some(id), context));
                Some((machine, node))
            })
            .collect();
        let targets: Vec<Target<'_>> =
            selected.iter().map(|(machine, node)| Target { machine, node: node.as_deref() }).collect();
        let now = context.now();
        let mut plan = plan_health(&check.spec, &targets, None, now);
        if !plan.is_frozen
            && let Some(thawed) = thawed(&check, now)
        {
            plan = plan_health(&check.spec, &targets, Some(thawed), now);
        }
        // What is deleted is reported first: a user finds the reason in the status.
        context.write_status(key, &self.status, &check, &status(&check, &plan, context)?).await?;
        for (machine, _) in &selected {
            if plan.remediate.iter().any(|name| name == meta::name(&**machine)) {
                tracing::info!(machine = %meta::key(&**machine), "deleting an unhealthy Machine");
                context.delete(key, &**machine).await?;
            }
        }
        Ok(plan.next.map_or(Next::AwaitChange, Next::RequeueAfter))
    }
}

//! Machine: the state machine of one Machine, from what was observed of it to its status and the next action.
//!
//! The status is written before the action is performed: what it acknowledges is what a later process continues. An update is decided by the plan of
//! the provider, which compares what is asked for with what really runs.

use std::time::Duration;

use serde_json::{Value, json};

use super::draft::{
    Action, ClusterState, Decision, Draft, Facts, POLL, Progress, drain_timeout, rest, silent,
};
use super::{drain, node, unreachable};
use crate::provider::{ConfigError, Host, HostState, Observed, Plan, ProviderError, Step};
use crate::types::{
    ErrorReason, FINALIZER, MachineCondition, MachineDrain, MachinePhase, MachineStatus, MachineUpdate,
    NodeRef, PROVIDER_FAILED, UpdateDecision, whole_second,
};

/// How often a host is looked at that is as it should be.
const RESYNC: Duration = Duration::from_secs(300);
/// How often a Node on another API server is looked for: it may register before the cache of Machines has the ID of its host, by which its changes
/// find the Machine.
const REMOTE_NODE_RETRY: Duration = Duration::from_secs(2);
/// How often a refused host is asked for again.
const RETRY_RESOURCES: Duration = Duration::from_secs(60);
/// How long a Node may take to register.
const STARTUP_TIMEOUT: i64 = 600;

/// Decides what is done next for a Machine.
pub(crate) fn decide(facts: &Facts<'_>) -> Decision {
    let machine = facts.machine;
    let has_finalizer = machine.metadata.finalizers.iter().flatten().any(|name| name == FINALIZER);
    let is_deleting = machine.metadata.deletion_timestamp.is_some();
    if !has_finalizer {
        return silent(if is_deleting { Action::None } else { Action::AddFinalizer });
    }
    if facts.cluster == ClusterState::Paused {
        return silent(Action::None);
    }
    let mut status = machine.status.clone().unwrap_or_default();
    status.observed_generation = machine.metadata.generation;
    if let Ok(provider) = &facts.provider
        && status.provider.is_none()
    {
        status.provider = Some(provider.clone());
    }
    let draft = Draft { facts, status, findings: Vec::new(), progress: Progress::Current };
    if is_deleting { deleting(draft) } else { live(draft) }
}

fn live(mut draft: Draft<'_>) -> Decision {
    let facts = draft.facts;
    match (&facts.provider, &facts.config) {
        (Err(error), _) | (_, Err(error)) => {
            let reason = match error {
                ConfigError::UnknownProvider(_) => "UnknownProvider",
                ConfigError::NoClass(_) => "MachineClassNotFound",
                ConfigError::HostTaken(_) => "HostTaken",
                _ => "InvalidConfiguration",
            };
            draft.find(MachineCondition::Accepted, false, reason, error.to_string());
            observe_node(&mut draft);
            draft.fail(ErrorReason::InvalidConfiguration, error.to_string());
            if draft.status.provider_id.is_none() {
                draft.phase(MachinePhase::Failed);
            }
            return draft.done(Action::None, None);
        }
        (Ok(provider), Ok(())) => {
            draft.find(MachineCondition::Accepted, true, "Accepted", format!("by {provider}"));
        }
    }
    if draft.status.error_reason == Some(ErrorReason::InvalidConfiguration) {
        draft.clear_error();
    }
    match &facts.observed {
        None => draft.done(Action::None, POLL),
        Some(Err(error)) => provider_failed(draft, error),
        Some(Ok(Observed::Absent)) => absent(draft),
        Some(Ok(Observed::Host(host))) => {
            let host = host.clone();
            with_host(draft, &host)
        }
    }
}

fn provider_failed(mut draft: Draft<'_>, error: &ProviderError) -> Decision {
    draft.find(MachineCondition::HostReady, None, PROVIDER_FAILED, error.to_string());
    observe_node(&mut draft);
    match error {
        ProviderError::Transient(message) => draft.reconciling(PROVIDER_FAILED, message.clone()),
        ProviderError::Terminal { reason, message } => draft.fail(*reason, message.clone()),
    }
    draft.done(Action::None, None)
}

/// There is no host: it is to be created, or created again.
fn absent(mut draft: Draft<'_>) -> Decision {
    let (machine, now) = (draft.facts.machine, draft.facts.now);
    let recorded = machine.status.as_ref();
    let is_same_spec =
        recorded.is_some_and(|status| status.observed_generation == machine.metadata.generation);
    draft.find(MachineCondition::UpToDate, false, "NoHost", "");
    draft.find(MachineCondition::NodeReady, false, "NoHost", "");
    // The Node of a host that is gone goes before a new one comes.
    if draft.facts.node.is_some() && draft.status.node_ref.is_some() {
        draft.find(MachineCondition::HostReady, false, "Absent", "the host is gone");
        draft.reconciling("Replacing", "the Node of the old host is deleted");
        return draft.done(Action::DeleteNode, None);
    }
    // Nor while it is not known whether there is one. That of a control plane is known by its host alone.
    if let Some(message) = draft.facts.unreachable
        && draft.status.node_ref.is_some()
        && !machine.is_control_plane()
    {
        draft.find(MachineCondition::HostReady, false, "Absent", "the host is gone");
        return unreachable::wait(draft, message);
    }
    let waits = match draft.facts.cluster {
        ClusterState::Missing => Some(("ClusterNotFound", "its Cluster does not exist")),
        ClusterState::Starting if !machine.is_control_plane() => {
            Some(("WaitingForControlPlane", "the endpoint of the control plane is not known"))
        }
        ClusterState::Deleting => Some(("ClusterDeleting", "its Cluster is being deleted")),
        _ => None,
    };
    if let Some((reason, message)) = waits {
        draft.phase(MachinePhase::Pending);
        draft.find(MachineCondition::HostReady, false, reason, message);
        draft.reconciling(reason, message);
        return draft.done(Action::None, None);
    }
    let refused = draft.status.error_reason.filter(|_| is_same_spec);
    match refused {
        Some(ErrorReason::InsufficientResources) => {
            let since = draft.status.provisioning_since.as_ref().map_or(now, |since| since.0);
            let left = rest(since, RETRY_RESOURCES, now);
            if let Some(left) = left {
                return refused_host(draft, ErrorReason::InsufficientResources, left.into());
            }
            draft.status.provisioning_since = Some(whole_second(now));
        }
        Some(reason @ (ErrorReason::CreateError | ErrorReason::UpdateError)) => {
            return refused_host(draft, reason, None);
        }
        _ => draft.clear_error(),
    }
    let had_host = draft.status.provider_id.take();
    if had_host.is_some() && draft.status.update.is_none() {
        draft.status.update = Some(MachineUpdate {
            observed_generation: machine.metadata.generation.unwrap_or_default(),
            decision: UpdateDecision::Replace,
            reason: "the host is gone".to_owned(),
            step: None,
            disruptive: true,
            started_at: whole_second(now),
            previous: draft.status.versions.clone(),
        });
    }
    if had_host.is_some() || draft.status.provisioning_since.is_none() {
        draft.status.provisioning_since = Some(whole_second(now));
    }
    draft.status.versions = None;
    draft.status.addresses = Vec::new();
    draft.status.node_ref = None;
    draft.status.ready_since = None;
    draft.status.drain = None;
    draft.phase(match draft.status.update {
        Some(_) => MachinePhase::Updating,
        None => MachinePhase::Provisioning,
    });
    draft.find(MachineCondition::HostReady, false, "Creating", "the host is being created");
    if refused != Some(ErrorReason::InsufficientResources) {
        draft.reconciling("Creating", "the host is being created");
    } else if let Some(message) = draft.status.error_message.clone() {
        draft.progress = Progress::Stalled(ErrorReason::InsufficientResources.as_str(), message);
    }
    draft.done(Action::Create, POLL)
}

fn refused_host(mut draft: Draft<'_>, reason: ErrorReason, retry: Option<Duration>) -> Decision {
    let message = draft.status.error_message.clone().unwrap_or_default();
    draft.phase(MachinePhase::Failed);
    draft.find(MachineCondition::HostReady, false, reason.as_str(), message.clone());
    draft.fail(reason, message);
    draft.done(Action::None, retry)
}

/// Records what the provider plans with, so that a plan can be made without asking for the host.
fn record_facts(status: &mut MachineStatus, host: &Host) {
    let members = status.provider_status.get_or_insert_with(|| json!({})).as_object_mut();
    let Some(members) = members else { return };
    match host.facts.is_empty() {
        true => members.remove("facts"),
        false => members.insert("facts".to_owned(), json!(host.facts)),
    };
    if members.is_empty() {
        status.provider_status = None;
    }
}

fn with_host(mut draft: Draft<'_>, host: &Host) -> Decision {
    let now = draft.facts.now;
    draft.status.provider_id = Some(host.id.clone());
    draft.status.addresses.clone_from(&host.addresses);
    draft.status.versions = Some(host.versions.clone());
    record_facts(&mut draft.status, host);
    draft.status.provisioning_since.get_or_insert_with(|| whole_second(now));
    let is_creating = host.state == HostState::Creating;
    if host.pool_host.is_some() {
        draft.status.host.clone_from(&host.pool_host);
    }
    if is_creating && draft.status.error_reason == Some(ErrorReason::CreateError) && is_decided(&draft) {
        draft.find(MachineCondition::NodeReady, false, "Creating", "");
        draft.find(MachineCondition::UpToDate, false, "Creating", "");
        return refused_host(draft, ErrorReason::CreateError, None);
    }
    if matches!(
        draft.status.error_reason,
        Some(ErrorReason::CreateError | ErrorReason::InsufficientResources)
    ) {
        draft.clear_error();
    }
    match &host.state {
        HostState::Running => running(draft),
        HostState::Creating => {
            draft.phase(MachinePhase::Provisioning);
            draft.find(MachineCondition::HostReady, false, "Creating", "the host is being created");
            draft.find(MachineCondition::NodeReady, false, "Creating", "");
            draft.find(MachineCondition::UpToDate, false, "Creating", "");
            draft.reconciling("Creating", "the host is being created");
            // A creation that has several steps goes on.
            draft.done(Action::Create, POLL)
        }
        HostState::Updating => {
            draft.phase(MachinePhase::Updating);
            draft.find(MachineCondition::HostReady, true, "Updating", "");
            draft.find(
                MachineCondition::UpToDate,
                false,
                "Updating",
                "a step of the update is being performed",
            );
            observe_node(&mut draft);
            draft.reconciling("Updating", "a step of the update is being performed");
            draft.done(Action::None, POLL)
        }
        HostState::Deleting => {
            draft.phase(MachinePhase::Updating);
            draft.find(MachineCondition::HostReady, false, "Deleting", "the host is being deleted");
            draft.find(MachineCondition::UpToDate, false, "Replacing", "");
            observe_node(&mut draft);
            draft.reconciling("Replacing", "the host is being deleted");
            draft.done(Action::DeleteHost, POLL)
        }
        HostState::Failed(message) => {
            draft.phase(MachinePhase::Failed);
            draft.find(MachineCondition::HostReady, false, "HostFailed", message.clone());
            observe_node(&mut draft);
            draft.fail(ErrorReason::CreateError, message.clone());
            draft.done(Action::None, RESYNC)
        }
    }
}

fn running(mut draft: Draft<'_>) -> Decision {
    draft.find(MachineCondition::HostReady, true, "Running", "");
    match draft.facts.plan.clone() {
        None | Some(Plan::NoOp) => settled(draft),
        Some(Plan::Unsupported { reason }) => {
            acknowledge(&mut draft, UpdateDecision::Unsupported, &reason, None, false);
            draft.find(MachineCondition::UpToDate, false, "UnsupportedChange", reason.clone());
            observe_node(&mut draft);
            draft.fail(ErrorReason::UnsupportedChange, reason);
            match uncordon(&mut draft) {
                Some(patch) => draft.done(Action::PatchNode(patch), None),
                None => draft.done(Action::None, RESYNC),
            }
        }
        Some(Plan::Replace { reason }) => {
            acknowledge(&mut draft, UpdateDecision::Replace, &reason, None, true);
            // It is reported until the host is deleted.
            if draft.status.error_reason != Some(ErrorReason::DeleteError) {
                draft.clear_error();
            }
            draft.find(MachineCondition::UpToDate, false, "Replacing", reason.clone());
            observe_node(&mut draft);
            draft.reconciling("Replacing", reason);
            if let Some(message) = unreachable::forbids_drain(&draft) {
                return unreachable::wait(draft, message);
            }
            match drain(&mut draft) {
                Some((action, requeue)) => draft.done(action, requeue),
                None => {
                    draft.phase(MachinePhase::Updating);
                    draft.done(Action::DeleteHost, POLL)
                }
            }
        }
        Some(Plan::InPlace { steps, disruptive }) => {
            let Some(step) = steps.first().cloned() else { return settled(draft) };
            if draft.status.error_reason == Some(ErrorReason::UpdateError) && is_decided(&draft) {
                let message = draft.status.error_message.clone().unwrap_or_default();
                draft.find(MachineCondition::UpToDate, false, "UpdateError", message.clone());
                observe_node(&mut draft);
                draft.fail(ErrorReason::UpdateError, message);
                return draft.done(Action::None, RESYNC);
            }
            draft.clear_error();
            let reason = steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let is_disruptive = disruptive || draft.status.drain.is_some();
            acknowledge(&mut draft, UpdateDecision::InPlace, &reason, Some(&step), is_disruptive);
            draft.find(MachineCondition::UpToDate, false, "Updating", reason.clone());
            observe_node(&mut draft);
            draft.reconciling("Updating", reason);
            if is_disruptive && let Some(message) = unreachable::forbids_drain(&draft) {
                return unreachable::wait(draft, message);
            }
            if is_disruptive && let Some((action, requeue)) = drain(&mut draft) {
                return draft.done(action, requeue);
            }
            draft.phase(MachinePhase::Updating);
            draft.done(Action::ApplyStep(step), POLL)
        }
    }
}

/// Whether the recorded error is about this generation.
fn is_decided(draft: &Draft<'_>) -> bool {
    let machine = draft.facts.machine;
    let recorded = machine.status.as_ref().and_then(|status| status.observed_generation);
    recorded == machine.metadata.generation
}

/// Records the decision of the provider: what is performed from now on.
fn acknowledge(
    draft: &mut Draft<'_>,
    decision: UpdateDecision,
    reason: &str,
    step: Option<&Step>,
    disruptive: bool,
) {
    let generation = draft.facts.machine.metadata.generation.unwrap_or_default();
    let known = draft.status.update.take();
    let known = known.filter(|known| known.observed_generation == generation && known.decision == decision);
    let (started_at, previous) = match known {
        Some(known) => (known.started_at, known.previous),
        None => (whole_second(draft.facts.now), draft.status.versions.clone()),
    };
    draft.status.update = Some(MachineUpdate {
        observed_generation: generation,
        decision,
        reason: reason.to_owned(),
        step: step.map(ToString::to_string),
        disruptive,
        started_at,
        previous,
    });
}

/// The host is as asked for: what is left is its Node.
fn settled(mut draft: Draft<'_>) -> Decision {
    if draft.status.error_reason != Some(ErrorReason::JoinClusterTimeoutError) {
        draft.clear_error();
    }
    draft.status.update = None;
    let (machine, now) = (draft.facts.machine, draft.facts.now);
    let Some(node) = draft.facts.node else {
        draft.find(MachineCondition::UpToDate, true, "UpToDate", "");
        if let Some(message) = draft.facts.unreachable {
            observe_node(&mut draft);
            return unreachable::wait(draft, message);
        }
        return await_node(draft);
    };
    draft.clear_error();
    if let Some(patch) = uncordon(&mut draft) {
        draft.find(MachineCondition::UpToDate, false, "Updating", "the Node is being uncordoned");
        observe_node(&mut draft);
        draft.phase(MachinePhase::Updating);
        draft.reconciling("Updating", "the Node is being uncordoned");
        return draft.done(Action::PatchNode(patch), None);
    }
    if let Some(patch) = node::sync(machine, node) {
        draft.find(
            MachineCondition::UpToDate,
            false,
            "Updating",
            "labels and taints of the Node are being set",
        );
        observe_node(&mut draft);
        draft.phase(MachinePhase::Provisioned);
        draft.reconciling("Updating", "labels and taints of the Node are being set");
        return draft.done(Action::PatchNode(patch), None);
    }
    draft.find(MachineCondition::UpToDate, true, "UpToDate", "");
    if observe_node(&mut draft) {
        draft.status.ready_since.get_or_insert_with(|| whole_second(now));
        draft.phase(MachinePhase::Running);
    } else {
        draft.phase(MachinePhase::Provisioned);
        draft.reconciling("NodeNotReady", "the Node is not ready");
    }
    draft.done(Action::None, RESYNC)
}

fn await_node(mut draft: Draft<'_>) -> Decision {
    let (machine, now) = (draft.facts.machine, draft.facts.now);
    draft.status.node_ref = None;
    draft.status.ready_since = None;
    draft.phase(MachinePhase::Provisioned);
    draft.find(MachineCondition::NodeReady, false, "NodeNotFound", "the Node is not registered");
    let since = draft.status.provisioning_since.as_ref().map_or(now, |since| since.0);
    let timeout = machine.spec.node_startup_timeout_seconds.unwrap_or(STARTUP_TIMEOUT);
    let timeout = Duration::from_secs(u64::try_from(timeout).unwrap_or_default());
    if let Some(left) = rest(since, timeout, now) {
        draft.reconciling("NodeNotFound", "the Node is not registered");
        let retry = if draft.facts.is_remote { REMOTE_NODE_RETRY } else { RESYNC };
        return draft.done(Action::None, left.min(retry));
    }
    draft.phase(MachinePhase::Failed);
    let message = format!("no Node has registered within {}s", timeout.as_secs());
    draft.fail(ErrorReason::JoinClusterTimeoutError, message);
    draft.done(Action::None, RESYNC)
}

/// Reports the Node. Whether it is ready, with the versions that are asked for.
fn observe_node(draft: &mut Draft<'_>) -> bool {
    let Some(node) = draft.facts.node else {
        match draft.facts.unreachable {
            Some(message) => draft.find(MachineCondition::NodeReady, None, unreachable::REASON, message),
            None => {
                draft.find(MachineCondition::NodeReady, false, "NodeNotFound", "the Node is not registered");
            }
        }
        return false;
    };
    let own = |field: &Option<String>| field.clone().unwrap_or_default();
    draft.status.node_ref = Some(NodeRef::new(&own(&node.metadata.name), &own(&node.metadata.uid)));
    let wanted = &draft.facts.machine.spec.versions.kubelet;
    let reported = &node.status.node_info.kubelet_version;
    match node.ready() {
        "True" if !wanted.is_empty() && wanted != reported => {
            let message = format!("the kubelet reports {reported}");
            draft.find(MachineCondition::NodeReady, false, "VersionMismatch", message);
        }
        "True" => {
            draft.find(MachineCondition::NodeReady, true, "NodeReady", "");
            return true;
        }
        "False" => {
            draft.find(
                MachineCondition::NodeReady,
                false,
                "NodeNotReady",
                "the kubelet reports that it is not ready",
            );
        }
        _ => draft.find(MachineCondition::NodeReady, None, "NodeUnknown", "the kubelet does not report"),
    }
    draft.status.ready_since = None;
    false
}

/// What is left to do for a drain: `None` once it is complete.
fn drain(draft: &mut Draft<'_>) -> Option<(Action, Option<Duration>)> {
    let (machine, now) = (draft.facts.machine, draft.facts.now);
    let node = draft.facts.node?;
    let is_new = draft.status.drain.is_none();
    let state = draft.status.drain.get_or_insert_with(|| MachineDrain {
        started_at: whole_second(now),
        cordoned: !node.spec.unschedulable,
        completed: false,
        timed_out: false,
    });
    if state.completed {
        return None;
    }
    let timeout = drain_timeout(machine);
    let left = rest(state.started_at.0, timeout, now);
    if !is_new && !timeout.is_zero() && left.is_none() {
        state.completed = true;
        state.timed_out = true;
        return None;
    }
    let remaining = drain::remaining(draft.facts.pods, node.ready() != "Unknown");
    if node.spec.unschedulable && remaining.is_empty() {
        state.completed = true;
        return None;
    }
    draft.phase(MachinePhase::Draining);
    if !node.spec.unschedulable {
        return Some((Action::PatchNode(json!({"spec": {"unschedulable": true}})), None));
    }
    draft.reconciling("Draining", remaining.message());
    let action = match remaining.evict.is_empty() {
        true => Action::None,
        false => Action::Evict(remaining.evict),
    };
    Some((action, Some(left.map_or(POLL, |left| left.min(POLL)))))
}

/// The patch that undoes a cordon of the controller. The drain is over once the Node is uncordoned.
fn uncordon(draft: &mut Draft<'_>) -> Option<Value> {
    let state = draft.status.drain.as_ref()?;
    let is_cordoned = draft.facts.node.is_some_and(|node| node.spec.unschedulable);
    if state.cordoned && is_cordoned {
        return Some(json!({"spec": {"unschedulable": null}}));
    }
    draft.status.drain = None;
    None
}

fn deleting(mut draft: Draft<'_>) -> Decision {
    draft.phase(MachinePhase::Deleting);
    draft.find(MachineCondition::Accepted, draft.facts.provider.is_ok(), "Deleting", "");
    draft.find(MachineCondition::UpToDate, false, "Deleting", "");
    draft.reconciling("Deleting", "the host is being deleted");
    if let Err(error) = &draft.facts.provider {
        if draft.status.provisioning_since.is_none() && draft.status.provider_id.is_none() {
            return silent(Action::RemoveFinalizer);
        }
        observe_node(&mut draft);
        draft.fail(ErrorReason::DeleteError, error.to_string());
        return draft.done(Action::None, None);
    }
    match draft.facts.observed.clone() {
        None => draft.done(Action::None, POLL),
        Some(Err(error)) => provider_failed(draft, &error),
        Some(Ok(Observed::Host(host))) => {
            draft.status.provider_id = Some(host.id.clone());
            draft.find(MachineCondition::HostReady, false, "Deleting", "");
            observe_node(&mut draft);
            let drains = draft.facts.cluster != ClusterState::Deleting && host.state != HostState::Deleting;
            if drains
                && let Some(message) = unreachable::forbids_drain(&draft)
                && !unreachable::is_over(&draft)
            {
                return unreachable::wait(draft, message);
            }
            if drains && let Some((action, requeue)) = drain(&mut draft) {
                return draft.done(action, requeue);
            }
            draft.phase(MachinePhase::Deleting);
            draft.done(Action::DeleteHost, POLL)
        }
        Some(Ok(Observed::Absent)) if draft.facts.node.is_some() => silent(Action::DeleteNode),
        Some(Ok(Observed::Absent)) => silent(Action::RemoveFinalizer),
    }
}

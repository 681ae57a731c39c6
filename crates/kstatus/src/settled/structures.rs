//! Generic evidence in common structures of a status: conditions per parent, `ready`, counters, an error text.

use super::context::{Condition, Context, whole_number};
use super::meanings::{self, Says};
use crate::fields::Field;
use crate::node::{Kind, Node};
use crate::text::text;
use crate::verdict::{Basis, FailureClass, Status, Verdict};

/// The verdict of an object whose status holds neither a condition nor a word that is understood.
pub(super) fn verdict(context: &Context<'_, '_>) -> Option<Verdict> {
    let status = context.object.get(Field::Status).filter(|status| status.kind() == Kind::Map)?;
    let verdict = from_parents(context, status)
        .or_else(|| from_error(status))
        .or_else(|| from_ready(status))
        .or_else(|| from_counters(context))?;
    // A condition that nobody knows, and that is not True, may be what is missing.
    let is_doubtful = verdict.status == Status::Current && context.conditions().iter().any(|c| !c.is_true());
    (!is_doubtful).then_some(verdict)
}

/// Fewer ready replicas than wanted, where both are reported.
pub(super) fn less_ready(context: &Context<'_, '_>) -> Option<Verdict> {
    let ready = count(context, Field::ReadyReplicas)?;
    let wanted = count(context, Field::SpecReplicas)?;
    (ready < wanted).then(|| outstanding("LessReady", "Ready", ready, wanted))
}

/// The worst entry of `status.parents` or `status.ancestors`, as the Gateway API defines them for routes and policies: what
/// one of them refuses has not happened.
fn from_parents(context: &Context<'_, '_>, status: Node<'_>) -> Option<Verdict> {
    let lists = ["parents", "ancestors"].into_iter();
    let list = lists.filter_map(|key| status.get(key)).find(|list| list.kind() == Kind::List)?;
    let (mut refused, mut working, mut done) = (None, None, None);
    let conditions = list.elements().filter_map(|entry| entry.get("conditions")).flat_map(Node::elements);
    for condition in conditions.filter_map(Condition::elsewhere) {
        let says =
            if context.is_lagging(&condition) { Some(Says::Working) } else { meanings::of(&condition) };
        let slot = match says {
            Some(Says::Over(_) | Says::Wrong(_)) => &mut refused,
            Some(Says::Working) => &mut working,
            Some(Says::Done) => &mut done,
            Some(Says::Nothing) | None => continue,
        };
        slot.get_or_insert(condition);
    }
    refused
        .map(|found| meanings::verdict(Status::Failed, &found).failure(FailureClass::Configuration, false))
        .or_else(|| working.map(|found| meanings::verdict(Status::InProgress, &found)))
        .or_else(|| done.map(|found| meanings::verdict(Status::Current, &found)))
}

/// `status.error` and its relatives.
fn from_error(status: Node<'_>) -> Option<Verdict> {
    for key in ["error", "errorMessage", "failureMessage"] {
        let message = status.get(key).and_then(Node::as_str).filter(|message| !message.is_empty());
        if let Some(message) = message {
            let verdict = Verdict::new(Status::Failed, Basis::PhaseWord, "Error", message.into_owned());
            return Some(verdict.failure(FailureClass::Other, false));
        }
    }
    None
}

/// `status.ready`, a boolean.
fn from_ready(status: Node<'_>) -> Option<Verdict> {
    Some(match status.get("ready")?.as_bool()? {
        true => Verdict::new(Status::Current, Basis::PhaseWord, "Ready", "status.ready is true"),
        false => Verdict::new(Status::InProgress, Basis::PhaseWord, "NotReady", "status.ready is false"),
    })
}

/// Counters as those of a Deployment or of a DaemonSet. Done only if each that is reported is complete.
fn from_counters(context: &Context<'_, '_>) -> Option<Verdict> {
    let nodes = count(context, Field::DesiredNumberScheduled);
    let (wanted, ready) = match nodes {
        Some(nodes) => (nodes, count(context, Field::NumberReady).unwrap_or(0)),
        None => (count(context, Field::SpecReplicas)?, count(context, Field::ReadyReplicas)?),
    };
    let updated = if nodes.is_some() { Field::UpdatedNumberScheduled } else { Field::UpdatedReplicas };
    if let Some(updated) = count(context, updated).filter(|updated| *updated < wanted) {
        return Some(outstanding("LessUpdated", "Updated", updated, wanted));
    }
    if ready < wanted {
        return Some(outstanding("LessReady", "Ready", ready, wanted));
    }
    if let Some(extra) = count(context, Field::Replicas).filter(|replicas| *replicas > wanted) {
        return Some(outstanding("ExtraReplicas", "Replicas", extra, wanted));
    }
    let message = text!("Ready: {ready}/{wanted}");
    Some(Verdict::new(Status::Current, Basis::PhaseWord, "AllReady", message))
}

fn outstanding(reason: &'static str, what: &str, have: i64, wanted: i64) -> Verdict {
    Verdict::new(Status::InProgress, Basis::PhaseWord, reason, text!("{what}: {have}/{wanted}"))
}

fn count(context: &Context<'_, '_>, field: Field) -> Option<i64> {
    context.object.get(field).and_then(whole_number)
}

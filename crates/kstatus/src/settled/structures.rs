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
    let members = Members::of(status);
    let verdict = from_parents(context, &members)
        .or_else(|| from_error(&members))
        .or_else(|| from_ready(&members))
        .or_else(|| from_counters(context))?;
    // A condition that nobody knows, and that is not True, may be what is missing.
    let is_doubtful = verdict.status == Status::Current && context.conditions().iter().any(|c| !c.is_true());
    (!is_doubtful).then_some(verdict)
}

/// Members of `status` that are looked at, found in one pass.
#[derive(Default)]
struct Members<'a> {
    parents: Option<Node<'a>>,
    ancestors: Option<Node<'a>>,
    errors: [Option<Node<'a>>; 3],
    ready: Option<Node<'a>>,
}

impl<'a> Members<'a> {
    fn of(status: Node<'a>) -> Self {
        let mut found = Self::default();
        let [error, error_message, failure_message] = &mut found.errors;
        for (key, value) in status.entries() {
            let slot = match key {
                key if key.is("parents") => &mut found.parents,
                key if key.is("ancestors") => &mut found.ancestors,
                key if key.is("error") => &mut *error,
                key if key.is("errorMessage") => &mut *error_message,
                key if key.is("failureMessage") => &mut *failure_message,
                key if key.is("ready") => &mut found.ready,
                _ => continue,
            };
            *slot = Some(value);
        }
        found
    }
}

/// Fewer ready replicas than wanted, where both are reported.
pub(super) fn less_ready(context: &Context<'_, '_>) -> Option<Verdict> {
    let ready = count(context, Field::ReadyReplicas)?;
    let wanted = count(context, Field::SpecReplicas)?;
    (ready < wanted).then(|| outstanding("LessReady", "Ready", ready, wanted))
}

/// The worst entry of `status.parents` or `status.ancestors`, as the Gateway API defines them for routes and policies: what
/// one of them refuses has not happened.
fn from_parents(context: &Context<'_, '_>, status: &Members<'_>) -> Option<Verdict> {
    let mut lists = [status.parents, status.ancestors].into_iter().flatten();
    let list = lists.find(|list| list.kind() == Kind::List)?;
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
fn from_error(status: &Members<'_>) -> Option<Verdict> {
    let mut messages = status.errors.iter().flatten().filter_map(|error| error.as_str());
    let message = messages.find(|message| !message.is_empty())?;
    let verdict = Verdict::new(Status::Failed, Basis::PhaseWord, "Error", message.into_owned());
    Some(verdict.failure(FailureClass::Other, false))
}

/// `status.ready`, a boolean.
fn from_ready(status: &Members<'_>) -> Option<Verdict> {
    Some(match status.ready?.as_bool()? {
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

//! Objects that are being deleted: what holds them, and for how long.

use std::fmt::Write as _;

use super::context::{Context, Truth};
use crate::duration::human;
use crate::object::Field;
use crate::text::text;
use crate::verdict::{Basis, FailureClass, Status, Verdict};

/// Conditions of a Namespace that say what its deletion waits for, the most telling one first.
const NAMESPACE_CONDITIONS: [&str; 5] = [
    "NamespaceDeletionContentFailure",
    "NamespaceDeletionDiscoveryFailure",
    "NamespaceDeletionGroupVersionParsingFailure",
    "NamespaceFinalizersRemaining",
    "NamespaceContentRemaining",
];

pub(super) fn deletion(context: &Context<'_, '_>, group: &str, kind: &str) -> Option<Verdict> {
    let time = context.text(Field::DeletionTimestamp).filter(|time| !time.is_empty())?;
    let elapsed = context.since(&time);
    if elapsed.is_none() {
        context.note(".metadata.deletionTimestamp", text!("`{time}` is no RFC 3339 time"));
    }
    let is_namespace = group.is_empty() && kind == "Namespace";
    if is_namespace && let Some(verdict) = namespace(context, elapsed) {
        return Some(verdict);
    }
    let mut finalizers = String::new();
    // A Namespace has a second list, `spec.finalizers`, which the namespace controller empties.
    let of_namespace = is_namespace.then(|| context.list(Field::SpecFinalizers)).into_iter().flatten();
    for finalizer in context.list(Field::Finalizers).chain(of_namespace) {
        if let Some(name) = finalizer.as_str() {
            let separator = if finalizers.is_empty() { "" } else { ", " };
            let _ = write!(finalizers, "{separator}{name}");
        }
    }
    let (reason, mut message) = if finalizers.is_empty() {
        ("Deleting", "being deleted".to_owned())
    } else {
        let many = if finalizers.contains(", ") { "s" } else { "" };
        ("FinalizersRemaining", text!("being deleted, held by finalizer{many} {finalizers}"))
    };
    push_elapsed(&mut message, elapsed);
    let verdict = Verdict::new(Status::Terminating, Basis::Deletion, reason, message);
    Some(if finalizers.is_empty() { verdict } else { verdict.failure(FailureClass::Deletion, false) })
}

/// What a Namespace's conditions say remains: all of it, under the reason of the first.
fn namespace(context: &Context<'_, '_>, elapsed: Option<jiff::SignedDuration>) -> Option<Verdict> {
    let conditions = context.conditions();
    let mut found: Option<(crate::verdict::Text, String)> = None;
    for type_ in NAMESPACE_CONDITIONS {
        let Some(condition) = conditions.iter().find(|c| c.is(type_, Truth::True)) else { continue };
        match &mut found {
            None => {
                found =
                    Some((condition.reason_or("NamespaceContentRemaining"), condition.describe().to_string()))
            }
            Some((_, message)) => {
                let _ = write!(message, "; {}", condition.describe());
            }
        }
    }
    let (reason, what) = found?;
    let mut message = "being deleted".to_owned();
    push_elapsed(&mut message, elapsed);
    let _ = write!(message, ": {what}");
    let verdict = Verdict::new(Status::Terminating, Basis::Deletion, reason, message);
    Some(verdict.failure(FailureClass::Deletion, false))
}

fn push_elapsed(message: &mut String, elapsed: Option<jiff::SignedDuration>) {
    // A Pod's deletion time is the end of its grace period, which may lie ahead.
    match elapsed {
        Some(elapsed) if elapsed.is_negative() => {
            let _ = write!(message, ", {} of grace left", human(-elapsed));
        }
        Some(elapsed) => {
            let _ = write!(message, " for {}", human(elapsed));
        }
        None => {}
    }
}

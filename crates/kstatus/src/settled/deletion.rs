//! Deletion: objects with a deletion timestamp, their finalizers, and the time since deletion.

use std::fmt::{self, Write as _};

use jiff::SignedDuration;

use super::context::{Context, Truth};
use crate::duration::human;
use crate::fields::Field;
use crate::node::{Kind, Node, Shown};
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

pub(super) fn deletion(context: &Context<'_, '_>, group: &[u8], kind: &[u8]) -> Option<Verdict> {
    let time = context.text(Field::DeletionTimestamp).filter(|time| !time.is_empty())?;
    let elapsed = context.since(&time);
    if elapsed.is_none() {
        context.note(".metadata.deletionTimestamp", text!("`{time}` is no RFC 3339 time"));
    }
    let elapsed = elapsed.filter(|_| context.options.ages);
    let is_namespace = group.is_empty() && kind == b"Namespace";
    if is_namespace && let Some(verdict) = namespace(context, elapsed) {
        return Some(verdict);
    }
    let finalizers = Finalizers { context, is_namespace };
    let held = finalizers.iter().count();
    let elapsed = Elapsed(elapsed);
    if held == 0 {
        return Some(Verdict::new(
            Status::Terminating,
            Basis::Deletion,
            "Deleting",
            text!("being deleted{elapsed}"),
        ));
    }
    let many = if held == 1 { "" } else { "s" };
    let message = text!("being deleted, held by finalizer{many} {finalizers}{elapsed}");
    let verdict = Verdict::new(Status::Terminating, Basis::Deletion, "FinalizersRemaining", message);
    Some(verdict.failure(FailureClass::Deletion, false))
}

/// The names of what holds the object.
struct Finalizers<'c, 'o, 'a> {
    context: &'c Context<'o, 'a>,
    is_namespace: bool,
}

impl<'a> Finalizers<'_, '_, 'a> {
    fn iter(&self) -> impl Iterator<Item = Node<'a>> {
        // A Namespace has a second list, `spec.finalizers`, which the namespace controller empties.
        let of_namespace = self.is_namespace.then(|| self.context.list(Field::SpecFinalizers));
        let all = self.context.list(Field::Finalizers).chain(of_namespace.into_iter().flatten());
        all.filter(|finalizer| finalizer.kind() == Kind::String)
    }
}

impl fmt::Display for Finalizers<'_, '_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, finalizer) in self.iter().enumerate() {
            write!(f, "{}{}", if i > 0 { ", " } else { "" }, Shown(finalizer))?;
        }
        Ok(())
    }
}

/// Remaining content by the conditions of a Namespace, with the reason of the first condition.
fn namespace(context: &Context<'_, '_>, elapsed: Option<SignedDuration>) -> Option<Verdict> {
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
    let message = text!("being deleted{}: {what}", Elapsed(elapsed));
    let verdict = Verdict::new(Status::Terminating, Basis::Deletion, reason, message);
    Some(verdict.failure(FailureClass::Deletion, false))
}

/// ` for 5m`, or what is left of the grace period: a Pod's deletion time is its end, which may lie ahead.
struct Elapsed(Option<SignedDuration>);

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(elapsed) if elapsed.is_negative() => write!(f, ", {} of grace left", human(-elapsed)),
            Some(elapsed) => write!(f, " for {}", human(elapsed)),
            None => Ok(()),
        }
    }
}

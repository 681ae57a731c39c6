//! Objects that stand still by choice: paused, suspended, disabled, or asked for zero replicas.

use std::borrow::Cow;

use super::context::{Context, whole_number};
use super::phases::sense_of;
use super::vocabulary::Sense;
use crate::fields::{Field, Parent};
use crate::node::Node;
use crate::reason;
use crate::verdict::{Basis, Status, Verdict};

/// How an object is asked to stand still.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// The controller leaves it alone, and observes no changes: `spec.paused`.
    Paused,
    /// The controller takes down what there is: `spec.enabled: false`.
    Off,
}

/// The verdict on an object that is asked to stand still.
pub(super) struct Suspension<'a> {
    pub(super) asked: Asked,
    /// What holds the key, with what separates them.
    parent: &'static str,
    key: Cow<'a, str>,
    value: Cow<'a, str>,
}

impl<'a> Suspension<'a> {
    /// What the spec and the annotations ask for.
    pub(super) fn of(context: &Context<'_, 'a>) -> Option<Self> {
        let annotations = context.object.get(Field::Annotations);
        let annotated = annotations.into_iter().flat_map(Node::entries).find_map(|(key, value)| {
            if !value.is("true") && !value.is("") {
                return None;
            }
            let (key, value) = (key.text(), value.as_str()?);
            let name = key.rsplit('/').next()?;
            PAUSING_ANNOTATIONS.contains(&name).then_some(Self {
                asked: Asked::Paused,
                parent: "annotation ",
                key,
                value,
            })
        });
        annotated.or_else(|| Self::of_spec(context))
    }

    fn of_spec(context: &Context<'_, 'a>) -> Option<Self> {
        let mut off = None;
        for (key, value) in context.object.members(Parent::Spec, Field::Paused.bit() | Field::Suspend.bit()) {
            let asked = match value.as_bool() {
                Some(true) => {
                    let asked = |keys: &[&str], asked| keys.iter().any(|word| key.is(word)).then_some(asked);
                    asked(PAUSING_KEYS, Asked::Paused).or_else(|| asked(DISABLING_KEYS, Asked::Off))
                }
                Some(false) => key.is("enabled").then_some(Asked::Off),
                None if value.is_string() && STATE_KEYS.iter().any(|word| key.is(word)) => {
                    matches!(sense_of(value), Some((_, Sense::Still))).then_some(Asked::Off)
                }
                None => None,
            };
            let Some(asked) = asked else { continue };
            let is_true = || Cow::Borrowed(if value.as_bool() == Some(true) { "true" } else { "false" });
            let value = value.as_str().unwrap_or_else(is_true);
            let found = Self { asked, parent: "spec.", key: key.text(), value };
            if asked == Asked::Paused {
                return Some(found);
            }
            off.get_or_insert(found);
        }
        off.or_else(|| Self::of_zero(context))
    }

    /// Nothing is wanted, and nothing is there.
    fn of_zero(context: &Context<'_, 'a>) -> Option<Self> {
        let count = |field| context.object.get(field).map(|node| whole_number(node).unwrap_or(-1));
        let is_zero = |field| count(field).is_none_or(|count| count == 0);
        let is_empty =
            is_zero(Field::Replicas) && is_zero(Field::ReadyReplicas) && is_zero(Field::AvailableReplicas);
        (count(Field::SpecReplicas) == Some(0) && is_empty).then(|| Self {
            asked: Asked::Off,
            parent: "spec.",
            key: "replicas".into(),
            value: "0".into(),
        })
    }

    pub(super) fn verdict(&self) -> Verdict {
        let value = if self.value.is_empty() { "set" } else { &self.value };
        let message = [self.parent, &self.key, " is ", value].concat();
        Verdict::new(Status::Current, Basis::PhaseWord, reason::SUSPENDED, message)
    }
}

/// Booleans of a spec that stop reconciliation.
const PAUSING_KEYS: &[&str] = &["hibernate", "hibernated", "pause", "paused", "suspend", "suspended"];
/// Booleans of a spec that switch the object off.
const DISABLING_KEYS: &[&str] = &["disabled", "stop", "stopped"];
/// Words of a spec that say in which state the object is wanted.
const STATE_KEYS: &[&str] = &["desiredState", "managementState", "powerState", "state"];
/// Annotations that stop reconciliation, without the prefix of the controller.
const PAUSING_ANNOTATIONS: &[&str] = &[
    "pause",
    "paused",
    "pause-reconciliation",
    "reconcile-paused",
    "reconciliation-paused",
    "suspend",
    "suspended",
];

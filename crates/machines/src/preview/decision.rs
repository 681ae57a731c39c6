//! Decisions of a preview: what becomes of each Machine, and of each object.

use std::fmt;

use crate::inventory::Id;
use crate::provider::Step;

/// What becomes of a Machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Decision {
    /// It, or its host, is created.
    Create,
    /// Nothing.
    NoOp,
    /// It is updated on its running host.
    InPlace {
        /// The steps.
        steps: Vec<Step>,
        /// Whether its Node is drained before.
        disruptive: bool,
    },
    /// It gets another host.
    Replace,
    /// It stays as it is, and is reported as stalled.
    Unsupported,
    /// It is deleted.
    Delete,
}

impl Decision {
    /// The name in output.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Create => "Create",
            Self::NoOp => "NoOp",
            Self::InPlace { .. } => "InPlace",
            Self::Replace => "Replace",
            Self::Unsupported => "Unsupported",
            Self::Delete => "Delete",
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

/// The decision on one Machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MachineDecision {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// What it is of: a MachineDeployment or a MachineSet.
    pub group: Option<Id>,
    /// The decision.
    pub decision: Decision,
    /// Why.
    pub reason: String,
}

/// What becomes of an object of the API by an apply.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ObjectChange {
    /// The object.
    pub id: Id,
    /// What happens to it.
    pub action: Change,
    /// Fields of its spec that change, with dots.
    pub fields: Vec<String>,
}

/// How an object changes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    /// It is created.
    Created,
    /// It is changed.
    Configured,
    /// It stays as it is.
    Unchanged,
    /// It is deleted.
    Deleted,
}

impl Change {
    /// The name in output, as kubectl prints it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Configured => "configured",
            Self::Unchanged => "unchanged",
            Self::Deleted => "deleted",
        }
    }
}

/// A plan: a decision for each Machine.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Preview {
    /// Objects of the API.
    pub objects: Vec<ObjectChange>,
    /// Machines, by namespace and name.
    pub machines: Vec<MachineDecision>,
}

impl Preview {
    /// How many Machines have a decision.
    #[must_use]
    pub fn count(&self, name: &str) -> usize {
        self.machines.iter().filter(|machine| machine.decision.as_str() == name).count()
    }

    /// Whether nothing happens to any object or Machine.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.iter().all(|object| object.action == Change::Unchanged)
            && self.machines.iter().all(|machine| machine.decision == Decision::NoOp)
    }
}

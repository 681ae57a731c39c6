//! Preview: what an apply makes of each Machine, before anything is touched. Pure: the plans are those of the providers.

mod file;
mod groups;
mod machines;

use std::fmt;

use crate::inventory::{Id, Inventory, Kind, Malformed};
use crate::provider::{Registry, Step};
use crate::types::{Cluster, Machine, MachineClass, MachineDeployment, MachineSet};

pub use file::{Changed, InvalidPlanFile, PlanFile};

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

/// The objects of a world, as their types.
pub(crate) struct World {
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) classes: Vec<MachineClass>,
    pub(crate) deployments: Vec<MachineDeployment>,
    pub(crate) sets: Vec<MachineSet>,
    pub(crate) machines: Vec<Machine>,
}

impl World {
    fn new(inventory: &Inventory) -> Result<Self, Malformed> {
        Ok(Self {
            clusters: inventory.typed(Kind::Cluster)?,
            classes: inventory.typed(Kind::MachineClass)?,
            deployments: inventory.typed(Kind::MachineDeployment)?,
            sets: inventory.typed(Kind::MachineSet)?,
            machines: inventory.typed(Kind::Machine)?,
        })
    }
}

/// Plans what becomes of each Machine when the objects of `before` have become those of `after`.
///
/// # Errors
/// An object is not of its type.
pub fn preview(before: &Inventory, after: &Inventory, registry: &Registry) -> Result<Preview, Malformed> {
    let world = World::new(after)?;
    let mut machines = groups::decide(before, &world, registry);
    let gone = before.of_kind(Kind::Machine).filter(|(id, _)| after.get(id).is_none());
    machines.extend(gone.map(|(id, _)| MachineDecision {
        namespace: id.namespace.clone(),
        name: id.name.clone(),
        group: None,
        decision: Decision::Delete,
        reason: "the Machine is deleted".to_owned(),
    }));
    machines.sort_by(|one, other| {
        (&one.namespace, natural(&one.name)).cmp(&(&other.namespace, natural(&other.name)))
    });
    Ok(Preview { objects: changes(before, after), machines })
}

/// A name with the number at its end apart, so that `web-10` is after `web-9`.
fn natural(name: &str) -> (&str, u64, &str) {
    match name.rsplit_once('-') {
        Some((stem, number)) if number.len() < 19 => match number.parse() {
            Ok(parsed) => (stem, parsed, name),
            Err(_) => (name, 0, name),
        },
        _ => (name, 0, name),
    }
}

fn changes(before: &Inventory, after: &Inventory) -> Vec<ObjectChange> {
    let mut changes = Vec::new();
    for (id, object) in after.iter() {
        let (action, fields) = match before.get(id) {
            None => (Change::Created, Vec::new()),
            Some(old) => {
                let mut fields = Vec::new();
                for part in ["spec", "metadata"] {
                    let pick = |object: &serde_json::Value| match part {
                        "spec" => object["spec"].clone(),
                        _ => {
                            serde_json::json!({"labels": object["metadata"]["labels"], "annotations": object["metadata"]["annotations"]})
                        }
                    };
                    if old.get(part) != object.get(part) {
                        differing(part, &pick(old), &pick(object), &mut fields);
                    }
                }
                (if fields.is_empty() { Change::Unchanged } else { Change::Configured }, fields)
            }
        };
        changes.push(ObjectChange { id: id.clone(), action, fields });
    }
    let gone = before.iter().filter(|(id, _)| after.get(id).is_none());
    changes.extend(gone.map(|(id, _)| ObjectChange {
        id: id.clone(),
        action: Change::Deleted,
        fields: Vec::new(),
    }));
    changes
}

/// Paths at which two values differ, with dots.
fn differing(path: &str, old: &serde_json::Value, new: &serde_json::Value, fields: &mut Vec<String>) {
    use serde_json::Value;
    if old == new {
        return;
    }
    match (old, new) {
        (Value::Object(one), Value::Object(other)) => {
            let names: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for name in names {
                let value =
                    |members: &serde_json::Map<String, Value>| members.get(name).cloned().unwrap_or_default();
                differing(&format!("{path}.{name}"), &value(one), &value(other), fields);
            }
        }
        _ => fields.push(path.to_owned()),
    }
}

//! Plan files: a plan with the objects that it applies, and what it was made for, so that a changed world is noticed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Decision, Preview};
use crate::inventory::{Id, Inventory, Kind, text};

/// Type of a plan file.
const API_VERSION: &str = "settled.dev/v1alpha1";
const KIND: &str = "ClusterPlan";

/// A plan that is applied later.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanFile {
    api_version: String,
    kind: String,
    /// Namespace of objects that name none.
    pub namespace: String,
    /// The objects that are applied.
    pub objects: Vec<Value>,
    /// What was there, by object.
    world: BTreeMap<String, State>,
    /// The decisions, by Machine.
    decisions: BTreeMap<String, String>,
}

/// What a plan depends on of an object: not the times of heartbeats.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct State {
    uid: String,
    generation: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    running: Option<Value>,
}

/// What has changed since a plan was made.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Changed {
    /// The object or the Machine.
    pub object: String,
    /// How.
    pub change: String,
}

/// A file that is no plan.
#[derive(Debug, thiserror::Error)]
pub enum InvalidPlanFile {
    /// It is malformed.
    #[error(transparent)]
    Malformed(#[from] serde_json::Error),
    /// It is something else.
    #[error("it is not a {KIND} of {API_VERSION}")]
    OtherKind,
}

impl PlanFile {
    /// The file of a plan.
    #[must_use]
    pub fn new(before: &Inventory, objects: Vec<Value>, preview: &Preview, namespace: &str) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            namespace: namespace.to_owned(),
            objects,
            world: world(before),
            decisions: decisions(preview),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// It is no plan.
    pub fn parse(bytes: &[u8]) -> Result<Self, InvalidPlanFile> {
        let value: Value = serde_json::from_slice(bytes)?;
        if text(&value, "/apiVersion") != API_VERSION || text(&value, "/kind") != KIND {
            return Err(InvalidPlanFile::OtherKind);
        }
        Ok(serde_json::from_value(value)?)
    }

    /// What differs between the world that the plan was made for and this one, and between its decisions and those of now.
    #[must_use]
    pub fn changes(&self, now: &Inventory, preview: &Preview) -> Vec<Changed> {
        let mut changes = Vec::new();
        let present = world(now);
        for (object, state) in &self.world {
            let change = match present.get(object) {
                None => "is gone".to_owned(),
                Some(other) if other.uid != state.uid => "was deleted and created again".to_owned(),
                Some(other) if other.generation != state.generation => {
                    format!("was changed: generation {} is {} now", state.generation, other.generation)
                }
                Some(other) if other.running != state.running => "runs something else".to_owned(),
                Some(_) => continue,
            };
            changes.push(Changed { object: object.clone(), change });
        }
        let new = present.keys().filter(|object| !self.world.contains_key(*object));
        changes.extend(new.map(|object| Changed { object: object.clone(), change: "is new".to_owned() }));
        let planned = decisions(preview);
        for (machine, decision) in &self.decisions {
            let name = format!("Machine {machine}");
            match planned.get(machine) {
                Some(other) if other != decision => {
                    let change = format!("was planned as {decision}, and is {other} now");
                    changes.push(Changed { object: name, change });
                }
                _ => {}
            }
        }
        changes
    }
}

fn world(inventory: &Inventory) -> BTreeMap<String, State> {
    let state = |(id, object): (&Id, &Value)| {
        let running = (id.kind == Kind::Machine).then(|| {
            json!({
                "providerID": object.pointer("/status/providerID"),
                "versions": object.pointer("/status/versions"),
                "facts": object.pointer("/status/providerStatus/facts"),
                "deleting": object.pointer("/metadata/deletionTimestamp").is_some(),
            })
        });
        let state = State {
            uid: text(object, "/metadata/uid").to_owned(),
            generation: object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default(),
            running,
        };
        (format!("{} {}/{}", id.kind, id.namespace, id.name), state)
    };
    inventory.iter().map(state).collect()
}

fn decisions(preview: &Preview) -> BTreeMap<String, String> {
    let decision = |decision: &Decision, reason: &str| match decision {
        Decision::InPlace { disruptive, .. } => format!("InPlace ({reason}, disruptive: {disruptive})"),
        other => other.to_string(),
    };
    let machines = preview.machines.iter();
    machines
        .map(|machine| {
            (format!("{}/{}", machine.namespace, machine.name), decision(&machine.decision, &machine.reason))
        })
        .collect()
}

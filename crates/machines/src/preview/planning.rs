//! Planning of a preview: decisions on Machines, and changes of objects with their fields.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::decision::{Change, Decision, MachineDecision, ObjectChange, Preview};
use super::groups;
use super::world::World;
use crate::inventory::{Inventory, Kind, Malformed};
use crate::provider::Registry;

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
            // A clone shares what was not changed.
            Some(old) if std::ptr::eq(old, object) => (Change::Unchanged, Vec::new()),
            Some(old) => {
                let mut fields = Vec::new();
                for part in ["spec", "metadata"] {
                    let pick = |object: &Value| match part {
                        "spec" => object["spec"].clone(),
                        _ => {
                            json!({"labels": object["metadata"]["labels"], "annotations": object["metadata"]["annotations"]})
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
fn differing(path: &str, old: &Value, new: &Value, fields: &mut Vec<String>) {
    if old == new {
        return;
    }
    match (old, new) {
        (Value::Object(one), Value::Object(other)) => {
            let names: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for name in names {
                let value = |members: &Map<String, Value>| members.get(name).cloned().unwrap_or_default();
                differing(&format!("{path}.{name}"), &value(one), &value(other), fields);
            }
        }
        _ => fields.push(path.to_owned()),
    }
}

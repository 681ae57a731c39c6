//! Synchronization: what is changed in the second cluster so that it declares what the first one does, in the agnostic part alone.

use serde_json::{Map, Value, json};

use super::difference::{Comparison, Difference, Part};
use super::normalize::{CLUSTER, Normalized, Role};
use crate::inventory::{Id, Kind};
use crate::types::{GROUP, VERSION};

/// Why a difference stays.
#[derive(Clone, Debug, PartialEq)]
pub struct Unsynced {
    /// The difference.
    pub difference: Difference,
    /// Why it stays.
    pub reason: &'static str,
}

/// A change of one object of the second cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct SyncStep {
    /// Its role.
    pub role: Role,
    /// The object.
    pub id: Id,
    /// Where it changes.
    pub paths: Vec<String>,
    /// The merge patch (RFC 7386).
    pub patch: Value,
}

/// What is done to synchronize two clusters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncPlan {
    /// Changes of objects that both have.
    pub steps: Vec<SyncStep>,
    /// Objects that are created.
    pub created: Vec<Value>,
    /// Agnostic differences that stay.
    pub unsynced: Vec<Unsynced>,
}

/// Plans how the second cluster gets the agnostic part of the first.
#[must_use]
pub fn plan_sync(comparison: &Comparison, a: &Normalized, b: &Normalized) -> SyncPlan {
    let mut plan = SyncPlan::default();
    let names = Names { cluster: b.cluster.as_deref() };
    for difference in comparison.of_part(Part::Agnostic) {
        let stays = |reason| Unsynced { difference: difference.clone(), reason };
        let role = &difference.role;
        let Some(entry) = b.entries.get(role) else {
            if role.kind == Kind::MachineHealthCheck
                && let Some(value) = &difference.a
            {
                plan.created.push(create(role, value, a, b, &names));
            } else {
                plan.unsynced.push(stays(
                    "the second cluster has no such object, and its provider configuration cannot be derived",
                ));
            }
            continue;
        };
        if difference.path.is_empty() {
            plan.unsynced.push(stays(
                "the first cluster has no such object: delete it from the second, if it is not wanted",
            ));
            continue;
        }
        if difference.path.starts_with("/spec/selector") && role.kind != Kind::MachineHealthCheck {
            plan.unsynced.push(stays("the selector is immutable: create the group anew"));
            continue;
        }
        let index = match plan.steps.iter().position(|step| step.role == *role) {
            Some(index) => index,
            None => {
                let step = SyncStep {
                    role: role.clone(),
                    id: entry.id.clone(),
                    paths: Vec::new(),
                    patch: json!({}),
                };
                plan.steps.push(step);
                plan.steps.len() - 1
            }
        };
        let step = &mut plan.steps[index];
        step.paths.push(difference.path.clone());
        let wanted = difference.a.as_ref().map(|value| names.concrete(value));
        set(&mut step.patch, &tokens(&difference.path), wanted, difference.b.as_ref());
    }
    plan
}

fn create(role: &Role, value: &Value, a: &Normalized, b: &Normalized, names: &Names<'_>) -> Value {
    let mut object = names.concrete(value);
    let name = match (role.name.as_str(), &b.cluster) {
        (CLUSTER, Some(cluster)) => cluster.clone(),
        // It was called after its cluster.
        (name, Some(cluster)) if a.entries.get(role).is_some_and(|entry| entry.id.name != name) => {
            format!("{cluster}-{name}")
        }
        (name, _) => name.to_owned(),
    };
    let namespace = b.entries.values().next().map_or("default", |entry| entry.id.namespace.as_str());
    object["apiVersion"] = format!("{GROUP}/{VERSION}").into();
    object["kind"] = role.kind.as_str().into();
    object["metadata"]["name"] = name.into();
    object["metadata"]["namespace"] = namespace.into();
    object
}

/// The name of the second cluster, in place of its sign.
struct Names<'n> {
    cluster: Option<&'n str>,
}

impl Names<'_> {
    fn concrete(&self, value: &Value) -> Value {
        let Some(cluster) = self.cluster else { return value.clone() };
        match value {
            Value::String(text) => Value::String(text.replace(CLUSTER, cluster)),
            Value::Array(items) => items.iter().map(|item| self.concrete(item)).collect(),
            Value::Object(members) => {
                let members = members.iter().map(|(name, value)| (name.clone(), self.concrete(value)));
                Value::Object(members.collect())
            }
            other => other.clone(),
        }
    }
}

fn tokens(path: &str) -> Vec<String> {
    path.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect()
}

/// Sets a value in a merge patch; of one that is to go, each member that the second cluster's normal form has: there may be others, which
/// controllers own.
fn set(patch: &mut Value, path: &[String], wanted: Option<Value>, present: Option<&Value>) {
    let Some((first, rest)) = path.split_first() else {
        *patch = match (wanted, present) {
            (Some(value), _) => value,
            (None, Some(Value::Object(members))) => nulls(members),
            (None, _) => Value::Null,
        };
        return;
    };
    if !patch.is_object() {
        *patch = json!({});
    }
    set(&mut patch[first.as_str()], rest, wanted, present);
}

fn nulls(members: &Map<String, Value>) -> Value {
    let member = |(name, value): (&String, &Value)| {
        let gone = match value {
            Value::Object(members) => nulls(members),
            _ => Value::Null,
        };
        (name.clone(), gone)
    };
    Value::Object(members.iter().map(member).collect())
}

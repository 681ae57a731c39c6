//! Outcome of an idle run, normalized: without UIDs, times, versions and generated names, which differ between runs.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cluster::{Cluster, generation, text};
use crate::edits::TOUCHED;
use crate::world::Effect;

/// Fields of `metadata` that differ between runs.
const METADATA: [&str; 6] =
    ["uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink"];

/// Final state of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    objects: BTreeMap<String, Value>,
    effects: BTreeSet<String>,
}

/// Replacements of texts.
struct Names {
    /// Anywhere in a text.
    parts: Vec<(String, String)>,
    /// Whole texts.
    wholes: BTreeMap<String, String>,
}

impl Names {
    fn of(cluster: &Cluster, effects: &[Effect]) -> Self {
        let mut parts: Vec<(String, String)> = Vec::new();
        for (_, object) in cluster.objects() {
            let (name, prefix) = (text(object, "/metadata/name"), text(object, "/metadata/generateName"));
            if !prefix.is_empty() {
                parts.push((name.to_owned(), format!("{prefix}*")));
            }
        }
        for (uid, _) in cluster.uids() {
            parts.push((uid.clone(), format!("<UID of {}>", cluster.owner(uid))));
        }
        let wholes = effects.iter().map(|effect| {
            (effect.id.clone(), format!("<{} of {}>", effect.purpose, cluster.owner(&effect.owner)))
        });
        Self { wholes: wholes.collect(), parts }
    }

    fn replace(&self, text: &str) -> Option<String> {
        if let Some(name) = self.wholes.get(text) {
            return Some(name.clone());
        }
        let may_be_time =
            text.starts_with(|first: char| first.is_ascii_digit() || "+-\u{2212}".contains(first));
        if may_be_time && text.parse::<jiff::Timestamp>().is_ok() {
            return Some("<time>".to_owned());
        }
        let mut replaced: Option<String> = None;
        for (part, name) in &self.parts {
            let present = replaced.as_deref().unwrap_or(text);
            if present.contains(part.as_str()) {
                replaced = Some(present.replace(part, name));
            }
        }
        replaced
    }
}

impl Outcome {
    pub(crate) fn new(cluster: &Cluster, effects: &[Effect], ignored: &[String]) -> Self {
        let names = Names::of(cluster, effects);
        let mut objects = BTreeMap::new();
        for (key, object) in cluster.objects().filter(|(key, _)| !key.is_exempt()) {
            let mut plain = copy(object);
            for pointer in ignored {
                remove(&mut plain, pointer);
            }
            if let Some(metadata) = plain.get_mut("metadata").and_then(Value::as_object_mut)
                && let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut)
            {
                annotations.remove(TOUCHED);
                if annotations.is_empty() {
                    metadata.remove("annotations");
                }
            }
            clean(&mut plain, &names, generation(object));
            let key = key.to_string();
            let mut name = names.replace(&key).unwrap_or(key);
            // Generated names: as many as there are.
            while objects.contains_key(&name) {
                name.push('\'');
            }
            objects.insert(name, plain);
        }
        let effect = |effect: &Effect| format!("{} of {}", effect.purpose, cluster.owner(&effect.owner));
        Self { objects, effects: effects.iter().map(effect).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.effects.is_empty()
    }

    /// The first difference from the expected outcome.
    pub(crate) fn difference(&self, expected: &Self) -> Option<String> {
        for (name, object) in &expected.objects {
            let Some(found) = self.objects.get(name) else { return Some(format!("{name} is missing")) };
            if let Some(difference) = difference(found, object, "") {
                return Some(format!("{name}: {difference}"));
            }
        }
        if let Some(name) = self.objects.keys().find(|name| !expected.objects.contains_key(*name)) {
            return Some(format!("{name} is there, and would not be without faults"));
        }
        if let Some(effect) = expected.effects.difference(&self.effects).next() {
            return Some(format!("outside of the cluster, {effect} is missing"));
        }
        let more = self.effects.difference(&expected.effects).next();
        more.map(|effect| {
            format!("outside of the cluster, {effect} is there, and would not be without faults")
        })
    }
}

/// A copy without the fields of `metadata` that differ between runs: most of an object is its managedFields.
fn copy(object: &Value) -> Value {
    let Value::Object(members) = object else { return object.clone() };
    let copied = members.iter().map(|(name, value)| match (name.as_str(), value) {
        ("metadata", Value::Object(metadata)) => {
            let kept = metadata.iter().filter(|(field, _)| !METADATA.contains(&field.as_str()));
            let kept = kept.map(|(field, value)| (field.clone(), value.clone()));
            (name.clone(), Value::Object(kept.collect()))
        }
        _ => (name.clone(), value.clone()),
    });
    Value::Object(copied.collect())
}

fn remove(object: &mut Value, pointer: &str) {
    let Some((parent, field)) = pointer.rsplit_once('/') else { return };
    if let Some(Value::Object(map)) = object.pointer_mut(parent) {
        map.remove(field);
    }
}

fn clean(value: &mut Value, names: &Names, generation: Option<i64>) {
    match value {
        Value::String(text) => {
            if let Some(replaced) = names.replace(text) {
                *text = replaced;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| clean(item, names, generation)),
        Value::Object(map) => {
            for (name, value) in map {
                match (name.as_str(), value.as_i64()) {
                    ("observedGeneration", Some(observed)) => {
                        let behind = generation.unwrap_or_default() - observed;
                        *value = Value::from(format!("<{behind} behind>"));
                    }
                    ("resourceVersion", _) if value.is_string() => *value = Value::from("<version>"),
                    _ => clean(value, names, generation),
                }
            }
        }
        _ => {}
    }
}

fn difference(found: &Value, expected: &Value, path: &str) -> Option<String> {
    if found == expected {
        return None;
    }
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            let names: BTreeSet<&String> = found.keys().chain(expected.keys()).collect();
            names.into_iter().find_map(|name| {
                let (found, expected) = (found.get(name), expected.get(name));
                difference(
                    found.unwrap_or(&Value::Null),
                    expected.unwrap_or(&Value::Null),
                    &format!("{path}.{name}"),
                )
            })
        }
        (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => {
            let mut pairs = found.iter().zip(expected).enumerate();
            pairs.find_map(|(index, (found, expected))| {
                difference(found, expected, &format!("{path}[{index}]"))
            })
        }
        _ => Some(format!("{path} is {found}, and would be {expected} without faults")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster(objects: &[Value]) -> Cluster {
        let mut cluster = Cluster::default();
        for object in objects {
            cluster.insert("things", object.clone());
        }
        cluster
    }

    #[test]
    fn what_differs_between_runs_does_not_count() {
        let run = |uid: &str, time: &str, generation: i64, name: &str, id: &str| {
            let owner = json!({
                "kind": "Thing", "metadata": {"name": "a", "uid": uid, "generation": generation, "creationTimestamp": time},
                "status": {"observedGeneration": generation, "since": time, "address": id},
            });
            let child = json!({
                "kind": "Thing",
                "metadata": {"name": name, "generateName": "a-", "uid": format!("{uid}-child"), "labels": {"of": format!("x-{uid}")}},
            });
            let effects = [Effect::new(id, uid, "address")];
            Outcome::new(&cluster(&[owner, child]), &effects, &[])
        };
        let one = run("11", "2026-01-01T00:00:00Z", 1, "a-x7b2q", "10.0.0.1");
        let other = run("22", "2026-02-01T00:00:00Z", 4, "a-k2w8s", "10.0.0.9");
        assert_eq!(one.difference(&other), None, "{one:?} {other:?}");
    }

    #[test]
    fn other_differences_count() {
        let thing = |text: &str| json!({"kind": "Thing", "metadata": {"name": "a", "uid": "1"}, "spec": {"items": [{"text": text}]}});
        let outcome = |objects: &[Value]| Outcome::new(&cluster(objects), &[], &["/spec/ignored".to_owned()]);
        let (one, other, none) = (outcome(&[thing("x")]), outcome(&[thing("y")]), outcome(&[]));
        let of = |found: &Outcome, expected: &Outcome| found.difference(expected).unwrap_or_default();
        assert_eq!(
            of(&one, &other),
            r#"things a: .spec.items[0].text is "x", and would be "y" without faults"#
        );
        assert_eq!(of(&none, &one), "things a is missing");
        assert_eq!(of(&one, &none), "things a is there, and would not be without faults");
        let mut ignored = thing("x");
        ignored["spec"]["ignored"] = json!(1);
        assert_eq!(outcome(&[ignored]).difference(&one), None);
    }
}

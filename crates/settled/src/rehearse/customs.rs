//! Controllers of custom resources: they report what the cases of the rule pack have for objects that are done.

use std::sync::Arc;
use std::time::Duration;

use kstatus::{Object, Options, Status};
use serde_json::Value;
use settled_rehearsal::{CustomResources, CustomStep, Customs, Scenario};
use settled_rules::{RuleSet, example_status};

use crate::time;

/// How long a controller takes.
const TAKES: Duration = Duration::from_secs(2);
/// Kinds that the simulation plays itself.
const GATEWAY: &str = "gateway.networking.k8s.io";

/// Statuses of the pack, for objects that they make Current.
struct OfPack(RuleSet);

/// What is reported of custom resources that the scenario does not mention.
pub(super) fn of_pack(rules: RuleSet) -> Customs {
    Customs::new(Arc::new(OfPack(rules)))
}

/// Does anybody play the controller of an object?
pub(super) fn is_played(
    api_version: &str,
    kind: &str,
    namespace: &str,
    name: &str,
    scenario: &Scenario,
) -> bool {
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    group == GATEWAY
        || example_status(group, kind).is_some()
        || scenario.resource(api_version, kind, namespace, name).is_some()
}

impl CustomResources for OfPack {
    fn steps(&self, api_version: &str, kind: &str, object: &Value) -> Option<Vec<CustomStep>> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let mut status = example_status(group, kind)?;
        let generation = object.pointer("/metadata/generation").cloned().unwrap_or_else(|| 1.into());
        observe(&mut status, &generation);
        let mut done = object.clone();
        let fields = done.as_object_mut()?;
        fields.insert("apiVersion".to_owned(), api_version.into());
        fields.insert("kind".to_owned(), kind.into());
        fields.insert("status".to_owned(), status.clone());
        let json = serde_json::to_vec(&done).ok()?;
        let verdict = self.0.verdict(&Object::parse(&json).ok()?, &Options::new(time::now()));
        // The status may be that of another spec.
        (verdict.status == Status::Current).then(|| vec![CustomStep::new(TAKES, status)])
    }
}

/// Sets all observed generations.
fn observe(status: &mut Value, generation: &Value) {
    match status {
        Value::Object(fields) => {
            for (key, value) in fields.iter_mut() {
                match key.as_str() {
                    "observedGeneration" => *value = generation.clone(),
                    _ => observe(value, generation),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| observe(item, generation)),
        _ => {}
    }
}

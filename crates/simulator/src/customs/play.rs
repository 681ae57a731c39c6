//! Statuses over time: which one is due, and its generations and times.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kube::api::DynamicObject;
use serde_json::{Map, Value};
use settled_controller::ObjectKey;

use super::step::CustomStep;
use crate::meta;

/// When the present generations of objects were seen for the first time.
#[derive(Default)]
pub(super) struct Timeline(Mutex<HashMap<ObjectKey, (String, i64, Timestamp)>>);

impl Timeline {
    /// Since when an object is as it is: since its creation, or since its generation was seen.
    pub(super) fn since(&self, key: &ObjectKey, object: &DynamicObject, now: Timestamp) -> Timestamp {
        let (uid, generation) = (meta::uid(object), object.metadata.generation.unwrap_or(1));
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, at, since)) = seen.get(key)
            && of == uid
            && *at == generation
        {
            return *since;
        }
        let created = object.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let since = created.filter(|_| generation <= 1).unwrap_or(now);
        seen.insert(key.clone(), (uid.to_owned(), generation, since));
        since
    }

    pub(super) fn forget(&self, key: &ObjectKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

/// What is due.
#[derive(Debug, PartialEq)]
pub(super) struct Played<'s> {
    pub(super) status: Option<&'s Value>,
    /// When the next status is.
    pub(super) next: Option<Duration>,
}

/// The status that is due so long after.
pub(super) fn at(steps: &[CustomStep], passed: SignedDuration) -> Played<'_> {
    let passed = Duration::try_from(passed).unwrap_or_default();
    let due = steps.iter().filter(|step| step.after <= passed).max_by_key(|step| step.after);
    let next =
        steps.iter().filter_map(|step| step.after.checked_sub(passed)).filter(|left| !left.is_zero()).min();
    Played { status: due.map(|step| &step.status), next }
}

/// A status as it is written: generations are those of the object, and conditions have the times of their changes.
pub(super) fn complete(status: &Value, before: &Value, generation: i64, now: Timestamp) -> Value {
    match status {
        Value::Object(fields) => {
            let is_condition =
                ["type", "status"].iter().all(|field| fields.get(*field).is_some_and(Value::is_string));
            let mut new = Map::new();
            for (field, value) in fields {
                let value = match field.as_str() {
                    "observedGeneration" if value.is_number() => generation.into(),
                    _ => complete(value, before.get(field).unwrap_or(&Value::Null), generation, now),
                };
                new.insert(field.clone(), value);
            }
            if is_condition {
                let is_same = before.get("status") == fields.get("status");
                let since = before.get("lastTransitionTime").filter(|_| is_same).cloned();
                let now = || serde_json::to_value(meta::time(now)).unwrap_or_default();
                new.insert("lastTransitionTime".to_owned(), since.unwrap_or_else(now));
            }
            Value::Object(new)
        }
        Value::Array(items) => {
            let of_type = |item: &Value, place: usize| {
                let list = before.as_array().map(Vec::as_slice).unwrap_or_default();
                match item.get("type").filter(|type_| type_.is_string()) {
                    Some(type_) => list.iter().find(|old| old.get("type") == Some(type_)),
                    None => list.get(place),
                }
                .unwrap_or(&Value::Null)
                .clone()
            };
            let items = items.iter().enumerate();
            Value::Array(
                items.map(|(place, item)| complete(item, &of_type(item, place), generation, now)).collect(),
            )
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_status_that_is_due_is_played() {
        let step = |seconds: u64, name: &str| CustomStep::new(Duration::from_secs(seconds), json!(name));
        let steps = [step(2, "a"), step(5, "b")];
        let at = |seconds: i64| {
            let Played { status, next } = at(&steps, SignedDuration::from_secs(seconds));
            (status.cloned(), next.map(|next| next.as_secs()))
        };
        assert_eq!(at(0), (None, Some(2)));
        assert_eq!(at(2), (Some(json!("a")), Some(3)));
        assert_eq!(at(9), (Some(json!("b")), None));
    }

    #[test]
    fn generations_and_times_are_those_of_the_object() {
        let status = json!({"observedGeneration": 7, "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]});
        let first = complete(&status, &Value::Null, 3, Timestamp::UNIX_EPOCH);
        let time = "1970-01-01T00:00:00Z";
        let expected = json!({
            "observedGeneration": 3,
            "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 3, "lastTransitionTime": time}],
        });
        assert_eq!(first, expected);
        let later = Timestamp::UNIX_EPOCH + SignedDuration::from_secs(9);
        assert_eq!(complete(&status, &first, 3, later), first);
        let other = json!({"conditions": [{"type": "Ready", "status": "False"}]});
        assert_eq!(
            complete(&other, &first, 3, later)["conditions"][0]["lastTransitionTime"],
            "1970-01-01T00:00:09Z"
        );
    }
}

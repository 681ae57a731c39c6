//! `observedGeneration`, of the status and of each condition.

use std::collections::HashMap;

use serde_json::Value;

use crate::cluster::{describe, generation, uid};

/// The newest generation of each object that the controller was given since it started.
#[derive(Debug, Default)]
pub(crate) struct Delivered(HashMap<String, i64>);

impl Delivered {
    /// The controller was given an object.
    pub(crate) fn add(&mut self, uid: &str, generation: i64) {
        match self.0.get_mut(uid) {
            Some(newest) => *newest = generation.max(*newest),
            None => {
                self.0.insert(uid.to_owned(), generation);
            }
        }
    }

    /// The controller has lost its memory.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

/// The places with an observed generation: a name for messages, and the value.
fn observed(object: &Value) -> impl Iterator<Item = (&str, i64)> {
    let status = object.get("status");
    let own = status.and_then(|status| status.get("observedGeneration")).and_then(Value::as_i64);
    let conditions = status.and_then(|status| status.get("conditions")).and_then(Value::as_array);
    let conditions = conditions.into_iter().flatten().filter_map(|condition| {
        let name = condition.get("type").and_then(Value::as_str)?;
        Some((name, condition.get("observedGeneration").and_then(Value::as_i64)?))
    });
    own.map(|own| ("status", own)).into_iter().chain(conditions)
}

/// What is wrong with the observed generations of an object that was written.
pub(super) fn check(old: Option<&Value>, new: &Value, delivered: &Delivered) -> Option<String> {
    let generation = generation(new)?;
    let object = describe(new);
    observed(new).find_map(|(place, value)| {
        if value > generation {
            return Some(format!("{object}: observedGeneration of {place} is {value}, but the generation is {generation}"));
        }
        let before = old.and_then(|old| observed(old).find(|(name, _)| *name == place)).map(|(_, before)| before);
        if let Some(before) = before.filter(|before| *before > value) {
            return Some(format!("{object}: observedGeneration of {place} went back from {before} to {value}"));
        }
        let read = delivered.0.get(uid(new)).copied().unwrap_or_default();
        (before != Some(value) && value > read).then(|| {
            format!("{object}: observedGeneration of {place} is {value}, but the newest spec that was read is of generation {read}")
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn observed_generations_grow_up_to_what_was_read() {
        let object = |generation: i64, observed: i64, ready: i64| {
            json!({"kind": "Widget", "metadata": {"name": "a", "uid": "1", "generation": generation}, "status": {
                "observedGeneration": observed, "conditions": [{"type": "Ready", "observedGeneration": ready}]}})
        };
        let mut delivered = Delivered::default();
        delivered.add("1", 3);
        delivered.add("1", 2);
        let fine = |old: &Value, new: &Value| check(Some(old), new, &delivered).is_none();
        assert!(fine(&object(2, 1, 1), &object(3, 3, 2)));
        assert!(!fine(&object(2, 2, 2), &object(2, 1, 2)), "back");
        assert!(!fine(&object(2, 2, 2), &object(2, 2, 1)), "a condition back");
        assert!(!fine(&object(2, 2, 2), &object(2, 3, 2)), "ahead");
        assert!(!fine(&object(4, 3, 3), &object(4, 4, 3)), "not read");
        assert!(fine(&object(4, 4, 4), &object(5, 4, 4)), "as it was before a restart");
        delivered.clear();
        assert!(check(None, &object(1, 1, 1), &delivered).is_some());
    }
}

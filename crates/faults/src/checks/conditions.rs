//! Transition times of conditions (`meta.SetStatusCondition` upstream).

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::cluster::describe;

/// Times in objects have no fractions of seconds.
const PRECISION: SignedDuration = SignedDuration::from_secs(1);

fn conditions(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(condition: &'a Value, name: &str) -> &'a str {
    condition.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// What is wrong with the transition times of an object that was written.
pub(super) fn check(old: Option<&Value>, new: &Value, now: Timestamp) -> Option<String> {
    let old = old?;
    conditions(new).find_map(|condition| {
        let name = text(condition, "type");
        let before = conditions(old).find(|before| text(before, "type") == name)?;
        let (then, time) = (text(before, "lastTransitionTime"), text(condition, "lastTransitionTime"));
        let (from, to) = (text(before, "status"), text(condition, "status"));
        let object = describe(new);
        if from == to {
            return (then != time).then(|| {
                format!("{object}: lastTransitionTime of {name} went from {then} to {time}, but the status stayed {to}")
            });
        }
        // Within the precision, two transitions have the same time.
        let recent = then.parse::<Timestamp>().is_ok_and(|then| now.duration_since(then) <= PRECISION);
        (then == time && !recent)
            .then(|| format!("{object}: {name} went from {from} to {to}, but lastTransitionTime stayed {time}"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_change_when_the_status_does() {
        let object = |status: &str, time: &str| {
            json!({"kind": "Widget", "metadata": {"name": "a"},
                "status": {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": time}]}})
        };
        let now: Timestamp = "2026-01-01T00:00:10Z".parse().unwrap();
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:10Z");
        let cases = [
            (("True", early), ("True", early), true),
            (("True", early), ("True", late), false),
            (("True", early), ("False", late), true),
            (("True", early), ("False", early), false),
            (("True", late), ("False", late), true),
        ];
        for (old, new, fine) in cases {
            let found = check(Some(&object(old.0, old.1)), &object(new.0, new.1), now);
            assert_eq!(found.is_none(), fine, "{old:?} {new:?}: {found:?}");
        }
        assert_eq!(check(None, &object("True", late), now), None);
    }
}

//! Any text as `--for`, on any object: no panic, and an end in time; what the bytes of an object meet, so does its tree.
//!
//! The first line is the condition, the rest the object.
#![no_main]

use std::sync::LazyLock;

use jiff::Timestamp;
use kstatus::{Object, Options, Verdict, compute};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use settled_tracker::WaitCondition;

static OPTIONS: LazyLock<Options> = LazyLock::new(|| Options::new(Timestamp::UNIX_EPOCH));

const OBJECT: &str = r#"{"kind": "Widget", "metadata": {"name": "a", "generation": 2}, "status": {"observedGeneration": 1,
    "phase": "Up", "n": 1.5, "list": [1, "b", {"type": "c"}], "conditions": [{"type": "Ready", "status": "True"},
    {"type": "Done", "status": "False", "observedGeneration": 2}]}}"#;

fuzz_target!(|input: &str| {
    let (text, json) = input.split_once('\n').unwrap_or((input, OBJECT));
    let wanted: WaitCondition = match text.parse() {
        Ok(wanted) => wanted,
        Err(error) => {
            assert!(error.column <= text.chars().count() + 1 && !error.message.is_empty());
            return;
        }
    };
    let met = |object: Option<&Object<'_>>, verdict: &Verdict| wanted.evaluate(object, verdict, OPTIONS.now);
    let verdict = compute(json.as_bytes(), &OPTIONS);
    let _absent = met(None, &verdict);
    let Ok(object) = Object::parse(json.as_bytes()) else { return };
    let by_bytes = met(Some(&object), &verdict);
    // What a tree keeps of a key that is there twice, or of a deep one, is another object.
    let Ok(tree) = serde_json::from_str::<Value>(json) else { return };
    if (json == OBJECT || tree.to_string().len() == json.len())
        && let Ok(object) = Object::from_value(&tree)
    {
        assert_eq!(by_bytes.is_met(), met(Some(&object), &verdict).is_met());
    }
});

//! Any bytes, as a stream of manifests: no panic, no waste of memory; what comes out of YAML is JSON, and writing it
//! as YAML and reading that gives the same JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use settled_manifest::{Batch, Item, Limits, Scratch, Splitter, minify, write_yaml, yaml_to_json};

/// Numbers are compared by their value: a float without fraction is read as an integer.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (left.as_i128(), right.as_i128()) {
            (Some(left), Some(right)) => left == right,
            // serde_json reads floats of many digits only nearly right.
            _ => match (left.as_f64(), right.as_f64()) {
                (Some(left), Some(right)) => (left - right).abs() <= left.abs() * 1e-14,
                _ => false,
            },
        },
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| same(left, right)))
        }
        _ => left == right,
    }
}

fn check_object(json: &[u8], from_yaml: bool) {
    let Ok(value) = serde_json::from_slice::<Value>(json) else {
        // The reader leaves the checking of JSON to whoever parses it; and serde_json refuses deep nesting and
        // numbers beyond its floats.
        let text = String::from_utf8_lossy(json);
        let refused =
            serde_json::from_slice::<Value>(json).err().map(|error| error.to_string()).unwrap_or_default();
        let known = refused.contains("recursion limit") || refused.contains("number out of range");
        assert!(!from_yaml || known, "{text}: {refused}");
        return;
    };
    let mut compact = Vec::new();
    minify(json, &mut compact);
    assert_eq!(serde_json::from_slice::<Value>(&compact).ok().as_ref(), Some(&value));
    let mut yaml = Vec::new();
    write_yaml(json, &mut yaml).expect("what serde_json reads is JSON");
    let mut again = Vec::new();
    let text = String::from_utf8_lossy(&yaml);
    match yaml_to_json(&yaml, &mut again) {
        Ok(()) => {}
        // Go's dialect has no key twice; JSON has.
        Err(error) if error.message.contains("already set") => return,
        Err(error) => panic!("{text}: {error}"),
    }
    let again: Value = serde_json::from_slice(&again).expect("our YAML gives JSON");
    assert!(same(&value, &again), "{text} became {again}");
}

fuzz_target!(|bytes: &[u8]| {
    // The first byte chooses how the stream is cut; the objects must not depend on it.
    let Some((&choice, stream)) = bytes.split_first() else { return };
    let read = |batch_bytes: usize| {
        let limits = Limits { batch_bytes, object_bytes: 4096, depth: 100 };
        let mut splitter = Splitter::with_limits(stream, limits);
        let (mut batch, mut scratch, mut found) = (Batch::default(), Scratch::default(), Vec::new());
        while let Some(next) = splitter.next_batch(batch).expect("memory has no errors") {
            assert!(next.size() <= 2 * limits.object_bytes + 2 * batch_bytes + 1024);
            next.objects(&mut scratch, |item| match item {
                Item::Object(object) => {
                    let place = next.position(&object, object.json.len());
                    found.push((String::from_utf8_lossy(object.json).into_owned(), Some(place)));
                }
                Item::Malformed(why) => found.push((why.to_string(), None)),
            });
            batch = next;
        }
        found
    };
    let whole = read(1 << 16);
    assert_eq!(whole, read(usize::from(choice) + 1));
    for (text, object) in &whole {
        if object.is_some() {
            check_object(text.as_bytes(), false);
        }
    }
    let mut json = Vec::new();
    if yaml_to_json(stream, &mut json).is_ok() && !json.is_empty() {
        check_object(&json, true);
    }
});

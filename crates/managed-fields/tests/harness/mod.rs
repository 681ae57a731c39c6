//! Cases of operations: how they are made up, run here, and compared with upstream's answers.
//!
//! The forms of cases and answers are those of conformance/managed-fields. The example `differential` and the tests
//! share this module.

pub mod generate;
pub mod kubernetes;
pub mod merge;
pub mod random;
pub mod schema;

use serde_json::Value;

/// What this crate answers to a case.
pub fn answer(case: &Value) -> Value {
    match case["mode"].as_str() {
        Some("merge") => merge::answer(case),
        Some("kubernetes") => kubernetes::answer(case),
        Some("schema") => schema::answer(case),
        mode => panic!("there is no mode {mode:?}"),
    }
}

/// Whether two answers are the same. Numbers are compared as numbers, since Go writes the float 1 as `1`. A list of
/// errors has no order, since Go walks maps in random order, and stops at the first of some.
pub fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(ours), Value::Number(theirs)) => ours.as_f64() == theirs.as_f64(),
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            ours.len() == theirs.len()
                && ours.iter().all(|(name, ours)| {
                    theirs.get(name).is_some_and(|theirs| match (name.as_str(), ours, theirs) {
                        ("error", Value::String(ours), Value::String(theirs)) => same_error(ours, theirs),
                        _ => same(ours, theirs),
                    })
                })
        }
        _ => ours == theirs,
    }
}

fn same_error(ours: &str, theirs: &str) -> bool {
    // Maps within a text and errors of a list are in random order.
    let characters = |text: &str| {
        let mut characters: Vec<_> = text.chars().collect();
        characters.sort_unstable();
        characters
    };
    theirs.contains("field not declared") || characters(ours) == characters(theirs)
}

//! What upstream answered to recorded cases.
//!
//! conformance/managed-fields/README.md says how the files are made.

use serde_json::Value;

use crate::harness;

fn check(recorded: &str) {
    for line in recorded.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let (case, theirs) = (&line["case"], line["answers"].as_array().unwrap());
        let ours = harness::answer(case);
        let ours = ours.as_array().unwrap();
        assert_eq!(ours.len(), theirs.len(), "{case}");
        for (place, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
            assert!(
                harness::same(ours, theirs),
                "operation {place} of\n{case}\nours   {ours}\ntheirs {theirs}"
            );
        }
    }
}

#[test]
fn merge_answers_as_upstream() {
    check(include_str!("golden/merge.jsonl"));
}

#[test]
fn field_manager_answers_as_upstream() {
    check(include_str!("golden/kubernetes.jsonl"));
}

#[test]
fn open_api_makes_the_schema_of_upstream() {
    check(include_str!("golden/schema.jsonl"));
}

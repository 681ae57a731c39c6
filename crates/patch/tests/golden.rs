//! What upstream answered to recorded cases.
//!
//! conformance/patch/README.md says how the files are made.

use serde_json::Value;

use crate::harness;

fn check(recorded: &str) {
    for line in recorded.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let ours = harness::answer(&line["case"]);
        assert!(
            harness::among(&ours, &line["answers"]),
            "{}\nours   {ours}\ntheirs {}",
            line["case"],
            line["answers"]
        );
    }
}

#[test]
fn json_patches_are_answered_as_upstream() {
    check(include_str!("golden/json.jsonl"));
}

#[test]
fn merge_patches_are_answered_as_upstream() {
    check(include_str!("golden/merge.jsonl"));
    check(include_str!("golden/value.jsonl"));
}

#[test]
fn strategic_patches_are_answered_as_upstream() {
    check(include_str!("golden/strategic.jsonl"));
}

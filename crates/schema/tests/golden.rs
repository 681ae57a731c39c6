//! Upstream's recorded answers. They are written anew by the example `differential` with `--record`.

use serde_json::Value;

use super::harness;

#[test]
fn answers_are_those_of_upstream() {
    let mut count = 0;
    for line in settled_golden::decompress(include_bytes!("golden/answers.jsonl.zst")).unwrap().lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let ours = harness::answer(&case["question"]);
        assert!(
            harness::same(&case["question"], &ours, &case["answer"]),
            "question {}\nours     {ours}\nupstream {}",
            case["question"],
            case["answer"]
        );
        count += 1;
    }
    assert!(count > 100, "only {count} cases");
}

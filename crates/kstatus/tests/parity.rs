//! The profile `kstatus` against what the upstream library answered for 100,000 generated objects.

use std::io::{BufRead, BufReader};

use kstatus::{Options, Profile, Status, Verdict, compute, compute_value};
use serde_json::{Value, json};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/kstatus-answers-grown.jsonl.zst");

/// What upstream answered, in the recordings' form, from our verdict.
fn answer(verdict: &Verdict) -> Value {
    if verdict.status == Status::Unknown {
        assert_eq!(verdict.reason, "Malformed");
        return json!({ "error": verdict.message });
    }
    json!({ "status": verdict.status, "message": verdict.message, "conditions": verdict.condition().as_slice() })
}

/// The recorded answer, without what is compared elsewhere.
fn recorded(answer: &Value) -> Value {
    if let Some(error) = answer.get("error").or_else(|| answer.get("panic")) {
        return json!({ "error": error });
    }
    json!({ "status": answer["status"], "message": answer["message"], "conditions": answer["conditions"] })
}

#[test]
fn answers_as_upstream_did() {
    let file = std::fs::File::open(GOLDEN).unwrap();
    let lines = BufReader::new(ruzstd::decoding::StreamingDecoder::new(file).unwrap()).lines();
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let options = Options { profile: Profile::Kstatus, ..Options::new(now) };
    let (mut compared, mut differences) = (0, 0);
    for line in lines {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let bytes = serde_json::to_vec(&line["object"]).unwrap();
        let ours = answer(&compute(&bytes, &options));
        let theirs = recorded(&line["answer"]);
        compared += 1;
        if ours != theirs {
            differences += 1;
            if differences <= 10 {
                println!("object  {}\nours    {ours}\ntheirs  {theirs}\n", line["object"]);
            }
        }
        assert_eq!(answer(&compute_value(&line["object"], &options)), ours);
    }
    assert_eq!((compared, differences), (100_000, 0));
}

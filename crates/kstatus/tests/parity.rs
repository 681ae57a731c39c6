//! The profile `kstatus` against what the upstream library answered for 100,000 generated objects.

use std::io::{BufRead, BufReader};

use kstatus::{Options, Profile, Status, Verdict, augment, augment_value, compute, compute_value};
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

/// `status.conditions` after augmenting, as the recordings have it: without the times of the standard conditions.
fn augmented(bytes: &[u8], options: &Options) -> Value {
    let mut value: Value = serde_json::from_slice(bytes).expect("the object parses");
    let from_value = augment_value(&mut value, options);
    match augment(bytes, options) {
        Ok(augmented) => {
            let augmented: Value = serde_json::from_slice(&augmented).expect("the augmented object parses");
            assert_eq!(augmented, value);
            let mut list = augmented["status"]["conditions"].clone();
            for condition in list.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
                if condition.get("type").is_some_and(|type_| type_ == "Reconciling" || type_ == "Stalled") {
                    condition.retain(|key, _| key != "lastTransitionTime" && key != "lastUpdateTime");
                }
            }
            as_go_prints(&mut list);
            list
        }
        Err(error) => {
            assert_eq!(from_value, Err(error.clone()));
            json!({ "error": error.to_string() })
        }
    }
}

/// Go's encoder, which made the recordings, prints a float without a fraction as an integer; we keep the bytes.
fn as_go_prints(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().filter(|n| n.fract() == 0.0 && n.abs() < 1e15) {
                *value = Value::from(whole as i64);
            }
        }
        Value::Array(list) => list.iter_mut().for_each(as_go_prints),
        Value::Object(map) => map.values_mut().for_each(as_go_prints),
        _ => {}
    }
}

/// The recorded list. Null where the recording has none: upstream panicked.
fn recorded_list(answer: &Value) -> Value {
    answer.get("panic").map_or_else(|| answer["augmented"].clone(), |panic| json!({ "error": panic }))
}

const NOW: &str = "2026-01-01T00:00:00Z";

#[test]
fn answers_as_upstream_did() {
    let file = std::fs::File::open(GOLDEN).unwrap();
    let lines = BufReader::new(ruzstd::decoding::StreamingDecoder::new(file).unwrap()).lines();
    let now = NOW.parse().unwrap();
    let options = Options { profile: Profile::Kstatus, ..Options::new(now) };
    let (mut compared, mut differences) = (0, Vec::new());
    for line in lines {
        let line: Value = serde_json::from_str(&line.unwrap()).unwrap();
        let bytes = serde_json::to_vec(&line["object"]).unwrap();
        let verdict = compute(&bytes, &options);
        let (ours, theirs) = (answer(&verdict), recorded(&line["answer"]));
        let (our_list, their_list) = (augmented(&bytes, &options), recorded_list(&line["answer"]));
        compared += 1;
        if (&ours, &our_list) != (&theirs, &their_list) {
            differences.push(format!("{}\n  {ours} {our_list}\n  {theirs} {their_list}", line["object"]));
        }
        assert_eq!(answer(&compute_value(&line["object"], &options)), ours);
    }
    let shown = differences.iter().take(10).map(String::as_str).collect::<Vec<_>>().join("\n");
    assert!(differences.is_empty(), "{} of {compared} differ:\n{shown}", differences.len());
    assert_eq!(compared, 100_000);
}

/// Upstream has no rule for NetworkPolicies: the conditions that the profile `settled` reads mean nothing to it.
#[test]
fn upstream_has_no_rule_for_network_policies() {
    let options = Options { profile: Profile::Kstatus, ..Options::new(NOW.parse().unwrap()) };
    let conditions = [
        json!([]),
        json!([{"type": "Accepted", "status": "False", "reason": "FeatureNotSupported", "observedGeneration": 2}]),
        json!([{"type": "Failure", "status": "True", "reason": "FeatureNotSupported", "observedGeneration": 2}]),
        json!([{"type": "PartialFailure", "status": "True", "reason": "FeatureNotSupported", "observedGeneration": 2}]),
        json!([{"type": "cilium.io/Accepted", "status": "True", "reason": "Applied", "observedGeneration": 1}]),
    ];
    for conditions in conditions {
        let policy = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "a", "generation": 2},
            "status": {"conditions": conditions},
        });
        let wanted = json!({"status": "Current", "message": "Resource is current", "conditions": []});
        assert_eq!(answer(&compute_value(&policy, &options)), wanted, "{conditions}");
    }
}

//! Our YAML against what Go's `sigs.k8s.io/yaml` made of the same documents (`conformance/yaml` writes the file).

use serde_json::Value;
use settled_manifest::yaml_to_json;

const GOLDEN: &str = include_str!("golden/yaml-go.jsonl");

/// Documents that we read differently, and why.
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "a: &x {b: 1}\nc: {<<: *x, b: 2, b: 3}\n",
        "a key that is there twice is an error, merges in the same mapping or not",
    ),
    ("[]: b\n", EMPTY_KEY),
    ("{}: b\n", EMPTY_KEY),
    ("[][>]\n", EMPTY_KEY),
];

const EMPTY_KEY: &str = "Go forgets that an empty collection may be a key, takes it for the whole document and reads no \
                         further; for us it is a key, and thus an error";

/// What Go said, or we.
#[derive(Debug)]
#[allow(dead_code, reason = "the error is there to be shown")]
enum Answer {
    Json(Value),
    Error(String),
}

fn go(line: &Value) -> Answer {
    let text = |name: &str| line.get(name).and_then(Value::as_str).map(str::to_owned);
    // Duplicate keys are the one thing in which we follow the strict variant: the last one winning silently has cost
    // people their labels. What it says about merged keys, kubectl doesn't mind.
    let duplicate = text("strict").filter(|error| error.contains("already set") && !has_merge(line));
    match text("error").or(duplicate) {
        Some(error) => Answer::Error(error),
        None => Answer::Json(line.get("json").cloned().unwrap_or(Value::Null)),
    }
}

fn has_merge(line: &Value) -> bool {
    line["yaml"].as_str().is_some_and(|yaml| yaml.contains("<<"))
}

fn ours(yaml: &str) -> Answer {
    let mut json = Vec::new();
    match yaml_to_json(yaml.as_bytes(), &mut json) {
        Ok(()) if json.is_empty() => Answer::Json(Value::Null),
        Ok(()) => match serde_json::from_slice(&json) {
            Ok(value) => Answer::Json(value),
            Err(error) => {
                panic!("{yaml:?} gave {:?}, which isn't JSON: {error}", String::from_utf8_lossy(&json))
            }
        },
        Err(error) => Answer::Error(error.to_string()),
    }
}

/// Integers have to be the same to the digit; floats are written differently.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => {
            let integer = |number: &serde_json::Number| number.as_i128();
            match (integer(left), integer(right)) {
                (Some(left), Some(right)) => left == right,
                _ => left.as_f64() == right.as_f64(),
            }
        }
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

#[test]
fn reads_yaml_as_go_does() {
    let mut wrong = String::new();
    let mut count = 0;
    for line in GOLDEN.lines() {
        let line: Value =
            serde_json::from_str(line).expect("the golden file has a line of JSON for each document");
        let yaml = line["yaml"].as_str().expect("each line has its document");
        let (go, ours) = (go(&line), ours(yaml));
        let equal = match (&go, &ours) {
            (Answer::Json(go), Answer::Json(ours)) => same(go, ours),
            (Answer::Error(_), Answer::Error(_)) => true,
            _ => false,
        };
        let excused = DIFFERENCES.iter().any(|(document, _)| *document == yaml);
        if equal == excused {
            let what = if excused { "is no difference any more" } else { "differs" };
            wrong.push_str(&format!("{yaml:?} {what}\n    Go:   {go:?}\n    ours: {ours:?}\n"));
        }
        count += 1;
    }
    assert!(count > 150, "the golden file has only {count} documents");
    assert!(wrong.is_empty(), "\n{wrong}");
}

//! Upstream's answers, as `conformance/cel` gave them: about the cases of its own tests, and about ours.

use serde_json::{Value, json};
use settled_cel::{FieldError, Validator};

use crate::structural;

const WHERE: &str = "spec.validation.openAPIV3Schema";
const RECORDED: &[u8] = include_bytes!("cases/recorded.jsonl.zst");

fn shown(mut found: Vec<FieldError>) -> Vec<String> {
    found.sort_by(|a, b| a.field.cmp(&b.field));
    let text = |error: FieldError| {
        normal(
            &json!({"field": error.field, "message": error.message(), "reason": error.error_type.cause()})
                .to_string(),
        )
    };
    let mut texts: Vec<String> = found.into_iter().map(text).collect();
    texts.sort();
    texts
}

/// Upstream makes up the numbers of types.
fn normal(text: &str) -> String {
    let mut parts = text.split("selfType");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str("selfType");
        out.push_str(part.trim_start_matches(|char: char| char.is_ascii_digit()));
    }
    out
}

fn theirs(answer: &Value, key: &str) -> Vec<String> {
    let list = answer[key].as_array().map_or(&[][..], Vec::as_slice);
    let mut texts: Vec<String> = list.iter().map(|error| normal(&error.to_string())).collect();
    texts.sort();
    texts
}

#[test]
fn rules_say_what_upstream_says() {
    let mut seen = 0;
    for line in settled_golden::decompress(RECORDED).unwrap().lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        let (case, answer) = (&record["case"], &record["answer"]);
        let (validator, compile) = Validator::compile(&structural(&case["schema"]), WHERE);
        // What else is wrong with a schema keeps upstream from looking at its rules.
        if answer.get("schema").is_none() {
            assert_eq!(shown(compile), theirs(answer, "compile"), "{case}");
        }
        let Some(validator) = validator else { continue };
        let estimates: Value = validator
            .estimates()
            .into_iter()
            .map(|(rule, cost)| json!({"rule": rule.rule, "cost": cost.to_string()}))
            .collect();
        if answer["estimates"].is_array() {
            assert_eq!(estimates, answer["estimates"], "{case}");
        }
        if let Some(object) = case.get("object") {
            let (errors, cost) = validator.validate_with_cost(object, case.get("old"));
            assert_eq!(shown(errors), theirs(answer, "errors"), "{case}");
            assert_eq!(Value::from(cost), answer["cost"], "{case}");
        }
        seen += 1;
    }
    assert!(seen > 500, "only {seen} cases were compared");
}

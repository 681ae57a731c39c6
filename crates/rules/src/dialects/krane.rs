//! Krane: the annotation `krane.shopify.io/instance-rollout-conditions` of a CustomResourceDefinition.
//!
//! <https://github.com/Shopify/krane#specifying-passfail-conditions>. The value is `true`, which stands for the
//! conditions Ready and Failed, or JSON. Every success condition must hold, or one failure condition. Nothing counts
//! before the latest generation was observed. Where both hold, Krane takes the success; here it is a failure.

use serde_json::Value;

use super::jsonpath::{Path, quoted};
use super::{branch, cel};
use crate::draft::{DraftBranch, Says};

pub(super) const ANNOTATION: &str = "krane.shopify.io/instance-rollout-conditions";

const OF_TRUE: &str = r#"{
    "success_conditions": [{"path": "$.status.conditions[?(@.type == 'Ready')].status", "value": "True"}],
    "failure_conditions": [{
        "path": "$.status.conditions[?(@.type == 'Failed')].status", "value": "True",
        "error_msg_path": "$.status.conditions[?(@.type == 'Failed')].message"
    }]
}"#;

/// Parses the annotation.
pub(super) fn branches(text: &str) -> Result<Vec<DraftBranch>, String> {
    let text = if text.trim().eq_ignore_ascii_case("true") { OF_TRUE } else { text };
    let all: Value =
        serde_json::from_str(text).map_err(|error| format!("expected `true` or JSON: {error}"))?;
    let mut branches = Vec::new();
    for condition in conditions(&all, "failure_conditions")? {
        let text = |key: &str| condition.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        let when = format!("observed() && {}", holds(condition)?);
        let mut failed = branch(Says::Failed, when, text("custom_error_msg").unwrap_or_default());
        if let (None, Some(path)) = (text("custom_error_msg"), text("error_msg_path")) {
            failed.words.message = Some(cel(format!("${{{}}}", Path::parse(path)?.cel())));
        }
        branches.push(failed);
    }
    let success = conditions(&all, "success_conditions")?;
    if success.is_empty() {
        return Err("`success_conditions` needs at least one condition".to_owned());
    }
    let success: Result<Vec<String>, String> = success.iter().map(holds).collect();
    branches.push(branch(Says::Current, format!("observed() && {}", success?.join(" && ")), ""));
    Ok(branches)
}

fn conditions<'v>(all: &'v Value, key: &str) -> Result<&'v [Value], String> {
    match all.get(key) {
        None => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(_) => Err(format!("expected a list for `{key}`")),
    }
}

fn holds(condition: &Value) -> Result<String, String> {
    let path = condition.get("path").and_then(Value::as_str).ok_or("a condition without `path`")?;
    let path = Path::parse(path)?;
    let value = match condition.get("value") {
        None => return Err("a condition without `value`".to_owned()),
        Some(Value::String(text)) => quoted(text),
        Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
        Some(value) => return Err(format!("`value: {value}` cannot be converted; write the rule in CEL")),
    };
    Ok(format!("{} == {value}", path.cel()))
}

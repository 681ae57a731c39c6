//! Cases of patches: how they are made up, run here, and compared with upstream's answers.
//!
//! The forms of cases and answers are those of conformance/patch. The example `differential` and the tests share this
//! module.

pub mod generate;
pub mod random;

use std::sync::LazyLock;

use serde_json::{Map, Value, json};
use settled_patch::{
    JsonPatch, PatchError, PatchTypes, decode_merge_patch, decode_strategic_patch, merge_patch,
    strategic_merge,
};

/// The components that the kinds of the cases reach.
pub static COMPONENTS: LazyLock<Map<String, Value>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../data/openapi.json")).unwrap());
pub static TYPES: LazyLock<PatchTypes> = LazyLock::new(|| {
    let mut types = PatchTypes::default();
    types.add_components(&COMPONENTS);
    types
});

/// The component of a kind.
pub fn component(kind: &str) -> String {
    let group = if kind == "Deployment" { "apps" } else { "core" };
    format!("io.k8s.api.{group}.v1.{kind}")
}

/// What this crate answers to a case.
pub fn answer(case: &Value) -> Value {
    let object = &case["object"];
    let patch = case["patch"].as_str().unwrap().as_bytes();
    let result = match case["mode"].as_str() {
        Some("json") => JsonPatch::decode(patch)
            .and_then(|patch| Ok((patch.apply(object)?, patch.strict_errors().to_vec()))),
        Some("merge") => decode_merge_patch(patch)
            .and_then(|decoded| Ok((merge_patch(object, &decoded.patch)?, decoded.strict_errors))),
        Some("value") => {
            merge_patch(object, &serde_json::from_slice(patch).unwrap()).map(|merged| (merged, Vec::new()))
        }
        Some("strategic") => decode_strategic_patch(patch).and_then(|decoded| {
            let root = component(case["kind"].as_str().unwrap());
            Ok((strategic_merge(object, &decoded.patch, &*TYPES, &root)?, decoded.strict_errors))
        }),
        mode => panic!("there is no mode {mode:?}"),
    };
    written(result)
}

fn written(result: Result<(Value, Vec<String>), PatchError>) -> Value {
    match result {
        Ok((result, strict)) if strict.is_empty() => json!({"result": result}),
        Ok((result, strict)) => json!({"result": result, "strict": strict}),
        Err(error) => json!({"status": error.status(), "error": error.to_string()}),
    }
}

/// Whether our answer is among theirs. Where upstream panics, ours is an error without a class.
pub fn among(ours: &Value, theirs: &Value) -> bool {
    theirs
        .as_array()
        .unwrap()
        .iter()
        .any(|theirs| if theirs.get("panic").is_some() { ours["status"] == 500 } else { same(ours, theirs) })
}

/// Numbers are compared as numbers, since Go writes the float 1 as `1`.
fn same(ours: &Value, theirs: &Value) -> bool {
    match (ours, theirs) {
        (Value::Number(ours), Value::Number(theirs)) => ours.as_f64() == theirs.as_f64(),
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(|(ours, theirs)| same(ours, theirs))
        }
        (Value::Object(ours), Value::Object(theirs)) => {
            ours.len() == theirs.len()
                && ours.iter().all(|(name, ours)| theirs.get(name).is_some_and(|theirs| same(ours, theirs)))
        }
        _ => ours == theirs,
    }
}

//! Shared parts of the tests.

use serde_json::Value;
use settled_netpol::parse::{Parsed, parse_policy};

/// A YAML document as JSON.
pub(crate) fn yaml(text: &str) -> Value {
    let mut json = Vec::new();
    settled_manifest::yaml_to_json(text.as_bytes(), &mut json).unwrap();
    serde_json::from_slice(&json).unwrap()
}

/// A policy of YAML, in the namespace `shop` if it has none.
pub(crate) fn parsed(text: &str) -> Parsed {
    parse_policy(&yaml(text), "shop").unwrap()
}

/// A NetworkPolicy with this spec, indented by nothing.
pub(crate) fn network_policy(name: &str, spec: &str) -> Parsed {
    let spec: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    parsed(&format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: {name}, generation: 3}}\nspec:\n{spec}"
    ))
}

/// Problems as `place: message`.
pub(crate) fn problems(parsed: &Parsed) -> Vec<String> {
    parsed.problems.iter().map(ToString::to_string).collect()
}

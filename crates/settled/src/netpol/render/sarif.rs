//! SARIF 2.1.0 of `netpol check`, as GitHub code scanning and others read it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::row::{FindingRow, PolicyRow, Report, Spot};
use crate::text;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// The whole log. `title` describes a rule by its id.
pub(in crate::netpol) fn log(report: &Report, exit_code: u8, title: impl Fn(&str) -> String) -> Value {
    let findings =
        report.policies.iter().flat_map(|row| row.findings.iter().map(move |finding| (row, finding)));
    let mut indexes: BTreeMap<&'static str, usize> =
        findings.clone().map(|(_, finding)| (finding.rule, 0)).collect();
    for (index, position) in indexes.values_mut().enumerate() {
        *position = index;
    }
    let rules: Vec<Value> = indexes.keys().map(|id| describe(id, &title(id))).collect();
    let results: Vec<Value> = findings.map(|(row, finding)| result(row, finding, &indexes)).collect();
    let providers: Vec<&str> = report.providers.iter().map(|provider| &*provider.provider).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "settled netpol",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": matches!(exit_code, 0 | 1),
                "exitCode": exit_code,
            }],
            "properties": {"providers": providers},
            "results": results,
        }],
    })
}

fn describe(id: &str, title: &str) -> Value {
    json!({
        "id": id,
        "name": camel_case(id),
        "shortDescription": {"text": title},
    })
}

/// `PortEnd` of `port.end`.
fn camel_case(id: &str) -> String {
    let words = id.split(['.', '-']);
    words
        .map(|word| {
            let mut chars = word.chars();
            chars
                .next()
                .map_or(String::new(), |first| first.to_ascii_uppercase().to_string() + chars.as_str())
        })
        .collect()
}

fn result(row: &PolicyRow, finding: &FindingRow, indexes: &BTreeMap<&'static str, usize>) -> Value {
    let policy = row.policy();
    let message = format!("{policy} with {}: {}: {}", row.provider, finding.path, finding.message);
    let mut location = json!({
        "logicalLocations": [{
            "name": finding.path,
            "fullyQualifiedName": format!("{policy}/{}", finding.path),
            "kind": "member",
        }],
    });
    if let (Some(source), Some(map)) =
        (row.source.as_deref().filter(|source| *source != "-"), location.as_object_mut())
    {
        let mut place = json!({"artifactLocation": {"uri": uri(source)}});
        if let (Some(Spot { line, column }), Some(place)) = (finding.spot.or(row.spot), place.as_object_mut())
        {
            place.insert("region".to_owned(), json!({"startLine": line, "startColumn": column}));
        }
        map.insert("physicalLocation".to_owned(), place);
    }
    let mut properties = json!({"policy": policy, "provider": row.provider});
    if let Some(map) = properties.as_object_mut() {
        for (key, value) in [
            ("support", finding.support.map(str::to_owned)),
            ("allows", finding.allows.map(str::to_owned)),
            ("supportedSince", finding.supported_since.as_deref().map(str::to_owned)),
            ("evidence", finding.evidence.as_deref().map(str::to_owned)),
        ] {
            map.extend(value.map(|value| (key.to_owned(), Value::String(value))));
        }
    }
    json!({
        "ruleId": finding.rule,
        "ruleIndex": indexes.get(finding.rule),
        "level": finding.level.as_str(),
        "message": {"text": text::clean(&message)},
        "locations": [location],
        // The same finding in a file whose lines have moved.
        "partialFingerprints": {"finding/v1": format!("{policy}|{}|{}|{}", row.provider, finding.path, finding.rule)},
        "properties": properties,
    })
}

/// A path as a relative reference, or as a URL of a file.
fn uri(path: &str) -> String {
    if path.starts_with("https://") || path.starts_with("http://") {
        return path.to_owned();
    }
    let path = if cfg!(windows) { path.replace('\\', "/") } else { path.to_owned() };
    let path = path.strip_prefix("./").unwrap_or(&path);
    let mut out = String::new();
    if path.starts_with('/') {
        out.push_str("file://");
    }
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_references() {
        assert_eq!(uri("./k8s/a b.yaml"), "k8s/a%20b.yaml");
        assert_eq!(uri("/tmp/ü.yaml"), "file:///tmp/%C3%BC.yaml");
        assert_eq!(uri("https://example.com/a.yaml?x=1"), "https://example.com/a.yaml?x=1");
    }

    #[test]
    fn names_of_rules_are_in_camel_case() {
        assert_eq!(camel_case("port.named-with-block"), "PortNamedWithBlock");
        assert_eq!(camel_case(""), "");
    }
}

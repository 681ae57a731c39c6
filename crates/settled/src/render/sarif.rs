//! SARIF 2.1.0, as GitHub code scanning and others read it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::text;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// Something that was found.
pub(crate) struct Result<'a> {
    /// Id of the rule.
    pub(crate) rule: &'a str,
    /// `error`, `warning` or `note`.
    pub(crate) level: &'a str,
    pub(crate) message: String,
    /// The field.
    pub(crate) path: &'a str,
    /// What the field is in.
    pub(crate) object: &'a str,
    /// The file; `-` is standard input.
    pub(crate) source: Option<&'a str>,
    /// Line and column.
    pub(crate) place: Option<(u64, u64)>,
    /// What stays the same when lines have moved.
    pub(crate) fingerprint: String,
    pub(crate) properties: Value,
}

/// The whole log of a tool, with the ids and descriptions of its rules.
pub(crate) fn log<'a>(
    tool: &str,
    exit_code: u8,
    rules: &[(&str, String)],
    results: impl Iterator<Item = Result<'a>>,
    properties: Value,
) -> Value {
    let indexes: BTreeMap<&str, usize> =
        rules.iter().enumerate().map(|(index, (id, _))| (*id, index)).collect();
    let rules: Vec<Value> = rules.iter().map(|(id, title)| describe(id, title)).collect();
    let results: Vec<Value> = results.map(|result| one(&result, &indexes)).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": tool,
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": matches!(exit_code, 0 | 1),
                "exitCode": exit_code,
            }],
            "properties": properties,
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

fn one(result: &Result<'_>, indexes: &BTreeMap<&str, usize>) -> Value {
    let mut location = json!({
        "logicalLocations": [{
            "name": result.path,
            "fullyQualifiedName": format!("{}/{}", result.object, result.path),
            "kind": "member",
        }],
    });
    if let (Some(source), Some(map)) =
        (result.source.filter(|source| *source != "-"), location.as_object_mut())
    {
        let mut place = json!({"artifactLocation": {"uri": uri(source)}});
        if let (Some((line, column)), Some(place)) = (result.place, place.as_object_mut()) {
            place.insert("region".to_owned(), json!({"startLine": line, "startColumn": column}));
        }
        map.insert("physicalLocation".to_owned(), place);
    }
    json!({
        "ruleId": result.rule,
        "ruleIndex": indexes.get(result.rule),
        "level": result.level,
        "message": {"text": text::clean(&result.message)},
        "locations": [location],
        // The same finding in a file whose lines have moved.
        "partialFingerprints": {"finding/v1": result.fingerprint},
        "properties": result.properties,
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

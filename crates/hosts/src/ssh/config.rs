//! Configuration of a Machine on a host of the pool: schema, and what is asked for.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use settled_machines::crds::ConfigSchema;
use settled_machines::provider::Desired;
use settled_machines::types::Selector;

/// `apiVersion` of the configuration.
pub const API_VERSION: &str = "ssh.cluster.settled.dev/v1alpha1";
/// `kind` of the configuration.
pub const KIND: &str = "SshMachine";

/// Format of the configuration of Machines.
#[must_use]
pub fn format() -> ConfigSchema {
    let strings = json!({"type": "object", "maxProperties": 16, "additionalProperties": {"type": "string", "maxLength": 63}});
    let requirement = json!({
        "type": "object",
        "required": ["key", "operator"],
        "properties": {
            "key": {"type": "string", "minLength": 1, "maxLength": 316},
            "operator": {"type": "string", "enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
            "values": {"type": "array", "maxItems": 64, "items": {"type": "string", "maxLength": 63}},
        },
    });
    ConfigSchema {
        api_version: API_VERSION.to_owned(),
        kind: KIND.to_owned(),
        schema: json!({
            "type": "object",
            "properties": {
                "hostSelector": {
                    "type": "object",
                    "description": "Labels of the Hosts that the Machine may claim. Without it, any Host of its namespace.",
                    "properties": {
                        "matchLabels": strings,
                        "matchExpressions": {"type": "array", "maxItems": 16, "items": requirement},
                    },
                },
            },
        }),
    }
}

/// The Hosts that a configuration selects; `None` for all.
fn selector(config: &Value) -> Option<Selector> {
    let selector: Selector = serde_json::from_value(config.get("hostSelector")?.clone()).ok()?;
    (!selector.match_labels.is_empty() || !selector.match_expressions.is_empty()).then_some(selector)
}

/// Whether a configuration selects a Host with these labels.
pub(super) fn selects(config: &Value, labels: Option<&BTreeMap<String, String>>) -> bool {
    selector(config).is_none_or(|selector| selector.matches(labels))
}

/// The selector of a configuration as text, for messages.
pub(super) fn selector_text(config: &Value) -> String {
    selector(config).map_or_else(String::new, |selector| format!(" with {}", selector.text()))
}

/// Whether a version or a name can be part of the name of a file.
fn is_plain(text: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._+-".contains(letter);
    !text.is_empty() && text.chars().all(is_plain) && !text.starts_with('.')
}

/// What the schemas do not express.
pub(super) fn validate(desired: &Desired) -> Vec<String> {
    let versions = &desired.versions;
    let mut errors = Vec::new();
    match versions.kubelet.as_str() {
        "" => errors.push("spec.versions.kubelet: Required value".to_owned()),
        version if !is_plain(version) => {
            errors.push(format!("spec.versions.kubelet: Invalid value: {version:?}"))
        }
        _ => {}
    }
    for (field, text) in versions
        .container_runtime
        .iter()
        .flat_map(|runtime| [("name", &runtime.name), ("version", &runtime.version)])
    {
        if !is_plain(text) {
            errors.push(format!("spec.versions.containerRuntime.{field}: Invalid value: {text:?}"));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_plain() {
        assert!(["v1.36.0", "2.1.0-rc.1", "cri-o", "v1.36.0+k3s1"].into_iter().all(is_plain));
        assert!(!["", "../x", "a/b", "a b", ".a", "a;b"].into_iter().any(is_plain));
    }

    #[test]
    fn no_selector_selects_all() {
        let labels = BTreeMap::from([("rack".to_owned(), "a".to_owned())]);
        let selects = |selector: Value| selects(&json!({"hostSelector": selector}), Some(&labels));
        assert!(super::selects(&json!({}), None));
        assert!(selects(json!({})));
        assert!(selects(json!({"matchLabels": {"rack": "a"}})));
        assert!(!selects(json!({"matchLabels": {"rack": "b"}})));
        assert!(selects(json!({"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]})));
    }
}

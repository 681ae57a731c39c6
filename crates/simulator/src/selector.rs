//! Label selectors of typed objects, without conversions.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// Labels as typed objects have them.
pub(crate) type Labels = BTreeMap<String, String>;

/// The value of a label.
pub(crate) fn label<'l>(labels: Option<&'l Labels>, key: &str) -> Option<&'l str> {
    labels?.get(key).map(String::as_str)
}

/// Do the labels match the selector? An empty one matches everything, one that is missing nothing: `metav1.LabelSelectorAsSelector`.
pub(crate) fn matches(selector: Option<&LabelSelector>, labels: Option<&Labels>) -> bool {
    let Some(selector) = selector else { return false };
    let pairs = selector.match_labels.iter().flatten();
    let expressions = selector.match_expressions.iter().flatten();
    contains(pairs, labels)
        && expressions.into_iter().all(|requirement| {
            let value = label(labels, &requirement.key);
            let values = requirement.values.as_deref().unwrap_or_default();
            is_met(&requirement.operator, values, value).unwrap_or_default()
        })
}

/// Are all of these pairs among the labels?
pub(crate) fn contains<'p>(
    pairs: impl IntoIterator<Item = (&'p String, &'p String)>,
    labels: Option<&Labels>,
) -> bool {
    pairs.into_iter().all(|(key, value)| label(labels, key) == Some(value))
}

/// Does a label's value meet a requirement of a set-based selector? Nothing for an operator or values that are not valid.
pub(crate) fn is_met(operator: &str, values: &[String], value: Option<&str>) -> Option<bool> {
    let is_among = || value.is_some_and(|value| values.iter().any(|one| one == value));
    match operator {
        "In" if !values.is_empty() => Some(is_among()),
        "NotIn" if !values.is_empty() => Some(!is_among()),
        "Exists" if values.is_empty() => Some(value.is_some()),
        "DoesNotExist" if values.is_empty() => Some(value.is_none()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn selectors_match_as_upstream() {
        let labels: Labels = [("app".to_owned(), "web".to_owned())].into();
        let is_match = |selector: Value| {
            let selector: LabelSelector = serde_json::from_value(selector).expect("a selector");
            matches(Some(&selector), Some(&labels))
        };
        let requirement = |key: &str, operator: &str, values: Value| json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]});
        let cases = [
            (json!({}), true),
            (json!({"matchLabels": {"app": "web"}}), true),
            (json!({"matchLabels": {"app": "db"}}), false),
            (requirement("app", "In", json!(["db", "web"])), true),
            (requirement("app", "NotIn", json!(["web"])), false),
            (requirement("tier", "NotIn", json!(["web"])), true),
            (requirement("tier", "In", json!(["web"])), false),
            (requirement("app", "Exists", json!(null)), true),
            (requirement("tier", "DoesNotExist", json!(null)), true),
            (requirement("app", "Near", json!(["web"])), false),
        ];
        for (selector, expected) in cases {
            assert_eq!(is_match(selector.clone()), expected, "{selector}");
        }
        assert!(!matches(None, Some(&labels)));
    }
}

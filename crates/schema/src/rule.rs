//! `ValidationRule`: one item of `x-kubernetes-validations`.

use serde_json::Value;
use settled_go::json;

/// A rule in CEL, as the schema has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidationRule {
    /// The expression that must be true.
    pub rule: String,
    /// The message where it is not.
    pub message: String,
    /// An expression for the message.
    pub message_expression: String,
    /// The reason of the error.
    pub reason: Option<String>,
    /// The field that the error is about, relative to where the rule stands.
    pub field_path: String,
    /// Whether `oldSelf` is an optional, so that the rule also runs where there is no old value.
    pub optional_old_self: Option<bool>,
}

impl ValidationRule {
    /// Reads an item of `x-kubernetes-validations`. What is missing or of the wrong type is empty.
    #[must_use]
    pub fn parse(value: &Value) -> Self {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            rule: text("rule"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: value.get("reason").and_then(Value::as_str).map(str::to_owned),
            field_path: text("fieldPath"),
            optional_old_self: value.get("optionalOldSelf").and_then(Value::as_bool),
        }
    }

    /// What names the rule in messages.
    #[must_use]
    pub fn title(&self) -> &str {
        if self.message.is_empty() { self.rule.trim() } else { self.message.trim() }
    }

    /// The rule as `encoding/json` prints upstream's internal structure, which is how errors show it.
    #[must_use]
    pub fn shown(&self) -> String {
        let reason = self.reason.as_ref().map_or_else(|| "null".to_owned(), |reason| json::quote(reason));
        let optional = self.optional_old_self.map_or_else(|| "null".to_owned(), |value| value.to_string());
        format!(
            "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{reason},\"FieldPath\":{},\
             \"OptionalOldSelf\":{optional}}}",
            json::quote(&self.rule),
            json::quote(&self.message),
            json::quote(&self.message_expression),
            json::quote(&self.field_path),
        )
    }
}

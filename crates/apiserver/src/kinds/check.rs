//! Validation helpers: collected causes, field access, name formats, label selectors.

use serde_json::{Map, Value};
use settled_apimachinery::unstructured::{entries, integer, items, string};
use settled_apimachinery::validation;

use crate::error::Cause;
use crate::metadata::{self, shown};

/// What is wrong with a text of a form: nothing, or some messages.
pub(crate) type Form = fn(&str) -> Vec<String>;

/// More causes than this say nothing.
const MAX_CAUSES: usize = 200;

/// The causes found so far.
#[derive(Default)]
pub(crate) struct Check {
    pub(crate) causes: Vec<Cause>,
}

impl Check {
    pub(crate) fn push(&mut self, reason: &str, field: impl Into<String>, message: String) {
        if self.causes.len() < MAX_CAUSES {
            self.causes.push(Cause { reason: reason.to_owned(), message, field: field.into() });
        }
    }

    /// As [`Check::push`], of causes that something else found.
    pub(crate) fn extend(&mut self, causes: impl IntoIterator<Item = Cause>) {
        let room = MAX_CAUSES.saturating_sub(self.causes.len());
        self.causes.extend(causes.into_iter().take(room));
    }

    pub(crate) fn required(&mut self, field: impl Into<String>, detail: &str) {
        self.push("FieldValueRequired", field, with("Required value".into(), detail));
    }

    pub(crate) fn forbidden(&mut self, field: impl Into<String>, detail: &str) {
        self.push("FieldValueForbidden", field, with("Forbidden".into(), detail));
    }

    pub(crate) fn invalid(&mut self, field: impl Into<String>, value: &Value, detail: &str) {
        self.push("FieldValueInvalid", field, with(format!("Invalid value: {}", shown(value)), detail));
    }

    /// As `invalid`, with the value as Go writes it.
    pub(crate) fn invalid_shown(&mut self, field: impl Into<String>, shown: &str, detail: &str) {
        self.push("FieldValueInvalid", field, with(format!("Invalid value: {shown}"), detail));
    }

    pub(crate) fn not_supported(&mut self, field: impl Into<String>, value: &Value, supported: &[&str]) {
        let words: Vec<String> = supported.iter().map(|word| format!("{word:?}")).collect();
        let detail = format!("supported values: {}", words.join(", "));
        self.push(
            "FieldValueNotSupported",
            field,
            with(format!("Unsupported value: {}", shown(value)), &detail),
        );
    }

    pub(crate) fn duplicate(&mut self, field: impl Into<String>, value: &Value) {
        self.push("FieldValueDuplicate", field, format!("Duplicate value: {}", shown(value)));
    }

    pub(crate) fn not_found(&mut self, field: impl Into<String>, value: &Value) {
        self.push("FieldValueNotFound", field, format!("Not found: {}", shown(value)));
    }

    pub(crate) fn too_long(&mut self, field: impl Into<String>, bytes: usize) {
        self.push("FieldValueTooLong", field, format!("Too long: may not be more than {bytes} bytes"));
    }

    /// One without a domain is Kubernetes' own.
    pub(crate) fn standard_finalizer(&mut self, field: &str, finalizer: &Value) {
        let known = ["kubernetes", "orphan", "foregroundDeletion"];
        if finalizer.as_str().is_some_and(|name| !name.contains('/') && !known.contains(&name)) {
            self.invalid(
                field,
                finalizer,
                "name is neither a standard finalizer name nor is it fully qualified",
            );
        }
    }

    /// A text of a form.
    pub(crate) fn form(&mut self, field: &str, value: &str, form: Form) {
        for message in form(value) {
            self.invalid(field, &value.into(), &message);
        }
    }

    /// A text that has to be there, and of a form.
    pub(crate) fn required_form(&mut self, field: &str, value: &str, form: Form) {
        if value.is_empty() {
            self.required(field, "");
        } else {
            self.form(field, value, form);
        }
    }

    /// A word out of a list that has to be there.
    pub(crate) fn word(&mut self, field: &str, value: &str, supported: &[&str]) {
        if value.is_empty() {
            self.required(field, "");
        } else if !supported.contains(&value) {
            self.not_supported(field, &value.into(), supported);
        }
    }

    /// A number that is not below zero.
    pub(crate) fn not_negative(&mut self, at: &str, object: &Value, name: &str) {
        if let Some(number) = integer(object, name).filter(|number| *number < 0) {
            self.invalid(join(at, name), &number.into(), "must be greater than or equal to 0");
        }
    }

    pub(crate) fn immutable(&mut self, field: &str, new: Option<&Value>, old: Option<&Value>) {
        if !same(new, old) {
            let shown = new.map_or_else(|| "null".to_owned(), shown);
            self.invalid_shown(field, &shown, "field is immutable");
        }
    }
}

fn with(text: String, detail: &str) -> String {
    if detail.is_empty() { text } else { format!("{text}: {detail}") }
}

pub(crate) fn join(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}

/// Whether two fields are the same. Null is absent.
pub(crate) fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    a.filter(|value| !value.is_null()) == b.filter(|value| !value.is_null())
}

pub(crate) fn validate_labels(check: &mut Check, at: &str, object: &Value, name: &str) {
    metadata::validate_labels(object.get(name), at, &mut check.causes);
}

/// A label selector. False if it is none.
pub(crate) fn validate_label_selector(check: &mut Check, at: &str, selector: &Value) -> bool {
    let before = check.causes.len();
    validate_labels(check, &join(at, "matchLabels"), selector, "matchLabels");
    for (index, expression) in items(selector, "matchExpressions").iter().enumerate() {
        let at = format!("{at}.matchExpressions[{index}]");
        let values = items(expression, "values");
        match string(expression, "operator") {
            "In" | "NotIn" if values.is_empty() => {
                check.required(join(&at, "values"), "must be specified when `operator` is 'In' or 'NotIn'");
            }
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                check.forbidden(
                    join(&at, "values"),
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                );
            }
            "Exists" | "DoesNotExist" => {}
            other => check.invalid(join(&at, "operator"), &other.into(), "not a valid selector operator"),
        }
        check.form(&join(&at, "key"), string(expression, "key"), validation::is_qualified_name);
        for (index, value) in values.iter().enumerate() {
            check.form(
                &format!("{at}.values[{index}]"),
                value.as_str().unwrap_or_default(),
                validation::is_valid_label_value,
            );
        }
    }
    check.causes.len() == before
}

/// Whether a label selector is one of those that select everything.
pub(crate) fn selects_all(selector: &Value) -> bool {
    items(selector, "matchExpressions").is_empty() && entries(selector, "matchLabels").next().is_none()
}

/// Whether a label selector matches; one that is not there matches nothing.
pub(crate) fn matches(selector: &Value, labels: Option<&Map<String, Value>>) -> bool {
    if selector.is_null() {
        return false;
    }
    let label = |key: &str| labels.and_then(|labels| labels.get(key));
    entries(selector, "matchLabels").all(|(key, value)| label(key) == Some(value))
        && items(selector, "matchExpressions").iter().all(|expression| {
            let found = label(string(expression, "key"));
            let listed = found.is_some_and(|value| items(expression, "values").contains(value));
            match string(expression, "operator") {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

/// A number, not negative, or a percentage.
pub(crate) fn validate_positive_int_or_percent(check: &mut Check, at: &str, value: &Value) {
    match value {
        Value::String(text) => {
            for message in validation::is_valid_percent(text) {
                check.invalid(at, value, &message);
            }
        }
        _ => {
            if value.as_i64().is_some_and(|number| number < 0) {
                check.invalid(at, value, "must be greater than or equal to 0");
            }
        }
    }
}

pub(crate) fn validate_at_most_100_percent(check: &mut Check, at: &str, value: &Value) {
    let percent = value
        .as_str()
        .filter(|text| validation::is_valid_percent(text).is_empty())
        .and_then(|text| text.strip_suffix('%'));
    if percent.and_then(|digits| digits.parse::<i64>().ok()).is_some_and(|percent| percent > 100) {
        check.invalid(at, value, "must not be greater than 100%");
    }
}

/// A number or the digits of a percentage.
pub(crate) fn int_or_percent(value: &Value) -> i64 {
    match value {
        Value::String(text) => text.trim_end_matches('%').parse().unwrap_or_default(),
        other => other.as_i64().unwrap_or_default(),
    }
}

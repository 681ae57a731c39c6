//! Variables in scripts: `<name>` in any text.

use std::collections::BTreeMap;

use serde_json::Value;

/// Variables by name. A value may be any JSON; within longer text it is formatted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vars(BTreeMap<String, Value>);

/// Maximum nesting of variables in variables.
const DEPTH: usize = 4;

impl Vars {
    pub(crate) fn set(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    /// Replaces the variables of a text. Unknown names in angle brackets stay.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for _ in 0..DEPTH {
            if !text.contains('<') {
                break;
            }
            text = self.once(&text);
        }
        text
    }

    /// The text of a variable. `rv+1` is the number plus one.
    fn inside(&self, name: &str) -> Option<String> {
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        if let Some(value) = self.0.get(name) {
            return Some(text(value));
        }
        let (name, more) = name.split_once('+')?;
        let number: u64 = text(self.0.get(name)?).parse().ok()?;
        Some(number.checked_add(more.parse().ok()?)?.to_string())
    }

    fn once(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find('<') {
            out.push_str(&rest[..start]);
            let after = &rest[start + 1..];
            let found = after.find('>').and_then(|end| Some((end, self.inside(&after[..end])?)));
            match found {
                Some((end, value)) => {
                    out.push_str(&value);
                    rest = &after[end + 1..];
                }
                None => {
                    out.push('<');
                    rest = after;
                }
            }
        }
        out.push_str(rest);
        out
    }

    /// Replaces variables in all strings and keys of a value. A string that is exactly one variable becomes its value.
    pub(crate) fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => {
                let whole = text.strip_prefix('<').and_then(|text| text.strip_suffix('>'));
                match whole.and_then(|name| self.0.get(name)) {
                    Some(Value::String(text)) => Value::String(self.text(text)),
                    Some(other) => self.value(other),
                    None => Value::String(self.text(text)),
                }
            }
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(map) => {
                map.iter().map(|(key, value)| (self.text(key), self.value(value))).collect()
            }
            other => other.clone(),
        }
    }
}

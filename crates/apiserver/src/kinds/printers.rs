//! Printers: what fills the rows of tables (`pkg/printers/internalversion` upstream). Each kind's printer stands in its file; here is
//! what they share. The names of columns are data, see `columns`.

use jiff::Timestamp;
use serde_json::Value;
use settled_apimachinery::labels::LabelSelector;

use crate::human;

/// Fills the cells of one object's row, in the order of the kind's columns.
pub(crate) type Printer = fn(Row<'_>) -> Vec<Value>;

/// An object, and when it is looked at.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    pub(crate) object: &'a Value,
    pub(crate) now: Timestamp,
}

pub(crate) const NONE: &str = "<none>";

pub(crate) const UNSET: &str = "<unset>";

/// The texts and numbers under JSON pointers; what is absent is empty or zero, as in Go.
pub(crate) trait Read {
    fn at(&self, pointer: &str) -> Option<&Value>;

    fn text(&self, pointer: &str) -> &str {
        self.at(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn text_or<'a>(&'a self, pointer: &str, default: &'a str) -> &'a str {
        self.at(pointer).and_then(Value::as_str).unwrap_or(default)
    }

    /// Another text where there is none, or an empty one.
    fn filled_or<'a>(&'a self, pointer: &str, default: &'a str) -> &'a str {
        Some(self.text(pointer)).filter(|text| !text.is_empty()).unwrap_or(default)
    }

    fn int(&self, pointer: &str) -> i64 {
        self.at(pointer).and_then(Value::as_i64).unwrap_or_default()
    }

    fn flag(&self, pointer: &str) -> bool {
        self.at(pointer).and_then(Value::as_bool).unwrap_or_default()
    }

    fn list(&self, pointer: &str) -> &[Value] {
        self.at(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
    }

    fn has(&self, pointer: &str) -> bool {
        self.at(pointer).is_some()
    }

    /// How many entries a map has.
    fn entries(&self, pointer: &str) -> usize {
        self.at(pointer).and_then(Value::as_object).map_or(0, |map| map.len())
    }

    /// A number, a text, or a quantity, as text.
    fn scalar(&self, pointer: &str, default: &str) -> String {
        match self.at(pointer) {
            Some(Value::String(text)) => text.clone(),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
            _ => default.to_owned(),
        }
    }
}

impl Read for Value {
    fn at(&self, pointer: &str) -> Option<&Value> {
        self.pointer(pointer).filter(|value| !value.is_null())
    }
}

impl Read for Row<'_> {
    fn at(&self, pointer: &str) -> Option<&Value> {
        self.object.at(pointer)
    }
}

impl Row<'_> {
    pub(crate) fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    pub(crate) fn since(&self, pointer: &str) -> String {
        human::since(self.text(pointer), self.now)
    }

    pub(crate) fn age(&self) -> String {
        self.since("/metadata/creationTimestamp")
    }

    pub(crate) fn deleted(&self) -> bool {
        self.has("/metadata/deletionTimestamp")
    }
}

macro_rules! cells {
    ($($cell:expr),* $(,)?) => { vec![$(Value::from($cell)),*] };
}
pub(crate) use cells;

/// The cells of kinds without columns of their own.
pub(crate) fn print_name_and_creation(row: Row<'_>) -> Vec<Value> {
    let created = row.text_or("/metadata/creationTimestamp", "0001-01-01T00:00:00Z");
    cells![row.name(), created]
}

/// The cells of kinds that show nothing but their age.
pub(crate) fn print_name_and_age(row: Row<'_>) -> Vec<Value> {
    cells![row.name(), row.age()]
}

/// The texts under a pointer of each item, joined.
pub(crate) fn joined(items: &[Value], pointer: &str, separator: &str) -> String {
    items.iter().map(|item| item.text(pointer)).collect::<Vec<_>>().join(separator)
}

/// The names and the images of containers.
pub(crate) fn layout_container_cells(containers: &[Value]) -> [String; 2] {
    ["/name", "/image"].map(|pointer| joined(containers, pointer, ","))
}

/// A map of labels as text.
pub(crate) fn format_labels(labels: Option<&Value>) -> String {
    let labels = labels.and_then(Value::as_object).into_iter().flatten();
    let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={}", value.text(""))).collect();
    if labels.is_empty() { NONE.to_owned() } else { labels.join(",") }
}

/// A label selector as text.
pub(crate) fn format_label_selector(selector: Option<&Value>) -> String {
    match LabelSelector::from_object(selector.unwrap_or(&Value::Null)) {
        Ok(selector) => {
            Some(selector.to_string()).filter(|text| !text.is_empty()).unwrap_or_else(|| NONE.to_owned())
        }
        Err(_) => "<error>".to_owned(),
    }
}

/// At most three, and how many more there are.
pub(crate) fn first_three(mut texts: impl Iterator<Item = String>) -> String {
    let first: Vec<String> = texts.by_ref().take(3).collect();
    let first = first.join(",");
    match texts.count() {
        0 if first.is_empty() => UNSET.to_owned(),
        0 => first,
        more => format!("{first} + {more} more..."),
    }
}

pub(crate) fn annotation<'a>(row: Row<'a>, name: &str) -> Option<&'a str> {
    row.object.pointer("/metadata/annotations")?.get(name)?.as_str()
}

/// The name, marked if an annotation makes the class the default one.
pub(crate) fn name_with_default_mark(row: Row<'_>, annotations: &[&str]) -> String {
    let default = annotations.iter().any(|name| annotation(row, name) == Some("true"));
    format!("{}{}", row.name(), if default { " (default)" } else { "" })
}

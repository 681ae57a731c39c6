//! Column definitions of built-in kinds: `columns.txt`, a line a kind, as upstream's tables have them.

use serde_json::Value;

/// A line for each kind: group and kind, then the JSON of its column definitions. `*` is for all that have none.
const COLUMNS: &str = include_str!("columns.txt");

/// The definitions of a kind's columns, as JSON.
pub(crate) fn definitions(group: &str, kind: &str) -> Option<&'static str> {
    let mut lines = COLUMNS.lines().filter_map(|line| line.split_once(' '));
    let matches = |name: &str| match name.split_once('/') {
        Some((its_group, its_kind)) => (its_group, its_kind) == (group, kind),
        None => name == kind,
    };
    lines.find(|(name, _)| matches(name)).map(|(_, definitions)| definitions)
}

/// The definitions of the columns of kinds that have none of their own.
pub(crate) fn plain_definitions() -> &'static str {
    definitions("", "*").unwrap_or("[]")
}

/// What upstream says about a column that all kinds have: `Name` or `Age`.
pub(crate) fn description(column: &str) -> String {
    let definitions = definitions("", "ConfigMap").and_then(|json| serde_json::from_str::<Value>(json).ok());
    let definitions = definitions.as_ref().and_then(Value::as_array).into_iter().flatten();
    let mut found = definitions.filter(|definition| definition["name"] == column);
    found.next().and_then(|definition| definition["description"].as_str()).unwrap_or_default().to_owned()
}

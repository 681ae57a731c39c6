//! Cross product of query parameters, expanded to steps.

use serde_json::{Map, Value, json};

/// Expands a matrix `{path, query: {parameter: [values]}, watch: {…}}` to all combinations. Null omits the parameter.
/// With `watch=true` the step is a watch that the server ends.
pub(crate) fn expand(matrix: &Value) -> Vec<Value> {
    let path = matrix.get("path").and_then(Value::as_str).unwrap_or_default();
    let nothing = Map::new();
    let query = matrix.get("query").and_then(Value::as_object).unwrap_or(&nothing);
    let mut rows: Vec<Vec<String>> = vec![vec![]];
    for (parameter, values) in query {
        let values = values.as_array().map(Vec::as_slice).unwrap_or_default();
        rows = rows
            .iter()
            .flat_map(|row| {
                values.iter().map(|value| {
                    let mut row = row.clone();
                    match value {
                        Value::Null => {}
                        Value::String(text) => row.push(format!("{parameter}={text}")),
                        other => row.push(format!("{parameter}={other}")),
                    }
                    row
                })
            })
            .collect();
    }
    let step = |row: Vec<String>| {
        let watch = row.iter().any(|pair| pair == "watch=true");
        let query = row.join("&");
        let mark = if query.is_empty() { "" } else { "?" };
        let method = if watch { "WATCH" } else { "GET" };
        let ending = if watch { "&timeoutSeconds=1" } else { "" };
        let mut step = Map::from_iter([(method.to_owned(), json!(format!("{path}{mark}{query}{ending}")))]);
        for key in ["as", "accept", "pick"] {
            if let Some(value) = matrix.get(key) {
                step.insert(key.to_owned(), value.clone());
            }
        }
        Value::Object(step)
    };
    rows.into_iter().map(step).collect()
}

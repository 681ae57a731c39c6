//! Helm: the annotations `helm.sh/readiness-success` and `helm.sh/readiness-failure`.
//!
//! <https://helm.sh/community/hips/hip-0025>. Each is a JSON list of `{path} operator value`; one that holds is enough,
//! and failures go first. Paths are those of the object where they begin with `.status`, else of its status. With one
//! of the two annotations alone Helm judges by itself, and so does this.

use super::branch;
use super::jsonpath::{Path, braces, quoted};
use crate::draft::{DraftBranch, Says};

/// Parses one of the annotations.
pub(super) fn branches(says: Says, text: &str) -> Result<Vec<DraftBranch>, String> {
    let all: Vec<String> = serde_json::from_str(text)
        .map_err(|error| format!("expected a JSON list such as [\"{{.succeeded}} == 1\"]: {error}"))?;
    all.iter().map(|one| Ok(branch(says, holds(one)?, one))).collect()
}

fn holds(text: &str) -> Result<String, String> {
    let wrong = || format!("`{text}`: expected `{{.path}} == value`, or one of != < <= > >=");
    let (path, rest) = braces(text).ok_or_else(wrong)?;
    let mut path = Path::parse(path)?;
    if !path.is_in_status() {
        path = path.in_status();
    }
    let operator = ["==", "!=", "<=", ">=", "<", ">"].into_iter().find(|operator| rest.starts_with(operator));
    let operator = operator.ok_or_else(wrong)?;
    let value = rest.strip_prefix(operator).unwrap_or_default().trim();
    let value = ['"', '\'']
        .iter()
        .find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote))
        .unwrap_or(value);
    if value.is_empty() {
        return Err(wrong());
    }
    match (value.parse::<f64>(), operator) {
        (Ok(number), _) if number.is_finite() => Ok(format!("double({}) {operator} {number:?}", path.cel())),
        (_, "==") => Ok(path.is_text(value)),
        (_, "!=") => Ok(format!("string({}) != {}", path.cel(), quoted(value))),
        _ => Err(format!("`{text}`: `{operator}` needs a number")),
    }
}

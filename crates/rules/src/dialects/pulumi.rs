//! Pulumi: the annotation `pulumi.com/waitFor`.
//!
//! <https://www.pulumi.com/registry/packages/kubernetes/installation-configuration/>. One of `jsonpath={.path}`,
//! `jsonpath={.path}=value`, `condition=Type` and `condition=Type=Status`, or a JSON list of them that must all hold.
//! Types and statuses of conditions are compared without regard to case, as `kubectl wait` does.

use super::branch;
use super::jsonpath::{Path, braces, quoted};
use crate::draft::{DraftBranch, Says};

/// Parses the annotation.
pub(super) fn branches(text: &str) -> Result<Vec<DraftBranch>, String> {
    let all: Vec<String> = if text.trim_start().starts_with('[') {
        serde_json::from_str(text).map_err(|error| format!("expected a JSON list of texts: {error}"))?
    } else {
        vec![text.trim().to_owned()]
    };
    if all.is_empty() {
        return Err("the list is empty".to_owned());
    }
    let when: Result<Vec<String>, String> = all.iter().map(|one| holds(one)).collect();
    Ok(vec![branch(Says::Current, when?.join(" && "), &all.join(", "))])
}

fn holds(text: &str) -> Result<String, String> {
    if let Some(condition) = text.strip_prefix("condition=") {
        let (type_, status) = condition.split_once('=').unwrap_or((condition, "True"));
        return Ok(format!(
            "status.conditions.exists(x, x.type.lowerAscii() == {} && x.status.lowerAscii() == {} && \
             default(x.observedGeneration, default(metadata.generation, 0)) >= default(metadata.generation, 0))",
            quoted(&type_.to_ascii_lowercase()),
            quoted(&status.to_ascii_lowercase()),
        ));
    }
    let Some((path, rest)) = text.strip_prefix("jsonpath=").and_then(braces) else {
        return Err(format!(
            "`{text}`: expected `jsonpath={{.path}}`, `jsonpath={{.path}}=value` or `condition=Type`"
        ));
    };
    let path = Path::parse(path)?;
    match rest.strip_prefix('=') {
        None if rest.is_empty() => Ok(path.exists()),
        Some(value) if !value.is_empty() && !value.contains('=') && !value.starts_with('{') => {
            Ok(path.is_text(value))
        }
        _ => Err(format!("`{text}`: expected one value after `=`")),
    }
}

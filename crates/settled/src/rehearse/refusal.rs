//! Refusals of the server as findings: one for each field that its answer names.

use settled_rehearsal::findings::{Check, Finding, Severity, removal};

use super::sources::Source;

/// Did the server look no further than at fields that the kind does not have?
pub(super) fn is_of_unknown_fields(message: &str) -> bool {
    message.contains("not declared in schema") || message.contains("unknown field")
}

/// The findings in an answer.
pub(super) fn findings(
    index: Option<usize>,
    source: Option<&Source>,
    message: &str,
    remedy: Option<&str>,
    kubernetes: Option<u32>,
) -> Vec<Finding> {
    let manifest = source.map(|source| &source.manifest);
    if let Some((manifest, removed)) =
        manifest.and_then(|manifest| Some((manifest, removal(&manifest.api_version, &manifest.kind)?)))
    {
        let mut text =
            format!("Kubernetes 1.{} removed {} {}", removed.since, manifest.api_version, manifest.kind);
        // The version that is meant has it, and the server of the rehearsal has not.
        let is_served = kubernetes.is_some_and(|minor| minor < removed.since);
        let severity = if is_served { Severity::Warning } else { Severity::Error };
        if is_served {
            text += ": the object is not rehearsed";
        }
        let finding = Finding::new(severity, Check::RemovedApi, index, "apiVersion", text);
        return vec![match removed.replacement {
            Some(replacement) => finding.remedy(format!("use {replacement}")),
            None => finding,
        }];
    }
    let mut found: Vec<Finding> = causes(message)
        .into_iter()
        .map(|(field, text)| {
            let check = if text.contains("immutable") || text.contains("Forbidden: updates to") {
                Check::Immutable
            } else if is_of_unknown_fields(&text) {
                Check::UnknownField
            } else {
                Check::Refused
            };
            Finding::new(Severity::Error, check, index, &field, text)
        })
        .collect();
    if let (Some(remedy), Some(first)) = (remedy, found.first_mut()) {
        first.remedy = Some(remedy.to_owned());
    }
    found
}

/// Fields and messages: `X "web" is invalid: [a.b: Required value, c: Invalid value: 1]`, `unknown field "a.b"`, `.a.b: field not declared in schema`.
fn causes(message: &str) -> Vec<(String, String)> {
    let list = match message.split_once(" is invalid: ") {
        Some((_, causes)) => causes,
        None => message
            .rsplit_once("strict decoding error: ")
            .or_else(|| message.strip_prefix("failed to create typed patch object (")?.split_once("): "))
            .map_or(message, |(_, causes)| causes),
    };
    let list = list.strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or(list);
    let parts = split(list);
    let read: Option<Vec<_>> = parts.iter().map(|part| cause(part)).collect();
    read.filter(|causes| !causes.is_empty()).unwrap_or_else(|| vec![(String::new(), message.to_owned())])
}

fn cause(part: &str) -> Option<(String, String)> {
    if let Some(field) = part.strip_prefix("unknown field ") {
        return Some((field.trim_matches('"').to_owned(), part.to_owned()));
    }
    let at = part.find(": ")?;
    let (field, text) = part.split_at(at);
    let field = field.rsplit(' ').next()?.trim_start_matches('.');
    let is_path = !field.is_empty()
        && field.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".[]_-/".contains(&byte))
        && field.starts_with(|first: char| first.is_ascii_lowercase());
    is_path.then(|| (field.to_owned(), text.trim_start_matches(": ").to_owned()))
}

/// Splits at commas before the next field, outside of quotes and brackets.
fn split(list: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth, mut quoted) = (Vec::new(), 0, 0_usize, false);
    for (index, byte) in list.bytes().enumerate() {
        match byte {
            b'"' => quoted = !quoted,
            b'[' | b'{' | b'(' if !quoted => depth += 1,
            b']' | b'}' | b')' if !quoted => depth = depth.saturating_sub(1),
            b',' if !quoted
                && depth == 0
                && list[index..].starts_with(", ")
                && cause(&list[index + 2..]).is_some() =>
            {
                parts.push(&list[start..index]);
                start = index + 2;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(message: &str) -> Vec<String> {
        causes(message).into_iter().map(|(field, text)| format!("{field} | {text}")).collect()
    }

    #[test]
    fn each_field_of_an_answer_is_a_cause() {
        assert_eq!(
            texts(
                "Deployment.apps \"web\" is invalid: spec.selector: Invalid value: {\"a\":\"b, c: d\"}: field is immutable"
            ),
            ["spec.selector | Invalid value: {\"a\":\"b, c: d\"}: field is immutable"]
        );
        assert_eq!(
            texts(
                "Deployment.apps \"web\" is invalid: [spec.template.spec.containers[0].image: Required value, spec.replicas: Invalid value: -1: must be greater than or equal to 0]"
            ),
            [
                "spec.template.spec.containers[0].image | Required value",
                "spec.replicas | Invalid value: -1: must be greater than or equal to 0"
            ]
        );
        assert_eq!(
            texts(
                "failed to create typed patch object (shop/web; apps/v1, Kind=Deployment): .spec.replica: field not declared in schema"
            ),
            ["spec.replica | field not declared in schema"]
        );
        assert_eq!(
            texts("strict decoding error: unknown field \"spec.foo\""),
            ["spec.foo | unknown field \"spec.foo\""]
        );
        assert_eq!(texts("namespaces \"shop\" not found"), [" | namespaces \"shop\" not found"]);
    }
}

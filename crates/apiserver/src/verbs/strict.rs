//! Strict decoding: unknown fields, duplicate fields, mismatched types.

use serde_json::Value;
use settled_go as go;

use crate::error::ApiError;
use crate::kinds::builtin;
use crate::kinds::definition::Definition;
use crate::kinds::names::{Names, go_package};
use crate::object::text;
use crate::options::{FieldValidation, WriteOptions};
use crate::state::call::Call;

/// How upstream's scheme is called in its messages.
const SCHEME: &str = "pkg/runtime/scheme.go:111";
const YAML_ERRORS: &str = "yaml: unmarshal errors:";

/// YAML as JSON, and what upstream says of keys that are there twice.
pub(crate) fn yaml(body: &[u8]) -> Result<(Vec<u8>, Option<String>), String> {
    let mut json = Vec::new();
    let duplicates = settled_manifest::yaml_to_json_leniently(body, &mut json).map_err(|error| {
        let line = match error.position.line {
            ..=1 => String::new(),
            line => format!("line {line}: "),
        };
        format!("error converting YAML to JSON: yaml: {line}{}", error.message)
    })?;
    let lines = duplicates.iter().map(|(line, key)| format!("\n  line {line}: key {key} already set in map"));
    let lines: String = lines.collect();
    let found = (!lines.is_empty()).then(|| format!("{YAML_ERRORS}{lines}"));
    Ok((json, found))
}

/// A finding, as warnings: what YAML has twice is one finding of several lines.
pub(crate) fn yaml_warnings(finding: &str) -> impl Iterator<Item = &str> {
    let lines = finding.strip_prefix(YAML_ERRORS);
    let whole = if lines.is_some() { None } else { Some(finding) };
    lines
        .into_iter()
        .flat_map(|lines| lines.lines().filter(|line| !line.is_empty()).map(str::trim))
        .chain(whole)
}

/// A body that cannot be an object of the kind.
pub(crate) fn cannot_be_handled(definition: &Definition, why: &str) -> ApiError {
    let Names { kind, version, .. } = &definition.names;
    ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {kind}: {why}"))
}

/// What the strict reading of a body found.
pub(crate) fn report(
    call: &mut Call<'_>,
    definition: &Definition,
    findings: Vec<String>,
    options: &WriteOptions,
) -> Result<(), ApiError> {
    match options.field_validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            for finding in &findings {
                yaml_warnings(finding).for_each(|warning| call.warn(warning));
            }
            Ok(())
        }
        FieldValidation::Strict if findings.is_empty() => Ok(()),
        FieldValidation::Strict => {
            let why = format!("strict decoding error: {}", findings.join(", "));
            Err(cannot_be_handled(definition, &why))
        }
    }
}

/// What of a built-in type's own name and version is wrong with an object: the kind and version it says it is, and why it
/// cannot be what is wanted.
pub(crate) fn check_type(
    api_version: &str,
    kind: &str,
    object: &Value,
) -> Result<(), (String, String, String)> {
    let (given_kind, given_version) = (text(object, "kind"), text(object, "apiVersion"));
    let given_kind = if given_kind.is_empty() { kind } else { given_kind };
    let given_version = if given_version.is_empty() { api_version } else { given_version };
    if (given_kind, given_version) == (kind, api_version) {
        return Ok(());
    }
    let (group, version) = given_version.rsplit_once('/').unwrap_or(("", given_version));
    let failed = |why: String| Err((given_kind.to_owned(), version.to_owned(), why));
    match builtin::find(group, version, given_kind) {
        // It is read as what it says it is.
        Some(row) => {
            if let Some(why) = builtin::decode(row, &mut object.clone()).error {
                return failed(why);
            }
        }
        None if builtin::is_registered(group, version, given_kind) => {
            let component = format!("io.k8s.apimachinery.pkg.apis.meta.v1.{given_kind}");
            if let Some(why) = builtin::decode_component(&component, &mut object.clone()).error {
                return failed(why);
            }
        }
        None => return failed(unregistered(given_kind, given_version)),
    }
    if given_kind == kind && group == api_version.rsplit_once('/').map_or("", |(group, _)| group) {
        return Ok(());
    }
    let hub = go_package(api_version.rsplit_once('/').map_or("", |(group, _)| group));
    failed(format!("converting ({version}.{given_kind}) to ({hub}.{kind}): unknown conversion"))
}

/// A kind that upstream's scheme does not know.
pub(crate) fn unregistered(kind: &str, api_version: &str) -> String {
    format!(
        "no kind {} is registered for version {} in scheme \"{SCHEME}\"",
        go::strconv::quote(kind),
        go::strconv::quote(api_version)
    )
}

//! Patches: which kinds of them a resource takes, and how they change an object.

use serde_json::Value;
use settled_patch::{
    JsonPatch, PatchError, decode_merge_patch, decode_strategic_patch, merge_patch, strategic_merge,
};

use crate::core::Call;
use crate::decode;
use crate::definition::Definition;
use crate::error::ApiError;
use crate::negotiate::{self, Format};
use crate::options::WriteOptions;
use crate::write::{cannot_be_handled, report};

/// The kinds of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Json,
    Merge,
    Strategic,
    Apply,
}

const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

impl Kind {
    /// What a `Content-Type` means for a resource. Only built-in kinds say how their lists are merged.
    pub(crate) fn parse(content_type: &str, definition: &Definition) -> Result<Self, ApiError> {
        let media = negotiate::media_type(content_type).unwrap_or_default();
        match media.as_str() {
            JSON => Ok(Self::Json),
            MERGE => Ok(Self::Merge),
            STRATEGIC if !definition.model.is_custom() => Ok(Self::Strategic),
            APPLY => Ok(Self::Apply),
            _ => {
                if !definition.model.is_custom() {
                    // Said by the route.
                    let mut error =
                        ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
                    error.detailed = true;
                    return Err(error);
                }
                let supported = [JSON, MERGE, APPLY].join(", ");
                let message = format!(
                    "the body of the request was in an unknown format - accepted media types include: {supported}"
                );
                Err(ApiError::new(415, "UnsupportedMediaType", message))
            }
        }
    }
}

/// A patch that was read, for one object or, after a conflict, for its next version.
pub(crate) enum Patch<'a> {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value, &'a Definition),
}

impl<'a> Patch<'a> {
    /// Reads any patch but apply.
    pub(crate) fn parse(
        call: &mut Call<'_>,
        kind: Kind,
        definition: &'a Definition,
        body: &[u8],
        options: &WriteOptions,
    ) -> Result<Self, ApiError> {
        let (patch, findings) = match kind {
            Kind::Json => {
                let patch = JsonPatch::decode(body).map_err(failed)?;
                let findings = patch.strict_errors().to_vec();
                (Self::Json(patch), findings)
            }
            Kind::Merge | Kind::Apply => {
                let decoded = decode_merge_patch(body).map_err(failed)?;
                (Self::Merge(decoded.patch), decoded.strict_errors)
            }
            Kind::Strategic => {
                let decoded = decode_strategic_patch(body).map_err(failed)?;
                (Self::Strategic(decoded.patch, definition), decoded.strict_errors)
            }
        };
        report(call, definition, findings, options)?;
        Ok(patch)
    }

    /// The object that the patch makes of another.
    pub(crate) fn apply(&self, old: &Value) -> Result<Value, ApiError> {
        match self {
            Self::Json(patch) => patch.apply(old),
            Self::Merge(patch) => merge_patch(old, patch),
            Self::Strategic(patch, definition) => {
                let (types, name) = definition.model.patch_types(definition);
                strategic_merge(old, patch, &*types, &name)
            }
        }
        .map_err(failed)
    }
}

fn failed(error: PatchError) -> ApiError {
    match error {
        PatchError::BadRequest(message) => ApiError::bad_request(message),
        PatchError::Invalid(_) => {
            ApiError::new(422, "Invalid", "the server rejected our request due to an error in our request")
        }
        PatchError::TooLarge(message) => ApiError::new(413, "RequestEntityTooLarge", message),
        other => ApiError::new(500, "", other.to_string()),
    }
}

/// Reads the configuration of an apply. It is YAML, and so may be JSON.
pub(crate) fn configuration(
    call: &mut Call<'_>,
    definition: &Definition,
    body: &[u8],
    options: &WriteOptions,
) -> Result<Value, ApiError> {
    let json = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let decoded = decode::body(if json { Format::Json } else { Format::Yaml }, body)
        .map_err(|why| ApiError::bad_request(format!("error decoding YAML: {why}")))?;
    if !decoded.value.is_object() {
        return Err(cannot_be_handled(definition, "the configuration must be an object"));
    }
    let findings = decoded.duplicates.iter().map(|path| format!("duplicate field {path:?}")).collect();
    report(call, definition, findings, options)?;
    Ok(decoded.value)
}

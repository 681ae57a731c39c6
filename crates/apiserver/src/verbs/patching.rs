//! Patches: the types that a resource takes, and their application.

use serde_json::{Map, Value};
use settled_go as go;
use settled_patch::{
    JsonPatch, PatchError, decode_merge_patch, decode_strategic_patch, merge_patch, strategic_merge,
};

use crate::budget::check_budget;
use crate::decode;
use crate::error::ApiError;
use crate::kinds::builtin;
use crate::kinds::definition::Definition;
use crate::kinds::names::Part;
use crate::options::{FieldValidation, WriteOptions};
use crate::state::call::Call;
use crate::verbs::strict;

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
    /// What the media type of a body means for a resource. Only built-in kinds say how their lists are merged.
    pub(crate) fn parse(media_type: &str, definition: &Definition) -> Result<Self, ApiError> {
        match media_type {
            JSON => Ok(Self::Json),
            MERGE => Ok(Self::Merge),
            STRATEGIC if !definition.model.is_custom() => Ok(Self::Strategic),
            APPLY => Ok(Self::Apply),
            // Upstream's routes of built-in kinds refuse it before anything of theirs is asked.
            _ if !definition.model.is_custom() => {
                Err(ApiError::generic(415, "UnsupportedMediaType", "415: Unsupported Media Type"))
            }
            _ => {
                let message = format!(
                    "the body of the request was in an unknown format - accepted media types include: {}",
                    [JSON, MERGE, APPLY].join(", ")
                );
                Err(ApiError::new(415, "UnsupportedMediaType", message))
            }
        }
    }
}

/// A patch of any kind but apply, not read yet: upstream looks for the object first.
pub(crate) struct Patch<'a> {
    kind: Kind,
    definition: &'a Definition,
    body: &'a [u8],
}

/// What a patch makes of an object.
pub(crate) struct Patched {
    pub(crate) object: Value,
    /// What the strict reading of the patch found.
    pub(crate) findings: Vec<String>,
    /// The patch, where messages show it instead of the object.
    patch: Option<Value>,
}

impl<'a> Patch<'a> {
    pub(crate) const fn new(kind: Kind, definition: &'a Definition, body: &'a [u8]) -> Self {
        Self { kind, definition, body }
    }

    /// The object that the patch makes of another. A subresource may have other types than the definition's.
    pub(crate) fn apply(&self, old: &Value, part: Part) -> Result<Patched, ApiError> {
        let (object, findings, patch) = match self.kind {
            Kind::Json => {
                let patch = JsonPatch::decode(self.body).map_err(failed)?;
                (patch.apply(old), patch.strict_errors().to_vec(), None)
            }
            Kind::Merge | Kind::Apply => {
                let decoded = decode_merge_patch(self.body).map_err(failed)?;
                (merge_patch(old, &decoded.patch), decoded.strict_errors, None)
            }
            Kind::Strategic => {
                let decoded = decode_strategic_patch(self.body).map_err(failed)?;
                let (types, name) = self.definition.model.patch_types(self.definition.api_version());
                let name = if part == Part::Scale { builtin::SCALE.to_owned() } else { name };
                let object = strategic_merge(old, &decoded.patch, &*types, &name);
                (object, decoded.strict_errors, Some(decoded.patch))
            }
        };
        Ok(Patched { object: object.map_err(failed)?, findings, patch })
    }
}

impl Patched {
    /// Was it a strategic merge?
    pub(crate) const fn is_strategic(&self) -> bool {
        self.patch.is_some()
    }

    /// What was patched cannot be an object of its kind.
    pub(crate) fn refused(&self, object: &Value, why: &str) -> ApiError {
        let shown = self.patch.as_ref().map_or_else(|| go::json::to_string(object), go::fmt::plain);
        ApiError::invalid_patch(&shown, why)
    }
}

fn failed(error: PatchError) -> ApiError {
    if let Err(exceeded) = check_budget() {
        return exceeded;
    }
    match error {
        PatchError::BadRequest(message) => ApiError::bad_request(message),
        PatchError::Invalid(_) => {
            let message = "the server rejected our request due to an error in our request";
            ApiError::generic(422, "Invalid", message)
        }
        PatchError::TooLarge(message) => ApiError::new(413, "RequestEntityTooLarge", message),
        other => ApiError::new(500, "", other.to_string()),
    }
}

/// A configuration to apply, and what the strict reading of it found: that is said once it was applied.
pub(crate) struct Configuration<'a> {
    pub(crate) object: Value,
    duplicates: Option<String>,
    body: &'a [u8],
}

impl<'a> Configuration<'a> {
    /// Reads the configuration of an apply. It is YAML, and so may be JSON.
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, ApiError> {
        let failed = |why: String| ApiError::bad_request(format!("error decoding YAML: {why}"));
        let (json, duplicates) = strict::yaml(body).map_err(&failed)?;
        // Nothing at all is a configuration without anything in it.
        let json = if json.is_empty() { b"null".to_vec() } else { json };
        let decoded = decode::json(&json).map_err(|error| failed(error.to_string()))?;
        let given = match decoded.value {
            Value::Object(_) => return Ok(Self { object: decoded.value, duplicates, body }),
            Value::Null => return Ok(Self { object: Value::Object(Map::new()), duplicates, body }),
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
        };
        Err(failed(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {given} into Go value of type \
             map[string]interface {{}}"
        )))
    }

    /// The configuration as it was sent, if the result of applying it depends on nothing but that and the object.
    pub(crate) fn body(&self) -> Option<&'a [u8]> {
        let is_guarded = self.object.pointer("/metadata/resourceVersion").is_some();
        (!is_guarded && self.duplicates.is_none()).then_some(self.body)
    }

    /// Says what the strict reading found.
    pub(crate) fn report(&self, call: &mut Call<'_>, options: &WriteOptions) -> Result<(), ApiError> {
        let Some(found) = &self.duplicates else { return Ok(()) };
        match options.field_validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => strict::yaml_warnings(found).for_each(|warning| call.warn(warning)),
            FieldValidation::Strict => {
                let message = format!("error strict decoding YAML: error converting YAML to JSON: {found}");
                return Err(ApiError::bad_request(message));
            }
        }
        Ok(())
    }
}

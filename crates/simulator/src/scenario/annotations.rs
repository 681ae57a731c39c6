//! Annotations: the fields of an entry, on the object that they are about.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::ANNOTATION_PREFIX;

/// Annotations that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("annotations with {ANNOTATION_PREFIX}: {message}")]
pub struct AnnotationError {
    /// What is wrong.
    pub message: String,
}

/// An entry from the annotations of an object: `simulator.settled.dev/FIELD: YAML`, or for a part of it, such as a
/// container, `PART.simulator.settled.dev/FIELD`, which wins. None without any.
pub(crate) fn from_annotations<T: DeserializeOwned>(
    annotations: &BTreeMap<String, String>,
    part: Option<&str>,
) -> Result<Option<T>, AnnotationError> {
    let mut fields = Map::new();
    let own = part.map(|part| format!("{part}.{ANNOTATION_PREFIX}"));
    for prefix in [Some(ANNOTATION_PREFIX), own.as_deref()].into_iter().flatten() {
        for (key, value) in annotations {
            let Some(field) = key.strip_prefix(prefix) else { continue };
            let mut json = Vec::new();
            let failed = |message: String| AnnotationError { message: format!("{key}: {message}") };
            settled_manifest::yaml_to_json(value.as_bytes(), &mut json)
                .map_err(|error| failed(error.message))?;
            let value: Value = serde_json::from_slice(&json).map_err(|error| failed(error.to_string()))?;
            fields.insert(field.to_owned(), value);
        }
    }
    if fields.is_empty() {
        return Ok(None);
    }
    let entry = serde_json::from_value(Value::Object(fields));
    entry.map(Some).map_err(|error| AnnotationError { message: error.to_string() })
}

//! Changes: replace, patch, apply or compute an object, and the check of its name and namespace.

use serde_json::Value;

use crate::budget::check_budget;
use crate::error::{ApiError, Cause};
use crate::object::{meta, metadata_mut};
use crate::state::call::Target;
use crate::verbs::patching::{Configuration, Patch};

/// How an object comes from the one before.
pub(crate) enum Change<'a> {
    /// The client sent the whole object, which was read as one of its kind.
    Replace(&'a Value),
    /// The server computes it.
    With(&'a (dyn Fn(&Value) -> Result<Value, ApiError> + Sync)),
    /// The client sent a patch.
    Patch(&'a Patch<'a>),
    /// The client applies a configuration.
    Apply(&'a Configuration<'a>),
}

/// Why a configuration cannot be applied.
pub(crate) fn apply_failed(error: settled_managed_fields::ApplyError) -> ApiError {
    use settled_managed_fields::ApplyError;
    if let Err(exceeded) = check_budget() {
        return exceeded;
    }
    match error {
        ApplyError::BadRequest(message) => ApiError::bad_request(message),
        ApplyError::Conflict { message, causes } => {
            let causes = causes
                .into_iter()
                .map(|cause| Cause::new(settled_managed_fields::Cause::REASON, cause.message, cause.field));
            ApiError::new(409, "Conflict", message).because(causes)
        }
        other => ApiError::new(500, "", other.to_string()),
    }
}

/// The object must be where the request says.
pub(crate) fn check_place(target: &Target<'_>, object: &mut Value) -> Result<(), ApiError> {
    check_namespace_of(target, object)?;
    let name = meta(object, "name");
    if name.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            target.name
        )));
    }
    if name != target.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            target.name
        )));
    }
    Ok(())
}

/// The namespace of the object must be that of the request, and is if it says none.
pub(crate) fn check_namespace_of(target: &Target<'_>, object: &mut Value) -> Result<(), ApiError> {
    let namespace = meta(object, "namespace");
    if namespace == target.namespace {
        return Ok(());
    }
    if target.namespace.is_empty() {
        metadata_mut(object).remove("namespace");
    } else if namespace.is_empty() {
        metadata_mut(object).insert("namespace".to_owned(), target.namespace.into());
    } else {
        let message = "the namespace of the provided object does not match the namespace sent on the request";
        return Err(ApiError::bad_request(message));
    }
    Ok(())
}

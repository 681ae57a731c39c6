//! Refused objects: field conflicts, missing permissions, and what would help.

use serde::Deserialize;
use settled_watch::RequestError;

use super::events::{ApplyOptions, Conflict};
use crate::id::ObjectId;

/// Why an object was refused.
pub(super) struct Refusal {
    pub(super) message: String,
    pub(super) conflicts: Vec<Conflict>,
    pub(super) remedy: Option<String>,
    /// A permission or an answer is missing.
    pub(super) unreachable: bool,
    /// There was no answer.
    pub(super) lost: bool,
}

impl Refusal {
    pub(super) fn new(message: String, remedy: Option<String>) -> Self {
        Self { message, conflicts: Vec::new(), remedy, unreachable: false, lost: false }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Causes {
    details: Details,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Details {
    causes: Vec<CauseOf>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CauseOf {
    reason: String,
    message: String,
    field: String,
}

pub(super) fn conflicts_of(error: &RequestError) -> Vec<Conflict> {
    let RequestError::Status { body, .. } = error else { return Vec::new() };
    let causes: Causes = serde_json::from_slice(body).unwrap_or_default();
    let conflicts = causes.details.causes.into_iter().filter(|cause| cause.reason == "FieldManagerConflict");
    conflicts
        .map(|cause| {
            // conflict with "kubectl" using apps/v1
            let manager = cause.message.split('"').nth(1).unwrap_or(&cause.message).to_owned();
            Conflict { manager, field: cause.field }
        })
        .collect()
}

pub(super) fn refused(error: RequestError, resource: &str, id: &ObjectId, options: &ApplyOptions) -> Refusal {
    let mut refusal = Refusal::new(error.to_string(), None);
    refusal.unreachable = is_unreachable(&error);
    refusal.conflicts = conflicts_of(&error);
    let place = match &*id.namespace {
        "" => String::new(),
        namespace => format!(" in {namespace}"),
    };
    refusal.remedy = match error.code() {
        None => {
            refusal.lost = true;
            None
        }
        _ if !refusal.conflicts.is_empty() => Some(
            "remove these fields from the manifest to leave them to their owners, or take them over with --force-conflicts"
                .to_owned(),
        ),
        _ if lacks_permission(&error) => Some(format!("grant get and patch on {resource}{place}")),
        Some(404) if options.dry_run && !id.namespace.is_empty() => {
            Some(format!("a dry run does not create namespace {}; create it first", id.namespace))
        }
        _ => None,
    };
    refusal
}

/// Whether a permission or an answer is missing.
pub(super) fn is_unreachable(error: &RequestError) -> bool {
    matches!(error.code(), None | Some(401 | 429 | 502..=504)) || lacks_permission(error)
}

/// Whether the user may not do that. A quota and admission plugins answer with the same code, but then it is the object that is refused.
fn lacks_permission(error: &RequestError) -> bool {
    let RequestError::Status { code: 403, message, .. } = error else { return false };
    message.contains("User \"") && message.contains(" cannot ")
}

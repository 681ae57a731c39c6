//! API errors: `kind: Status`.

use std::collections::HashSet;
use std::fmt;

use serde_json::{Map, Value, json};
use settled_apimachinery::field;
pub use settled_apimachinery::group_version::GroupResource;
use settled_go as go;
use settled_store::{BackendError, WriteError};

/// An error that becomes the answer to a request: a `Status` with upstream's reason and text.
///
/// Clients branch on the code and the reason, and tools search the message, so the three come from upstream
/// (`apimachinery/pkg/api/errors`).
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// The HTTP status code.
    pub code: u16,
    /// A word for machines, `NotFound` for instance.
    pub reason: &'static str,
    /// A text for people.
    pub message: String,
    /// `details` of the Status.
    pub details: Map<String, Value>,
    /// Whether there are `details` even if there is nothing in them, as clients of upstream see it.
    pub detailed: bool,
    /// `metadata.continue` of the Status: how to go on with a list. Empty: there is nothing.
    pub next: String,
}

/// One of the `causes` of a Status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// What is wrong, `FieldValueInvalid` for instance.
    pub reason: String,
    /// What is wrong in words, without the field.
    pub message: String,
    /// Where, `spec.replicas` for instance. Empty: the whole object.
    pub field: String,
}

impl ApiError {
    /// An error without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Map::new(),
            detailed: false,
            next: String::new(),
        }
    }

    /// Says which object is meant.
    #[must_use]
    pub fn about(mut self, resource: GroupResource<'_>, name: &str) -> Self {
        self.detailed = true;
        if !name.is_empty() {
            self.details.insert("name".to_owned(), name.into());
        }
        if !resource.group.is_empty() {
            self.details.insert("group".to_owned(), resource.group.into());
        }
        if !resource.resource.is_empty() {
            self.details.insert("kind".to_owned(), resource.resource.into());
        }
        self
    }

    /// Adds the causes.
    #[must_use]
    pub fn because(mut self, causes: impl IntoIterator<Item = Cause>) -> Self {
        let causes: Vec<Value> = causes.into_iter().map(|cause| cause.to_json()).collect();
        if !causes.is_empty() {
            self.details.insert("causes".to_owned(), causes.into());
        }
        self
    }

    /// Says after how many seconds to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.details.insert("retryAfterSeconds".to_owned(), seconds.into());
        self
    }

    /// `pods "web" not found`.
    #[must_use]
    pub fn not_found(resource: GroupResource<'_>, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{resource} {name:?} not found")).about(resource, name)
    }

    /// `pods "web" already exists`.
    #[must_use]
    pub fn already_exists(resource: GroupResource<'_>, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{resource} {name:?} already exists")).about(resource, name)
    }

    /// `Operation cannot be fulfilled on pods "web": …`.
    #[must_use]
    pub fn conflict(resource: GroupResource<'_>, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {resource} {name:?}: {why}");
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// The object changed since it was read.
    #[must_use]
    pub fn modified(resource: GroupResource<'_>, name: &str) -> Self {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(resource, name, why)
    }

    /// The request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// `pods "web" is forbidden: …`.
    #[must_use]
    pub fn forbidden(resource: GroupResource<'_>, name: &str, why: &str) -> Self {
        let message = match name {
            "" => format!("{resource} is forbidden: {why}"),
            name => format!("{resource} {name:?} is forbidden: {why}"),
        };
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    /// The object is not valid; `kind` is that of the object, not the resource.
    #[must_use]
    pub fn invalid(group: &str, kind: &str, name: &str, causes: Vec<Cause>) -> Self {
        // Upstream checks some things twice; its message says them once.
        let mut seen = HashSet::new();
        let mut texts: Vec<String> = causes.iter().map(ToString::to_string).collect();
        let mut first =
            texts.iter().map(|text| seen.insert(text.as_str())).collect::<Vec<bool>>().into_iter();
        texts.retain(|_| first.next().unwrap_or(true));
        let kind = GroupResource { group, resource: kind };
        let message = match texts.as_slice() {
            [] => format!("{kind} {name:?} is invalid"),
            [only] => format!("{kind} {name:?} is invalid: {only}"),
            several => format!("{kind} {name:?} is invalid: [{}]", several.join(", ")),
        };
        Self::new(422, "Invalid", message).about(kind, name).because(causes)
    }

    /// A patch, or what it makes of an object, cannot be used. Upstream knows of no kind there.
    #[must_use]
    pub fn invalid_patch(shown: &str, why: &str) -> Self {
        let message = format!("Invalid value: {}: {why}", go::strconv::quote(shown));
        Self::invalid("", "", "", vec![Cause::new("FieldValueInvalid", message, "patch")])
    }

    /// An error that says nothing but its code, though upstream gives it (empty) details.
    pub fn generic(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { detailed: true, ..Self::new(code, reason, message) }
    }

    /// Something failed here, not in the request.
    pub fn internal(message: impl fmt::Display) -> Self {
        Self::new(500, "InternalError", format!("Internal error occurred: {message}")).because([Cause::new(
            "",
            message.to_string(),
            "",
        )])
    }

    /// Nothing is at this path.
    #[must_use]
    pub fn page_not_found() -> Self {
        let nothing = GroupResource { group: "", resource: "" };
        Self::new(404, "NotFound", "the server could not find the requested resource").about(nothing, "")
    }

    /// Something is at this path, but not for this method.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let nothing = GroupResource { group: "", resource: "" };
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message).about(nothing, "")
    }

    /// A resource and its subresource that needs containers.
    #[must_use]
    pub fn not_run((resource, subresource): (&str, &str)) -> Self {
        let message = format!(
            "pods are stored on this server, not run: there is nothing to reach by {resource}/{subresource}"
        );
        Self::new(501, "", message).about(GroupResource { group: "", resource }, "")
    }

    /// The verb does not exist for the resource.
    #[must_use]
    pub fn method_not_supported(resource: GroupResource<'_>, verb: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind {:?}", resource.to_string());
        Self::new(405, "MethodNotAllowed", message).about(resource, "")
    }

    /// The revision, or the continue token, is too old.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// The `Status` object.
    #[must_use]
    pub fn to_status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if let Some(status) = status.as_object_mut() {
            if self.reason.is_empty() {
                status.remove("reason");
            }
            if !self.next.is_empty() {
                status.insert("metadata".to_owned(), json!({"continue": self.next}));
            }
            if self.detailed || !self.details.is_empty() {
                status.insert("details".to_owned(), self.details.clone().into());
            }
        }
        status
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

impl Cause {
    /// A cause from its three parts.
    pub fn new(reason: impl Into<String>, message: impl Into<String>, field: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), field: field.into() }
    }

    fn to_json(&self) -> Value {
        let parts = [("reason", &self.reason), ("message", &self.message), ("field", &self.field)];
        let parts = parts.into_iter().filter(|(_, text)| !text.is_empty());
        parts.map(|(name, text)| (name.to_owned(), Value::from(text.as_str()))).collect::<Map<_, _>>().into()
    }
}

impl From<&field::Error> for Cause {
    fn from(error: &field::Error) -> Self {
        Self::new(error.error_type.cause(), error.message(), error.field.as_str())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.message),
            field => write!(f, "{field}: {}", self.message),
        }
    }
}

/// A write that failed for another reason than a conflict.
pub(crate) fn write_failed(error: &WriteError) -> ApiError {
    match error {
        WriteError::TooLarge { size, limit } => {
            let message =
                format!("Request is too large: the object has {size} bytes; at most {limit} are allowed");
            ApiError::new(413, "RequestEntityTooLarge", message)
        }
        WriteError::Busy { .. } => {
            ApiError::new(429, "TooManyRequests", "too many writes are waiting, please try again later")
                .retry_after(1)
        }
        WriteError::Stopped => ApiError::new(503, "ServiceUnavailable", "the server is stopping"),
        WriteError::Full { .. } => ApiError::new(507, "InsufficientStorage", error.to_string()),
        // Where the data are is for the server's log alone.
        WriteError::Backend(source) => {
            let why = match &**source {
                BackendError::NoSpace { .. } => "no space is left on the server's disk",
                _ => "the server's storage failed",
            };
            ApiError::internal(format!("{error}: {why}"))
        }
        _ => ApiError::internal(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// The server's log has the path.
    #[test]
    fn clients_are_not_told_where_the_data_are() {
        let path = || "/srv/secret/store.log".into();
        let full = BackendError::NoSpace { path: path(), source: io::Error::from_raw_os_error(28) };
        let broken = BackendError::Io {
            action: "writing",
            path: path(),
            source: io::ErrorKind::PermissionDenied.into(),
        };
        let corrupt = BackendError::Corrupt { path: path(), what: "a hole".to_owned() };
        for (error, wanted) in [
            (full, "no space is left on the server's disk"),
            (broken, "the server's storage failed"),
            (corrupt, "the server's storage failed"),
        ] {
            let failed = write_failed(&WriteError::Backend(error.into()));
            let status = failed.to_status().to_string();
            assert_eq!(failed.code, 500);
            assert!(status.contains(wanted) && !status.contains("secret"), "{status}");
        }
    }
}

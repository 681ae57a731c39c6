//! Errors of status writes, with remedies.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use kube::core::Status;
use kube::core::response::StatusCause;

use crate::admission::is_denied;

/// Error type of closures that decide a status.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// The target of a status write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectName {
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural resource name: `buckets`.
    pub resource: String,
    /// The namespace, if namespaced.
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
}

impl fmt::Display for ObjectName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {:?}", self.resource, self.name)?;
        match &self.namespace {
            Some(namespace) => write!(formatter, " in namespace {namespace:?}"),
            None => Ok(()),
        }
    }
}

/// A failed status write. The object's status is unchanged.
#[derive(Debug)]
pub struct WriteError {
    /// The object.
    pub object: ObjectName,
    /// The reason.
    pub cause: WriteFailure,
}

/// Reason of a failed status write.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteFailure {
    /// Forbidden by RBAC.
    #[error("forbidden (needs verb {verb:?} on {resource:?})")]
    Forbidden {
        /// `patch`, or `get` for reading the object again after a conflict.
        verb: &'static str,
        /// The resource with its subresource: `buckets/status`.
        resource: String,
        /// The API server's response.
        source: kube::Error,
    },
    /// Denied by an admission webhook, policy or plugin.
    #[error("denied by admission: {}", status_message(.source))]
    Denied {
        /// The API server's response.
        source: kube::Error,
    },
    /// The resource has no status subresource. The status is not written to the main resource, whose writers could also
    /// write the spec.
    #[error("the resource has no status subresource")]
    NoStatusSubresource {
        /// The API server's response.
        source: kube::Error,
    },
    /// The API server does not serve the resource: the CRD is missing.
    #[error("the API server does not serve the resource")]
    NotServed {
        /// The API server's response.
        source: kube::Error,
    },
    /// The status violates the schema or a validation rule of the resource.
    #[error("rejected by validation: {}", status_message(.source))]
    Invalid {
        /// The invalid fields with their messages.
        fields: Vec<String>,
        /// The API server's response.
        source: kube::Error,
    },
    /// The object would exceed the size limit of the API server or etcd.
    #[error("the object is too large: its status would have {bytes} bytes")]
    TooLarge {
        /// Size of the status as JSON.
        bytes: usize,
        /// The API server's response.
        source: kube::Error,
    },
    /// Each attempt had a conflict.
    #[error("still in conflict after {attempts} attempts")]
    Conflict {
        /// Number of attempts.
        attempts: u32,
        /// The last response of the API server.
        source: kube::Error,
    },
    /// Conflict of server-side apply without force: other managers own fields.
    #[error("other managers own the fields: {}", status_message(.source))]
    Owned {
        /// The fields.
        fields: Vec<String>,
        /// The API server's response.
        source: kube::Error,
    },
    /// The observed object lacks a field for guarding the write: it was not read from an API server.
    #[error("the observed object has no {field}")]
    Incomplete {
        /// The field, such as `metadata.uid`.
        field: &'static str,
    },
    /// The closure that decides the status failed.
    #[error("cannot decide the status: {source}")]
    Decide {
        /// Its error.
        source: BoxError,
    },
    /// The status or the object cannot be serialized.
    #[error("cannot serialize the status: {source}")]
    Serialize {
        /// serde's error.
        source: serde_json::Error,
    },
    /// Another failure of the request: the API server is unavailable or overloaded, or its response is invalid.
    #[error("{}", request_message(.source))]
    Request {
        /// kube's error.
        source: kube::Error,
    },
}

impl WriteError {
    /// Whether the same write may succeed later by itself: then requeue the object with backoff.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match &self.cause {
            WriteFailure::Conflict { .. } => true,
            WriteFailure::Request { source } => match source {
                kube::Error::Api(status) => status.code == 429 || status.code >= 500,
                kube::Error::BuildRequest(_) | kube::Error::SerdeError(_) | kube::Error::FromUtf8(_) => false,
                _ => true,
            },
            _ => false,
        }
    }

    /// Delay requested by the API server (`Retry-After`).
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        let WriteFailure::Request { source: kube::Error::Api(status) } = &self.cause else { return None };
        let seconds = status.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }

    /// The remedy, one sentence.
    #[must_use]
    pub fn hint(&self) -> String {
        let ObjectName { group, resource, .. } = &self.object;
        match &self.cause {
            WriteFailure::Forbidden { verb, resource, .. } => format!(
                "add {{apiGroups: [{group:?}], resources: [{resource:?}], verbs: [{verb:?}]}} to the rules of the controller's role"
            ),
            WriteFailure::Denied { .. } => {
                "exempt the controller's service account from the named webhook, policy or plugin, or meet its requirements".to_owned()
            }
            WriteFailure::NoStatusSubresource { .. } => {
                format!("add `subresources: {{status: {{}}}}` to each version of the CRD {resource}.{group}")
            }
            WriteFailure::NotServed { .. } => format!("install the CRD {resource}.{group} with the version that the controller uses"),
            WriteFailure::Invalid { fields, .. } => {
                format!("make the CRD's schema and the controller's status type agree on {}", listed(fields))
            }
            WriteFailure::TooLarge { .. } => {
                "keep lists and messages in status short; details belong into objects of their own".to_owned()
            }
            WriteFailure::Conflict { .. } => {
                "reconcile the object again; if it happens often, another client writes the object all the time".to_owned()
            }
            WriteFailure::Owned { fields, .. } => {
                format!("apply with force if {} are the controller's, or leave them to their owner", listed(fields))
            }
            WriteFailure::Incomplete { .. } => "pass the object as a get, list or watch returned it".to_owned(),
            WriteFailure::Decide { .. } | WriteFailure::Serialize { .. } => "correct the controller".to_owned(),
            WriteFailure::Request { .. } => "reconcile the object again later".to_owned(),
        }
    }
}

fn listed(fields: &[String]) -> String {
    if fields.is_empty() { "the fields".to_owned() } else { fields.join(", ") }
}

impl fmt::Display for WriteError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "cannot write status of {}: {}", self.object, self.cause)
    }
}

impl Error for WriteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        // The message already contains the cause.
        self.cause.source()
    }
}

fn status_message(error: &kube::Error) -> &str {
    match error {
        kube::Error::Api(status) => &status.message,
        _ => "",
    }
}

/// kube formats the whole response with Rust's names.
fn request_message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} {}: {}", status.code, status.reason, status.message),
        other => other.to_string(),
    }
}

/// Meaning of a failed request.
pub(super) enum Answer {
    /// Conflict: the object must be read again.
    Stale(kube::Error),
    /// Not found: the object is deleted, or the resource or its status subresource does not exist.
    NotFound(kube::Error),
    /// It failed.
    Failure(WriteFailure),
}

/// Classifies the response to a write of `bytes` bytes of status, or to a read.
pub(super) fn classify(error: kube::Error, verb: &'static str, resource: String, bytes: usize) -> Answer {
    let kube::Error::Api(status) = &error else {
        return Answer::Failure(WriteFailure::Request { source: error });
    };
    let failure = match status.code {
        404 => return Answer::NotFound(error),
        409 if !causes(status, is_owned).is_empty() => {
            WriteFailure::Owned { fields: causes(status, is_owned), source: error }
        }
        409 => return Answer::Stale(error),
        _ if is_denied(status) => WriteFailure::Denied { source: error },
        403 => WriteFailure::Forbidden { verb, resource, source: error },
        _ if is_too_large(status) => WriteFailure::TooLarge { bytes, source: error },
        400 | 422 => WriteFailure::Invalid { fields: causes(status, |_| true), source: error },
        _ => WriteFailure::Request { source: error },
    };
    Answer::Failure(failure)
}

/// Whether the API server knows the resource, but not the object: the response then names it.
pub(super) fn names_object(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.details.as_ref().is_some_and(|details| !details.name.is_empty())
}

fn causes(status: &Status, wanted: impl Fn(&StatusCause) -> bool) -> Vec<String> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.filter(|cause| wanted(cause)).map(|cause| cause.field.clone()).collect()
}

fn is_owned(cause: &StatusCause) -> bool {
    cause.reason == "FieldManagerConflict"
}

/// 413 of the API server; errors of etcd and its client are returned as 500.
fn is_too_large(status: &Status) -> bool {
    status.code == 413
        || status.code >= 500
            && ["etcdserver: request is too large", "trying to send message larger than max"]
                .iter()
                .any(|text| status.message.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, message: &str, causes: &[(&str, &str)]) -> kube::Error {
        let causes: Vec<_> = causes
            .iter()
            .map(|(reason, field)| serde_json::json!({"reason": reason, "field": field, "message": ""}))
            .collect();
        let status = serde_json::json!({
            "code": code, "reason": "Why", "message": message, "details": {"causes": causes, "retryAfterSeconds": 7},
        });
        kube::Error::Api(serde_json::from_value(status).unwrap())
    }

    fn failure(error: kube::Error) -> WriteError {
        let object = ObjectName {
            group: "example.com".to_owned(),
            resource: "buckets".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "a".to_owned(),
        };
        match classify(error, "patch", "buckets/status".to_owned(), 7) {
            Answer::Failure(cause) => WriteError { object, cause },
            Answer::Stale(error) | Answer::NotFound(error) => panic!("{error:?}"),
        }
    }

    #[test]
    fn answers_are_classified() {
        // Code, message, causes; the reason, whether it is transient, and part of the hint.
        type Case =
            (u16, &'static str, &'static [(&'static str, &'static str)], &'static str, bool, &'static str);
        let webhook = "admission webhook \"w.example.com\" denied the request: no";
        let policy = "buckets.example.com \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no";
        let cases: [Case; 12] = [
            (
                403,
                "User \"x\" cannot patch resource",
                &[],
                "forbidden (needs verb \"patch\" on \"buckets/status\")",
                false,
                "apiGroups: [\"example.com\"]",
            ),
            (
                403,
                webhook,
                &[],
                "denied by admission: admission webhook \"w.example.com\" denied the request: no",
                false,
                "exempt",
            ),
            (
                403,
                "pods \"a\" is forbidden: node \"n1\" can only update pod status for pods with spec.nodeName set to itself",
                &[],
                "denied by admission: pods \"a\" is forbidden: node \"n1\"",
                false,
                "exempt",
            ),
            (400, webhook, &[], "denied by admission: admission webhook", false, "exempt"),
            (422, policy, &[], "denied by admission: buckets.example.com", false, "exempt"),
            (
                422,
                "is invalid",
                &[("FieldValueInvalid", "status.a")],
                "rejected by validation: is invalid",
                false,
                "agree on status.a",
            ),
            (
                413,
                "Request entity too large",
                &[],
                "the object is too large: its status would have 7 bytes",
                false,
                "keep lists",
            ),
            (500, "etcdserver: request is too large", &[], "the object is too large", false, "keep lists"),
            (500, "internal", &[], ": 500 Why: internal", true, "later"),
            (429, "too many requests", &[], ": 429 Why: too many requests", true, "later"),
            (401, "no token", &[], ": 401 Why: no token", false, "later"),
            (
                409,
                "conflict",
                &[("FieldManagerConflict", ".status.a")],
                "other managers own the fields: conflict",
                false,
                ".status.a",
            ),
        ];
        for (code, message, causes, wanted, transient, hint) in cases {
            let error = failure(answer(code, message, causes));
            let text = error.to_string();
            assert!(
                text.starts_with("cannot write status of buckets \"a\" in namespace \"shop\": "),
                "{text}"
            );
            assert!(text.contains(wanted), "{text}, wanted {wanted}");
            assert_eq!(error.is_transient(), transient, "{text}");
            assert!(error.hint().contains(hint), "{}, wanted {hint}", error.hint());
            assert!(error.source().is_some(), "{text}");
            let is_request = matches!(error.cause, WriteFailure::Request { .. });
            assert_eq!(error.retry_after(), is_request.then(|| Duration::from_secs(7)), "{text}");
        }
        let answers = [
            (answer(409, "the object has been modified", &[]), "stale"),
            (answer(404, "not found", &[]), "not found"),
        ];
        for (error, wanted) in answers {
            let found = match classify(error, "patch", String::new(), 0) {
                Answer::Stale(_) => "stale",
                Answer::NotFound(_) => "not found",
                Answer::Failure(_) => "failure",
            };
            assert_eq!(found, wanted);
        }
    }
}

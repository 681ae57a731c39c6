//! Errors of requests, with messages for users and the errors below them.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;

/// A message for users, and the error that it sums up as its source.
#[derive(Clone, Debug)]
pub struct ErrorMessage {
    text: String,
    /// Shared: each stream keeps the error of its last request.
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl ErrorMessage {
    pub(crate) fn new(text: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { text: text.into(), source: Some(Arc::from(source.into())) }
    }
}

impl From<String> for ErrorMessage {
    fn from(text: String) -> Self {
        Self { text, source: None }
    }
}

impl fmt::Display for ErrorMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for ErrorMessage {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

/// Errors cannot be compared; what they say can.
impl PartialEq for ErrorMessage {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for ErrorMessage {}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The server says no.
    #[error("{message}")]
    Status {
        /// The HTTP status code.
        code: u16,
        /// Why, in one word, such as `Forbidden`.
        reason: String,
        /// Why, in the server's words.
        message: String,
        /// When to try again, if the server says so.
        retry_after: Option<Duration>,
        /// The whole of it, for details.
        body: Bytes,
    },
    /// The server cannot be reached, or its answer broke off.
    #[error(transparent)]
    Transport(ErrorMessage),
    /// No connection can be made, and retrying does not help: the host name does not exist, the certificate is not trusted, or the
    /// server does not speak TLS.
    #[error(transparent)]
    Misconfigured(ErrorMessage),
    /// What arrived is no answer of an API server.
    #[error(transparent)]
    Answer(ErrorMessage),
}

impl RequestError {
    /// The HTTP status code of the answer, if there was one.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status { code, .. } => Some(*code),
            Self::Transport(_) | Self::Misconfigured(_) | Self::Answer(_) => None,
        }
    }

    /// Whether the user may not do that.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// Whether the server calls the request malformed: it will say so again.
    #[must_use]
    pub fn is_rejected(&self) -> bool {
        matches!(self.code(), Some(400 | 405 | 406 | 414 | 415 | 422))
    }

    /// Whether it isn't there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// The answer cannot be read, for this reason.
    pub fn answer(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Answer(ErrorMessage::new(error.to_string(), error))
    }

    /// The error for logs: of an answer the code and the reason, since the message may quote the object.
    pub(crate) fn summary(&self) -> String {
        match self {
            Self::Status { code, reason, .. } => format!("{code} {reason}").trim_end().to_owned(),
            Self::Transport(_) | Self::Misconfigured(_) | Self::Answer(_) => self.to_string(),
        }
    }
}

/// What a request came to that was not answered. TLS and the resolver have no types here that could be asked.
pub(crate) fn connect_error(error: impl Error + Send + Sync + 'static) -> RequestError {
    /// Of rustls, of hyper, of getaddrinfo in glibc, musl and macOS.
    const PERMANENT: &[&str] = &[
        "invalid peer certificate",
        "received fatal alert",
        "received corrupt message",
        "invalid HTTP version",
        "Name or service not known",
        "Name does not resolve",
        "No address associated with hostname",
        "nodename nor servname provided",
    ];
    let text = innermost(&error);
    let is_permanent = PERMANENT.iter().any(|words| text.contains(words));
    let message = ErrorMessage::new(text, error);
    if is_permanent { RequestError::Misconfigured(message) } else { RequestError::Transport(message) }
}

/// The text for an answer that did not come in time.
#[must_use]
pub fn no_answer(within: Duration) -> String {
    format!("no answer within {}s", within.as_secs_f64().round())
}

/// What is wrong at the bottom of it: `tcp connect error` says less than `Connection refused`.
pub(crate) fn innermost(error: &(dyn Error + 'static)) -> String {
    let (mut error, mut text) = (error, error.to_string());
    while let Some(source) = error.source() {
        error = source;
        let inner = error.to_string();
        if !text.contains(&inner) {
            text = format!("{text}: {inner}");
        }
    }
    // What hyper and tower say about themselves helps nobody.
    for noise in [
        "ServiceError: ",
        "client error (Connect): ",
        "client error (SendRequest): ",
        "tcp connect error: ",
        "dns error: ",
    ] {
        text = text.replace(noise, "");
    }
    match text.rfind(" (os error ").filter(|_| text.ends_with(')')) {
        Some(number) => text[..number].to_owned(),
        None => text,
    }
}

#[derive(Default, Deserialize)]
struct RawStatus {
    #[serde(default)]
    message: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    details: RawDetails,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawDetails {
    #[serde(default)]
    retry_after_seconds: u64,
}

/// The error of a `Status` object, in an answer or in a watch.
pub(crate) fn status_error(code: u16, retry_after: Option<u64>, body: &[u8]) -> RequestError {
    let status: RawStatus = serde_json::from_slice(body).unwrap_or_default();
    let message = if status.message.is_empty() {
        let text: String = String::from_utf8_lossy(body).chars().take(200).collect();
        format!("HTTP {code} {}", text.trim()).trim().to_owned()
    } else {
        status.message
    };
    let seconds =
        retry_after.or_else(|| Some(status.details.retry_after_seconds).filter(|seconds| *seconds > 0));
    RequestError::Status {
        code,
        reason: status.reason,
        message,
        retry_after: seconds.map(|seconds| Duration::from_secs(seconds.min(60))),
        body: Bytes::copy_from_slice(body),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn what_no_retry_heals_is_told_by_its_text() {
        for (text, is_permanent) in [
            ("invalid peer certificate: UnknownIssuer", true),
            ("failed to lookup address information: Name or service not known", true),
            ("connection closed before message completed", false),
        ] {
            let error = connect_error(io::Error::other(text));
            assert_eq!(matches!(error, RequestError::Misconfigured(_)), is_permanent, "{text}");
            assert_eq!(error.to_string(), text);
            assert_eq!(error.source().unwrap().to_string(), text);
        }
    }
}

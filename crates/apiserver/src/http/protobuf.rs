//! Protobuf request bodies (`application/vnd.kubernetes.protobuf`), which Go's typed clients send, decoded to JSON values.

use serde_json::Value;
use thiserror::Error;

use crate::error::ApiError;
use crate::kinds::builtin::{self, Depth, Envelope, Malformed};

/// A body that is not an object.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{why}")]
pub(crate) struct Undecodable {
    /// The kind and the version that the body says it is of, if it got that far.
    given: Option<(String, String)>,
    why: Malformed,
}

impl Undecodable {
    /// The error of an endpoint that wants a kind.
    pub(crate) fn wanted(&self, kind: &str, body: &[u8]) -> ApiError {
        let why = &self.why;
        ApiError::bad_request(match &self.given {
            Some((given, version)) => {
                format!("{given} in version {version:?} cannot be handled as a {kind}: {why}")
            }
            None => format!(
                "the object provided is unrecognized (must be of type {kind}): {why} ({})",
                summary(body)
            ),
        })
    }
}

/// Reads a body. Where it doesn't say of which `apiVersion` and kind it is, it is of these.
pub(crate) fn decode(bytes: &[u8], api_version: &str, kind: &str) -> Result<Value, Undecodable> {
    let envelope = Envelope::read(bytes).map_err(|why| Undecodable { given: None, why })?;
    let kind = if envelope.kind.is_empty() { kind } else { &envelope.kind };
    let api_version = if envelope.api_version.is_empty() { api_version } else { &envelope.api_version };
    builtin::decode_message(api_version, kind, envelope.raw, Depth::default()).map_err(|why| {
        let (_, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        Undecodable { given: Some((kind.to_owned(), version.to_owned())), why }
    })
}

/// The first bytes of a body, for errors.
fn summary(bytes: &[u8]) -> String {
    const SHOWN: usize = 30;
    let shown = &bytes[..bytes.len().min(SHOWN)];
    let more = if bytes.len() > SHOWN { " ..." } else { "" };
    match bytes.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let digits: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            digits + more
        }
    }
}

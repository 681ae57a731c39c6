//! Conversion of custom resources (`pkg/apiserver/conversion` of apiextensions-apiserver). No webhook is called, so whatever
//! needs one is refused: treating it as no conversion would drop the fields that the versions do not share.

use serde::Deserialize;
use settled_store::Entry;

/// How the objects of a custom resource get from one version to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Conversion {
    /// Only `apiVersion` changes.
    #[default]
    None,
    /// A webhook converts them.
    Webhook,
}

/// The part of a stored object that says which version it has.
#[derive(Deserialize)]
struct Versioned {
    metadata: VersionedMetadata,
}

#[derive(Deserialize)]
struct VersionedMetadata {
    #[serde(rename = "storedVersion")]
    stored_version: Option<String>,
}

/// What upstream answers when a webhook of this kind cannot be called. `from` is what would be converted.
pub(crate) fn failure(from: &str, kind: &str) -> String {
    format!(
        "conversion webhook for {from}, Kind={kind} failed: this server does not call conversion webhooks"
    )
}

/// The version that a stored object says it has.
pub(crate) fn stored_version(entry: &Entry) -> Option<String> {
    let stored: Option<Versioned> = serde_json::from_slice(entry.value()).ok();
    stored.and_then(|stored| stored.metadata.stored_version)
}

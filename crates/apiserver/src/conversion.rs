//! Conversion of custom resources by webhooks (`pkg/apiserver/conversion` of apiextensions-apiserver). No webhook is called, so
//! whatever needs one is refused: treating it as no conversion would drop the fields that the versions do not share.

use serde::Deserialize;
use settled_store::Entry;
use std::sync::Arc;

use crate::core::{Call, Core, Target};
use crate::custom::Custom;
use crate::definition::{Definition, api_version};
use crate::error::ApiError;

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

fn failed(definition: &Definition, from: &str) -> ApiError {
    ApiError::new(500, "", failure(&api_version(&definition.group, from), &definition.kind))
}

/// The version that a stored object has.
fn stored_version(custom: &Custom, entry: &Entry) -> String {
    let stored: Option<Versioned> = serde_json::from_slice(entry.value()).ok();
    let version = stored.and_then(|stored| stored.metadata.stored_version);
    version.unwrap_or_else(|| custom.first_stored.clone())
}

impl Definition {
    /// The custom resource, if a webhook would convert its objects.
    fn converted_by_webhook(&self) -> Option<&Custom> {
        self.model.custom().filter(|custom| custom.conversion == Conversion::Webhook)
    }

    /// Refuses to read an object that a webhook would have to convert.
    pub(crate) fn check_readable(&self, entry: &Entry) -> Result<(), ApiError> {
        let Some(custom) = self.converted_by_webhook() else { return Ok(()) };
        let stored = stored_version(custom, entry);
        if stored == self.version {
            return Ok(());
        }
        if !custom.has_version(&stored) {
            let from = api_version(&self.group, &stored);
            let message = format!("request to convert CR from an invalid group/version: {from}");
            return Err(ApiError::new(500, "", message));
        }
        Err(failed(self, &stored))
    }

    /// Refuses to store an object of this version if a webhook would have to convert it to the storage version.
    pub(crate) fn check_storable(&self) -> Result<(), ApiError> {
        match self.converted_by_webhook() {
            Some(custom) if custom.storage_version != self.version => Err(failed(self, &self.version)),
            _ => Ok(()),
        }
    }
}

impl Core {
    /// The definition of the version that an object is stored in, where the server itself changes it at another one: its
    /// controllers touch nothing but metadata, which no webhook has to convert for that.
    pub(crate) fn as_stored(&self, call: &Call<'_>, target: &Target<'_>) -> Option<Arc<Definition>> {
        let definition = target.definition;
        let custom = definition.converted_by_webhook().filter(|_| call.internal)?;
        let stored = stored_version(custom, &*self.get(target).ok()?);
        self.catalog().find(&definition.group, &stored, &definition.plural).cloned()
    }
}

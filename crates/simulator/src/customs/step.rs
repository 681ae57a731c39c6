//! Steps of custom resources that are played, and what each kind needs for it.

use std::time::Duration;

use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use settled_controller::ObjectKey;
use settled_controller::queue::{Backoff, Queue};

/// After a write that failed, as client-go's default.
const BACKOFF: Backoff = Backoff { first: Duration::from_millis(5), max: Duration::from_secs(1000) };

/// A status that a controller writes some time after an object was created or its generation changed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CustomStep {
    /// How long after.
    pub after: Duration,
    /// The whole status.
    pub status: Value,
}

impl CustomStep {
    /// A status after a time.
    #[must_use]
    pub const fn new(after: Duration, status: Value) -> Self {
        Self { after, status }
    }
}

/// A queue for the objects of a kind.
pub(super) fn queue() -> Queue<ObjectKey> {
    Queue::new(BACKOFF)
}

/// The resource of a kind.
pub(super) fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

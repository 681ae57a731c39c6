//! Logs of containers: what is asked for, and who answers.

use std::sync::Arc;

use crate::error::ApiError;

/// Of which container a log is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PodLogRequest<'a> {
    /// The namespace of the Pod.
    pub namespace: &'a str,
    /// Its name.
    pub pod: &'a str,
    /// The container; empty if the request does not say.
    pub container: &'a str,
    /// Whether the log of the run before is wanted.
    pub previous: bool,
}

/// Returns the log of a container, or upstream's error.
pub type PodLogs = Arc<dyn Fn(&PodLogRequest<'_>) -> Result<String, ApiError> + Send + Sync>;

//! Secret bytes: keys and credentials, which no log and no error shows.

use std::fmt;
use std::sync::Arc;

/// Bytes that nobody else may read.
#[derive(Clone, Eq, PartialEq)]
pub struct Secret(Arc<[u8]>);

impl Secret {
    /// Makes these bytes secret.
    #[must_use]
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self(bytes.into())
    }

    /// The bytes, for the one place that needs them.
    #[must_use]
    pub fn expose(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("[redacted]")
    }
}

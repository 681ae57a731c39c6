//! Shared parts of label and field selectors.

use std::fmt;

/// Parse error of a selector, with upstream's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSelector(String);

impl InvalidSelector {
    /// An error with this text.
    pub fn new(message: String) -> Self {
        Self(message)
    }
}

impl fmt::Display for InvalidSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidSelector {}

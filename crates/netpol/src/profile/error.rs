//! Errors of profiles: of files, and of what a user asks for.

use std::io;
use std::path::PathBuf;

/// Why a profile file is not used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// It cannot be read.
    #[error("{}: {source}", .path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Something in it is wrong.
    #[error("{file}:{line}:{column}: {message}")]
    Invalid {
        /// The file, as the caller named it.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// The column in characters, counted from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
}

impl ProfileError {
    /// Line and column, if it has them.
    #[must_use]
    pub fn position(&self) -> Option<(usize, usize)> {
        match self {
            Self::Read { .. } => None,
            Self::Invalid { line, column, .. } => Some((*line, *column)),
        }
    }
}

/// Why a provider that a user names is not one. The answer is Unknown, and never supported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    /// The text is no reference.
    #[error("`{text}` is no provider; expected NAME@VERSION, NAME@VERSION/VARIANT or NAME@VERSION,OPTION")]
    Malformed {
        /// The text, shortened.
        text: String,
    },
    /// There is no such profile.
    #[error("no profile for provider `{name}`; known providers: {known}")]
    Unknown {
        /// The name.
        name: String,
        /// Names of the profiles.
        known: String,
    },
    /// The profile has no such variant.
    #[error("provider `{name}` has no variant `{variant}`; known variants: {known}")]
    UnknownVariant {
        /// The provider.
        name: String,
        /// The variant.
        variant: String,
        /// The profile's variants.
        known: String,
    },
    /// The profile has no such option.
    #[error("provider `{name}` has no option `{option}`; known options: {known}")]
    UnknownOption {
        /// The provider.
        name: String,
        /// The option.
        option: String,
        /// The profile's options.
        known: String,
    },
}

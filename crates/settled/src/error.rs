//! Command errors: message, details, hints and exit code.

use std::error::Error;
use std::fmt::Write as _;
use std::process::ExitCode;

use crate::stderr;
use crate::style::Palette;
use crate::text;

/// Command error with details and hints.
#[derive(Debug)]
pub(crate) struct CommandError {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn Error + Send + Sync>>,
    /// Each on a line of its own, such as the places of errors in a file.
    details: Vec<String>,
    hints: Vec<String>,
}

/// Whose the failure is; it decides the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorKind {
    /// The arguments make no sense.
    Usage,
    /// The input cannot be read, or holds nothing to judge.
    Input,
    /// The output cannot be written.
    Output,
    /// The cluster cannot be reached, or a permission is missing.
    Cluster,
    /// The request is invalid.
    Refused,
    /// What is asked about is not known.
    #[cfg(any(feature = "machines", feature = "netpol"))]
    Unknown,
    /// The cluster does not say what it is.
    #[cfg(feature = "netpol")]
    Undetected,
}

impl ErrorKind {
    fn exit_code(self) -> u8 {
        match self {
            Self::Usage | Self::Input | Self::Output => 2,
            Self::Cluster => 4,
            Self::Refused => 1,
            #[cfg(any(feature = "machines", feature = "netpol"))]
            Self::Unknown => 3,
            #[cfg(feature = "netpol")]
            Self::Undetected => 5,
        }
    }
}

impl CommandError {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message)
    }

    pub(crate) fn input(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Input, message)
    }

    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Refused, message)
    }

    pub(crate) fn output(message: impl Into<String>, source: impl Error + Send + Sync + 'static) -> Self {
        let mut error = Self::new(ErrorKind::Output, message);
        error.source = Some(Box::new(source));
        error
    }

    pub(crate) fn input_error(
        message: impl Into<String>,
        source: impl Error + Send + Sync + 'static,
    ) -> Self {
        let mut error = Self::new(ErrorKind::Input, message);
        error.source = Some(Box::new(source));
        error
    }

    pub(crate) fn cluster(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Cluster, message)
    }

    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None, details: Vec::new(), hints: Vec::new() }
    }

    #[cfg(test)]
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.details.push(detail.into());
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    #[cfg(feature = "netpol")]
    pub(crate) fn exit_code(&self) -> u8 {
        self.kind.exit_code()
    }

    /// Tells the user and gives the exit code.
    pub(crate) fn report(&self) -> ExitCode {
        let palette = Palette::stderr();
        let mut message = text::clean(&self.message);
        let mut source = self.source.as_deref().map(|error| error as &dyn Error);
        while let Some(error) = source {
            let _ = write!(message, ": {}", text::clean(text::os_words(&error.to_string())));
            source = error.source();
        }
        stderr::print_line(&format!("{} {message}", palette.error("error:")));
        for detail in &self.details {
            stderr::print_line(&format!("  {}", text::clean(detail)));
        }
        for hint in &self.hints {
            stderr::print_line(&format!("{} {}", palette.hint("hint:"), text::clean(hint)));
        }
        ExitCode::from(self.kind.exit_code())
    }
}

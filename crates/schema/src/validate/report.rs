//! Paths, errors and results of value validation.

use std::fmt::Write as _;

use serde_json::Value;
use settled_apimachinery::field::{Error as FieldError, ErrorType};
use settled_go::strconv::quote;

/// Maximum size of the errors of one object, in bytes.
const MAX_ERRORS: usize = 1 << 20;
/// Path in `kube-openapi`'s format.
#[derive(Clone, Copy)]
pub(super) enum At<'a> {
    Root,
    Name(&'a Self, &'a str),
    /// A map entry. At the root it begins with a dot.
    Member(&'a Self, &'a str),
    Index(&'a Self, usize),
}

impl At<'_> {
    fn write(&self, text: &mut String) {
        match self {
            At::Root => {}
            At::Name(parent, name) => {
                parent.write(text);
                if !text.is_empty() {
                    text.push('.');
                }
                text.push_str(name);
            }
            At::Member(parent, name) => {
                parent.write(text);
                text.push('.');
                text.push_str(name);
            }
            At::Index(parent, index) => {
                parent.write(text);
                let _ = write!(text, "[{index}]");
            }
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text);
        text
    }
}

/// Collected errors.
#[derive(Default)]
pub(super) struct Sink {
    pub(super) errors: Vec<FieldError>,
    /// Number of errors, including dropped ones.
    pub(super) count: usize,
    pub(super) size: usize,
}

/// Destination of errors; `None` only counts.
pub(super) type Report<'s> = Option<&'s mut Sink>;

/// Result of a validation, with the number of passed checks.
#[derive(Clone, Copy)]
pub(super) struct Outcome {
    pub(super) valid: bool,
    pub(super) matches: u64,
}

impl Outcome {
    pub(super) fn merge(&mut self, other: Self) {
        self.valid &= other.valid;
        self.matches += other.matches;
    }
}

/// Settings of a validation, and its error constructors.
pub(super) struct Checker<'p> {
    pub(super) structural: bool,
    pub(super) prefix: &'p str,
}

impl Checker<'_> {
    pub(super) fn field(&self, at: &str) -> String {
        let bare = at.strip_prefix('.').unwrap_or(at);
        match (self.prefix, bare) {
            ("", "") => "<nil>".to_owned(),
            ("", _) => bare.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, _) => format!("{prefix}.{bare}"),
        }
    }

    /// An error without a field.
    pub(super) fn plain(&self, detail: String) -> FieldError {
        let field = if self.prefix.is_empty() { "<nil>" } else { self.prefix };
        FieldError::invalid(field, "", detail)
    }

    pub(super) fn invalid(&self, at: &At<'_>, value: Value, said: &str) -> FieldError {
        let at = at.text();
        FieldError::invalid(self.field(&at), value, format!("{at} in body {said}"))
    }

    pub(super) fn wrong_type(&self, at: &At<'_>, expected: &str, found: &str) -> FieldError {
        let at = at.text();
        let detail = format!("{at} in body must be of type {expected}: {}", quote(found));
        FieldError::new(ErrorType::TypeInvalid, self.field(&at), Some(found.into()), detail)
    }
}

/// Records an error.
pub(super) fn report(sink: &mut Report<'_>, outcome: &mut Outcome, error: impl FnOnce() -> FieldError) {
    outcome.valid = false;
    if let Some(sink) = sink {
        sink.count += 1;
        if sink.size < MAX_ERRORS {
            let error = error();
            sink.size += error.field.len() + error.detail.len() + 64;
            sink.errors.push(error);
        }
    }
}

//! `field.Error`: validation errors of fields.

use std::fmt;

use serde_json::Value;
use settled_go::{self as go, Num};

/// `field.ErrorType`: kind of a validation error. [`ErrorType::cause`] is the `reason` of its cause in a Status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ErrorType {
    /// A value is missing.
    Required,
    /// A value is malformed, out of range, or immutable.
    Invalid,
    /// A duplicate of a value that must be unique.
    Duplicate,
    /// A value is not one of the allowed ones.
    NotSupported,
    /// A value is not allowed.
    Forbidden,
    /// A value has the wrong type.
    TypeInvalid,
    /// A string is too long.
    TooLong,
    /// A list or map has too many items.
    TooMany,
    /// A referenced value does not exist.
    NotFound,
    /// An internal error.
    Internal,
}

impl ErrorType {
    /// The `reason` of the cause.
    pub fn cause(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::NotFound => "FieldValueNotFound",
            Self::Internal => "InternalError",
        }
    }

    /// The type with this `reason`.
    pub fn of_cause(cause: &str) -> Option<Self> {
        let all = [
            Self::Required,
            Self::Invalid,
            Self::Duplicate,
            Self::NotSupported,
            Self::Forbidden,
            Self::TypeInvalid,
            Self::TooLong,
            Self::TooMany,
            Self::NotFound,
            Self::Internal,
        ];
        all.into_iter().find(|known| known.cause() == cause)
    }

    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::Duplicate => "Duplicate value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::NotFound => "Not found",
            Self::Internal => "Internal error",
        }
    }
}

/// One cause of a Status with reason `Invalid`.
///
/// ```
/// use serde_json::json;
/// use settled_apimachinery::field::{Error, ErrorType};
///
/// let error = Error::new(ErrorType::Invalid, "spec.replicas", Some(json!(-1)), "must not be negative");
/// assert_eq!(error.message(), "Invalid value: -1: must not be negative");
/// assert_eq!(error.to_string(), "spec.replicas: Invalid value: -1: must not be negative");
/// assert_eq!(error.error_type.cause(), "FieldValueInvalid");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// The kind of error.
    pub error_type: ErrorType,
    /// Path of the field, such as `spec.list[2].name`; `<nil>` for the whole object, as upstream.
    pub field: String,
    /// The message after the value.
    pub detail: String,
    /// The invalid value, if the message contains it.
    pub value: Option<Value>,
    /// Text of the value in the message, if it differs from the JSON: Go's structs are printed with Go's names.
    shown: Option<Box<str>>,
}

impl Error {
    /// An error from its parts.
    pub fn new(
        error_type: ErrorType,
        field: impl Into<String>,
        value: Option<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self { error_type, field: field.into(), detail: detail.into(), value, shown: None }
    }

    /// `Required`.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Required, field, None, detail)
    }

    /// `Forbidden`.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Forbidden, field, None, detail)
    }

    /// `Invalid`.
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(ErrorType::Invalid, field, Some(value.into()), detail)
    }

    /// `Invalid` for a value with a Go-specific text.
    pub fn invalid_shown(
        field: impl Into<String>,
        shown: impl Into<Box<str>>,
        detail: impl Into<String>,
    ) -> Self {
        Self { shown: Some(shown.into()), ..Self::new(ErrorType::Invalid, field, None, detail) }
    }

    /// `Duplicate`.
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(ErrorType::Duplicate, field, Some(value.into()), "")
    }

    /// `NotSupported`.
    pub fn not_supported<'a>(
        field: impl Into<String>,
        value: impl Into<Value>,
        supported: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let supported: Vec<String> = supported.into_iter().map(go::strconv::quote).collect();
        let detail = if supported.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", supported.join(", "))
        };
        Self::new(ErrorType::NotSupported, field, Some(value.into()), detail)
    }

    /// `TooLong` of a string with this maximum length in bytes.
    pub fn too_long(field: impl Into<String>, most: i64) -> Self {
        let detail = match most {
            ..=-1 => "value is too long".to_owned(),
            1 => "may not be more than 1 byte".to_owned(),
            _ => format!("may not be more than {most} bytes"),
        };
        Self::new(ErrorType::TooLong, field, None, detail)
    }

    /// `TooMany` of a list or map with this maximum length.
    pub fn too_many(field: impl Into<String>, actual: i64, most: i64) -> Self {
        let detail = match most {
            ..=-1 => "has too many items".to_owned(),
            1 => "must have at most 1 item".to_owned(),
            _ => format!("must have at most {most} items"),
        };
        Self::new(ErrorType::TooMany, field, (actual >= 0).then(|| actual.into()), detail)
    }

    /// The `message` of a cause: `Invalid value: -1: must not be negative`.
    pub fn message(&self) -> String {
        let mut message = self.error_type.words().to_owned();
        let hidden = matches!(
            self.error_type,
            ErrorType::Required | ErrorType::Forbidden | ErrorType::TooLong | ErrorType::Internal
        );
        if !hidden {
            if let Some(shown) = &self.shown {
                message.push_str(": ");
                message.push_str(shown);
            } else if let Some(value) = &self.value {
                message.push_str(": ");
                match value {
                    Value::String(text) => message.push_str(&go::strconv::quote(text)),
                    Value::Number(number) => message.push_str(&Num::of(number).to_string()),
                    other => message.push_str(&go::json::to_string(other)),
                }
            }
        }
        if !self.detail.is_empty() {
            message.push_str(": ");
            message.push_str(&self.detail);
        }
        message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message())
    }
}

impl std::error::Error for Error {}

/// Message of `ErrorList.ToAggregate`: one error as is, several in brackets, without duplicates.
#[must_use]
pub fn to_aggregate(errors: &[Error]) -> String {
    let mut seen = Vec::new();
    for error in errors {
        let text = error.to_string();
        if !seen.contains(&text) {
            seen.push(text);
        }
    }
    if seen.len() == 1 { seen.remove(0) } else { format!("[{}]", seen.join(", ")) }
}

//! What is wrong with a field, as causes of a Status have it.

/// One thing that is wrong with a field: of a schema, or of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The reason as causes have it: `FieldValueInvalid`, `FieldValueForbidden` and so on.
    pub reason: String,
    /// Which field; `<nil>` for the object itself.
    pub field: String,
    /// What is wrong, with the value where that helps: `Invalid value: 3: must be even`.
    pub message: String,
}

impl FieldError {
    pub(crate) fn invalid(field: String, value: Option<&str>, detail: &str) -> Self {
        let message = match value {
            Some(value) => format!("Invalid value: {value}: {detail}"),
            None => format!("Invalid value: {detail}"),
        };
        Self { reason: "FieldValueInvalid".to_owned(), field, message }
    }

    pub(crate) fn forbidden(field: String, detail: &str) -> Self {
        Self { reason: "FieldValueForbidden".to_owned(), field, message: format!("Forbidden: {detail}") }
    }

    pub(crate) fn required(field: String, detail: &str) -> Self {
        Self { reason: "FieldValueRequired".to_owned(), field, message: format!("Required value: {detail}") }
    }
}

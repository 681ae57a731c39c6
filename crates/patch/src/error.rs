//! Patch errors, by the status of the API server's response.

/// Error of applying a patch, with upstream's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch is malformed: 400, BadRequest.
    #[error("{0}")]
    BadRequest(String),
    /// The patch does not fit the object: 422, Invalid.
    #[error("{0}")]
    Invalid(String),
    /// The patch has too many operations or is too expensive: 413, RequestEntityTooLarge.
    #[error("{0}")]
    TooLarge(String),
    /// Errors that upstream does not classify, with status 500: most errors of strategic merge.
    #[error("{0}")]
    Internal(String),
}

impl PatchError {
    /// HTTP status code of the response.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::BadRequest(_) => 400,
            Self::TooLarge(_) => 413,
            Self::Invalid(_) => 422,
            Self::Internal(_) => 500,
        }
    }

    /// Panics of upstream, whose filter responds with 500.
    pub(crate) fn panics(why: &str) -> Self {
        Self::Internal(why.to_owned())
    }

    /// The [budget](settled_budget) of the request is exceeded.
    pub(crate) fn stopped() -> Self {
        Self::TooLarge("the patch was stopped before its end".to_owned())
    }

    pub(crate) fn too_deep() -> Self {
        Self::BadRequest(format!("nested more than {} levels deep", crate::MAX_DEPTH))
    }
}

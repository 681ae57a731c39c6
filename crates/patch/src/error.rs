//! What goes wrong, by the status the API server answers with.

/// Why a patch does not apply. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch can't be read, or breaks its own rules: 400, BadRequest.
    #[error("{0}")]
    BadRequest(String),
    /// The patch can be read, and does not fit the object: 422, Invalid.
    #[error("{0}")]
    Invalid(String),
    /// The patch has too many operations, or asks for too much work: 413, RequestEntityTooLarge.
    #[error("{0}")]
    TooLarge(String),
    /// What upstream does not classify, so that it becomes 500: most of what strategic merge refuses.
    #[error("{0}")]
    Internal(String),
}

impl PatchError {
    /// The status of the answer.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::BadRequest(_) => 400,
            Self::TooLarge(_) => 413,
            Self::Invalid(_) => 422,
            Self::Internal(_) => 500,
        }
    }

    /// Where upstream panics, and its filter answers 500.
    pub(crate) fn panics(why: &str) -> Self {
        Self::Internal(why.to_owned())
    }

    /// The [budget](settled_budget) of the work is used up.
    pub(crate) fn stopped() -> Self {
        Self::TooLarge("the patch was stopped before its end".to_owned())
    }

    pub(crate) fn too_deep() -> Self {
        Self::BadRequest(format!("nested more than {} levels deep", crate::MAX_DEPTH))
    }
}

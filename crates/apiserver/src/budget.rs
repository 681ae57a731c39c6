//! Budget errors: requests that exceed their steps, memory or time.

use settled_budget::Exceeded;

use crate::error::ApiError;

/// Whether the work on this request is complete. Loops that stop at the end of a budget leave half a result, so this is asked
/// before one is stored or answered.
///
/// # Errors
/// It used too much, or took too long.
pub(crate) fn check_budget() -> Result<(), ApiError> {
    settled_budget::exceeded().map_or(Ok(()), |reason| Err(exceeded(reason)))
}

/// The answer to a request that used too much.
pub(crate) fn exceeded(reason: Exceeded) -> ApiError {
    match reason {
        Exceeded::Steps => {
            let message = "the request takes too much processor time: its object is too large for the schema that it is \
                 defaulted by and validated against";
            ApiError::new(422, "Invalid", message)
        }
        Exceeded::Memory => {
            let message = format!(
                "Request entity too large: with the defaults of its schema the object takes more than {} bytes",
                settled_schema::MAX_DEFAULTS
            );
            ApiError::new(413, "RequestEntityTooLarge", message)
        }
        Exceeded::Cancelled => timed_out(),
    }
}

/// The answer to a request that takes too long.
pub(crate) fn timed_out() -> ApiError {
    let message = "request did not complete within requested timeout - context deadline exceeded";
    ApiError::new(504, "Timeout", format!("Timeout: {message}"))
}

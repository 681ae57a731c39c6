//! `util/validation/field`: what is wrong with a field, and where it is.

mod error;
mod path;

pub use error::{Error, ErrorType, to_aggregate};
pub use path::Path;

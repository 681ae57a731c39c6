//! `util/validation/field`: field errors and field paths.

mod error;
mod path;

pub use error::{Error, ErrorType, to_aggregate};
pub use path::Path;

//! `encoding/json`: encoding with its HTML escapes, decoding with its errors.

mod encode;
mod scan;

pub use encode::{push, push_float, push_quoted, quote, to_string};
pub use scan::{Scanner, SyntaxError, syntax_error, unquote};

#![doc = include_str!("../README.md")]

mod defaults;
mod definition;
mod error;
mod formats;
mod lists;
mod metadata;
mod names;
mod node;
mod path;
mod pattern;
mod props;
mod prune;
mod structural;
mod validate;

pub use defaults::MAX_DEFAULTS;
pub use definition::{
    default_definition, prepare_for_create, prepare_for_update, validate_definition, validate_webhook_client,
};
pub use error::{FieldError, Reason};
pub use node::{ListType, MapType, Node, Schema, Type};

#![doc = include_str!("../README.md")]

mod defaults;
mod definition;
mod formats;
mod lists;
mod metadata;
mod node;
mod pattern;
mod props;
mod prune;
mod structural;
mod validate;

pub use defaults::MAX_DEFAULTS;
pub use definition::{
    default_definition, prepare_for_create, prepare_for_update, validate_definition, validate_webhook_client,
};
pub use node::{ListType, MapType, Node, Schema, Type};
pub use settled_apimachinery::field::{Error as FieldError, ErrorType};

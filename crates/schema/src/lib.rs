#![doc = include_str!("../README.md")]

mod decode;
mod defaults;
mod definition;
mod dump;
mod formats;
mod lists;
mod metadata;
mod node;
pub mod openapi;
mod pattern;
mod props;
mod prune;
mod rule;
mod structural;
mod validate;

pub use defaults::MAX_DEFAULTS;
pub use definition::{
    InternalCrd, default_definition, prepare_for_create, prepare_for_update, v1, validate_definition,
    validate_webhook_client,
};
pub use node::{ListType, MapType, Node, Schema, Type};
pub use props::JsonSchemaProps;
pub use rule::ValidationRule;
pub use settled_apimachinery::field::{Error as FieldError, ErrorType};

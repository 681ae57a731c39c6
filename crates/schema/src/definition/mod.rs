//! Whole CRDs: read, prepared and validated as `apiextensions-apiserver` does (`pkg/apis/apiextensions`).

mod approval;
mod columns;
mod conversion;
mod defaults;
mod dump;
mod extensions;
mod field_path;
mod fields;
mod internal;
mod list_types;
mod names;
mod open_api_schema;
mod options;
mod rules;
mod selectable_fields;
mod spec;
mod status;
mod strategy;
mod subresources;
pub mod v1;
mod validate;
mod validation;
mod versions;
mod webhook;

pub use internal::InternalCrd;
pub use strategy::{default_definition, prepare_for_create, prepare_for_update};
pub use validate::validate_definition;
pub use webhook::validate_webhook_client;

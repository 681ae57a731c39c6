#![doc = include_str!("../README.md")]

mod error;
mod json;
mod json_patch;
mod merge;
mod node;
mod order;
mod scalar;
mod schema;
mod stable;
mod strategic;

pub use error::PatchError;
pub use json::{Decoded, decode_merge_patch, decode_strategic_patch};
pub use json_patch::{JsonPatch, MAX_COPIED, MAX_OPERATIONS, MAX_SHIFTED, json_patch};
pub use merge::merge_patch;
pub use schema::{FieldType, PatchField, PatchTypes, StrategicSchema};
pub use strategic::strategic_merge;

/// Maximum nesting of objects and patches, the limit of `serde_json`.
pub const MAX_DEPTH: usize = 127;

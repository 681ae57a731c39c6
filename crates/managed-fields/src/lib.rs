#![doc = include_str!("../README.md")]

mod created;
mod entry;
mod manager;
mod openapi;
mod path;
mod schema;
mod serialize;
mod set;
mod source;
mod typed;
mod update;
mod value;

pub use entry::{Entry, EntryError, Operation, decode_managed_fields, encode_managed_fields};
pub use manager::{ApplyError, Cause, FieldManager, ObjectTypes, Untyped};
pub use path::{KeyFields, Path, PathElement};
pub use schema::{
    Atom, ListRelationship, ListType, MapRelationship, MapType, Scalar, Schema, StructField, TypeRef,
};
pub use serialize::FieldsError;
pub use set::{ElementPattern, FieldFilter, FieldSet, SetPattern};
pub use source::{AdditionalProperties, Items, SchemaError, SchemaSource};
pub use typed::{Comparison, Duplicates, ObjectType, TypedValue, ValidationError, ValidationErrors};
pub use update::{
    Applied, Conflict, Conflicts, ConvertError, Converter, Managers, SameVersion, UpdateError, Updater,
    VersionedSet,
};

/// How deep values, paths and schemas may be nested. JSON that `serde_json` reads never reaches it.
pub const MAX_DEPTH: usize = 150;

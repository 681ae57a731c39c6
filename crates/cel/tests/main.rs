//! Rules, objects, and what upstream says about them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod bounds;
mod properties;
mod recorded;
mod untyped;

use serde_json::Value;
use settled_schema::{JsonSchemaProps, Schema};

/// A structural schema. It may be one that no CRD may have: rules are compiled wherever they stand.
fn structural(schema: &Value) -> Schema {
    Schema::new_structural(&JsonSchemaProps::parse(schema).unwrap()).unwrap()
}

#![doc = include_str!("../README.md")]

mod amount;
pub mod conditions;
mod decimal;
pub mod duration;
pub mod feature_gates;
pub mod field;
pub mod fields;
pub mod group_version;
pub mod labels;
pub mod net;
pub mod object_meta;
pub mod quantity;
mod selector;
pub mod unstructured;
pub mod validation;

pub use selector::InvalidSelector;

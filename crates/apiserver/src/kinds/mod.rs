//! Kinds: the table of kinds, schemas, defaulting, validation, conversion, printer columns.

pub(crate) mod behavior;
pub(crate) mod builtin;
pub(crate) mod conversion;
pub(crate) mod crd;
pub(crate) mod custom;
pub(crate) mod definition;
pub(crate) mod index;
pub(crate) mod model;
pub(crate) mod names;
pub(crate) mod partial;
pub(crate) mod printers;
pub(crate) mod scale_paths;
pub(crate) mod table;
pub(crate) mod validation;

//! The language of rules: CEL over the bytes of an object, where a missing field is absent and no error.

pub(crate) mod bytes;
pub(crate) mod conditions;
pub(crate) mod limits;
pub(crate) mod paths;
pub(crate) mod scope;
pub(crate) mod shown;
pub(crate) mod source;

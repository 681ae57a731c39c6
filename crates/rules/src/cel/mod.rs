//! Rule expressions: CEL over the bytes of an object. A missing field is absent, not an error.

pub(crate) mod bytes;
pub(crate) mod conditions;
pub(crate) mod limits;
pub(crate) mod maps;
pub(crate) mod paths;
pub(crate) mod prefilter;
pub(crate) mod scope;
pub(crate) mod shown;
pub(crate) mod source;

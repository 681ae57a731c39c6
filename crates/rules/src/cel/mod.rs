//! CEL over an object's bytes: a missing field is absent, and every evaluation has a budget.

pub(crate) mod eval;
pub(crate) mod fuel;
pub(crate) mod functions;
pub(crate) mod paths;
pub(crate) mod program;
pub(crate) mod value;

//! Explanations: why a target isn't done, by owner references and references. Pure: records in, data out.

mod advice;
mod advisory;
mod causes;
mod chain;
mod failures;
mod pvc;
mod related;
mod reported;
mod summary;
mod tree;

pub(crate) use advisory::may_advise;
pub use advisory::{advisory, excuse};
pub use causes::causes;
pub use failures::{failures, own_failure};
pub(crate) use reported::{may_be_reported, reported};
pub use summary::summary;
pub use tree::branch;

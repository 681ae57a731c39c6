//! A Kubernetes-compatible API server in one process.

mod error;
#[allow(dead_code, reason = "requests are not served yet")]
mod go;
#[allow(dead_code, reason = "requests are not served yet")]
mod human;
#[allow(dead_code, reason = "requests are not served yet")]
mod jsonpath;
#[allow(dead_code, reason = "requests are not served yet")]
mod negotiate;
#[allow(dead_code, reason = "requests are not served yet")]
mod partial;
#[allow(dead_code, reason = "requests are not served yet")]
mod printers;
#[allow(dead_code, reason = "requests are not served yet")]
mod selector;
#[allow(dead_code, reason = "requests are not served yet")]
mod table;
#[doc(hidden)]
pub mod testing;

pub use error::{ApiError, Cause, GroupResource};
pub use selector::{InvalidSelector, LabelSelector};

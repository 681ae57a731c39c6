//! A Kubernetes-compatible API server in one process.

mod error;

pub use error::{ApiError, Cause, GroupResource};

//! A Kubernetes-compatible API server in one process.

#[allow(dead_code, reason = "the routes that read it are being built")]
mod builtin;
mod error;

pub use error::{ApiError, Cause, GroupResource};

//! A Kubernetes-compatible API server in one process.

mod admission;
mod api;
pub mod auth;
mod behaviour;
mod body;
mod builtin;
mod core;
mod crds;
mod custom;
mod decode;
mod definition;
mod delete;
mod error;
mod go;
mod human;
mod identity;
mod info;
mod jsonpath;
mod metadata;
mod model;
mod negotiate;
mod object;
mod options;
mod partial;
mod patching;
mod printers;
mod read;
mod request;
mod resource;
mod scale;
mod selector;
mod server;
mod strategy;
mod table;
#[doc(hidden)]
pub mod testing;
mod watching;
mod write;

pub use body::Body;
pub use error::{ApiError, Cause, GroupResource};
pub use selector::{InvalidSelector, LabelSelector};
pub use server::{Config, Server, StartError};
pub use settled_store::Durability;

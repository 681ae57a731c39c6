#![doc = include_str!("../README.md")]

mod cluster;
mod connect;
mod download;
mod error;
mod exchange;
mod exec;
mod list;
mod metadata;
mod names;
mod poll;
mod proxy;
mod resources;
mod scope;
pub mod stream;
#[cfg(test)]
mod trace_tests;
mod wire;

pub use cluster::{Cluster, Traffic, encode};
pub use connect::{ConnectError, KubeconfigNames, KubeconfigOptions, Token, client};
pub use download::{DownloadError, download};
pub use error::{ErrorMessage, RequestError, no_answer};
pub use exchange::{Exchange, PARTIAL, PARTIAL_LIST, Verb};
pub use poll::poll;
pub use resources::{Document, Resource, Resources, read_document, read_resource_list};
pub use settled_manifest::{ListError as WireError, ListItems as Items};
pub use wire::{EventType, Lines, read_event};

#![doc = include_str!("../README.md")]

mod cluster;
mod connect;
mod download;
mod exchange;
mod exec;
mod names;
mod proxy;
mod resources;
pub mod stream;
mod wire;

pub use cluster::{Cluster, RequestError, Traffic, encode, no_answer};
pub use connect::{ConnectError, KubeconfigNames, KubeconfigOptions, Token, client};
pub use download::{DownloadError, download};
pub use exchange::{Exchange, PARTIAL, PARTIAL_LIST, Verb};
pub use resources::{Document, Resource, Resources, read_document, read_resource_list};
pub use wire::{Items, WireError};

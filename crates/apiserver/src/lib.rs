#![doc = include_str!("../README.md")]

mod admission;
pub mod auth;
mod bootstrap;
mod budget;
mod change;
#[cfg(feature = "client")]
mod client;
mod controllers;
#[cfg(all(test, target_os = "linux"))]
mod cost_tests;
mod decode;
mod directory;
mod discovery;
mod error;
mod features;
mod http;
mod human;
mod kinds;
mod metadata;
mod notice;
mod object;
mod options;
mod pem;
mod request;
mod selector;
mod server;
mod state;
#[doc(hidden)]
pub mod testing;
mod verbs;
mod version;

pub use crate::http::body::Body;
pub use crate::http::limits::Limits;
pub use change::{Change, Write};
pub use controllers::{Controller, Controllers, UnknownController};
pub use error::{ApiError, Cause, GroupResource};
pub use features::{Feature, FeatureGates};
pub use notice::{Listener, Notice};
pub use server::{Config, Fork, KubeconfigFile, Server, StartError};
pub use settled_apimachinery::InvalidSelector;
pub use settled_apimachinery::feature_gates::{FeatureGate, FeatureGateError};
pub use settled_apimachinery::labels::LabelSelector;
pub use settled_store::{BackendError, Durability};
pub use state::Clock;
pub use state::pod_logs::{PodLogRequest, PodLogs};
pub use state::service_range::{ServiceRange, ServiceRangeError};
pub use version::git_version as kubernetes_version;

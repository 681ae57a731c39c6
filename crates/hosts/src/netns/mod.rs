//! Provider of network-namespace hosts: Linux only, with iproute2, util-linux and root.
//!
//! A host is a network namespace with an address of its own, and a process namespace whose process 1 is the node agent. Its state is a directory, which
//! survives the controllers. The root file system is that of the machine; an image is a name in `os-release`.

mod network;
mod packages;
mod preflight;
mod processes;
mod provider;
mod record;
mod subnet;

pub use packages::Packages;
pub use preflight::Unavailable;
pub use provider::{API_VERSION, KIND, NetnsProvider, Options};

//! Node agent: the program on a host that registers its Node, renews its Lease and performs updates.
//!
//! It is two processes. `init` supervises: it starts the kubelet of a package, swaps it for that of another version, steps back if the new one does not
//! start, and reboots. `kubelet` is what the built-in packages run: it registers the Node with credentials that are bound to it, reports what runs, and
//! renews the Lease. Providers and `init` share a directory ([`layout`]): providers write what is asked for, `init` writes what runs.

mod command;
pub mod credentials;
mod error;
mod init;
pub mod layout;
mod node;

pub use command::main;
pub use credentials::{Credentials, CredentialsError, Grant, HostRef, Signed};
pub use layout::{Asked, Failed, Layout, LayoutError, Settings, State, Timing};

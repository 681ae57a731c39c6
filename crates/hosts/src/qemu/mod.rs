//! Provider of virtual machines of QEMU: Linux only, without root.
//!
//! A host is a process of QEMU that boots a kernel and an initial file system directly, with the node agent as process 1. What is asked for is in the
//! initial file system, so that every change boots the kernel anew, as the same host. What runs is reported on the second serial port.

mod cpio;
mod debian;
mod image;
mod provider;

pub use debian::DebianPackages;
pub use image::{Image, ImageError};
pub use provider::{API_VERSION, HOST_ADDRESS, KIND, Options, QemuProvider};

//! Providers of real hosts with the embedded API server and the real controllers.

#[cfg(target_os = "linux")]
mod harness;
#[cfg(target_os = "linux")]
mod netns;
#[cfg(target_os = "linux")]
mod netns_cluster;
#[cfg(target_os = "linux")]
mod qemu;
mod roles;

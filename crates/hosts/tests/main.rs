//! Providers of real hosts, with the embedded API server and the real controllers. Each test that needs root or a program says so, and that it is
//! skipped where that is missing.

#[cfg(target_os = "linux")]
mod harness;
#[cfg(target_os = "linux")]
mod netns;
#[cfg(target_os = "linux")]
mod netns_cluster;
#[cfg(target_os = "linux")]
mod qemu;
mod roles;
#[cfg(target_os = "linux")]
mod ssh;

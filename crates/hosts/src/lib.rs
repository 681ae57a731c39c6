#![doc = include_str!("../README.md")]

pub mod agent;
#[cfg(target_os = "linux")]
mod local;
#[cfg(target_os = "linux")]
pub mod netns;
#[cfg(target_os = "linux")]
pub mod process;
#[cfg(target_os = "linux")]
pub mod qemu;
pub mod ssh;
mod versions;

//! Providers of hosts against real programs: each test says what it needs, and that it is skipped where that is missing.

#[cfg(target_os = "linux")]
mod ssh;

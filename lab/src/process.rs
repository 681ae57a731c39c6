//! Child processes and their resource usage.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;

/// Runs a program that inherits our output; true if it exits with 0.
pub(crate) fn passes(command: &mut Command) -> Outcome<bool> {
    Ok(started(command.status(), command)?.success())
}

/// Adds the program's name to the error if it could not be started.
pub(crate) fn started<T>(result: std::io::Result<T>, command: &Command) -> Outcome<T> {
    result.map_err(|error| format!("{}: {error}", command.get_program().to_string_lossy()).into())
}

/// The directory of this program, in which `cargo xtask` builds the workspace's other programs, too.
pub(crate) fn directory() -> Outcome<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.parent().ok_or("this program is in no directory")?.to_owned())
}

/// A program that `cargo xtask` has built beside this one.
pub(crate) fn beside(name: &str) -> Outcome<PathBuf> {
    let program = directory()?.join(name);
    if program.is_file() {
        return Ok(program);
    }
    Err(format!("{} is missing; `cargo xtask` builds it with this program", program.display()).into())
}

/// The profile of this program: cargo's directory for it has the same name.
pub(crate) fn profile() -> Outcome<String> {
    let directory = directory()?;
    let name = directory.file_name().ok_or("this program is in no directory")?;
    Ok(match name.to_string_lossy().into_owned() {
        // The only profile whose directory has another name.
        debug if debug == "debug" => "dev".to_owned(),
        profile => profile,
    })
}

/// Finds a program in `PATH`.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
}

/// Resource usage of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) wall: Duration,
    /// User and system time of all threads, in kernel ticks of 10 ms.
    pub(crate) cpu: Duration,
    /// Peak resident memory, including mapped files.
    pub(crate) peak_bytes: u64,
    pub(crate) exit_code: Option<i32>,
}

/// Runs a program and returns its resource usage. Linux only, through `/proc`: `wait4` would need `unsafe` or a
/// dependency.
pub(crate) fn run_measured(command: &mut Command) -> Outcome<Usage> {
    let cpu_before = children_cpu()?;
    let start = Instant::now();
    let mut child = started(command.spawn(), command)?;
    let mut peak_bytes = 0;
    let status = loop {
        // The kernel keeps the high-water mark, so only growth in the last polling interval can be missed.
        peak_bytes = peak_bytes.max(high_water_mark(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        thread::sleep(Duration::from_millis(1));
    };
    let wall = start.elapsed();
    Ok(Usage { wall, cpu: children_cpu()?.saturating_sub(cpu_before), peak_bytes, exit_code: status.code() })
}

/// Peak resident memory of a running process in bytes. `None` after its exit.
pub(crate) fn high_water_mark(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// CPU time of all children that were waited for.
fn children_cpu() -> Outcome<Duration> {
    // cutime and cstime.
    ticks("self", 16)
}

/// CPU time of all threads of a process, by PID or `self`.
pub(crate) fn cpu_of(id: &str) -> Outcome<Duration> {
    // utime and stime.
    ticks(id, 14)
}

/// The sum of two consecutive fields of `/proc/PID/stat`, by the number of the first.
fn ticks(id: &str, field: usize) -> Outcome<Duration> {
    // The kernel reports ticks of USER_HZ, which is 100 on every Linux that Rust supports.
    const TICK: Duration = Duration::from_millis(10);
    let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
    // The second field is the program's name in parentheses, which may contain anything.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    // The first field after the name is number 3.
    let fields = fields.split_whitespace().skip(field - 3).take(2);
    Ok(TICK * fields.map(str::parse::<u32>).sum::<Result<u32, _>>()?)
}

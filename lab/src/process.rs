//! Child processes and their resource usage.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::Outcome;

/// Runs a program with our output; true when it exits with 0.
pub(crate) fn passes(command: &mut Command) -> Outcome<bool> {
    Ok(started(command.status(), command)?.success())
}

/// Names the program in the error when it could not even be started.
pub(crate) fn started<T>(result: std::io::Result<T>, command: &Command) -> Outcome<T> {
    result.map_err(|error| format!("{}: {error}", command.get_program().to_string_lossy()).into())
}

/// The profile that this program is built in: cargo's directory for it has the same name.
pub(crate) fn profile() -> Outcome<String> {
    let own = std::env::current_exe()?;
    let directory = own.parent().and_then(Path::file_name).ok_or("this program lies in no directory")?;
    Ok(match directory.to_string_lossy().into_owned() {
        // The only one whose directory has another name.
        debug if debug == "debug" => "dev".to_owned(),
        profile => profile,
    })
}

/// Finds a program in `PATH`.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
}

/// What a process has used until its end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    pub(crate) wall: Duration,
    /// User and system time of all its threads, to the kernel's tick of 10 ms.
    pub(crate) cpu: Duration,
    /// The most memory that was resident at once, mapped files included.
    pub(crate) peak_bytes: u64,
    pub(crate) exit_code: Option<i32>,
}

/// Runs a program to its end and says what it used. Linux only, through `/proc`: `wait4` would need `unsafe` or a
/// dependency.
pub(crate) fn run_measured(command: &mut Command) -> Outcome<Usage> {
    let cpu_before = children_cpu()?;
    let start = Instant::now();
    let mut child = started(command.spawn(), command)?;
    let mut peak_bytes = 0;
    let status = loop {
        // The kernel keeps the high-water mark, so only what is gained in the last poll's interval can be missed.
        peak_bytes = peak_bytes.max(high_water_mark(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        thread::sleep(Duration::from_millis(1));
    };
    let wall = start.elapsed();
    Ok(Usage { wall, cpu: children_cpu()?.saturating_sub(cpu_before), peak_bytes, exit_code: status.code() })
}

/// The most memory of a running process that was resident at once, in bytes. Nothing once it has ended.
pub(crate) fn high_water_mark(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// The CPU time of all children that we have waited for.
fn children_cpu() -> Outcome<Duration> {
    // cutime and cstime.
    ticks("self", 16)
}

/// The CPU time that a process has used so far, all its threads: a number, or `self`.
pub(crate) fn cpu_of(id: &str) -> Outcome<Duration> {
    // utime and stime.
    ticks(id, 14)
}

/// The sum of two fields of `/proc/ID/stat`, the first of which has this number.
fn ticks(id: &str, field: usize) -> Outcome<Duration> {
    // The kernel reports in ticks of USER_HZ, which is 100 on every Linux that Rust supports.
    const TICK: Duration = Duration::from_millis(10);
    let stat = fs::read_to_string(format!("/proc/{id}/stat"))?;
    // The second field is the program's name in parentheses, which may hold anything.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    // The first one after the name is field 3.
    let fields = fields.split_whitespace().skip(field - 3).take(2);
    Ok(TICK * fields.map(str::parse::<u32>).sum::<Result<u32, _>>()?)
}

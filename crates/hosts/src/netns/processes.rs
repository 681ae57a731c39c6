//! Processes of a network namespace: found by the namespace, not by a number that another process may have by now.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long processes may take to end after they were killed.
const END: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_millis(5);

fn inode(path: &Path) -> Option<(u64, u64)> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// The processes of a namespace.
pub(super) fn of(namespace: &Path) -> Vec<i32> {
    let Some(wanted) = inode(namespace) else { return Vec::new() };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_in = |number: &i32| inode(Path::new(&format!("/proc/{number}/ns/net"))) == Some(wanted);
    numbers.filter(is_in).collect()
}

/// Kills all processes of a namespace, and waits for their end.
pub(super) async fn end(namespace: &Path) -> io::Result<()> {
    let until = Instant::now() + END;
    loop {
        let processes = of(namespace);
        if processes.is_empty() {
            return Ok(());
        }
        if Instant::now() >= until {
            let text = format!("processes {processes:?} do not end");
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        for process in processes.into_iter().filter_map(Pid::from_raw) {
            // It may have ended just now.
            let _best_effort = kill_process(process, Signal::KILL);
        }
        tokio::time::sleep(TICK).await;
    }
}

//! Processes of servers: started, found by the directory that they serve, stopped.

use std::fs::{self, File};
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::record::{HostDirectory, Record};

/// How often something is looked at that takes milliseconds.
const LOOK: Duration = Duration::from_millis(20);
/// How long a server may take to answer a connection.
const CONNECT: Duration = Duration::from_secs(2);
/// How long a server may take to end before it is killed.
const STOP: Duration = Duration::from_secs(15);

/// A process that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pid: i32,
    /// Its program.
    pub(super) program: PathBuf,
}

/// Children that were started here: the kernel keeps the dead ones until they are asked for.
#[derive(Debug, Default)]
pub(super) struct Children(Mutex<Vec<Child>>);

impl Children {
    fn reap(&self) {
        let mut children = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
    }

    /// Starts the server of a host. It stays when this process ends.
    pub(super) fn start(&self, host: &HostDirectory, record: &Record, program: &Path) -> io::Result<()> {
        let log = File::options().create(true).append(true).open(host.log())?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--data-dir").arg(host.data());
        command.args(["--bind-address", &record.address, "--port", &record.port.to_string()]);
        command.args([
            "--name",
            record.cluster.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("settled"),
        ]);
        command.args(["--tls-name", &record.advertise_address]);
        command.args(["--tls-name", &crate::qemu::HOST_ADDRESS.to_string()]);
        if let Some(address) = record.host_address.map(|address| address.to_string()) {
            command.args(["--tls-name", &address, "--also-bind-address", &address]);
        }
        if let Some(range) = &record.service_range {
            command.args(["--service-cluster-ip-range", range]);
        }
        command.arg("--register-node").arg(host.node());
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        command.env_remove("RUST_LOG").env_remove("KUBECONFIG");
        // Not in our group: a Ctrl-C in the terminal is not for it.
        command.process_group(0);
        let child = command.spawn()?;
        // A hint: without it, the process is looked for.
        let _hint = fs::write(host.pid(), child.id().to_string());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(child);
        Ok(())
    }

    /// The process that serves the directory of a host.
    pub(super) fn find(&self, host: &HostDirectory) -> Option<Process> {
        self.reap();
        let data = host.data();
        let noted = fs::read_to_string(host.pid()).ok().and_then(|text| text.trim().parse().ok());
        if let Some(found) = noted.and_then(|pid| serves(pid, &data).or_else(|| self.starting(pid))) {
            return Some(found);
        }
        // Nothing ever ran there.
        if !data.exists() && !host.log().exists() {
            return None;
        }
        let processes = fs::read_dir("/proc").ok()?.flatten();
        let mut pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        pids.find_map(|pid| serves(pid, &data))
    }

    /// A child that lives and has no arguments yet: `spawn` returns once the program is being executed, and the kernel shows its arguments a
    /// moment later.
    fn starting(&self, pid: i32) -> Option<Process> {
        let children = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_ours = children.iter().any(|child| i32::try_from(child.id()) == Ok(pid));
        let has_arguments =
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|arguments| !arguments.is_empty());
        (is_ours && !has_arguments).then(|| Process { pid, program: program(pid) })
    }

    /// Stops the server of a host. Whether it has ended.
    pub(super) async fn stop(&self, host: &HostDirectory) -> bool {
        let begin = Instant::now();
        let Some(process) = self.find(host) else { return true };
        send(&process, Signal::TERM);
        while begin.elapsed() < STOP {
            if self.find(host).is_none() {
                return true;
            }
            tokio::time::sleep(LOOK).await;
        }
        send(&process, Signal::KILL);
        tokio::time::sleep(LOOK).await;
        self.find(host).is_none()
    }

    /// Waits until the server of a host answers; not for longer than this, and not for one that has ended.
    pub(super) async fn wait(&self, host: &HostDirectory, record: &Record, limit: Duration) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < limit {
            if answers(record).await && self.find(host).is_some() {
                return true;
            }
            if self.find(host).is_none() {
                return false;
            }
            tokio::time::sleep(LOOK).await;
        }
        false
    }
}

/// The process with this number, if it serves this directory.
fn serves(pid: i32, data: &Path) -> Option<Process> {
    let arguments = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let mut words = arguments.split(|byte| *byte == 0);
    let is_it = words.any(|word| word == b"--data-dir") && words.next() == Some(data.as_os_str().as_bytes());
    is_it.then(|| Process { pid, program: program(pid) })
}

/// The program of a process.
fn program(pid: i32) -> PathBuf {
    fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default()
}

fn send(process: &Process, signal: Signal) {
    if let Some(pid) = Pid::from_raw(process.pid) {
        // It may have ended just now.
        let _best_effort = kill_process(pid, signal);
    }
}

fn socket(address: &str, port: u16) -> Option<SocketAddr> {
    (address.trim_matches(['[', ']']), port).to_socket_addrs().ok()?.next()
}

/// Whether somebody answers where the server listens.
pub(super) async fn answers(record: &Record) -> bool {
    let Some(mut address) = socket(&record.address, record.port) else { return false };
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() {
            [127, 0, 0, 1].into()
        } else {
            std::net::Ipv6Addr::LOCALHOST.into()
        });
    }
    matches!(tokio::time::timeout(CONNECT, TcpStream::connect(address)).await, Ok(Ok(_)))
}

/// A port that is free now.
pub(super) fn free_port(address: &str) -> io::Result<u16> {
    let invalid =
        || io::Error::new(io::ErrorKind::InvalidInput, format!("{address} is no address of this machine"));
    let address = socket(address, 0).ok_or_else(invalid)?;
    Ok(TcpListener::bind(address)?.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_without_arguments_is_starting_until_it_is_reaped() {
        let child = Command::new("true").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let children = Children(Mutex::new(vec![child]));
        // One that has ended has no arguments, either, and is there until it is waited for.
        while !fs::read_to_string(format!("/proc/{pid}/stat")).unwrap().contains(") Z ") {
            std::thread::yield_now();
        }
        assert!(children.starting(pid).is_some());
        assert!(children.starting(1).is_none());
        children.reap();
        assert!(children.starting(pid).is_none());
    }
}

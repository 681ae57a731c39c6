//! Transport by the system's `ssh` as a process.
//!
//! Not a library: OpenSSH's client is on every machine that manages hosts (Windows and macOS, too), is updated with it, and has every algorithm, key
//! type and hardware token that its hosts ask for. A client in Rust adds 2 MB of cryptography to the binary, a second version of several crates, and the duty to
//! follow the advisories of both.
//!
//! One connection is kept for each host that is in use, since a handshake costs ten times a command. Its process ends with this one: it
//! reads from a pipe of ours. The private key is in a file for as long as the handshake lasts.

use std::collections::HashMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command as Process};
use tokio::time::{Instant, sleep_until, timeout};

use super::program::{Command, DIRECTORY, Input, Output};
use super::transport::{Keys, Target, Transport, TransportError};

/// How much of the output of a command is kept.
const MAX_OUTPUT: usize = 64 * 1024;
/// What is added to the time limit of a command, which the host enforces itself.
const GRACE: Duration = Duration::from_secs(10);

/// How connections are made.
#[derive(Clone, Debug)]
pub struct OpenSshOptions {
    /// The client.
    pub program: PathBuf,
    /// Directory on the hosts.
    pub directory: String,
    /// How long a connection may take.
    pub connect: Duration,
    /// How often a silent connection is probed. After three probes without an answer it is lost.
    pub alive: Duration,
    /// How long an unused connection is kept.
    pub idle: Duration,
    /// How many connections are kept.
    pub connections: usize,
}

impl Default for OpenSshOptions {
    fn default() -> Self {
        Self {
            program: PathBuf::from("ssh"),
            directory: DIRECTORY.to_owned(),
            connect: Duration::from_secs(10),
            alive: Duration::from_secs(5),
            idle: Duration::from_secs(30),
            connections: 64,
        }
    }
}

/// Connection to one host: a process of `ssh` that others send their commands through.
struct Connection {
    directory: TempDir,
    /// One command at a time: there is nothing on a host that two may do together.
    turn: tokio::sync::Mutex<()>,
    used: Mutex<Instant>,
    /// The process ends with its input.
    _input: ChildStdin,
    _process: Child,
}

impl Connection {
    fn socket(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    fn used(&self) -> Instant {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn touch(&self) {
        *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }
}

type Slot = Arc<tokio::sync::Mutex<Option<Arc<Connection>>>>;

struct Shared {
    options: OpenSshOptions,
    keys: Arc<dyn Keys>,
    connections: Mutex<HashMap<Target, Slot>>,
}

/// Transport by the system's `ssh`. Clones share the connections.
#[derive(Clone)]
pub struct OpenSsh(Arc<Shared>);

impl std::fmt::Debug for OpenSsh {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("OpenSsh").field(&self.0.options).finish()
    }
}

/// Options that do not depend on the host: nothing of the user's configuration applies.
fn arguments(options: &OpenSshOptions) -> Vec<String> {
    let seconds = |duration: Duration| duration.as_secs().max(1);
    let mut arguments = vec!["-F".to_owned(), "none".to_owned(), "-T".to_owned()];
    for option in [
        "BatchMode=yes".to_owned(),
        "StrictHostKeyChecking=yes".to_owned(),
        "GlobalKnownHostsFile=/dev/null".to_owned(),
        "UpdateHostKeys=no".to_owned(),
        "IdentitiesOnly=yes".to_owned(),
        "IdentityAgent=none".to_owned(),
        "PreferredAuthentications=publickey".to_owned(),
        "ForwardAgent=no".to_owned(),
        "ClearAllForwardings=yes".to_owned(),
        "LogLevel=ERROR".to_owned(),
        format!("ConnectTimeout={}", seconds(options.connect)),
        format!("ServerAliveInterval={}", seconds(options.alive)),
        "ServerAliveCountMax=3".to_owned(),
    ] {
        arguments.extend(["-o".to_owned(), option]);
    }
    arguments
}

/// Name under which the keys of a host are in its `known_hosts`.
const ALIAS: &str = "settled-host";

fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)
}

fn client(error: &std::io::Error) -> TransportError {
    TransportError::Client(error.to_string())
}

/// What the client says about a connection that it could not make.
fn classify(text: &str) -> TransportError {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let message = lines.last().copied().unwrap_or("no message").to_owned();
    let has = |part: &str| text.contains(part);
    if has("Host key verification failed") || has("REMOTE HOST IDENTIFICATION") || has("host key is known") {
        TransportError::HostKey("the host has another key than those in spec.hostKeys".to_owned())
    } else if has("Permission denied") || has("Too many authentication failures") {
        TransportError::Refused(message)
    } else if has("Load key") || has("invalid format") {
        TransportError::NoKey(message)
    } else {
        TransportError::Unreachable(message)
    }
}

async fn read_some(stream: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut stream = stream;
    let mut buffer = vec![0; 8192];
    // To the end: a full pipe would stop the command.
    while let Ok(count) = stream.read(&mut buffer).await {
        if count == 0 {
            break;
        }
        kept.extend_from_slice(&buffer[..count]);
        if kept.len() > 2 * MAX_OUTPUT {
            kept.drain(..kept.len() - MAX_OUTPUT);
        }
    }
    kept
}

impl OpenSsh {
    /// A transport with these keys.
    #[must_use]
    pub fn new(options: OpenSshOptions, keys: Arc<dyn Keys>) -> Self {
        Self(Arc::new(Shared { options, keys, connections: Mutex::default() }))
    }

    fn slot(&self, target: &Target) -> Slot {
        let mut connections = self.0.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if connections.len() >= self.0.options.connections && !connections.contains_key(target) {
            // Of those that nobody waits for, the one that was not used for longest.
            let used = |slot: &Slot| match slot.try_lock() {
                Ok(connection) if Arc::strong_count(slot) == 1 => {
                    Some(connection.as_ref().map(|connection| connection.used()))
                }
                _ => None,
            };
            let oldest = connections
                .iter()
                .filter_map(|(key, slot)| Some((used(slot)?, key)))
                .min_by_key(|(used, _)| *used);
            if let Some(key) = oldest.map(|(_, key)| key.clone()) {
                connections.remove(&key);
            }
        }
        connections.entry(target.clone()).or_default().clone()
    }

    /// Closes a connection that is not used for a while.
    fn expire(slot: &Slot, connection: &Arc<Connection>, idle: Duration) {
        let (slot, connection) = (Arc::downgrade(slot), Arc::downgrade(connection));
        tokio::spawn(async move {
            loop {
                let (Some(slot), Some(used)) = (slot.upgrade(), connection.upgrade()) else { return };
                let until = used.used() + idle;
                if until <= Instant::now() {
                    return Self::forget(&slot, &used).await;
                }
                drop((slot, used));
                sleep_until(until).await;
            }
        });
    }

    async fn connect(&self, target: &Target) -> Result<Connection, TransportError> {
        let options = &self.0.options;
        if target.host_keys.is_empty() {
            let message = "the Host has no spec.hostKeys".to_owned();
            return Err(TransportError::HostKey(message));
        }
        let key = self.0.keys.private_key(target).await?;
        let directory =
            tempfile::Builder::new().prefix("settled-ssh-").tempdir().map_err(|error| client(&error))?;
        let (identity, known) = (directory.path().join("key"), directory.path().join("known_hosts"));
        let lines: String = target.host_keys.iter().map(|key| format!("{ALIAS} {key}\n")).collect();
        write_private(&identity, key.expose())
            .and_then(|()| write_private(&known, lines.as_bytes()))
            .map_err(|error| client(&error))?;
        let mut process = Process::new(&options.program);
        process
            .args(arguments(options))
            .arg("-o")
            .arg(format!("UserKnownHostsFile={}", known.display()))
            .arg("-o")
            .arg(format!("HostKeyAlias={ALIAS}"))
            .arg("-i")
            .arg(&identity)
            .args(["-M", "-S"])
            .arg(directory.path().join("s"))
            .args(["-o", "ControlPersist=no", "-p", &target.port.to_string(), "-l", &target.user, "--"])
            .arg(&target.address)
            // It ends with the pipe, so with this process.
            .arg("echo ready; exec cat >/dev/null")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut process = process.spawn().map_err(|error| client(&error))?;
        let (Some(input), Some(output), Some(errors)) =
            (process.stdin.take(), process.stdout.take(), process.stderr.take())
        else {
            return Err(TransportError::Client("no pipes".to_owned()));
        };
        let mut first = String::new();
        let mut output = BufReader::new(output);
        let answer = timeout(options.connect + options.alive * 3, output.read_line(&mut first)).await;
        // They are read during the handshake only.
        for path in [&identity, &known] {
            std::fs::remove_file(path).map_err(|error| client(&error))?;
        }
        match answer {
            Err(_) => return Err(TransportError::Unreachable("no answer during the handshake".to_owned())),
            Ok(Ok(_)) if first.trim_end() == "ready" => {}
            Ok(_) => {
                let text = timeout(GRACE, read_some(errors)).await.unwrap_or_default();
                return Err(classify(&String::from_utf8_lossy(&text)));
            }
        }
        tokio::spawn(async move {
            let (_, _) = tokio::join!(read_some(output), read_some(errors));
        });
        Ok(Connection {
            directory,
            turn: tokio::sync::Mutex::default(),
            used: Mutex::new(Instant::now()),
            _input: input,
            _process: process,
        })
    }

    /// The connection to a host, made if there is none.
    async fn connection(&self, slot: &Slot, target: &Target) -> Result<Arc<Connection>, TransportError> {
        let mut kept = slot.lock().await;
        if let Some(connection) = kept.as_ref() {
            connection.touch();
            return Ok(connection.clone());
        }
        let connection = Arc::new(self.connect(target).await?);
        *kept = Some(connection.clone());
        drop(kept);
        Self::expire(slot, &connection, self.0.options.idle);
        Ok(connection)
    }

    /// Forgets a connection that is lost.
    async fn forget(slot: &Slot, lost: &Arc<Connection>) {
        let mut kept = slot.lock().await;
        if kept.as_ref().is_some_and(|connection| Arc::ptr_eq(connection, lost)) {
            *kept = None;
        }
    }

    async fn execute(
        &self,
        connection: &Connection,
        target: &Target,
        command: &Command,
    ) -> Result<Output, TransportError> {
        let options = &self.0.options;
        let mut process = Process::new(&options.program);
        let stdin = match &command.input {
            Input::None => Stdio::null(),
            Input::Secret(_) => Stdio::piped(),
            Input::File(path) => Stdio::from(std::fs::File::open(path).map_err(|error| client(&error))?),
        };
        process
            .args(arguments(options))
            .arg("-S")
            .arg(connection.socket())
            // Without the connection it fails: it must not make one of its own.
            .args(["-o", "ControlMaster=no", "-o", "ProxyCommand=false", "-l", &target.user, "--"])
            .arg(&target.address)
            .arg(command.line(&options.directory, target.user == "root"))
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut process = process.spawn().map_err(|error| client(&error))?;
        let (Some(output), Some(errors)) = (process.stdout.take(), process.stderr.take()) else {
            return Err(TransportError::Client("no pipes".to_owned()));
        };
        let input = process.stdin.take();
        let write = async {
            if let (Some(mut input), Input::Secret(secret)) = (input, &command.input) {
                // One that needs no input ends before it has read it.
                let _ended = input.write_all(secret.expose()).await;
            }
        };
        let run = async { tokio::join!(write, read_some(output), read_some(errors), process.wait()) };
        let limit = command.limit + GRACE;
        let ((), output, errors, status) =
            timeout(limit, run).await.map_err(|_| TransportError::TimedOut(limit))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let (stdout, stderr) = (text(output), text(errors));
        match status.map_err(|error| client(&error))?.code() {
            // The client's own, and what a shell that is killed with its connection leaves.
            Some(255) | None => Err(TransportError::Lost(last_line(&stderr))),
            Some(code) => Ok(Output { code, stdout, stderr }),
        }
    }
}

fn last_line(text: &str) -> String {
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("no message").to_owned()
}

impl Transport for OpenSsh {
    fn run<'a>(
        &'a self,
        target: &'a Target,
        command: &'a Command,
    ) -> BoxFuture<'a, Result<Output, TransportError>> {
        async move {
            let slot = self.slot(target);
            let connection = self.connection(&slot, target).await?;
            let turn = connection.turn.lock().await;
            let result = self.execute(&connection, target, command).await;
            connection.touch();
            drop(turn);
            if result.is_err() {
                Self::forget(&slot, &connection).await;
            }
            result
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_the_client_are_classified() {
        let reason = |text: &str| classify(text).reason();
        assert_eq!(reason("Host key verification failed.\n"), "HostKeyVerificationFailed");
        assert_eq!(
            reason("No ED25519 host key is known for h and you have requested strict checking.\n"),
            "HostKeyVerificationFailed"
        );
        assert_eq!(reason("root@10.0.0.1: Permission denied (publickey).\n"), "KeyRefused");
        assert_eq!(
            reason("Load key \"/x\": error in libcrypto\nroot@h: Permission denied (publickey).\n"),
            "KeyRefused"
        );
        assert_eq!(reason("ssh: connect to host 10.0.0.1 port 22: Connection refused\n"), "Unreachable");
        assert_eq!(reason(""), "Unreachable");
    }
}

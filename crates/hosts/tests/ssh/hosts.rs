//! Hosts for tests: a real sshd each, in network, mount and process namespaces that end with it.
//!
//! Its first process reads from a pipe of the test. When the test ends, however it does, the pipe closes, the process ends, and with it everything in its
//! namespaces: there is nothing to clean up afterwards.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The first process of a host. `$1` is its directory, `$2` sshd, `$3` the size of its disk.
const INIT: &str = r#"
set -eu
ip link set lo up
mount -t tmpfs tmpfs /run
mkdir -p /run/sshd /run/home /run/bin
[ ! -d /etc/systemd ] || mount -t tmpfs tmpfs /etc/systemd
grep -v -e '^sshd:' -e '^root:' /etc/passwd >/run/passwd
echo 'operator:x:1234:0::/run/home:/bin/sh' >>/run/passwd
echo 'root:x:0:0:root:/run/home:/bin/sh' >>/run/passwd
echo 'sshd:x:74:65534::/run/sshd:/usr/sbin/nologin' >>/run/passwd
mount --bind /run/passwd /etc/passwd
mount -t tmpfs -o "size=$3" tmpfs /var/lib
while :; do
  LD_LIBRARY_PATH="$4" "$2" -D -e -f "$1/sshd_config" </dev/null 2>>"$1/log" || true
  sleep 0.2
done &
echo ready
cat >/dev/null
"#;

/// Where the programs are that the tests need, or what is missing.
fn programs() -> Result<(PathBuf, String), String> {
    let says = |program: &str, arguments: &[&str]| {
        Command::new(program)
            .args(arguments)
            .output()
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    if says("id", &["-u"]).ok().as_deref() != Some("0\n") {
        return Err("namespaces need root".to_owned());
    }
    for (program, arguments) in [("ssh", ["-V"]), ("ip", ["-V"]), ("unshare", ["-V"]), ("ssh-keygen", ["-?"])]
    {
        says(program, &arguments).map_err(|_| format!("there is no {program}"))?;
    }
    let cache = std::env::var_os("SETTLED_CACHE").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("XDG_CACHE_HOME")?).join("settled")));
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/settled")));
    let unpacked = cache.unwrap_or_default().join("openssh-server");
    let libraries = ["lib", "usr/lib"]
        .map(|lib| format!("{0}/{lib}/x86_64-linux-gnu:{0}/{lib}/aarch64-linux-gnu", unpacked.display()));
    for (sshd, libraries) in [
        (PathBuf::from("/usr/sbin/sshd"), String::new()),
        (unpacked.join("usr/sbin/sshd"), libraries.join(":")),
    ] {
        if sshd.is_file() {
            return Ok((sshd, libraries));
        }
    }
    Err("there is no sshd: packaging/install-sshd.sh unpacks Debian's into the cache".to_owned())
}

/// A network of hosts, and the key that they take.
pub(crate) struct Network {
    directory: TempDir,
    sshd: PathBuf,
    libraries: String,
    hosts: AtomicUsize,
}

impl Network {
    /// `None` where it is not possible, with a word why.
    pub(crate) fn new() -> Option<Self> {
        let (sshd, libraries) = match programs() {
            Ok(found) => found,
            Err(missing) => {
                eprintln!("SKIPPED: {missing}");
                assert_ne!(
                    std::env::var("CI").as_deref(),
                    Ok("true"),
                    "with CI=true nothing is skipped: {missing}"
                );
                return None;
            }
        };
        let directory = tempfile::Builder::new().prefix("settled-hosts-").tempdir().expect("a directory");
        keygen(&directory.path().join("id"));
        Some(Self { directory, sshd, libraries, hosts: AtomicUsize::new(0) })
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The private key that hosts take.
    pub(crate) fn key(&self) -> String {
        fs::read_to_string(self.path().join("id")).expect("a key")
    }

    /// Another private key.
    pub(crate) fn other_key(&self) -> String {
        let path = self.path().join("other");
        keygen(&path);
        fs::read_to_string(path).expect("a key")
    }

    /// A host with this much space.
    pub(crate) fn host_with(&self, size: &str) -> Machine {
        let name = format!("h{}", self.hosts.fetch_add(1, Ordering::Relaxed) + 1);
        Machine::start(self, &name, size)
    }

    pub(crate) fn host(&self) -> Machine {
        self.host_with("64m")
    }
}

fn keygen(path: &Path) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(path)
        .stdin(Stdio::null())
        .status();
    assert!(made.expect("ssh-keygen").success());
}

/// A machine with sshd.
pub(crate) struct Machine {
    pub(crate) name: String,
    pub(crate) address: String,
    /// Address of this side of its network.
    pub(crate) gateway: String,
    pub(crate) host_key: String,
    directory: PathBuf,
    interface: String,
    /// Its first process, as this side sees it.
    pub(crate) pid: u32,
    process: Child,
    _input: Option<ChildStdin>,
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("a program");
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Machine {
    fn start(network: &Network, name: &str, size: &str) -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let process_id = std::process::id();
        // Not the networks of other processes: each has 64 of its own.
        let (high, low) = (64 + (process_id % 128), number % 64);
        let subnet = |part: usize| format!("10.{high}.{}.{}", process_id / 128 % 256, low * 4 + part);
        let (gateway, address) = (subnet(1), subnet(2));
        let interface = format!("st{process_id:x}h{number:x}");
        let directory = network.path().join(name);
        fs::create_dir(&directory).expect("a directory");
        keygen(&directory.join("key"));
        let host_key = fs::read_to_string(directory.join("key.pub")).expect("a key");
        let host_key = host_key.split(' ').take(2).collect::<Vec<_>>().join(" ");
        let config = format!(
            "ListenAddress 0.0.0.0\nHostKey {0}/key\nAuthorizedKeysFile {1}/id.pub\nStrictModes no\nUsePAM no\nPidFile none\n\
             PasswordAuthentication no\nKexAlgorithms curve25519-sha256\nMaxStartups 100\n\
             SetEnv PATH=/run/bin:/usr/local/bin:/usr/bin:/bin\n",
            directory.display(),
            network.path().display(),
        );
        fs::write(directory.join("sshd_config"), config).expect("written");
        let mut process = Command::new("unshare")
            .args([
                "--net",
                "--mount",
                "--pid",
                "--uts",
                "--fork",
                "--mount-proc",
                "--kill-child",
                "sh",
                "-c",
                INIT,
                "host",
            ])
            .arg(&directory)
            .arg(&network.sshd)
            .args([size, &network.libraries])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .process_group(0)
            .spawn()
            .expect("unshare");
        let mut first = String::new();
        BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut first).expect("a line");
        assert_eq!(first, "ready\n", "the host does not start");
        let children = format!("/proc/{0}/task/{0}/children", process.id());
        let children = fs::read_to_string(children).expect("a process");
        let pid: u32 = children.trim().parse().expect("one child");
        let target = pid.to_string();
        run("ip", &["link", "add", &interface, "type", "veth", "peer", "name", "eth0", "netns", &target]);
        run("ip", &["addr", "add", &format!("{gateway}/30"), "dev", &interface]);
        run("ip", &["link", "set", &interface, "up"]);
        let inside = format!("ip addr add {address}/30 dev eth0; ip link set eth0 up");
        run("nsenter", &["-t", &target, "-n", "sh", "-c", &inside]);
        let input = process.stdin.take();
        let machine = Self {
            name: name.to_owned(),
            address,
            gateway,
            host_key,
            directory,
            interface,
            pid,
            process,
            _input: input,
        };
        wait("sshd listens", || std::net::TcpStream::connect((machine.address.as_str(), 22)).is_ok());
        machine
    }

    /// The Host object.
    pub(crate) fn object(&self) -> Value {
        json!({
            "apiVersion": "cluster.settled.dev/v1alpha1", "kind": "Host",
            "metadata": {"name": self.name, "namespace": "default", "labels": {"pool": "a"}},
            "spec": {"address": self.address, "key": {"name": "ssh"}, "hostKeys": [self.host_key]},
        })
    }

    /// A path on the host, as this side reaches it.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.pid))
    }

    /// Runs a shell command on the host.
    pub(crate) fn shell(&self, command: &str) -> String {
        let target = self.pid.to_string();
        let output = Command::new("nsenter")
            .args(["-t", &target, "-n", "-m", "-p", "-u", "sh", "-c", command])
            .output()
            .expect("nsenter");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Makes everything that is sent to it, and that it sends, disappear; or not any more.
    pub(crate) fn cut_off(&self, is_cut: bool) {
        let state = if is_cut { "down" } else { "up" };
        run("nsenter", &["-t", &self.pid.to_string(), "-n", "ip", "link", "set", "eth0", state]);
    }

    /// What runs on it beside sshd, and the files of the provider.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let mut found = Vec::new();
        let own = [format!("{}/sshd_config", self.directory.display()), INIT[..20].to_owned()];
        for entry in fs::read_dir(self.path("/proc")).into_iter().flatten().flatten() {
            let Ok(command) = fs::read(entry.path().join("cmdline")) else { continue };
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            let is_own = own.iter().any(|own| command.contains(own.as_str()));
            let is_session =
                command.starts_with("sshd: ") || ["cat ", "sleep 0.2 ", ""].contains(&command.as_str());
            if entry.file_name().to_string_lossy().parse::<u32>().is_ok() && !is_own && !is_session {
                found.push(format!("{}: process {command}", self.name));
            }
        }
        for entry in fs::read_dir(self.path("/var/lib")).into_iter().flatten().flatten() {
            found.push(format!("{}: file {}", self.name, entry.path().display()));
        }
        found
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }

    /// Ends it, and shows that its namespaces and its network are gone.
    pub(crate) fn end(mut self) {
        self.stop();
        assert!(!Path::new(&format!("/proc/{}", self.pid)).exists(), "a process is left");
        let interface = format!("/sys/class/net/{}", self.interface);
        wait("its network is gone", || !Path::new(&interface).exists());
    }

    fn stop(&mut self) {
        drop(self._input.take());
        let _ended = self.process.wait();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits for something outside of this process.
pub(crate) fn wait(what: &str, is_true: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}: not within 20 s");
        std::thread::sleep(Duration::from_millis(10));
    }
}

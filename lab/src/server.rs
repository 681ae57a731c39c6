//! Servers under comparison: kube-apiserver with etcd, and `settled serve`, on free loopback ports in a temporary directory.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use settled_conformance::{Client, Identity, Request, Target, token_file};

use crate::oracle::{self, Oracle, Program};
use crate::{Outcome, process};

/// Startup timeout of a server.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// etcd and kube-apiserver without fsync, for comparisons of responses.
    Real,
    /// The same with fsync, for benchmarks.
    RealOnDisk,
    /// `settled serve --memory`.
    Ours,
    /// The same without its controllers, to compare with kube-apiserver without a controller manager.
    OursAlone,
    /// `settled serve` with data on disk.
    OursOnDisk,
    /// The same of the [`earlier`] binary.
    EarlierOnDisk,
    /// `settled serve --memory --simulate`, without Nodes of its own and kubelets.
    Simulated,
}

/// A running server. It is killed, and its directory removed, when this is dropped.
pub(crate) struct Server {
    kind: Kind,
    pub(crate) client: Client,
    /// Startup time.
    pub(crate) took: Duration,
    pub(crate) url: String,
    /// Its CA certificate.
    pub(crate) ca: PathBuf,
    pub(crate) directory: PathBuf,
    processes: Vec<Child>,
    /// Ports of kube-apiserver, and of etcd for clients and peers.
    ports: Option<[u16; 3]>,
}

impl Server {
    /// Kills a server with data on disk, and restarts it with the same data and port.
    pub(crate) fn restart(&mut self) -> Outcome<()> {
        self.kill();
        let start = Instant::now();
        self.processes = if let Some(ports) = self.ports {
            let Some(programs) = programs()? else { return Err("kube-apiserver is not available".into()) };
            spawn(&self.directory, Kind::RealOnDisk, &programs, ports)?
        } else {
            let port = self.url.rsplit(':').next().unwrap_or_default();
            vec![serve(&self.directory, self.kind, port)?]
        };
        ready(&self.client, &mut self.processes, &self.directory)?;
        self.took = start.elapsed();
        Ok(())
    }

    /// Its processes.
    pub(crate) fn ids(&self) -> Vec<u32> {
        self.processes.iter().map(Child::id).collect()
    }

    /// The end of its log.
    pub(crate) fn last_words(&self) -> String {
        let name = if self.ports.is_some() { "kube-apiserver.log" } else { "settled.log" };
        let log = fs::read_to_string(self.directory.join(name)).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(5).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    fn kill(&mut self) {
        // In reverse order: kube-apiserver before etcd. A graceful shutdown would take a minute.
        for child in self.processes.iter_mut().rev() {
            drop(child.kill());
            drop(child.wait());
        }
        self.processes.clear();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
        drop(fs::remove_dir_all(&self.directory));
    }
}

/// Starts a server; `None`, after printing the reason, if it is not available.
pub(crate) fn start(kind: Kind) -> Outcome<Option<Server>> {
    let directory = std::env::temp_dir().join(format!("settled-{kind:?}-{}", std::process::id()));
    drop(fs::remove_dir_all(&directory));
    fs::create_dir_all(&directory)?;
    match kind {
        Kind::Real | Kind::RealOnDisk => real(directory, kind),
        Kind::Ours | Kind::OursAlone | Kind::OursOnDisk | Kind::EarlierOnDisk | Kind::Simulated => {
            ours(directory, kind).map(Some)
        }
    }
}

/// Starts etcd and kube-apiserver; `None`, after printing the reason, if they are not available.
fn programs() -> Outcome<Option<[PathBuf; 2]>> {
    let mut programs = Vec::new();
    for program in [Program::Etcd, Program::KubeApiserver] {
        match oracle::program(program)? {
            Oracle::Ready(path) => programs.push(path),
            Oracle::Skipped(why) => {
                println!("SKIPPED: {why}");
                return Ok(None);
            }
        }
    }
    Ok(<[PathBuf; 2]>::try_from(programs).ok())
}

fn real(directory: PathBuf, kind: Kind) -> Outcome<Option<Server>> {
    let Some(programs) = programs()? else { return Ok(None) };
    fs::write(directory.join("tokens.csv"), token_file())?;
    service_account_keys(&directory)?;
    let ports = free_ports()?;
    let start = Instant::now();
    let mut processes = spawn(&directory, kind, &programs, ports)?;
    let certificate = directory.join("certs/apiserver.crt");
    // Renamed, so that no client reads a partial file.
    let written = || {
        fs::read_to_string(&certificate)
            .is_ok_and(|text| text.trim_end().ends_with("-----END CERTIFICATE-----"))
    };
    wait("kube-apiserver's certificate", &mut processes, &directory, written)?;
    let url = format!("https://127.0.0.1:{}", ports[0]);
    let client = Client::new(&url, &certificate)?;
    ready(&client, &mut processes, &directory)?;
    let took = start.elapsed();
    Ok(Some(Server { kind, client, took, url, ca: certificate, directory, processes, ports: Some(ports) }))
}

fn spawn(
    directory: &Path,
    kind: Kind,
    [etcd, apiserver]: &[PathBuf; 2],
    [port, client, peer]: [u16; 3],
) -> Outcome<Vec<Child>> {
    let file = |name: &str| directory.join(name).display().to_string();
    let [client_url, peer_url] = [client, peer].map(|port| format!("http://127.0.0.1:{port}"));
    let etcd = Command::new(etcd)
        .args(["--data-dir", &file("etcd"), "--log-level=warn"])
        .args((kind == Kind::Real).then_some("--unsafe-no-fsync"))
        .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
        .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
        .args(["--initial-cluster", &format!("default={peer_url}")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(directory.join("etcd.log"))?)
        .spawn()?;
    let apiserver = Command::new(apiserver)
        .arg(format!("--etcd-servers={client_url}"))
        .arg(format!("--cert-dir={}", file("certs")))
        .arg(format!("--secure-port={port}"))
        .arg(format!("--service-account-key-file={}", file("sa.key")))
        .arg(format!("--service-account-signing-key-file={}", file("sa.key")))
        .arg(format!("--token-auth-file={}", file("tokens.csv")))
        .args(REAL_FLAGS)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(directory.join("kube-apiserver.log"))?)
        .spawn();
    let mut processes = vec![etcd];
    processes.push(apiserver?);
    Ok(processes)
}

/// Common configuration: no admission of service accounts, whose tokens settled does not support yet. Periodic writes
/// of kube-apiserver are disabled, so that two runs have the same revisions.
const REAL_FLAGS: [&str; 9] = [
    "--bind-address=127.0.0.1",
    "--service-cluster-ip-range=10.0.0.0/16",
    "--service-account-issuer=https://kubernetes.default.svc",
    "--authorization-mode=RBAC",
    "--disable-admission-plugins=ServiceAccount",
    "--endpoint-reconciler-type=none",
    "--feature-gates=APIServerIdentity=false,UnknownVersionInteroperabilityProxy=false",
    "--etcd-compaction-interval=0",
    "--profiling=false",
];

/// The program, in the profile of this one: `dist` for benchmarks, otherwise `release`. `SETTLED_BINARY` overrides it.
pub(crate) fn binary() -> Outcome<PathBuf> {
    match std::env::var_os("SETTLED_BINARY") {
        Some(binary) => Ok(binary.into()),
        None => process::beside("settled"),
    }
}

/// A binary to compare with, such as that of the last release: `SETTLED_EARLIER`.
pub(crate) fn earlier() -> Option<PathBuf> {
    std::env::var_os("SETTLED_EARLIER").map(PathBuf::from)
}

/// Starts `settled serve`.
fn serve(directory: &Path, kind: Kind, port: &str) -> Outcome<Child> {
    let binary = match kind {
        Kind::EarlierOnDisk => earlier().ok_or("SETTLED_EARLIER is not set")?,
        _ => binary()?,
    };
    let log = |name: &str| File::options().create(true).append(true).open(directory.join(name));
    let mut command = Command::new(binary);
    command.args(["serve", "--port", port, "--data-dir"]).arg(directory.join("data"));
    if !matches!(kind, Kind::OursOnDisk | Kind::EarlierOnDisk) {
        command.arg("--memory");
    }
    if kind == Kind::OursAlone {
        command.arg("--controllers=");
    }
    if kind == Kind::Simulated {
        // The Nodes come with kwok.
        command.args(["--simulate=*,-kubelets", "--nodes="]);
    }
    command.arg("--token-auth-file").arg(directory.join("tokens.csv"));
    command.stdin(Stdio::null()).stdout(log("settled.out")?).stderr(log("settled.log")?);
    process::started(command.spawn(), &command)
}

fn ours(directory: PathBuf, kind: Kind) -> Outcome<Server> {
    fs::write(directory.join("tokens.csv"), token_file())?;
    // Building is not part of the startup time.
    binary()?;
    let start = Instant::now();
    let mut processes = vec![serve(&directory, kind, "0")?];
    let config = directory.join("data/admin.kubeconfig");
    let cluster = || cluster(&fs::read(&config).ok()?);
    wait("the administrator's kubeconfig", &mut processes, &directory, || cluster().is_some())?;
    let (url, certificate) = cluster().ok_or("the administrator's kubeconfig is gone")?;
    let ca = directory.join("ca.crt");
    fs::write(&ca, certificate)?;
    let client = Client::new(&url, &ca)?;
    ready(&client, &mut processes, &directory)?;
    Ok(Server { kind, client, took: start.elapsed(), url, ca, directory, processes, ports: None })
}

/// URL and CA certificate of a kubeconfig's first cluster. `None` while it is incomplete.
pub(crate) fn cluster(kubeconfig: &[u8]) -> Option<(String, Vec<u8>)> {
    let mut json = Vec::new();
    settled_manifest::yaml_to_json(kubeconfig, &mut json).ok()?;
    let config: serde_json::Value = serde_json::from_slice(&json).ok()?;
    let cluster = config.pointer("/clusters/0/cluster")?;
    let text = |key: &str| cluster.get(key).and_then(serde_json::Value::as_str);
    let certificate = match text("certificate-authority-data") {
        Some(data) => settled_go::base64::STANDARD.decode(data).ok()?,
        None => fs::read(text("certificate-authority")?).ok()?,
    };
    Some((text("server")?.to_owned(), certificate))
}

fn free_ports<const N: usize>() -> Outcome<[u16; N]> {
    // All ports are bound until all are known, so that they differ.
    let mut held = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        *port = listener.local_addr()?.port();
        held.push(listener);
    }
    Ok(ports)
}

/// A service account key, created with openssl: kube-apiserver requires one.
pub(crate) fn service_account_keys(directory: &Path) -> Outcome<()> {
    let key = directory.join("sa.key");
    let mut command = Command::new("openssl");
    command.args(["genrsa", "-out"]).arg(&key).arg("2048").stderr(Stdio::null()).stdout(Stdio::null());
    let made = process::started(command.status(), &command)?;
    if made.success() { Ok(()) } else { Err("openssl cannot create a key".into()) }
}

fn ready(client: &Client, processes: &mut [Child], directory: &Path) -> Outcome<()> {
    let request = |path: &str| Request {
        method: "GET".to_owned(),
        path: path.to_owned(),
        user: "admin".to_owned(),
        headers: vec![],
        body: vec![],
    };
    let answers = |path| client.send(&request(path)).is_ok_and(|answer| answer.status == 200);
    wait("/readyz", processes, directory, || answers("/readyz"))?;
    // Created in the background after startup.
    wait("the namespace default", processes, directory, || answers("/api/v1/namespaces/default"))
}

fn wait(what: &str, processes: &mut [Child], directory: &Path, done: impl Fn() -> bool) -> Outcome<()> {
    let start = Instant::now();
    let problem = loop {
        if done() {
            return Ok(());
        }
        if processes.iter_mut().any(|child| matches!(child.try_wait(), Ok(Some(_)))) {
            break format!("a server exited while waiting for {what}");
        }
        if start.elapsed() > PATIENCE {
            break format!("timed out waiting for {what}");
        }
        // settled starts within a few of these intervals.
        thread::sleep(Duration::from_millis(2));
    };
    for child in processes.iter_mut().rev() {
        drop(child.kill());
        drop(child.wait());
    }
    Err(format!("{problem}; its logs are in {}", directory.display()).into())
}

/// The administrator's token.
pub(crate) fn admin_token() -> &'static str {
    settled_conformance::IDENTITIES
        .iter()
        .find(|Identity { name, .. }| *name == "admin")
        .map_or("", |one| one.token)
}

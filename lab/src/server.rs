//! Servers under comparison: kube-apiserver with etcd, and `settled serve`, on free loopback ports in a temporary directory.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use settled_conformance::{Client, Identity, Request, Target, token_file};

use crate::oracle::{self, Oracle, Program};
use crate::{Outcome, corpora, process};

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
}

/// A running server. It is killed, and its directory removed, when this is dropped.
pub(crate) struct Server {
    pub(crate) client: Client,
    /// Startup time.
    pub(crate) took: Duration,
    pub(crate) url: String,
    /// Its CA certificate.
    pub(crate) ca: PathBuf,
    pub(crate) folder: PathBuf,
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
            let Some(programs) = programs()? else { return Err("kube-apiserver is gone".into()) };
            spawn(&self.folder, Kind::RealOnDisk, &programs, ports)?
        } else {
            let port = self.url.rsplit(':').next().unwrap_or_default();
            vec![serve(&self.folder, Kind::OursOnDisk, port)?]
        };
        ready(&self.client, &mut self.processes, &self.folder)?;
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
        let log = fs::read_to_string(self.folder.join(name)).unwrap_or_default();
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
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Starts a server; `None`, after printing the reason, if it is not available.
pub(crate) fn start(kind: Kind) -> Outcome<Option<Server>> {
    let folder = std::env::temp_dir().join(format!("settled-{kind:?}-{}", std::process::id()));
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder)?;
    match kind {
        Kind::Real | Kind::RealOnDisk => real(folder, kind),
        Kind::Ours | Kind::OursAlone | Kind::OursOnDisk => ours(folder, kind).map(Some),
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

fn real(folder: PathBuf, kind: Kind) -> Outcome<Option<Server>> {
    let Some(programs) = programs()? else { return Ok(None) };
    fs::write(folder.join("tokens.csv"), token_file())?;
    service_account_keys(&folder)?;
    let ports = free_ports()?;
    let start = Instant::now();
    let mut processes = spawn(&folder, kind, &programs, ports)?;
    let certificate = folder.join("certs/apiserver.crt");
    // Whole: a client that reads half of it trusts nobody.
    let written = || {
        fs::read_to_string(&certificate)
            .is_ok_and(|text| text.trim_end().ends_with("-----END CERTIFICATE-----"))
    };
    wait("kube-apiserver's certificate", &mut processes, &folder, written)?;
    let url = format!("https://127.0.0.1:{}", ports[0]);
    let client = Client::new(&url, &certificate)?;
    ready(&client, &mut processes, &folder)?;
    let took = start.elapsed();
    Ok(Some(Server { client, took, url, ca: certificate, folder, processes, ports: Some(ports) }))
}

fn spawn(
    folder: &Path,
    kind: Kind,
    [etcd, apiserver]: &[PathBuf; 2],
    [port, client, peer]: [u16; 3],
) -> Outcome<Vec<Child>> {
    let file = |name: &str| folder.join(name).display().to_string();
    let [client_url, peer_url] = [client, peer].map(|port| format!("http://127.0.0.1:{port}"));
    let etcd = Command::new(etcd)
        .args(["--data-dir", &file("etcd"), "--log-level=warn"])
        .args((kind == Kind::Real).then_some("--unsafe-no-fsync"))
        .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
        .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
        .args(["--initial-cluster", &format!("default={peer_url}")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(folder.join("etcd.log"))?)
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
        .stderr(File::create(folder.join("kube-apiserver.log"))?)
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

/// The program, built in the profile of this one: `dist` for benchmarks, otherwise `release`. `SETTLED_BINARY`
/// overrides it.
pub(crate) fn binary() -> Outcome<PathBuf> {
    static BUILT: Mutex<Option<PathBuf>> = Mutex::new(None);
    if let Some(binary) = std::env::var_os("SETTLED_BINARY") {
        return Ok(binary.into());
    }
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(binary) = &*built {
        return Ok(binary.clone());
    }
    let own = std::env::current_exe()?;
    let folder = own.parent().ok_or("this program lies in no directory")?;
    let profile = process::profile()?;
    let mut command = Command::new("cargo");
    command.args(["build", "--quiet", "--locked", "--package", "settled", "--profile", &profile]);
    if !process::passes(command.current_dir(corpora::root()))? {
        return Err("`settled` does not build".into());
    }
    Ok(built.insert(folder.join("settled")).clone())
}

/// Starts `settled serve`.
fn serve(folder: &Path, kind: Kind, port: &str) -> Outcome<Child> {
    let binary = binary()?;
    let log = |name: &str| File::options().create(true).append(true).open(folder.join(name));
    let mut command = Command::new(binary);
    command.args(["serve", "--port", port, "--data-dir"]).arg(folder.join("data"));
    if kind != Kind::OursOnDisk {
        command.arg("--memory");
    }
    if kind == Kind::OursAlone {
        command.arg("--controllers=");
    }
    command.arg("--token-auth-file").arg(folder.join("tokens.csv"));
    command.stdin(Stdio::null()).stdout(log("settled.out")?).stderr(log("settled.log")?);
    process::started(command.spawn(), &command)
}

fn ours(folder: PathBuf, kind: Kind) -> Outcome<Server> {
    fs::write(folder.join("tokens.csv"), token_file())?;
    // Building it is no part of its start.
    binary()?;
    let start = Instant::now();
    let mut processes = vec![serve(&folder, kind, "0")?];
    let config = folder.join("data/admin.kubeconfig");
    let cluster = || cluster(&fs::read(&config).ok()?);
    wait("the administrator's kubeconfig", &mut processes, &folder, || cluster().is_some())?;
    let (url, certificate) = cluster().ok_or("the administrator's kubeconfig is gone")?;
    let ca = folder.join("ca.crt");
    fs::write(&ca, certificate)?;
    let client = Client::new(&url, &ca)?;
    ready(&client, &mut processes, &folder)?;
    Ok(Server { client, took: start.elapsed(), url, ca, folder, processes, ports: None })
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
pub(crate) fn service_account_keys(folder: &Path) -> Outcome<()> {
    let key = folder.join("sa.key");
    let mut command = Command::new("openssl");
    command.args(["genrsa", "-out"]).arg(&key).arg("2048").stderr(Stdio::null()).stdout(Stdio::null());
    let made = process::started(command.status(), &command)?;
    if made.success() { Ok(()) } else { Err("openssl makes no key".into()) }
}

fn ready(client: &Client, processes: &mut [Child], folder: &Path) -> Outcome<()> {
    let request = |path: &str| Request {
        method: "GET".to_owned(),
        path: path.to_owned(),
        user: "admin".to_owned(),
        headers: vec![],
        body: vec![],
    };
    let answers = |path| client.send(&request(path)).is_ok_and(|answer| answer.status == 200);
    wait("/readyz", processes, folder, || answers("/readyz"))?;
    // Made in the background after that.
    wait("the namespace default", processes, folder, || answers("/api/v1/namespaces/default"))
}

fn wait(what: &str, processes: &mut [Child], folder: &Path, done: impl Fn() -> bool) -> Outcome<()> {
    let start = Instant::now();
    let problem = loop {
        if done() {
            return Ok(());
        }
        if processes.iter_mut().any(|child| matches!(child.try_wait(), Ok(Some(_)))) {
            break format!("a server ended while waiting for {what}");
        }
        if start.elapsed() > PATIENCE {
            break format!("{what} did not come");
        }
        // settled starts within a few of these intervals.
        thread::sleep(Duration::from_millis(2));
    };
    for child in processes.iter_mut().rev() {
        drop(child.kill());
        drop(child.wait());
    }
    Err(format!("{problem}; its logs are in {}", folder.display()).into())
}

/// The administrator's token.
pub(crate) fn admin_token() -> &'static str {
    settled_conformance::IDENTITIES
        .iter()
        .find(|Identity { name, .. }| *name == "admin")
        .map_or("", |one| one.token)
}

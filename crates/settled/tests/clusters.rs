//! `settled cluster` with control planes as local processes: create, crash, repair, pivot, upgrade, delete, and what is left.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use settled_hosts::process::{API_VERSION, KIND, ProcessProvider, Programs};
use settled_machines::provider::conformance::{Subject, check};
use settled_machines::provider::{
    Desired, Host, HostKey, Observed, Owned, Plan, Progress, Provider, ProviderError, Request, Step,
};
use settled_machines::types::MachineVersions;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_settled");

/// A state directory; whatever still runs in it is killed at the end.
pub(crate) struct State(tempfile::TempDir);

/// Servers, agents and virtual machines whose arguments name something in a directory.
pub(crate) fn processes(directory: &Path) -> Vec<i32> {
    let text = directory.to_str().unwrap();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let names = |pid: &i32| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments).into_owned();
        let is_host = ["\0serve\0", "\0agent\0", "\0-initrd\0"].iter().any(|word| arguments.contains(word));
        is_host && arguments.contains(text)
    };
    pids.filter(names).collect()
}

pub(crate) fn signal(pid: i32, name: &str) {
    Command::new("kill").args(["-s", name, &pid.to_string()]).status().unwrap();
    // A killed process runs on for a moment. A zombie has no command line.
    let is_there = || fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|arguments| !arguments.is_empty());
    let begin = Instant::now();
    while name == "KILL" && is_there() {
        assert!(begin.elapsed() < Duration::from_secs(30), "{pid} does not end");
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.clear();
    }
}

impl State {
    /// Ends everything at once, as a restart of the machine does.
    pub(crate) fn clear(&self) {
        processes(self.path()).into_iter().for_each(|pid| signal(pid, "KILL"));
        for name in self.networks() {
            let kind = if name.contains('-') { ["netns", "del"] } else { ["link", "del"] };
            // An interface goes with its namespace.
            let _best_effort = Command::new("ip").args(kind).arg(name).stderr(Stdio::null()).status();
        }
        // Interfaces of a namespace go a moment after it.
        let begin = Instant::now();
        while !self.networks().is_empty() && begin.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Network namespaces and interfaces of its hosts.
    pub(crate) fn networks(&self) -> Vec<String> {
        let directory = self.path().join("state/hosts/netns");
        let prefix = settled_hosts::netns::Options::new(directory, Vec::new()).prefix;
        let names = |directory: &str| {
            let entries = fs::read_dir(directory).into_iter().flatten().flatten();
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
        };
        let all = [names("/run/netns"), names("/sys/class/net")].concat();
        all.into_iter().filter(|name| name.starts_with(&prefix)).collect()
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn manifests(&self) -> PathBuf {
        let path = self.path().join("cluster.yaml");
        fs::write(&path, include_str!("../../clusters/examples/process.yaml")).unwrap();
        path
    }

    pub(crate) fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(PROGRAM);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.arg("cluster").args(arguments.split_whitespace());
        command.arg("--state").arg(self.path().join("state")).args(["--timeout", "120s"]);
        command
    }

    pub(crate) fn run(&self, arguments: &str) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command that succeeds.
    pub(crate) fn ok(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{arguments}: {:?}\n{out}{err}", output.status.code());
        out.into_owned()
    }

    pub(crate) fn create(&self) -> String {
        format!("create -f {}", self.manifests().display())
    }

    /// Nodes of the cluster, as its own API server has them.
    pub(crate) fn nodes(&self) -> Vec<String> {
        let kubeconfig = self.path().join("state/prod.kubeconfig");
        let output = Command::new(PROGRAM)
            .args(["status", "nodes", "-o", "json", "--kubeconfig"])
            .arg(&kubeconfig)
            .output()
            .unwrap();
        let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let nodes = found.as_array().cloned().unwrap_or_default();
        nodes
            .iter()
            .map(|node| format!("{} {}", node["name"].as_str().unwrap(), node["status"].as_str().unwrap()))
            .collect()
    }

    /// The program of the control plane that runs.
    fn program(&self) -> PathBuf {
        let [pid] = processes(self.path())[..] else { panic!("{:?}", processes(self.path())) };
        fs::read_link(format!("/proc/{pid}/exe")).unwrap()
    }

    /// What is left outside of the embedded server.
    pub(crate) fn sweep(&self) -> Vec<String> {
        let mut left: Vec<String> =
            processes(self.path()).iter().map(|pid| format!("process {pid}")).collect();
        left.extend(self.networks());
        for directory in ["hosts/process", "hosts/netns/hosts", "hosts/qemu/hosts", "ledger", "clusters"] {
            let entries =
                fs::read_dir(self.path().join("state").join(directory)).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| entry.path().display().to_string()));
        }
        left
    }
}

const READY: [&str; 1] = ["prod-0 Current"];

/// S1 on P4: create, repair and delete; Q2: the control plane is killed, and repaired from outside.
#[test]
fn q2_a_killed_control_plane_is_repaired_from_outside() {
    let state = State::new();
    let out = state.ok(&state.create());
    assert!(out.contains("cluster.cluster.settled.dev/prod created"), "{out}");
    assert_eq!(state.nodes(), READY);
    let [pid] = processes(state.path())[..] else { panic!("{:?}", processes(state.path())) };
    // The server outlives the command; a second creation changes nothing.
    state.ok(&state.create());
    assert_eq!(processes(state.path()), [pid]);
    assert!(state.ok("get kubeconfig prod").contains("current-context: "));
    signal(pid, "KILL");
    state.ok("repair prod");
    assert_eq!(state.nodes(), READY);
    assert_ne!(processes(state.path()), [pid]);
    // Deleted from the same state directory, though its API server is dead.
    processes(state.path()).into_iter().for_each(|pid| signal(pid, "KILL"));
    state.ok("delete prod");
    assert_eq!(state.sweep(), Vec::<String>::new());
    assert_eq!(state.run("delete prod").status.code(), Some(2));
}

/// The registry of the state directory has a cluster while it exists, and with it the kubeconfig by which it is used.
#[test]
fn u8_a_cluster_is_registered_while_it_exists() {
    let state = State::new();
    let registered = || {
        let entries = fs::read_dir(state.path().join("state/clusters")).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>()
    };
    state.ok(&state.create());
    assert_eq!(registered(), ["default.prod.json"]);
    let kubeconfig = state.path().join("used.kubeconfig");
    fs::write(&kubeconfig, state.ok("get kubeconfig prod")).unwrap();
    let status = Command::new(PROGRAM).args(["status", "nodes", "--kubeconfig"]).arg(&kubeconfig).output();
    let text = String::from_utf8_lossy(&status.unwrap().stdout).into_owned();
    assert!(text.contains("Node/prod-0"), "{text}");
    state.ok("delete prod");
    assert_eq!(registered(), Vec::<String>::new());
    assert_eq!(state.run("get kubeconfig prod").status.code(), Some(2));
}

/// The cluster has its own objects; it is repaired when it is the dead one, and deleted from outside, alive or dead.
#[test]
fn a_pivoted_cluster_is_repaired_and_deleted_from_outside() {
    for is_lost in [false, true] {
        let state = State::new();
        state.ok(&format!("{} --pivot", state.create()));
        assert_eq!(state.nodes(), READY);
        let [pid] = processes(state.path())[..] else { panic!() };
        signal(pid, "KILL");
        let out = state.ok("repair prod");
        assert!(out.contains("repaired Machine prod-0: start"), "{out}");
        assert_eq!(state.nodes(), READY);
        if is_lost {
            // Its data are gone: nobody can read its objects again.
            processes(state.path()).into_iter().for_each(|pid| signal(pid, "KILL"));
            let hosts = fs::read_dir(state.path().join("state/hosts/process")).unwrap().flatten();
            for host in hosts {
                fs::remove_dir_all(host.path().join("data")).unwrap();
                fs::write(host.path().join("data"), "not a directory").unwrap();
            }
        }
        state.ok("delete prod");
        assert_eq!(state.sweep(), Vec::<String>::new(), "lost: {is_lost}");
    }
}

/// U2 on P4: another version, in place, and back; and one that does not start, which steps back.
#[test]
fn u2_a_control_plane_goes_up_and_down_in_place() {
    let state = State::new();
    state.ok(&state.create());
    let programs = state.path().join("state/programs");
    let install = |version: &str| programs.join(version).join("settled");
    fs::create_dir_all(install("v1.37.0").parent().unwrap()).unwrap();
    fs::hard_link(PROGRAM, install("v1.37.0"))
        .or_else(|_| fs::copy(PROGRAM, install("v1.37.0")).map(drop))
        .unwrap();
    let apply = |version: &str| {
        let text = fs::read_to_string(state.manifests()).unwrap().replace("v1.36.3", version);
        fs::write(state.path().join("cluster.yaml"), text).unwrap();
        state.run(&format!("create -f {}", state.path().join("cluster.yaml").display()))
    };
    assert!(apply("v1.37.0").status.success());
    assert_eq!(state.program(), fs::canonicalize(install("v1.37.0")).unwrap());
    assert_eq!(state.nodes(), READY);
    // Not installed: refused, and the host keeps serving.
    let output = apply("v1.99.0");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(
        errors.contains("UnsupportedChange") && errors.contains("installed: v1.36.3, v1.37.0"),
        "{errors}"
    );
    assert_eq!(state.nodes(), READY);
    // It does not start: the one before runs again.
    fs::create_dir_all(install("v1.38.0").parent().unwrap()).unwrap();
    fs::copy("/bin/false", install("v1.38.0")).unwrap();
    let output = apply("v1.38.0");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("v1.37.0 runs again"), "{errors}");
    assert_eq!(state.nodes(), READY);
    assert!(apply("v1.36.3").status.success());
    assert_eq!(state.program(), fs::canonicalize(PROGRAM).unwrap());
    state.ok("delete prod");
    assert_eq!(state.sweep(), Vec::<String>::new());
}

/// `kill -9` of the command at the beginning of each phase, with real processes: the next one continues. All at once, since each
/// mostly waits.
#[test]
fn a_bootstrap_that_is_killed_is_continued() {
    std::thread::scope(|scope| {
        for phase in ["Cluster", "FirstControlPlane", "Endpoint", "ControlPlane", "Workers", "Pivot"] {
            scope.spawn(|| continued_after(phase));
        }
    });
}

fn continued_after(phase: &str) {
    let state = State::new();
    let arguments = format!("{} --pivot", state.create());
    let mut child = state.command(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let wanted = format!("phase {phase}");
    let is_reached = lines.map_while(Result::ok).any(|line| line == wanted);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(is_reached, "{phase}");
    state.ok(&arguments);
    assert_eq!(processes(state.path()).len(), 1, "{phase}");
    assert_eq!(state.nodes(), READY, "{phase}");
    state.ok("delete prod");
    assert_eq!(state.sweep(), Vec::<String>::new(), "{phase}");
}

/// Moved to another state directory: from there it is managed, and here it is not known any more.
#[test]
fn a_cluster_is_moved_to_another_state_directory() {
    let state = State::new();
    state.ok(&state.create());
    let [pid] = processes(state.path())[..] else { panic!() };
    let other = state.path().join("other");
    let out = state.ok(&format!("move prod --to-state {} --dry-run", other.display()));
    assert!(out.contains("can be moved"), "{out}");
    let out = state.ok(&format!("move prod --to-state {}", other.display()));
    assert!(out.contains("1 hosts"), "{out}");
    assert_eq!(processes(state.path()), [pid], "the host was not touched");
    assert_eq!(state.run("delete prod").status.code(), Some(2));
    let output = Command::new(PROGRAM)
        .args(["cluster", "delete", "prod", "--timeout", "120s", "--state"])
        .arg(&other)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(state.sweep(), Vec::<String>::new());
}

/// No command outlives its timeout: a worker that nobody can make is waited for no longer.
#[test]
fn a_command_ends_at_its_timeout() {
    let state = State::new();
    let text = fs::read_to_string(state.manifests()).unwrap();
    // The address is not of this machine.
    fs::write(state.path().join("cluster.yaml"), text.replace("address: 127.0.0.1", "address: 192.0.2.1"))
        .unwrap();
    let begin = Instant::now();
    let mut command = Command::new(PROGRAM);
    command.args(["cluster", "create", "--timeout", "3s", "-f"]).arg(state.path().join("cluster.yaml"));
    let output = command.arg("--state").arg(state.path().join("state")).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{errors}");
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
    assert!(
        errors.contains("is no address of this machine") || errors.contains("cannot get a port"),
        "{errors}"
    );
}

/// The commands of the documentation, as they stand there.
#[test]
fn the_documented_commands_run() {
    let page = include_str!("../../../docs/clusters.md");
    let (_, marked) = page.split_once("<!-- run -->\n```sh\n").unwrap();
    let (script, _) = marked.split_once("```").unwrap();
    let state = State::new();
    fs::rename(state.manifests(), state.path().join("process.yaml")).unwrap();
    let path = Path::new(PROGRAM).parent().unwrap().display().to_string();
    let output = Command::new("sh")
        .args(["-ec", script])
        .current_dir(state.path())
        .env("PATH", format!("{path}:{}", std::env::var("PATH").unwrap_or_default()))
        .output()
        .unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("prod-0"), "{out}{err}");
}

/// The provider as the suite tests it: responses are lost outside of it.
struct Process {
    directory: tempfile::TempDir,
    lose_next: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

struct Lossy(ProcessProvider, std::sync::Arc<std::sync::atomic::AtomicBool>);

impl Lossy {
    fn answer(&self, result: Result<Progress, ProviderError>) -> Result<Progress, ProviderError> {
        match self.1.swap(false, std::sync::atomic::Ordering::Relaxed) {
            true => Err(ProviderError::Transient("the response was lost".to_owned())),
            false => result,
        }
    }
}

impl Provider for Lossy {
    fn schema(&self) -> settled_machines::crds::ConfigSchema {
        self.0.schema()
    }

    fn observe<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Observed, ProviderError>> {
        self.0.observe(key)
    }

    fn plan(&self, host: &Host, desired: &Desired) -> Plan {
        self.0.plan(host, desired)
    }

    fn create<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move { self.answer(self.0.create(request).await) }.boxed()
    }

    fn apply_step<'a>(
        &'a self,
        request: &'a Request,
        step: &'a Step,
    ) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move { self.answer(self.0.apply_step(request, step).await) }.boxed()
    }

    fn delete<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move { self.answer(self.0.delete(key).await) }.boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Owned>, ProviderError>> {
        self.0.list()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        processes(self.directory.path()).into_iter().for_each(|pid| signal(pid, "KILL"));
    }
}

impl Subject for Process {
    fn restart(&self) -> Box<dyn Provider> {
        let programs = Programs::new("v1.36.3", Path::new(PROGRAM))
            .with_directory(&self.directory.path().join("programs"));
        Box::new(Lossy(
            ProcessProvider::new(&self.directory.path().join("hosts"), programs),
            self.lose_next.clone(),
        ))
    }

    fn lose_response(&self) {
        self.lose_next.store(true, std::sync::atomic::Ordering::Relaxed);
    }

    fn pass(&self, time: Duration) -> BoxFuture<'_, ()> {
        // Nothing of it takes minutes.
        tokio::time::sleep(time.min(Duration::from_millis(200))).boxed()
    }

    fn leftovers(&self) -> BoxFuture<'_, Vec<String>> {
        let entries = fs::read_dir(self.directory.path().join("hosts")).into_iter().flatten().flatten();
        let mut left: Vec<String> = entries.map(|entry| entry.path().display().to_string()).collect();
        left.extend(processes(self.directory.path()).iter().map(|pid| format!("process {pid}")));
        async move { left }.boxed()
    }

    fn desired(&self) -> Desired {
        Desired {
            versions: MachineVersions {
                control_plane: Some("v1.36.3".to_owned()),
                ..MachineVersions::default()
            },
            config: json!({"apiVersion": API_VERSION, "kind": KIND, "address": "127.0.0.1"}),
            node_name: "a".to_owned(),
            ..Desired::default()
        }
    }

    fn in_place(&self) -> Desired {
        let mut desired = self.desired();
        desired.versions.control_plane = Some("v1.37.0".to_owned());
        desired
    }

    fn replaced(&self) -> Option<Desired> {
        None
    }

    fn unsupported(&self) -> Option<Desired> {
        let mut desired = self.desired();
        desired.versions.control_plane = Some("v9.9.9".to_owned());
        Some(desired)
    }
}

#[test]
fn the_process_provider_is_a_provider() {
    let make = || {
        let directory = tempfile::tempdir().unwrap();
        let other = directory.path().join("programs/v1.37.0");
        fs::create_dir_all(&other).unwrap();
        let program = other.join("settled");
        fs::hard_link(PROGRAM, &program).or_else(|_| fs::copy(PROGRAM, &program).map(drop)).unwrap();
        Process { directory, lose_next: std::sync::Arc::default() }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let failures: Vec<String> = runtime.block_on(check(make)).iter().map(ToString::to_string).collect();
    assert_eq!(failures, Vec::<String>::new());
}

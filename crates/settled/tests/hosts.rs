//! `settled cluster create` with hosts of this machine: network namespaces, which need root, and virtual machines.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use settled_hosts::netns::NetnsProvider;
use settled_hosts::qemu::DebianPackages;

use crate::clusters::{PROGRAM, State, processes, signal};

const MANIFESTS: &str = include_str!("../../clusters/examples/namespaces.yaml");
const PAGE: &str = include_str!("../../../docs/machines.md");

/// A test that cannot run here says so. In CI it must.
fn skip(why: &str) {
    assert!(std::env::var_os("CI").is_none_or(|value| value != "true"), "skipped in CI: {why}");
    let _best_effort = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("skipped: {why}\n"));
}

fn has_namespaces() -> bool {
    NetnsProvider::check().map_err(|missing| skip(&missing.to_string())).is_ok()
}

/// The block of a page after a mark.
fn block(mark: &str) -> &'static str {
    let (_, rest) =
        PAGE.split_once(&format!("<!-- {mark} -->\n```")).unwrap_or_else(|| panic!("no block {mark}"));
    let (_, rest) = rest.split_once('\n').unwrap();
    rest.split_once("```").unwrap().0
}

/// Runs a script as a reader of the page does, in the directory of a state.
fn shell(state: &State, script: &str) -> (bool, String) {
    let path = Path::new(PROGRAM).parent().unwrap().display().to_string();
    let output = Command::new("sh")
        .args(["-ec", &format!("exec 2>&1\n{script}")])
        .current_dir(state.path())
        .env("PATH", format!("{path}:{}", std::env::var("PATH").unwrap_or_default()))
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs the command of a console block, and compares what it prints with what the page says.
fn expect_documented(state: &State, mark: &str) {
    let text = block(mark);
    let (command, printed) = text.split_once('\n').unwrap();
    let (_, output) =
        shell(state, &command.strip_prefix("$ ").unwrap().replace("--state prod", "--state state"));
    assert_eq!(output, printed, "{mark}");
}

fn nodes(state: &State) -> usize {
    let nodes = state.nodes();
    assert!(nodes.iter().all(|node| node.ends_with(" Current")), "{nodes:?}");
    nodes.len()
}

/// A cluster in two commands, as the page has them, with the endpoint of the control plane in its hosts. The samples of the page are what the program
/// prints. Deleted, nothing is left, though its API server is dead.
#[test]
fn u1_x3_a_cluster_in_two_commands_on_one_linux_machine() {
    if !has_namespaces() {
        return;
    }
    let state = State::new();
    fs::write(state.path().join("namespaces.yaml"), MANIFESTS).unwrap();
    let script =
        block("run as root").replace("--state prod", "--state state").replace("prod/prod", "state/prod");
    let (is_done, text) = shell(&state, &script);
    assert!(is_done, "{text}");
    assert!(text.contains("4 objects: 4 Current"), "{text}");
    assert_eq!(nodes(&state), 4);

    // The endpoint was not declared anywhere: it was found, and is in the hosts, at the address by which they reach it.
    let server = fs::read_dir(state.path().join("state/hosts/process")).unwrap().flatten().next().unwrap();
    let record = fs::read_to_string(server.path().join("host.json")).unwrap();
    let port = &serde_json::from_str::<serde_json::Value>(&record).unwrap()["port"];
    let gateway =
        settled_hosts::netns::Options::new(state.path().join("state/hosts/netns"), Vec::new()).gateway();
    let hosts: Vec<_> =
        fs::read_dir(state.path().join("state/hosts/netns/hosts")).unwrap().flatten().collect();
    assert_eq!(hosts.len(), 3);
    for host in hosts {
        let kubeconfig = fs::read_to_string(host.path().join("kubeconfig")).unwrap();
        assert!(kubeconfig.contains(&format!("server: \"https://{gateway}:{port}\"")), "{kubeconfig}");
    }

    // The samples of the page.
    let changed = MANIFESTS.replace("kubelet: v1.36.3", "kubelet: v1.37.0");
    fs::write(state.path().join("new.yaml"), changed).unwrap();
    expect_documented(&state, "sample of plan");
    let qemu = with_qemu(MANIFESTS);
    fs::write(state.path().join("qemu.yaml"), qemu.replace("2.1.0", "2.2.0")).unwrap();
    expect_documented(&state, "sample of diff");

    processes(state.path()).into_iter().filter(|pid| is_server(*pid)).for_each(|pid| signal(pid, "KILL"));
    state.ok("delete prod");
    assert_eq!(state.sweep(), Vec::<String>::new());
}

/// All processes and networks are gone at once, as by a restart of the machine: the control plane is repaired, and hosts are created again under the same
/// Machines.
#[test]
fn a_restart_of_the_machine_is_survived() {
    if !has_namespaces() {
        return;
    }
    let state = State::new();
    fs::write(state.path().join("cluster.yaml"), MANIFESTS.replace("replicas: 3", "replicas: 1")).unwrap();
    state.ok(&format!("create -f {}", state.path().join("cluster.yaml").display()));
    let host = || {
        let mut hosts =
            fs::read_dir(state.path().join("state/hosts/netns/hosts")).into_iter().flatten().flatten();
        hosts.next().and_then(|host| fs::read_to_string(host.path().join("host.json")).ok())
    };
    let before = host().unwrap();
    state.clear();
    assert_eq!((processes(state.path()), state.networks()), (Vec::new(), Vec::new()));
    state.ok("repair prod");
    let mut controllers = state.command("run").stdout(std::process::Stdio::null()).spawn().unwrap();
    let begin = std::time::Instant::now();
    while processes(state.path()).len() < 4 || host().is_none_or(|host| host == before) {
        assert!(begin.elapsed().as_secs() < 60, "{:?}", processes(state.path()));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    // The Node of the old host goes, and that of the new one comes.
    while state.nodes() != ["prod-0 Current", "prod-workers-c813a5ca-0 Current"] {
        assert!(begin.elapsed().as_secs() < 60, "{:?}", state.nodes());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    signal(i32::try_from(controllers.id()).unwrap(), "TERM");
    controllers.wait().unwrap();
    state.ok("delete prod");
    assert_eq!(state.sweep(), Vec::<String>::new());
}

pub(crate) fn is_server(pid: i32) -> bool {
    fs::read(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| line.windows(7).any(|word| word == b"\0serve\0"))
}

/// The same manifests with virtual machines in the place of namespaces: only `providerSpec` differs.
fn with_qemu(manifests: &str) -> String {
    manifests
        .replace("netns.hosts.settled.dev/v1alpha1", "qemu.hosts.settled.dev/v1alpha1")
        .replace("NetnsMachine", "QemuMachine")
}

/// Debian's packages for virtual machines, as in the tests of their provider, and the agent beside this program.
fn packages() -> Option<(DebianPackages, PathBuf)> {
    let root = std::env::var_os("SETTLED_QEMU_ROOT").map_or_else(|| "/".into(), PathBuf::from);
    let agent = Path::new(PROGRAM).with_file_name("settled-agent");
    let Some(found) = DebianPackages::find(&root) else {
        skip("QEMU machines need packages: export SETTLED_QEMU_ROOT=$(packaging/install-qemu.sh)");
        return None;
    };
    if !agent.exists() {
        skip("the agent is not built: cargo test --workspace");
        return None;
    }
    Some((found, agent))
}

/// S1: create, upgrade, repair and delete on two providers of workers, with the same manifests but for `providerSpec`; U5: it is the same cluster.
#[test]
fn s1_u5_the_same_cluster_lives_on_two_providers() {
    let Some((debian, agent)) = packages() else { return };
    if !has_namespaces() {
        return;
    }
    let manifests = MANIFESTS.replace("replicas: 3", "replicas: 1");
    let mut exports = Vec::new();
    for manifests in [manifests.clone(), with_qemu(&manifests)] {
        let state = State::new();
        debian.image("debian-12", &agent).unwrap().write(&state.path().join("state/hosts/images")).unwrap();
        // QEMU is found in the PATH.
        let programs = state.path().join("bin");
        fs::create_dir_all(&programs).unwrap();
        let qemu = programs.join("qemu-system-x86_64");
        fs::write(&qemu, format!("#!/bin/sh\nexec {} \"$@\"\n", debian.qemu().join(" "))).unwrap();
        fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
        let ok = |arguments: &str| {
            let output = state.command(arguments).env("PATH", &path).output().unwrap();
            assert!(output.status.success(), "{arguments}: {}", text(&output));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let file = state.path().join("cluster.yaml");
        let create = format!("create -f {}", file.display());
        fs::write(&file, &manifests).unwrap();
        ok(&create);
        assert_eq!(nodes(&state), 2);
        fs::write(&file, manifests.replace("kubelet: v1.36.3", "kubelet: v1.37.0")).unwrap();
        ok(&create);
        assert_eq!(kubelet(&state), "v1.37.0");
        let [server] =
            processes(state.path()).into_iter().filter(|pid| is_server(*pid)).collect::<Vec<_>>()[..]
        else {
            panic!("one server")
        };
        signal(server, "KILL");
        ok("repair prod");
        assert_eq!(nodes(&state), 2);
        exports.push(ok("export"));
        ok("delete prod");
        assert_eq!(state.sweep(), Vec::<String>::new());
    }
    let directory = tempfile::tempdir().unwrap();
    for (name, export) in ["a.yaml", "b.yaml"].iter().zip(&exports) {
        fs::write(directory.path().join(name), export).unwrap();
    }
    let diff = |part: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.args(["cluster", "diff", "a.yaml", "b.yaml"]).args(part).current_dir(directory.path());
        command.output().unwrap()
    };
    let agnostic = diff(&["--part", "agnostic"]);
    assert_eq!(agnostic.status.code(), Some(0), "{}", text(&agnostic));
    let all = diff(&[]);
    assert_eq!(all.status.code(), Some(1));
    assert!(text(&all).contains("1 difference (1 provider)"), "{}", text(&all));
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The version of the kubelet of the worker, as its Node reports it.
fn kubelet(state: &State) -> String {
    let kubeconfig = state.path().join("state/prod.kubeconfig");
    let output = Command::new(PROGRAM)
        .args([
            "wait",
            "nodes",
            "-l",
            "!node-role.kubernetes.io/control-plane",
            "--for=jsonpath={.status.nodeInfo.kubeletVersion}=v1.37.0",
        ])
        .args(["--timeout", "60s", "--kubeconfig"])
        .arg(&kubeconfig)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    "v1.37.0".to_owned()
}

/// Without root, a command says what it needs before anything is created.
#[test]
fn without_root_namespace_hosts_say_what_they_need() {
    let state = State::new();
    fs::write(state.path().join("namespaces.yaml"), MANIFESTS).unwrap();
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = state.command(&format!("create -f {}", state.path().join("namespaces.yaml").display()));
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(65534).gid(65534);
    }
    let output = match command.output() {
        Ok(output) => output,
        // The build directory is closed to others.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return skip(&format!("another user cannot run the program: {error}"));
        }
        Err(error) => panic!("{error}"),
    };
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(
        text(&output)
            .contains("error: network-namespace hosts need root (CAP_NET_ADMIN and CAP_SYS_ADMIN): run"),
        "{}",
        text(&output)
    );
    assert!(!state.path().join("state").exists());
}

//! `settled cluster create` with workers that are reached by SSH: real sshd, each in namespaces of its own.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use crate::clusters::{PROGRAM, State, processes, signal};
use crate::hosts::is_server;

#[allow(
    dead_code,
    clippy::print_stderr,
    clippy::expect_used,
    reason = "the hosts of the provider's own tests, which do more with them"
)]
#[path = "../../hosts/tests/ssh/hosts.rs"]
mod machines;

use machines::{Machine, Network};

const MANIFESTS: &str = include_str!("../../clusters/examples/ssh.yaml");

/// A state directory, two hosts, and the manifests of a cluster of them.
struct Pool {
    state: State,
    hosts: [Machine; 2],
    _network: Network,
}

impl Pool {
    fn new() -> Option<Self> {
        let network = Network::new()?;
        let hosts = [network.host(), network.host()];
        // Both reach the control plane at one address of this machine.
        for host in &hosts {
            host.shell(&format!("ip route add default via {}", host.gateway));
        }
        let state = State::new();
        let programs = state.path().join("state/programs");
        fs::create_dir_all(&programs).unwrap();
        for version in ["v1.36.3", "v1.37.1"] {
            let kubelet = programs.join(format!("kubelet-{version}"));
            // Hosts of the test have the files of this machine. A debug build is too large for their disks.
            fs::write(&kubelet, format!("#!/bin/sh\nexec '{PROGRAM}' cluster agent \"$@\"\n")).unwrap();
            fs::set_permissions(&kubelet, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ssh", "namespace": "default"},
            "type": "kubernetes.io/ssh-auth", "stringData": {"ssh-privatekey": network.key()},
        });
        fs::write(state.path().join("secret.yaml"), secret.to_string()).unwrap();
        let advertised = format!("address: 0.0.0.0\n      advertiseAddress: {}", hosts[0].gateway);
        let mut cluster = MANIFESTS.replace("address: 192.168.1.10", &advertised);
        for host in &hosts {
            cluster.push_str(&format!("---\n{}\n", host.object()));
        }
        fs::write(state.path().join("cluster.yaml"), cluster).unwrap();
        Some(Self { state, hosts, _network: network })
    }

    /// A command with a manifest.
    fn with(&self, command: &str, manifest: &str) -> String {
        self.state.ok(&format!("{command} -f {}", self.state.path().join(manifest).display()))
    }

    fn create(&self, flags: &str) {
        let secret = self.state.path().join("secret.yaml");
        self.with(&format!("create {flags} -f {}", secret.display()), "cluster.yaml");
        assert_eq!(self.nodes(), 3);
    }

    /// Nodes, all of which are ready.
    fn nodes(&self) -> usize {
        let nodes = self.state.nodes();
        assert!(nodes.iter().all(|node| node.ends_with(" Current")), "{nodes:?}");
        nodes.len()
    }

    /// The server that the claim on each host names.
    fn claims(&self) -> Vec<String> {
        let claim =
            |host: &Machine| fs::read_to_string(host.path("/var/lib/settled/claim")).unwrap_or_default();
        self.hosts.iter().map(|host| claim(host).split(' ').next().unwrap_or_default().to_owned()).collect()
    }

    /// Nothing is left on the hosts or on this machine.
    fn deleted(self) {
        self.state.ok("delete prod");
        for host in &self.hosts {
            assert_eq!(host.leftovers(), Vec::<String>::new());
        }
        assert_eq!(self.state.sweep(), Vec::<String>::new());
        self.hosts.into_iter().for_each(Machine::end);
    }
}

/// Created, upgraded in place, and deleted.
#[test]
fn a_cluster_of_ssh_hosts() {
    let Some(pool) = Pool::new() else { return };
    pool.create("");
    assert!(pool.claims().iter().all(|server| !server.is_empty()), "{:?}", pool.claims());
    let manifest = pool.state.path().join("cluster.yaml");
    let new = fs::read_to_string(&manifest).unwrap().replace("kubelet: v1.36.3", "kubelet: v1.37.1");
    fs::write(&manifest, new).unwrap();
    let plan = pool.with("plan", "cluster.yaml");
    let updated = plan.matches("InPlace   MachineDeployment/prod-workers  kubelet v1.37.1").count();
    assert_eq!(updated, 2, "{plan}");
    pool.create("");
    for host in &pool.hosts {
        let running = host.shell("ps -eo args");
        assert!(running.contains("--version v1.37.1"), "{running}");
    }
    pool.deleted();
}

/// With its objects in its own API server, the claims on its hosts stay those that they are, and are taken back.
#[test]
fn a_cluster_of_ssh_hosts_has_its_own_objects() {
    let Some(pool) = Pool::new() else { return };
    pool.create("");
    let before = pool.claims();
    pool.create("--pivot");
    assert_eq!(pool.claims(), before);
    pool.deleted();
}

/// Its API server and its objects are lost: that the hosts of the pool still run is said, and how to end them.
#[test]
fn hosts_of_a_pool_whose_objects_are_lost_are_reported() {
    let Some(pool) = Pool::new() else { return };
    pool.create("--pivot");
    for pid in processes(pool.state.path()).into_iter().filter(|pid| is_server(*pid)) {
        signal(pid, "KILL");
    }
    fs::remove_dir_all(pool.state.path().join("state/hosts/process")).unwrap();
    let deleted = pool.state.run("delete prod");
    let text = String::from_utf8_lossy(&deleted.stderr).into_owned();
    assert!(deleted.status.success(), "{text}");
    assert!(text.contains("warning: 2 hosts of a pool still run for it"), "{text}");
    assert!(text.contains("hint: on each of them, end the agent, and remove /var/lib/settled"), "{text}");
    assert!(pool.claims().iter().all(|server| !server.is_empty()), "{:?}", pool.claims());
}

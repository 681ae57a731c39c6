//! All controllers and the provider of a pool, with every fault at every write and every command: crashes, lost responses, conflicts, outdated watches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};
use settled_controller::Clock;
use settled_controller::faults::{Context, Effect, External, Options, Scenario, View, World, explore};
use settled_hosts::ssh::{
    self, Command, Output, Owner, SshProvider, Target, Transport, TransportError, Verb,
};
use settled_machines::controllers;
use settled_machines::crds::definitions;
use settled_machines::provider::{Provider, ProviderError, Registry};
use settled_machines::simulated::{Access, AgentOptions, Cloud, SimulatedHost, run_agents};
use settled_machines::types::{ContainerRuntime, MachineVersions};

use super::world::FixedJoin;

const API: &str = "cluster.settled.dev/v1alpha1";

/// A host as its program leaves it.
#[derive(Clone, Debug, Default, PartialEq)]
struct FakeHost {
    claim: Option<Owner>,
    artifacts: BTreeSet<(String, String)>,
    runtime: Option<(String, String)>,
    kubelet: Option<String>,
    joined: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Hosts(BTreeMap<String, FakeHost>);

impl World for Hosts {
    fn effects(&self) -> Vec<Effect> {
        let claimed = self.0.iter().filter_map(|(name, host)| Some((name, host.claim.as_ref()?)));
        claimed
            .map(|(name, claim)| Effect::new(format!("ssh://default/{name}"), &claim.machine, "host"))
            .collect()
    }
}

impl FakeHost {
    /// What the program on a host does.
    fn perform(&mut self, command: &Command) -> Output {
        let done = |stdout: String| Output { stdout, ..Output::default() };
        let claim = |host: &Self| {
            host.claim.as_ref().map(|claim| format!("claim={} {}\n", claim.server, claim.machine))
        };
        let artifacts = |host: &Self| {
            let lines: String =
                host.artifacts.iter().map(|(name, digest)| format!("artifact={name} {digest}\n")).collect();
            lines + "arch=x86_64\n"
        };
        let is_own = self.claim.as_ref() == Some(&command.owner);
        let refused =
            Output { code: 10, stdout: claim(self).unwrap_or_default(), stderr: "claimed".to_owned() };
        match &command.verb {
            Verb::Inspect => {
                let mut text = claim(self).unwrap_or_default();
                text += &format!("kubelet={}\n", self.kubelet.as_deref().unwrap_or_default());
                text += &self
                    .runtime
                    .as_ref()
                    .map_or_else(String::new, |(name, version)| format!("runtime={name}@{version}\n"));
                text += &self.joined.as_ref().map_or_else(String::new, |node| format!("joined={node}\n"));
                return done(text);
            }
            Verb::Claim if self.claim.is_some() && !is_own => return refused,
            Verb::Claim => self.claim = Some(command.owner.clone()),
            Verb::Clean if self.claim.is_some() && !is_own => return refused,
            Verb::Clean => *self = Self::default(),
            _ if !is_own => return refused,
            Verb::Artifacts | Verb::Configure { .. } => {}
            Verb::Install { name, digest } => {
                self.artifacts.insert((name.clone(), digest.clone()));
            }
            Verb::Runtime { name, version, .. } => self.runtime = Some((name.clone(), version.clone())),
            Verb::Kubelet { version, .. } => self.kubelet = Some(version.clone()),
            Verb::Join { kubelet, node, .. } => {
                self.kubelet = Some(kubelet.clone());
                self.joined = Some(node.clone());
            }
        }
        done(artifacts(self))
    }
}

#[derive(Clone)]
struct Fake(External<Hosts>);

impl Transport for Fake {
    fn run<'a>(
        &'a self,
        target: &'a Target,
        command: &'a Command,
    ) -> BoxFuture<'a, Result<Output, TransportError>> {
        async move {
            if command.verb == Verb::Inspect {
                let found = self.0.read(|hosts| hosts.0.get(&target.name).cloned()).await;
                return Ok(found.unwrap_or_default().perform(command));
            }
            let action = format!("{:?} on {}", command.verb, target.name);
            let result = self
                .0
                .call(&action, |hosts| hosts.0.entry(target.name.clone()).or_default().perform(command));
            result.await.map_err(|lost| TransportError::Lost(lost.to_string()))
        }
        .boxed()
    }
}

/// The agents of the hosts that have joined.
impl Access for Fake {
    async fn change<T: Send>(
        &self,
        _action: &str,
        change: impl FnOnce(&mut Cloud) -> T + Send,
    ) -> Result<T, ProviderError> {
        Ok(change(&mut Cloud::default()))
    }

    async fn read<T: Send>(&self, read: impl FnOnce(&Cloud) -> T + Send) -> T {
        let hosts = self.0.read(Hosts::clone).await;
        let agent = |(name, host): (&String, &FakeHost)| {
            let (claim, node) = (host.claim.clone()?, host.joined.clone()?);
            let runtime = host.runtime.clone();
            let agent = SimulatedHost {
                id: format!("ssh://default/{name}"),
                machine: format!("default/{node}"),
                node_name: node,
                labels: BTreeMap::new(),
                taints: Vec::new(),
                address: "10.0.0.1".to_owned(),
                versions: MachineVersions {
                    kubelet: host.kubelet.clone()?,
                    control_plane: None,
                    container_runtime: runtime.map(|(name, version)| ContainerRuntime { name, version }),
                },
                image: String::new(),
                size: String::new(),
                runs_from: Timestamp::UNIX_EPOCH,
                joins_from: Some(Timestamp::UNIX_EPOCH),
                busy_until: None,
                gone_from: None,
                steps: 0,
            };
            Some((claim.machine, agent))
        };
        read(&Cloud { hosts: hosts.0.iter().filter_map(agent).collect(), ..Cloud::default() })
    }
}

fn artifacts() -> &'static std::path::Path {
    static DIRECTORY: OnceLock<tempfile::TempDir> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["kubelet-v1.36.0", "kubelet-v1.37.0", "runtime-containerd-2.1.0", "runtime-cri-o-1.36.0"]
        {
            std::fs::write(directory.path().join(name), name).expect("written");
        }
        directory
    });
    directory.path()
}

async fn start(context: Context<Hosts>) {
    let clock = Clock::from(&context);
    let fake = Fake(context.external());
    let options = ssh::Options::new(artifacts());
    let provider = SshProvider::new(&context.client(), &clock, fake.clone(), Arc::new(FixedJoin), options);
    let registry = Registry::new([Arc::new(provider) as Arc<dyn Provider>]).expect("a schema");
    let mut options = controllers::Options::new(registry);
    options.clock = clock.clone();
    options.workers = 1;
    let agents = AgentOptions { renew: Duration::ZERO, ..AgentOptions::default() };
    let agents = run_agents(context.client(), fake, clock, agents);
    let controllers = controllers::run(context.client(), options);
    let (_, _) = tokio::join!(agents, controllers);
}

fn host(name: &str) -> Value {
    json!({
        "apiVersion": API, "kind": "Host", "metadata": {"name": name, "namespace": "default"},
        "spec": {"address": "10.0.0.1", "key": {"name": "ssh"}, "hostKeys": ["ssh-ed25519 AAAA"]},
    })
}

fn machine(name: &str) -> Value {
    json!({
        "apiVersion": API, "kind": "Machine", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "versions": {"kubelet": "v1.36.0", "containerRuntime": {"name": "containerd", "version": "2.1.0"}},
            "providerSpec": {"value": {"apiVersion": ssh::API_VERSION, "kind": ssh::KIND}},
        },
    })
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A Machine that is ready has a host with its versions, and a Node.
fn is_true(object: &Value, view: &View<'_, Hosts>) -> Result<(), String> {
    if object["kind"] != "Machine" {
        return Ok(());
    }
    let uid = text(object, "/metadata/uid");
    let mut own =
        view.world().0.values().filter(|host| host.claim.as_ref().is_some_and(|claim| claim.machine == uid));
    let host = own.next().ok_or("there is no host")?;
    if host.kubelet.as_deref() != Some(text(object, "/spec/versions/kubelet")) {
        return Err(format!("the host has the kubelet {:?}", host.kubelet));
    }
    view.get("Node", "", text(object, "/status/nodeRef/name"))
        .map(drop)
        .ok_or_else(|| "there is no Node".to_owned())
}

/// What runs for a Machine is claimed for it: before it was started, and until it is clean.
fn is_acknowledged(_before: &Hosts, view: &View<'_, Hosts>) -> Result<(), String> {
    for (name, host) in &view.world().0 {
        let Some(claim) = &host.claim else { continue };
        let object = view.get("Host", "default", name).ok_or("there is no such Host")?;
        if text(object, "/status/claimRef/uid") != claim.machine {
            return Err(format!(
                "{name} runs for {}, and its claim is {}",
                claim.machine, object["status"]["claimRef"]
            ));
        }
    }
    Ok(())
}

fn scenario(name: &str) -> Scenario<Hosts> {
    let scenario = Scenario::with_world(name, Hosts::default());
    let crds = definitions(&[ssh::format()]);
    crds.iter()
        .fold(scenario, |scenario, crd| scenario.object(json!(crd)))
        .ready_means(is_true)
        .order("claims are acknowledged before they are acted on", is_acknowledged)
        .claims(|object| match (object["kind"].as_str(), text(object, "/status/phase")) {
            (Some("Machine"), "Running") => vec![text(object, "/status/providerID").to_owned()],
            _ => Vec::new(),
        })
        .grants(|object| match object["kind"].as_str() {
            Some("Machine") if text(object, "/status/phase") == "Running" => {
                vec![text(object, "/status/host").to_owned()]
            }
            _ => Vec::new(),
        })
}

/// Explores a share of the schedules, or as many as `SETTLED_SCHEDULES` says.
fn assert_clean(scenario: &Scenario<Hosts>, share: usize) {
    let asked = std::env::var("SETTLED_SCHEDULES").ok().and_then(|text| text.parse().ok());
    let mut options = Options::share(asked.unwrap_or(share));
    // The collector of orphans waits before it deletes.
    options.quiet = Duration::from_secs(400);
    let report = explore(start, scenario, &options).expect("an exploration");
    assert!(report.writes > 0, "{report}");
    assert!(report.is_clean(), "{report}");
}

fn ready(view: &View<'_, Hosts>, name: &str) -> Result<(), String> {
    let object = view.get("Machine", "default", name).ok_or("it is gone")?;
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    match conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True") {
        true => Ok(()),
        false => Err(format!("Machine {name} is not ready: {}", object["status"])),
    }
}

fn free(view: &View<'_, Hosts>, names: &[&str]) -> Result<(), String> {
    for name in names {
        let object = view.get("Host", "default", name).ok_or("there is no such Host")?;
        if !text(object, "/status/claimRef/uid").is_empty() {
            return Err(format!("{name} is claimed: {}", object["status"]));
        }
        if view.world().0.get(*name).is_some_and(|host| *host != FakeHost::default()) {
            return Err(format!("{name} is not clean: {:?}", view.world().0.get(*name)));
        }
    }
    Ok(())
}

#[test]
fn no_fault_loses_or_doubles_a_claim() {
    let scenario = scenario("pool")
        .object(host("h1"))
        .object(host("h2"))
        .object(machine("a"))
        .patch(API, "Machine", "default/a", json!({"spec": {"versions": {"kubelet": "v1.37.0"}}}))
        .finally("it is ready", |view| ready(view, "a"))
        .finally("it has one host", |view| free(view, &["h2"]));
    assert_clean(&scenario, 24);
}

#[test]
fn no_fault_leaves_something_on_a_host() {
    let scenario = scenario("pool, deletion")
        .object(host("h1"))
        .object(machine("a"))
        .delete(API, "Machine", "default/a")
        .finally("the host is free", |view| free(view, &["h1"]));
    assert_clean(&scenario, 24);
}

#[test]
fn no_fault_gives_a_host_to_two_machines() {
    let runtime = json!({"spec": {"versions": {"containerRuntime": {"name": "cri-o", "version": "1.36.0"}}}});
    let scenario = scenario("pool, replacement")
        .object(host("h1"))
        .object(host("h2"))
        .object(machine("a"))
        .object(machine("b"))
        .patch(API, "Machine", "default/a", runtime)
        .delete(API, "Machine", "default/b")
        .finally("it is ready", |view| ready(view, "a"));
    assert_clean(&scenario, 16);
}

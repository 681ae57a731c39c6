//! All controllers with every fault at every write: crashes, lost responses, conflicts, outdated watches.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use settled_controller::Clock;
use settled_controller::faults::{Context, Effect, External, Options, Scenario, View, World, explore};
use settled_machines::controllers;
use settled_machines::crds::definitions;
use settled_machines::provider::{Provider, ProviderError, Registry};
use settled_machines::simulated::{Access, AgentOptions, Cloud, Latency, SimulatedProvider, run_agents};

use crate::harness::{API, config, deployment, kubelet, machine, set, template_kubelet};

/// The simulated cloud as the system outside.
#[derive(Clone, Debug, Default, PartialEq)]
struct Outside(Cloud);

impl World for Outside {
    fn effects(&self) -> Vec<Effect> {
        let hosts = self.0.hosts.iter();
        hosts.map(|(uid, host)| Effect::new(host.id.clone(), uid, "host")).collect()
    }
}

#[derive(Clone)]
struct Calls(External<Outside>);

impl Access for Calls {
    async fn change<T: Send>(
        &self,
        action: &str,
        change: impl FnOnce(&mut Cloud) -> T + Send,
    ) -> Result<T, ProviderError> {
        let called = self.0.call(action, |outside| change(&mut outside.0)).await;
        called.map_err(|lost| ProviderError::Transient(lost.to_string()))
    }

    async fn read<T: Send>(&self, read: impl FnOnce(&Cloud) -> T + Send) -> T {
        self.0.read(|outside| read(&outside.0)).await
    }
}

/// Controllers and agents, as a process starts them.
async fn start(context: Context<Outside>) {
    let clock = Clock::from(&context);
    let calls = Calls(context.external());
    let provider = SimulatedProvider::new(calls.clone(), clock.clone(), Latency::ZERO);
    let registry = Registry::new([Arc::new(provider) as Arc<dyn Provider>]).expect("a schema");
    let mut options = controllers::Options::new(registry);
    options.clock = clock.clone();
    options.workers = 1;
    let agents = AgentOptions { renew: Duration::ZERO, ..AgentOptions::default() };
    let agents = run_agents(context.client(), calls, clock, agents);
    let controllers = controllers::run(context.client(), options);
    let (_, _) = tokio::join!(agents, controllers);
}

/// A Machine that is ready has its host, with its versions, and its Node.
fn is_true(object: &Value, view: &View<'_, Outside>) -> Result<(), String> {
    if object["kind"] != "Machine" {
        return Ok(());
    }
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let host = view.world().0.hosts.get(text("/metadata/uid")).ok_or("there is no host")?;
    if host.versions.kubelet != text("/spec/versions/kubelet") {
        return Err(format!("the host has the kubelet {}", host.versions.kubelet));
    }
    match view.get("Node", "", text("/status/nodeRef/name")) {
        Some(_) => Ok(()),
        None => Err("there is no Node".to_owned()),
    }
}

fn scenario(name: &str) -> Scenario<Outside> {
    let provider = SimulatedProvider::new(
        settled_machines::simulated::Shared::default(),
        Clock::system(),
        Latency::ZERO,
    );
    let scenario = Scenario::with_world(name, Outside::default());
    let crds = definitions(&[provider.schema()]);
    crds.iter()
        .fold(scenario, |scenario, crd| scenario.object(json!(crd)))
        .ready_means(is_true)
        .claims(|object| match (object["kind"].as_str(), object.pointer("/status/providerID")) {
            (Some("Machine"), Some(id)) if object.pointer("/status/phase") == Some(&json!("Running")) => {
                id.as_str().map(str::to_owned).into_iter().collect()
            }
            _ => Vec::new(),
        })
        // Addresses and names are given in the order of creation.
        .ignore("/status/addresses")
}

/// Explores a share of the schedules, or as many as `SETTLED_SCHEDULES` says.
fn assert_clean(scenario: &Scenario<Outside>, share: usize) {
    let asked = std::env::var("SETTLED_SCHEDULES").ok().and_then(|text| text.parse().ok());
    let mut options = Options::share(asked.unwrap_or(share));
    // The collector of orphans waits before it deletes.
    options.quiet = Duration::from_secs(400);
    let report = explore(start, scenario, &options).expect("an exploration");
    assert!(report.writes > 0, "{report}");
    assert!(report.is_clean(), "{report}");
}

fn ready(view: &View<'_, Outside>, kind: &str, name: &str) -> Result<(), String> {
    let object = view.get(kind, "default", name).ok_or("it is gone")?;
    match crate::harness::is_ready(object) {
        true => Ok(()),
        false => Err(format!("{kind} {name} is not ready: {}", object["status"])),
    }
}

fn nothing_is_left(view: &View<'_, Outside>) -> Result<(), String> {
    let (hosts, nodes) = (view.world().0.hosts.len(), view.objects("Node").count());
    if hosts + nodes == 0 { Ok(()) } else { Err(format!("{hosts} hosts, {nodes} Nodes")) }
}

#[test]
fn no_fault_loses_or_doubles_a_host() {
    let scenario = scenario("machine")
        .object(machine("a", "v1.36.0"))
        .patch(API, "Machine", "default/a", kubelet("v1.37.0"))
        .patch(API, "Machine", "default/a", json!({"spec": {"providerSpec": config("debian-13")}}))
        .finally("it is ready", |view| ready(view, "Machine", "a"));
    assert_clean(&scenario, 36);
}

#[test]
fn no_fault_leaves_something_of_a_machine() {
    let scenario = scenario("machine is deleted")
        .object(machine("a", "v1.36.0"))
        .delete(API, "Machine", "default/a")
        .finally("nothing is left", nothing_is_left);
    assert_clean(&scenario, 24);
}

#[test]
fn no_fault_gives_a_set_too_many_machines() {
    let scenario = scenario("machine set")
        .object(set(2))
        .patch(API, "MachineSet", "default/web", json!({"spec": {"replicas": 3}}))
        .patch(API, "MachineSet", "default/web", json!({"spec": {"replicas": 1}}))
        .invariant("no more Machines than were ever asked for", |view| {
            let live = view
                .objects("Machine")
                .filter(|machine| machine["metadata"].get("deletionTimestamp").is_none());
            let count = live.count();
            if count <= 3 { Ok(()) } else { Err(format!("{count} Machines")) }
        })
        .finally("it is ready", |view| ready(view, "MachineSet", "web"));
    assert_clean(&scenario, 20);
}

#[test]
fn no_fault_breaks_the_bounds_of_a_rollout() {
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    let scenario = scenario("rolling update")
        .object(deployment(2, strategy))
        .patch(API, "MachineDeployment", "default/web", template_kubelet("v1.37.0"))
        .invariant("no more Machines than the surge permits", |view| {
            let live = view
                .objects("Machine")
                .filter(|machine| machine["metadata"].get("deletionTimestamp").is_none());
            let count = live.count();
            if count <= 3 { Ok(()) } else { Err(format!("{count} Machines")) }
        })
        .finally("it is ready", |view| ready(view, "MachineDeployment", "web"));
    assert_clean(&scenario, 16);
}

#[test]
fn no_fault_updates_two_machines_at_once() {
    let strategy = json!({"type": "UpdateMachines", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}});
    let scenario = scenario("machines are updated")
        .object(deployment(2, strategy))
        .patch(API, "MachineDeployment", "default/web", template_kubelet("v1.37.0"))
        .finally("it is ready", |view| ready(view, "MachineDeployment", "web"));
    assert_clean(&scenario, 16);
}

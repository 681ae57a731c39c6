//! A pool from claim to release with everything real: controllers, embedded server over TLS, sshd, agents.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use settled_apiserver::auth::User;
use settled_apiserver::{Config, Server};
use settled_hosts::agent::{Grant, Signed, Timing};
use settled_hosts::ssh::{API_VERSION, AgentJoin, KIND};
use settled_machines::controllers::{self, Options};
use settled_machines::provider::{Provider as _, Registry};
use tokio::task::JoinSet;

use super::hosts::{Machine, Network};
use super::rbac::{PROVIDER, grant};
use super::world::{World, define};

/// The bar of the whole test.
const BAR: Duration = Duration::from_secs(30);

/// Agents that report to the server at the address of their network.
fn credentials(server: &Server, addresses: Vec<(String, SocketAddr)>) -> Signed {
    let signer = server.clone();
    Signed::new(server.client(), move |grant: &Grant| {
        let host = grant.host.as_ref().ok_or("an agent of a pool has a Host")?;
        let (_, address) = addresses.iter().find(|(name, _)| *name == host.name).ok_or("an unknown Host")?;
        let user = User::new(grant.user(), [Grant::GROUP]);
        Ok(signer.kubeconfig(&format!("https://{address}"), &user)?)
    })
}

fn machine(name: &str, kubelet: &str) -> Value {
    json!({
        "apiVersion": "cluster.settled.dev/v1alpha1", "kind": "Machine", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "versions": {"kubelet": kubelet, "containerRuntime": {"name": "containerd", "version": "2.1.0"}},
            "providerSpec": {"value": {"apiVersion": API_VERSION, "kind": KIND, "hostSelector": {"matchLabels": {"pool": "a"}}}},
        },
    })
}

/// Waits until something is true of the server.
async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(began.elapsed() < BAR, "{what}: not within {BAR:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn ready(world: &World, name: &str, kubelet: &str) -> Value {
    let is_ready = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|found| found["type"] == "Ready" && found["status"] == "True")
            && object["status"]["versions"]["kubelet"] == kubelet
            && object["status"]["observedGeneration"] == object["metadata"]["generation"]
    };
    let began = Instant::now();
    loop {
        let object = world.get("Machine", name).await.unwrap_or_default();
        if is_ready(&object) {
            return object;
        }
        assert!(began.elapsed() < BAR, "{name} is not ready: {:#}", object["status"]);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hosts_are_claimed_upgraded_released_and_claimed_again() {
    let Some(network) = Network::new() else { return };
    let machines = [network.host(), network.host(), network.host()];
    let mut config = Config::default();
    config.certificates.names = machines.iter().map(|machine| machine.gateway.clone()).collect();
    let server = Server::start(config).await.expect("a server");
    define(&server).await;
    let mut addresses = Vec::new();
    for machine in &machines {
        let free = SocketAddr::new(machine.gateway.parse().expect("an address"), 0);
        addresses.push((machine.name.clone(), server.listen(free).await.expect("a port")));
    }
    grant(&server.client()).await;
    let world = World::start_on(server.clone(), &network, &machines).await;
    for version in ["v1.36.0", "v1.37.1"] {
        // It is 100 MB with its symbols: hosts have the script, which runs it where it is.
        let script = format!("exec '{}' \"$@\"", env!("CARGO_BIN_EXE_settled-agent"));
        world.artifact(&format!("kubelet-{version}"), &script);
    }

    // The provider has its own user, with the permissions of the manifest.
    let user = User::new(PROVIDER, [] as [&str; 0]).authenticated();
    let timing = Timing { renew_millis: 500, ..Timing::default() };
    let join = AgentJoin::new(Arc::new(credentials(&server, addresses)), timing);
    let provider = world.provider_as(&server.client_as(&user), Arc::new(join), |_| {});
    let mut tasks = JoinSet::new();
    let registry =
        Registry::new([Arc::new(provider.clone()) as Arc<dyn settled_machines::provider::Provider>])
            .expect("a schema");
    let client = world.client.clone();
    tasks.spawn(async move { controllers::run(client, Options::new(registry)).await.expect("caches") });
    tasks.spawn(provider.clone().probe_hosts());

    let began = Instant::now();
    let lap = |what: &str| eprintln!("{what}: {:.1?}", began.elapsed());
    for name in ["a", "b", "c"] {
        world.create(machine(name, "v1.36.0")).await;
    }
    let mut hosts = Vec::new();
    for name in ["a", "b", "c"] {
        let object = ready(&world, name, "v1.36.0").await;
        hosts.push(object["status"]["host"].as_str().expect("a host").to_owned());
        let node = world.get("Node", name).await.expect("registered");
        assert_eq!(node["spec"]["providerID"], object["status"]["providerID"]);
        assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.36.0");
        assert_eq!(node["status"]["nodeInfo"]["containerRuntimeVersion"], "containerd://2.1.0");
    }
    lap("3 hosts claimed, their Nodes ready");
    hosts.sort();
    assert_eq!(hosts, ["h1", "h2", "h3"]);

    for name in ["a", "b", "c"] {
        world.patch("Machine", name, json!({"spec": {"versions": {"kubelet": "v1.37.1"}}})).await;
    }
    for name in ["a", "b", "c"] {
        ready(&world, name, "v1.37.1").await;
        let node = world.get("Node", name).await.expect("registered");
        assert_eq!(node["status"]["nodeInfo"]["kubeletVersion"], "v1.37.1");
    }
    lap("upgraded");

    world.delete("Machine", "b").await;
    until("b is gone", async || world.get("Machine", "b").await.is_none().then_some(())).await;
    assert_eq!(world.get("Node", "b").await, None);
    let mut free = Vec::new();
    for machine in &machines {
        if world.claim_of(&machine.name).await.is_none() {
            assert_eq!(machine.leftovers(), Vec::<String>::new());
            assert_eq!(world.reason("Host", &machine.name, "Prepared").await, "Free");
            free.push(machine.name.clone());
        }
    }
    assert_eq!(free.len(), 1, "{free:?}");
    lap("released");
    world.create(machine("d", "v1.36.0")).await;
    let object = ready(&world, "d", "v1.36.0").await;
    assert_eq!(object["status"]["host"], free[0].as_str());
    lap("claimed again");

    for name in ["a", "c", "d"] {
        world.delete("Machine", name).await;
    }
    for name in ["a", "c", "d"] {
        until("it is gone", async || world.get("Machine", name).await.is_none().then_some(())).await;
        until("its Node is gone", async || world.get("Node", name).await.is_none().then_some(())).await;
    }
    lap("all released");
    assert!(began.elapsed() < BAR, "it took {:?}", began.elapsed());
    assert_eq!(provider.list().await, Ok(Vec::new()));
    tasks.shutdown().await;
    for machine in machines {
        assert_eq!(machine.leftovers(), Vec::<String>::new());
        Machine::end(machine);
    }
}

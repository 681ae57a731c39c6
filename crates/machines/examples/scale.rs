//! How long a MachineSet takes until all its Machines are ready, a rollout until its end, and a plan, with simulated hosts that take no time,
//! on a server in the process.
//!
//! ```sh
//! cargo run --release --package settled-machines --example scale -- create 10000
//! cargo run --release --package settled-machines --example scale -- upgrade 1000
//! cargo run --release --package settled-machines --example scale -- roll 1000
//! cargo run --release --package settled-machines --example scale -- plan 10000
//! ```
#![allow(clippy::print_stdout, reason = "a program")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use settled_apiserver::Server;
use settled_controller::Clock;
use settled_machines::controllers::{self, Options};
use settled_machines::inventory::{Id, Kind};
use settled_machines::live::{self, ApplyOptions};
use settled_machines::preview::preview;
use settled_machines::provider::{Provider, Registry};
use settled_machines::simulated::{
    API_VERSION, AgentOptions, KIND, Latency, Shared, SimulatedProvider, run_agents,
};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Failure = Box<dyn std::error::Error>;

/// The most memory that the process has had, in MB.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
}

/// A group of Machines.
fn group(kind: Kind, replicas: i64, strategy: &Value) -> Value {
    let mut group = json!({
        "apiVersion": "cluster.settled.dev/v1alpha1", "kind": kind.as_str(), "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"versions": {"kubelet": "v1.36.0"}, "providerSpec": {"value": {"apiVersion": API_VERSION, "kind": KIND}}},
            },
        },
    });
    if kind == Kind::MachineDeployment {
        group["spec"]["strategy"] = strategy.clone();
    }
    group
}

struct World {
    server: Server,
    registry: Registry,
}

impl World {
    async fn start() -> Result<Self, Failure> {
        let server = Server::in_memory().await?;
        let (client, clock, cloud) = (server.client(), Clock::system(), Shared::default());
        let provider = SimulatedProvider::new(cloud.clone(), clock.clone(), Latency::ZERO);
        let registry = Registry::new([Arc::new(provider) as Arc<dyn Provider>])?;
        live::install(&client, &registry.formats()).await?;
        tokio::spawn(run_agents(client.clone(), cloud, clock, AgentOptions::default()));
        tokio::spawn(controllers::run(client, Options::new(registry.clone())));
        Ok(Self { server, registry })
    }

    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        Api::default_namespaced_with(self.server.client(), &live::resource(kind))
    }

    /// Waits until a group of the latest generation has so many Machines that are updated and available, and no more.
    async fn settled(&self, kind: Kind, replicas: i64) -> Result<(), Failure> {
        loop {
            tokio::time::sleep(Duration::from_millis(200)).await;
            let group = json!(self.api(kind).get("web").await?);
            let status = &group["status"];
            let has = |name: &str| status[name].is_null() || status[name] == replicas;
            let is_observed = status["observedGeneration"] == group["metadata"]["generation"];
            if is_observed
                && status["availableReplicas"] == replicas
                && has("updatedReplicas")
                && has("replicas")
            {
                return Ok(());
            }
        }
    }

    async fn create(&self, kind: Kind, replicas: i64, strategy: &Value) -> Result<(), Failure> {
        let group = serde_json::from_value(group(kind, replicas, strategy))?;
        self.api(kind).create(&PostParams::default(), &group).await?;
        self.settled(kind, replicas).await
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mode = words.first().map_or("create", String::as_str);
    let replicas: i64 = words.get(1).map_or(Ok(1000), |text| text.parse())?;
    let world = World::start().await?;
    let in_place =
        json!({"type": "UpdateMachines", "rollingUpdate": {"maxUnavailable": "10%", "maxSurge": 0}});
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": "10%"}});
    let kubelet = json!({"spec": {"template": {"spec": {"versions": {"kubelet": "v1.36.1"}}}}});
    let (seconds, writes) = match mode {
        "create" => {
            let (begin, revision) = (Instant::now(), world.server.revision());
            world.create(Kind::MachineSet, replicas, &Value::Null).await?;
            (begin.elapsed(), world.server.revision() - revision)
        }
        "upgrade" | "roll" => {
            let strategy = if mode == "roll" { &rolling } else { &in_place };
            world.create(Kind::MachineDeployment, replicas, strategy).await?;
            let (begin, revision) = (Instant::now(), world.server.revision());
            world
                .api(Kind::MachineDeployment)
                .patch("web", &PatchParams::default(), &Patch::Merge(&kubelet))
                .await?;
            world.settled(Kind::MachineDeployment, replicas).await?;
            (begin.elapsed(), world.server.revision() - revision)
        }
        "plan" => {
            world.create(Kind::MachineDeployment, replicas, &in_place).await?;
            let mut wanted = group(Kind::MachineDeployment, replicas, &in_place);
            wanted["spec"]["template"]["spec"]["versions"]["kubelet"] = "v1.36.1".into();
            let id = Id::new(Kind::MachineDeployment, "default", "web");
            let client = world.server.client();
            // All of it, as the command does it: reading, admission, planning.
            let begin = Instant::now();
            let before = live::read(&client, Some("default")).await?;
            let mut after = before.clone();
            after.insert(
                id.clone(),
                live::apply(&client, &id, &wanted, ApplyOptions { dry_run: true, force: true }).await?,
            );
            let plan = preview(&before, &after, &world.registry)?;
            let elapsed = begin.elapsed();
            let planned = i64::try_from(plan.count("InPlace"))?;
            if planned != replicas {
                return Err(format!("{planned} of {replicas} Machines are planned in place").into());
            }
            (elapsed, 0)
        }
        other => {
            return Err(format!("no such mode: {other}; there are create, upgrade, roll and plan").into());
        }
    };
    println!(
        "{}",
        json!({
            "mode": mode, "machines": replicas, "seconds": seconds.as_secs_f64(), "writes": writes, "megabytes": peak().unwrap_or_default(),
        })
    );
    Ok(())
}

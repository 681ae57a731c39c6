//! How long a MachineSet takes until all its Machines are ready, with simulated hosts that take no time, on a server in the process.
//!
//! ```sh
//! cargo run --release --package settled-machines --example scale -- 10000
//! ```
#![allow(clippy::print_stdout, reason = "a program")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::api::{DynamicObject, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::wait::{await_condition, conditions::is_crd_established};
use kube::{Api, ResourceExt as _};
use serde_json::json;
use settled_apiserver::Server;
use settled_controller::Clock;
use settled_machines::controllers::{self, Options};
use settled_machines::crds::definitions;
use settled_machines::provider::{Provider, Registry};
use settled_machines::simulated::{
    API_VERSION, AgentOptions, KIND, Latency, Shared, SimulatedProvider, run_agents,
};

/// The most memory that the process has had, in MB.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? / 1024)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let replicas: i64 = std::env::args().nth(1).map_or(Ok(1000), |text| text.parse())?;
    let server = Server::in_memory().await?;
    let (client, clock, cloud) = (server.client(), Clock::system(), Shared::default());
    let provider = SimulatedProvider::new(cloud.clone(), clock.clone(), Latency::ZERO);
    let registry = Registry::new([Arc::new(provider) as Arc<dyn Provider>])?;
    let crds = Api::all(client.clone());
    for definition in definitions(&registry.formats()) {
        crds.create(&PostParams::default(), &definition).await?;
        await_condition(crds.clone(), &definition.name_any(), is_crd_established()).await?;
    }
    let _agents = tokio::spawn(run_agents(client.clone(), cloud, clock, AgentOptions::default()));
    let _controllers = tokio::spawn(controllers::run(client.clone(), Options::new(registry)));

    let kind = GroupVersionKind::gvk("cluster.settled.dev", "v1alpha1", "MachineSet");
    let sets: Api<DynamicObject> = Api::default_namespaced_with(client, &ApiResource::from_gvk(&kind));
    let set = json!({
        "apiVersion": "cluster.settled.dev/v1alpha1", "kind": "MachineSet", "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"versions": {"kubelet": "v1.36.0"}, "providerSpec": {"value": {"apiVersion": API_VERSION, "kind": KIND}}},
            },
        },
    });
    let begin = Instant::now();
    sets.create(&PostParams::default(), &serde_json::from_value(set)?).await?;
    loop {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let status = sets.get("web").await?.data["status"].clone();
        if status["availableReplicas"] == replicas {
            break;
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!("{replicas} Machines ready after {seconds:.1}s, at most {} MB", peak().unwrap_or_default());
    Ok(())
}

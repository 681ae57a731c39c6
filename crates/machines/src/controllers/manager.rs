//! Manager: starts the controllers, and passes changes to them.

use std::sync::Arc;

use futures::StreamExt as _;
use kube::Client;
use settled_controller::Clock;
use settled_controller::cache::CacheClosed;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::cluster::Clusters;
use super::controller::{self, Running, Shared};
use super::health_check::HealthChecks;
use super::informers::Informers;
use super::machine::Machines;
use super::machine_deployment::MachineDeployments;
use super::machine_set::MachineSets;
use super::node_leases::NodeLeases;
use super::orphans::Orphans;
use super::remote::{Connector, Remotes};
use super::remote_clusters::RemoteClusters;
use crate::provider::Registry;

/// How many changes of remote clusters may wait.
const REMOTE_CHANGES: usize = 1024;

/// How the controllers run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The installed providers.
    pub registry: Registry,
    /// The time of day.
    pub clock: Clock,
    /// How clients for the API servers of Clusters are made.
    pub connector: Connector,
    /// How many objects each controller reconciles at the same time.
    pub workers: usize,
}

impl Options {
    /// With these providers, the system's clock and 32 workers for each controller.
    #[must_use]
    pub fn new(registry: Registry) -> Self {
        Self { registry, clock: Clock::system(), connector: Connector::default(), workers: 32 }
    }
}

/// Runs all controllers, until it is dropped.
///
/// # Errors
/// A cache ended before it was complete, which only happens when the runtime shuts down.
pub async fn run(client: Client, options: Options) -> Result<(), CacheClosed> {
    let Options { registry, clock, connector, workers } = options;
    let informers = Arc::new(Informers::start(&client));
    let (sender, mut remote) = mpsc::channel(REMOTE_CHANGES);
    let remotes = Remotes::new(connector, clock.clone(), sender);
    let mut changes = informers.changes();
    informers.ready().await?;
    let shared = Shared { client, informers, remotes, clock, workers };
    let running: Vec<Running> = vec![
        controller::start(RemoteClusters, &shared),
        controller::start(Clusters::new(&shared, registry.clone()), &shared),
        controller::start(Machines::new(&shared, registry.clone()), &shared),
        controller::start(MachineSets::new(&shared), &shared),
        controller::start(MachineDeployments::new(&shared), &shared),
        controller::start(HealthChecks::new(&shared), &shared),
        controller::start(NodeLeases, &shared),
        controller::start(Orphans::new(registry), &shared),
    ];
    let mut tasks = JoinSet::new();
    let mut wakers = Vec::new();
    for mut controller in running {
        let work = std::mem::replace(&mut controller.work, Box::pin(async {}));
        tasks.spawn(work);
        wakers.push(controller);
    }
    tasks.spawn(async move {
        loop {
            let change = tokio::select! {
                change = changes.next() => change,
                change = remote.recv() => change,
            };
            let Some(change) = change else { break };
            for controller in &wakers {
                controller.wake(&change);
            }
        }
    });
    tasks.join_next().await;
    Ok(())
}

//! Simulator: starts the components that are switched on, and passes changes to them.

use std::sync::Arc;

use futures::StreamExt as _;
use kube::Client;
use settled_controller::Clock;
use settled_controller::cache::CacheClosed;
use tokio::task::JoinSet;

use crate::component::{Component, Components};
use crate::controller::{self, Running, Shared};
use crate::informers::Informers;
use crate::kubelet::Kubelet;
use crate::nodes;
use crate::scheduler::Scheduler;
use crate::workloads::deployment::Deployments;
use crate::workloads::replica_set::ReplicaSets;

/// How a simulation is set up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// What is simulated: everything, unless something else is said.
    pub components: Components,
    /// The Nodes that are created at the start. Without any, Pods wait to be scheduled.
    pub nodes: Vec<nodes::NodeSpec>,
    /// The time of day for statuses.
    pub clock: Clock,
}

impl Default for Options {
    fn default() -> Self {
        Self { components: Components::all(), nodes: nodes::default_nodes(), clock: Clock::system() }
    }
}

/// Why a simulation does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The server could not be read.
    #[error(transparent)]
    Closed(#[from] CacheClosed),
    /// A Node could not be created.
    #[error("cannot create Node {name}")]
    Node {
        /// Its name.
        name: String,
        /// Why not.
        #[source]
        source: kube::Error,
    },
}

/// A running simulation. It ends when this is dropped.
#[derive(Debug)]
pub struct Simulator {
    tasks: JoinSet<()>,
}

impl Simulator {
    /// Starts to simulate on an API server, with the permissions of the client.
    ///
    /// # Errors
    /// The Nodes cannot be created.
    pub async fn start(client: Client, options: Options) -> Result<Self, StartError> {
        let Options { components, nodes, clock } = options;
        let informers = Arc::new(Informers::start(&client));
        let mut changes = informers.changes();
        nodes::create(&client, &nodes, &clock).await?;
        informers.ready().await?;
        let shared = Shared { client, informers, clock };
        let mut running: Vec<Running> = Vec::new();
        let mut run = |component, start: &dyn Fn() -> Running| {
            if components.has(component) {
                running.push(start());
            }
        };
        run(Component::Deployments, &|| controller::start(Deployments::new(&shared), &shared));
        run(Component::ReplicaSets, &|| controller::start(ReplicaSets::new(&shared), &shared));
        run(Component::Scheduler, &|| controller::start(Scheduler::new(), &shared));
        run(Component::Kubelets, &|| controller::start(Kubelet::new(&shared), &shared));
        let mut tasks = JoinSet::new();
        let mut wakers = Vec::new();
        for mut controller in running {
            let work = std::mem::replace(&mut controller.work, Box::pin(async {}));
            tasks.spawn(work);
            wakers.push(controller);
        }
        tasks.spawn(async move {
            while let Some(change) = changes.next().await {
                for controller in &wakers {
                    controller.wake(&change);
                }
            }
        });
        Ok(Self { tasks })
    }

    /// Waits for a part of it to end, which only happens when the runtime shuts down.
    pub async fn ended(&mut self) {
        let _ended = self.tasks.join_next().await;
    }
}

//! Simulator: starts the components that are switched on, and passes changes to them.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use kube::Client;
use settled_controller::Clock;
use settled_controller::cache::CacheClosed;
use tokio::task::{AbortHandle, JoinSet};

use crate::addresses::{Ingresses, LoadBalancers};
use crate::autoscaler::Autoscalers;
use crate::budgets::Budgets;
use crate::component::{Component, Components};
use crate::controller::{self, Running, Shared};
use crate::customs::{self, Customs};
use crate::endpoints::EndpointSlices;
use crate::endpoints::legacy::Endpoints;
use crate::endpoints::mirror::EndpointSliceMirroring;
use crate::informers::Informers;
use crate::kubelet::Kubelet;
use crate::kubelet::logs::LogSource;
use crate::nodes;
use crate::nodes::eviction::TaintEviction;
use crate::nodes::garbage::PodGarbage;
use crate::nodes::lifecycle::NodeLifecycle;
use crate::scenario::{Scenario, Unmatched};
use crate::scheduler::Scheduler;
use crate::volumes::binder::Binder;
use crate::volumes::class;
use crate::volumes::phase::VolumePhases;
use crate::volumes::provisioner::Provisioner;
use crate::workloads::cron_job::CronJobs;
use crate::workloads::daemon_set::DaemonSets;
use crate::workloads::deployment::Deployments;
use crate::workloads::job::Jobs;
use crate::workloads::replica_set::ReplicaSets;
use crate::workloads::stateful_set::StatefulSets;

/// How a simulation is set up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// What is simulated: everything, unless something else is said.
    pub components: Components,
    /// The Nodes that are created at the start. Without any, Pods wait to be scheduled.
    pub nodes: Vec<nodes::NodeSpec>,
    /// Whether a default StorageClass is created at the start, unless there is one: so it is unless something else is said.
    pub storage_class: bool,
    /// The time of day for statuses.
    pub clock: Clock,
    /// What happens other than success.
    pub scenario: Scenario,
    /// What the controllers of custom resources report that the scenario does not mention.
    pub customs: Customs,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            components: Components::all(),
            nodes: nodes::default_nodes(),
            storage_class: true,
            clock: Clock::system(),
            scenario: Scenario::default(),
            customs: Customs::default(),
        }
    }
}

/// Why a simulation does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The server could not be read.
    #[error(transparent)]
    Closed(#[from] CacheClosed),
    /// The default StorageClass could not be created.
    #[error("cannot create the default StorageClass")]
    StorageClass(#[source] kube::Error),
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
    stops: Vec<AbortHandle>,
    /// Until it is stopped.
    informers: Mutex<Option<Arc<Informers>>>,
    scenario: Scenario,
    logs: LogSource,
}

impl Simulator {
    /// Starts to simulate on an API server, with the permissions of the client.
    ///
    /// # Errors
    /// The Nodes cannot be created.
    pub fn start(client: Client, options: Options) -> BoxFuture<'static, Result<Self, StartError>> {
        // Boxed, so that all of the simulation is compiled here, and not again in each program.
        Self::started(client, options).boxed()
    }

    async fn started(client: Client, options: Options) -> Result<Self, StartError> {
        let Options { components, nodes, storage_class, clock, scenario, customs } = options;
        let informers = Arc::new(Informers::start(&client));
        let mut changes = informers.changes();
        let created = nodes::create(&client, &nodes, &clock).await;
        created.map_err(|(name, source)| StartError::Node { name, source })?;
        if storage_class && components.has(Component::Volumes) {
            class::create_default(&client).await.map_err(StartError::StorageClass)?;
        }
        informers.ready().await?;
        let begin = clock.now();
        let shared = Shared { client, informers, clock, scenario: scenario.clone(), begin };
        let mut running: Vec<Running> = Vec::new();
        let mut run = |component, start: &dyn Fn() -> Running| {
            if components.has(component) {
                running.push(start());
            }
        };
        run(Component::Deployments, &|| controller::start(Deployments, &shared));
        run(Component::ReplicaSets, &|| controller::start(ReplicaSets, &shared));
        run(Component::StatefulSets, &|| controller::start(StatefulSets, &shared));
        run(Component::DaemonSets, &|| controller::start(DaemonSets::default(), &shared));
        run(Component::Jobs, &|| controller::start(Jobs, &shared));
        run(Component::CronJobs, &|| controller::start(CronJobs, &shared));
        run(Component::EndpointSlices, &|| controller::start(EndpointSlices::new(), &shared));
        run(Component::Endpoints, &|| controller::start(Endpoints::new(&shared), &shared));
        run(Component::EndpointSliceMirroring, &|| controller::start(EndpointSliceMirroring, &shared));
        run(Component::Volumes, &|| controller::start(Binder::new(&shared), &shared));
        run(Component::Volumes, &|| controller::start(VolumePhases::new(&shared), &shared));
        run(Component::Volumes, &|| controller::start(Provisioner::new(&shared), &shared));
        run(Component::DisruptionBudgets, &|| controller::start(Budgets::new(&shared), &shared));
        run(Component::LoadBalancers, &|| controller::start(LoadBalancers::new(&shared), &shared));
        run(Component::LoadBalancers, &|| controller::start(Ingresses::new(&shared), &shared));
        run(Component::Autoscalers, &|| controller::start(Autoscalers::new(&shared), &shared));
        run(Component::Nodes, &|| controller::start(NodeLifecycle::new(&shared), &shared));
        run(Component::Nodes, &|| controller::start(TaintEviction::new(&shared), &shared));
        run(Component::Nodes, &|| controller::start(PodGarbage::new(&shared), &shared));
        run(Component::Scheduler, &|| controller::start(Scheduler::new(&shared), &shared));
        run(Component::Kubelets, &|| controller::start(Kubelet::new(&shared), &shared));
        let (mut tasks, mut stops) = (JoinSet::new(), Vec::new());
        if components.has(Component::CustomResources) {
            stops.push(tasks.spawn(customs::run(shared.clone(), customs)));
        }
        let mut wakers = Vec::new();
        for mut controller in running {
            let work = std::mem::replace(&mut controller.work, Box::pin(async {}));
            stops.push(tasks.spawn(work));
            wakers.push(controller);
        }
        stops.push(tasks.spawn(async move {
            while let Some(change) = changes.next().await {
                for controller in &wakers {
                    controller.wake(&change);
                }
            }
        }));
        let (logs, informers) = (LogSource::new(&shared), Mutex::new(Some(shared.informers)));
        Ok(Self { tasks, stops, informers, scenario, logs })
    }

    /// Ends it: what it remembers is most of what a large simulation holds.
    pub fn stop(&self) {
        self.stops.iter().for_each(AbortHandle::abort);
        self.informers.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Where the logs of containers come from.
    #[must_use]
    pub fn logs(&self) -> LogSource {
        self.logs.clone()
    }

    /// The entries of the scenario that nothing has matched so far.
    #[must_use]
    pub fn unmatched(&self) -> Vec<Unmatched> {
        self.scenario.unmatched()
    }

    /// Waits for a part of it to end, which only happens when the runtime shuts down.
    pub async fn ended(&mut self) {
        let _ended = self.tasks.join_next().await;
    }
}

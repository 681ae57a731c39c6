//! Machines: observes a host and its Node, stores what was decided, and performs the next action.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use settled_controller::ObjectKey;
use settled_controller::cache::Change;
use settled_controller::conditions::{Conditions, Status};
use settled_controller::status::StatusWriter;
use settled_controller::worker::Next;

use super::controller::{Context, Controller, Error, Shared, status_writer};
use super::events;
use super::informers::{AnyChange, Informers};
use super::meta;
use super::place::Place;
use crate::desired::{configuration, desired};
use crate::plan::{Action, ClusterState, Decision, Facts, Progress, decide};
use crate::provider::{
    ConfigError, Entry, HostKey, HostState, Observed, Progress as Done, ProviderError, Registry, Request,
};
use crate::small::Node;
use crate::types::{
    Cluster, ErrorReason, FINALIZER, HOST_UID_ANNOTATION, Machine, MachineCondition, MachinePhase,
    MachineStatus, PROVIDER_FAILED,
};

/// How soon the result of a call is looked at.
const SOON: Duration = Duration::from_millis(1);

/// The controller of Machines.
pub(super) struct Machines {
    status: StatusWriter<Machine>,
    registry: Registry,
}

impl Machines {
    pub(super) fn new(shared: &Shared, registry: Registry) -> Self {
        Self { status: status_writer(shared, Self::NAME), registry }
    }

    /// The configuration of a Machine, and its provider.
    fn configuration(
        &self,
        machine: &Machine,
        informers: &Informers,
    ) -> Result<(&Entry, serde_json::Value), ConfigError> {
        let class = |name: &str| {
            let class = informers.classes.get(ObjectKey::new(meta::namespace(machine), name))?;
            Some(class.spec.provider_spec.clone())
        };
        let config = configuration(&machine.spec.provider_spec, class)?;
        let entry = self.registry.find(&config)?;
        Ok((entry, config))
    }

    async fn perform(
        &self,
        key: &ObjectKey,
        machine: &Machine,
        known: &Known<'_>,
        action: Action,
        context: &Context,
    ) -> Result<Option<Duration>, Error> {
        let provider = |request: &Option<Request>| match (known.entry, request) {
            (Some(entry), Some(request)) => Some((entry.provider.clone(), request.clone())),
            _ => None,
        };
        let progress = match action {
            Action::None => return Ok(None),
            Action::AddFinalizer | Action::RemoveFinalizer => {
                context.finalize(key, machine, FINALIZER, action == Action::AddFinalizer).await?;
                return Ok(None);
            }
            Action::PatchNode(patch) => {
                if let Some(node) = &known.node {
                    known.place.patch(key, node, patch, context).await?;
                }
                return Ok(Some(SOON));
            }
            Action::DeleteNode => {
                if let Some(node) = &known.node {
                    known.place.delete(key, node, context).await?;
                }
                return Ok(Some(SOON));
            }
            Action::Evict(pods) => {
                known.place.evict(&pods, context).await?;
                return Ok(None);
            }
            Action::Create => match provider(&known.request) {
                Some((provider, request)) => provider.create(&request).await?,
                None => return Ok(None),
            },
            Action::ApplyStep(step) => match provider(&known.request) {
                Some((provider, request)) => provider.apply_step(&request, &step).await?,
                None => return Ok(None),
            },
            Action::DeleteHost => match known.entry {
                Some(entry) => entry.provider.delete(&known.host_key).await?,
                None => return Ok(None),
            },
        };
        Ok(Some(match progress {
            Done::Done => SOON,
            Done::Pending { retry_after } => retry_after.max(SOON),
        }))
    }

    /// Stores why an action failed, and returns the error if it is to be tried again.
    async fn failed(
        &self,
        key: &ObjectKey,
        machine: &Machine,
        mut decision: Decision,
        error: Error,
        context: &Context,
    ) -> Result<Next, Error> {
        let Error::Provider(failure) = &error else { return Err(error) };
        let Some(status) = &mut decision.status else { return Err(error) };
        let message = failure.to_string();
        match failure {
            ProviderError::Transient(_) => {
                decision.progress = Progress::Reconciling(PROVIDER_FAILED, message);
            }
            ProviderError::Terminal { reason, .. } => {
                // The reason says what was not done: it decides when that is tried again.
                let reason = match (&decision.action, reason) {
                    (Action::DeleteHost, _) => ErrorReason::DeleteError,
                    (Action::ApplyStep(_), _) => ErrorReason::UpdateError,
                    (_, ErrorReason::InsufficientResources) => ErrorReason::InsufficientResources,
                    _ => ErrorReason::CreateError,
                };
                if reason != ErrorReason::DeleteError {
                    status.phase = Some(MachinePhase::Failed);
                }
                status.error_reason = Some(reason);
                status.error_message = Some(message.clone());
                decision.progress = Progress::Stalled(reason.as_str(), message);
            }
        }
        let reason = status.error_reason;
        context.catch_up(key).await?;
        let retry = matches!(reason, Some(ErrorReason::InsufficientResources | ErrorReason::DeleteError));
        self.store(key, machine, &decision, context).await?;
        match error {
            Error::Provider(ProviderError::Terminal { .. }) if retry => {
                Ok(Next::RequeueAfter(Duration::from_secs(60)))
            }
            Error::Provider(ProviderError::Terminal { .. }) => Ok(Next::AwaitChange),
            error => Err(error),
        }
    }

    async fn store(
        &self,
        key: &ObjectKey,
        machine: &Machine,
        decision: &Decision,
        context: &Context,
    ) -> Result<(), Error> {
        // The status that was read may be one write old by now.
        let current = context.informers.machines.get(key);
        let observed = current.as_deref().filter(|current| meta::uid(*current) == meta::uid(machine));
        let observed = observed.unwrap_or(machine);
        let generation = machine.metadata.generation;
        let Some(status) = with_conditions(observed, generation, decision, context)? else { return Ok(()) };
        context.write_status(key, &self.status, observed, &status).await?;
        for (type_, reason, action, note) in events::begun(observed.status.as_ref(), decision) {
            context.record(observed, type_, reason, action, &note);
        }
        Ok(())
    }
}

/// The status with its conditions, which are about the generation that was decided on.
fn with_conditions(
    machine: &Machine,
    generation: Option<i64>,
    decision: &Decision,
    context: &Context,
) -> Result<Option<MachineStatus>, Error> {
    let Some(mut status) = decision.status.clone() else { return Ok(None) };
    let observed = machine.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let mut conditions = Conditions::<MachineCondition>::new(observed, generation, &context.clock);
    for finding in &decision.findings {
        let holds = finding.status.map_or(Status::Unknown, Status::from);
        conditions.set(finding.condition, holds, finding.reason, finding.message.clone());
    }
    match &decision.progress {
        Progress::Current => {}
        Progress::Reconciling(reason, message) => {
            conditions.reconciling(*reason, message.clone());
        }
        Progress::Stalled(reason, message) => {
            conditions.stalled(*reason, message.clone());
        }
    }
    status.conditions = conditions.finish()?;
    status.failure_message = status.error_message.clone().filter(|_| status.node_ref.is_none());
    Ok(Some(status))
}

/// What a reconcile knows of a Machine.
struct Known<'k> {
    entry: Option<&'k Entry>,
    host_key: HostKey,
    request: Option<Request>,
    node: Option<Arc<Node>>,
    place: Place,
}

fn cluster_state(machine: &Machine, informers: &Informers) -> (ClusterState, Option<Arc<Cluster>>) {
    if meta::is_paused(machine) {
        return (ClusterState::Paused, None);
    }
    let Some(name) = &machine.spec.cluster_name else { return (ClusterState::None, None) };
    let Some(cluster) = informers.clusters.get(ObjectKey::new(meta::namespace(machine), name)) else {
        return (ClusterState::Missing, None);
    };
    let has_endpoint = cluster.status.as_ref().is_some_and(|status| !status.api_endpoints.is_empty());
    let state = match &*cluster {
        cluster if meta::is_deleting(cluster) => ClusterState::Deleting,
        cluster if cluster.spec.paused || meta::is_paused(cluster) => ClusterState::Paused,
        _ if has_endpoint => ClusterState::Serving,
        _ => ClusterState::Starting,
    };
    (state, Some(cluster))
}

/// The host that a Machine is to adopt, and has not yet.
fn unclaimed(machine: &Machine) -> Option<&str> {
    let has_host = machine.status.as_ref().is_some_and(|status| status.provider_id.is_some())
        || meta::annotation(machine, HOST_UID_ANNOTATION).is_some();
    machine.spec.provider_id.as_deref().filter(|_| !has_host && !meta::is_deleting(machine))
}

/// The key of a host by the provider's name for it, unless it is another Machine's.
async fn host_by_id(
    entry: &Entry,
    id: &str,
    machine: &Machine,
    informers: &Informers,
) -> Result<Result<HostKey, ConfigError>, ProviderError> {
    let hosts = entry.provider.list().await?;
    let Some(host) = hosts.into_iter().find(|host| host.id == id) else {
        let error = format!("spec.providerID: {} has no host {id}", entry.name());
        return Ok(Err(ConfigError::Invalid(vec![error])));
    };
    let is_owner =
        |other: &Machine| other.host_uid() == host.key.as_str() && meta::uid(other) != meta::uid(machine);
    Ok(match informers.machines.state_filter(is_owner).first() {
        Some(owner) => {
            let error = format!("spec.providerID: the host {id} is of Machine {}", meta::key(&**owner));
            Err(ConfigError::Invalid(vec![error]))
        }
        None => Ok(host.key),
    })
}

impl Controller for Machines {
    const NAME: &'static str = "machine-controller";

    fn wake(&self, change: &AnyChange, informers: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::Machine(change) => vec![change.key.clone()],
            AnyChange::Node(change) | AnyChange::RemoteNode(_, change) => {
                let nodes = [change.old.as_deref(), change.new.as_deref()];
                let mut keys: Vec<ObjectKey> = nodes.into_iter().flatten().filter_map(machine_of).collect();
                keys.dedup();
                keys
            }
            AnyChange::Cluster(Change { key, .. }) | AnyChange::Remote(key) => {
                let machines = informers.machines_of_cluster(key);
                machines.iter().map(|machine| meta::key(&**machine)).collect()
            }
            AnyChange::MachineClass(change) => {
                let uses = |machine: &Machine| {
                    let class = machine.spec.provider_spec.value_from.as_ref();
                    class.is_some_and(|source| *source.machine_class.name == *change.key.name)
                };
                let machines = informers.in_namespace::<Machine>(&change.key.namespace);
                machines.iter().filter(|machine| uses(machine)).map(|machine| meta::key(&**machine)).collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let informers = &*context.informers;
        let Some(machine) = informers.machines.get(key) else { return Ok(Next::AwaitChange) };
        let (cluster, owner) = cluster_state(&machine, informers);
        let found = self.configuration(&machine, informers);
        let recorded = machine.status.as_ref().and_then(|status| status.provider.as_deref());
        // A host stays with its provider, whatever the configuration has become.
        let entry = match (&found, recorded) {
            (Ok((entry, _)), None) => Ok(*entry),
            (_, Some(name)) => self.registry.by_name(name),
            (Err(error), None) => Err(error.clone()),
        };
        // What two Machines name is the host of one of them; the other one does not touch it.
        let entry = match informers.host_is_of(&machine) {
            Some(other) => Err(ConfigError::HostTaken(meta::key(&*other).to_string())),
            None => entry,
        };
        let complete = match &found {
            Ok((found, config)) => match &entry {
                Ok(entry) if entry.name() != found.name() => Err(ConfigError::Invalid(vec![format!(
                    "the provider cannot change from {} to {}",
                    entry.name(),
                    found.name()
                )])),
                _ => found.complete(config),
            },
            Err(error) => Err(error.clone()),
        };
        let wanted = complete.map(|config| {
            let (namespace, name) = (meta::namespace(&*machine), meta::name(&*machine));
            desired(namespace, name, &machine.spec, owner.as_deref(), config)
        });
        let wanted = wanted.and_then(|wanted| match &entry {
            Ok(entry) => entry.validate(&wanted).map(|()| wanted),
            Err(error) => Err(error.clone()),
        });
        let host_key = HostKey::from(&*machine);
        let has_finalizer = machine.metadata.finalizers.iter().flatten().any(|name| name == FINALIZER);
        let is_active = has_finalizer && cluster != ClusterState::Paused;
        let mut wanted = wanted;
        if let (Ok(entry), Some(id)) = (&entry, unclaimed(&machine))
            && is_active
        {
            match host_by_id(entry, id, &machine, informers).await? {
                Ok(host) => {
                    let annotations = json!({HOST_UID_ANNOTATION: host.as_str()});
                    context.patch(key, &*machine, json!({"metadata": {"annotations": annotations}})).await?;
                    return Ok(Next::RequeueAfter(SOON));
                }
                // Another host must not be created in its place.
                Err(error) => wanted = Err(error),
            }
        }
        let observed = match &entry {
            Ok(entry) if is_active => Some(entry.provider.observe(&host_key).await),
            _ => None,
        };
        let host = observed.as_ref().and_then(|observed| observed.as_ref().ok()).and_then(Observed::host);
        let plan = match (host, &wanted, &entry) {
            (Some(host), Ok(wanted), Ok(entry)) if host.state == HostState::Running => {
                Some(entry.provider.plan(host, wanted))
            }
            _ => None,
        };
        let place = Place::of(&machine, context);
        let node = place.node_of(&machine, host.map(|host| host.id.as_str()), context);
        let pods = node.as_ref().map(|node| place.pods_on(node, context)).unwrap_or_default();
        let decision = decide(&Facts {
            machine: &machine,
            cluster,
            provider: entry.as_ref().map(|entry| entry.name()).map_err(Clone::clone),
            config: wanted.as_ref().map(drop).map_err(Clone::clone),
            observed: observed.clone(),
            plan,
            node: node.as_deref(),
            unreachable: place.problem(),
            is_remote: matches!(place, Place::Remote(..)),
            pods: &pods,
            now: context.now(),
        });
        let request = wanted.ok().map(|desired| Request {
            key: host_key.clone(),
            machine: key.to_string(),
            generation: machine.metadata.generation.unwrap_or_default(),
            desired,
            last_host: machine.status.as_ref().and_then(|status| status.host.clone()),
        });
        let known = Known { entry: entry.ok(), host_key, request, node, place };
        // What the action is permitted by is stored before it is performed. If it is stored already, the status is written once, with the result.
        let is_acknowledged = decision.status.is_none() || decision.status == machine.status;
        if !is_acknowledged {
            self.store(key, &machine, &decision, context).await?;
        }
        if let Some(Err(error)) = observed {
            if is_acknowledged {
                self.store(key, &machine, &decision, context).await?;
            }
            return Err(error.into());
        }
        let requeue = decision.requeue;
        match self.perform(key, &machine, &known, decision.action.clone(), context).await {
            Ok(soon) => {
                if is_acknowledged {
                    self.store(key, &machine, &decision, context).await?;
                }
                Ok(soon.or(requeue).map_or(Next::AwaitChange, Next::RequeueAfter))
            }
            Err(error) => self.failed(key, &machine, decision, error, context).await,
        }
    }
}

/// The Machine that a Node says it is of.
fn machine_of(node: &Node) -> Option<ObjectKey> {
    let (namespace, name) = node.machine()?.split_once('/')?;
    Some(ObjectKey::new(namespace, name))
}

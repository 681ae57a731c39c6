//! MachineSets: as many Machines as asked for.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kube::Resource as _;
use kube::api::ObjectMeta;
use serde_json::json;
use settled_controller::ObjectKey;
use settled_controller::conditions::Conditions;
use settled_controller::status::StatusWriter;
use settled_controller::worker::Next;

use super::controller::{Context, Controller, Error, GROUP_BATCH, Shared, status_writer};
use super::informers::{AnyChange, Informers};
use super::meta;
use crate::plan::{MachineView, ReplicasPlan, is_available, plan_replicas};
use crate::types::{
    CLUSTER_LABEL, Machine, MachineSet, MachineSetCondition, MachineSetStatus, NO_CREATE_ANNOTATION,
    PROVIDER_FAILED,
};

/// Requests at the same time.
const CONCURRENCY: usize = 32;

/// The controller of MachineSets.
pub(super) struct MachineSets {
    status: StatusWriter<MachineSet>,
}

impl MachineSets {
    pub(super) fn new(shared: &Shared) -> Self {
        Self { status: status_writer(shared, Self::NAME) }
    }
}

/// A Machine of a set.
fn machine(set: &MachineSet, name: String) -> Machine {
    let template = &set.spec.template;
    let mut labels = template.metadata.labels.clone();
    if let Some(cluster) = &template.spec.cluster_name {
        labels.insert(CLUSTER_LABEL.to_owned(), cluster.clone());
    }
    Machine {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(template.metadata.annotations.clone())
                .filter(|all: &BTreeMap<_, _>| !all.is_empty()),
            owner_references: set.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        status: None,
    }
}

fn status(
    set: &MachineSet,
    machines: &[&Machine],
    failure: Option<&str>,
    context: &Context,
) -> Result<(MachineSetStatus, Option<Duration>), Error> {
    let (spec, now) = (&set.spec, context.now());
    let mut next = None;
    let mut available = 0;
    for machine in machines {
        let (is_available, until) = is_available(machine, spec.min_ready_seconds, now);
        available += i32::from(is_available);
        let left = until.map(|until| Duration::try_from(until.duration_since(now)).unwrap_or_default());
        next = next.into_iter().chain(left).min();
    }
    let labels = &spec.template.metadata.labels;
    let is_labeled = |machine: &&&Machine| {
        let has = machine.metadata.labels.as_ref();
        labels.iter().all(|(key, value)| crate::small::entry(has, key) == Some(value.as_str()))
    };
    let failed = machines.iter().find_map(|machine| {
        let status = machine.status.as_ref()?;
        Some((
            status.error_reason?,
            format!("{}: {}", meta::name(*machine), status.error_message.as_deref().unwrap_or_default()),
        ))
    });
    let observed = set.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let mut conditions =
        Conditions::<MachineSetCondition>::new(observed, set.metadata.generation, &context.clock);
    let count = meta::count(machines.len());
    let is_complete = count == spec.replicas && available == spec.replicas;
    let message = format!("{available} of {} Machines are available", spec.replicas);
    let reason = if is_complete { "AllAvailable" } else { "NotAvailable" };
    conditions.set(MachineSetCondition::Available, is_complete, reason, message.clone());
    match failure {
        Some(failure) => conditions.set(MachineSetCondition::Creatable, false, "CreationFailed", failure),
        None => conditions.set(MachineSetCondition::Creatable, true, "NoFailure", ""),
    };
    match (&failed, is_complete) {
        (_, true) => {}
        (Some((reason, message)), false) => {
            conditions.stalled(reason.as_str(), message.clone());
        }
        (None, false) => {
            match machines.iter().find_map(|machine| meta::provider_failure(machine)) {
                Some(failing) => conditions.reconciling(PROVIDER_FAILED, failing),
                None => conditions.reconciling("Progressing", message),
            };
        }
    }
    let status = MachineSetStatus {
        observed_generation: set.metadata.generation,
        replicas: count,
        fully_labeled_replicas: meta::count(machines.iter().filter(is_labeled).count()),
        ready_replicas: meta::count(
            machines.iter().filter(|machine| MachineView::of(machine).is_ready).count(),
        ),
        available_replicas: available,
        selector: spec.selector.text(),
        error_reason: failed.as_ref().map(|(reason, _)| *reason),
        error_message: failed.map(|(_, message)| message),
        conditions: conditions.finish()?,
    };
    Ok((status, next))
}

/// Adopts Machines that nobody controls and that the selector matches, and releases those that it does not match any more (`ClaimMachines`
/// upstream). Returns whether there were any.
async fn claim(
    key: &ObjectKey,
    set: &MachineSet,
    machines: &[Arc<Machine>],
    context: &Context,
) -> Result<bool, Error> {
    let is_selected = set.spec.selector.matcher();
    let selects = |machine: &Machine| is_selected(machine.metadata.labels.as_ref());
    let mut has_claimed = false;
    for machine in context.informers.uncontrolled_machines(meta::namespace(set)) {
        if meta::is_deleting(&*machine) || !selects(&machine) {
            continue;
        }
        let mut owners = machine.metadata.owner_references.clone().unwrap_or_default();
        owners.extend(set.controller_owner_ref(&()));
        context.patch(key, &*machine, json!({"metadata": {"ownerReferences": owners}})).await?;
        has_claimed = true;
    }
    for machine in machines {
        if meta::is_deleting(&**machine) || selects(machine) {
            continue;
        }
        let mut owners = machine.metadata.owner_references.clone().unwrap_or_default();
        owners.retain(|owner| owner.uid != meta::uid(set));
        context.patch(key, &**machine, json!({"metadata": {"ownerReferences": owners}})).await?;
        has_claimed = true;
    }
    Ok(has_claimed)
}

impl Controller for MachineSets {
    const NAME: &'static str = "machineset-controller";
    const BATCH: Duration = GROUP_BATCH;

    fn wake(&self, change: &AnyChange, informers: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::MachineSet(change) => vec![change.key.clone()],
            AnyChange::Cluster(change) => informers.sets_of_cluster(&change.key),
            AnyChange::Machine(change) => {
                let machines = change.new.iter().chain(&change.old);
                let mut keys: Vec<ObjectKey> =
                    machines.filter_map(|machine| meta::controller_key(&**machine, "MachineSet")).collect();
                keys.dedup();
                // One that nobody controls may be adopted.
                if let Some(machine) =
                    change.new.as_ref().filter(|machine| meta::controller(&***machine).is_none())
                {
                    let sets = informers.in_namespace::<MachineSet>(&change.key.namespace);
                    let labels = machine.metadata.labels.as_ref();
                    let adopting = sets.iter().filter(|set| set.spec.selector.matches(labels));
                    keys.extend(adopting.map(|set| meta::key(&**set)));
                }
                keys
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let informers = &*context.informers;
        let Some(set) = informers.sets.get(key) else { return Ok(Next::AwaitChange) };
        let cluster = set.spec.template.spec.cluster_name.as_ref();
        let is_paused = meta::is_paused(&*set) || informers.is_cluster_paused(&key.namespace, cluster);
        if meta::is_deleting(&*set) || is_paused {
            return Ok(Next::AwaitChange);
        }
        let machines = informers.machines_of_set(&set);
        if claim(key, &set, &machines, context).await? {
            return Ok(Next::RequeueAfter(Duration::from_millis(1)));
        }
        let views: Vec<MachineView> = machines.iter().map(|machine| MachineView::of(machine)).collect();
        let replicas = usize::try_from(set.spec.replicas).unwrap_or_default();
        let namespace = meta::namespace(&*set);
        let is_taken = |name: &str| informers.machines.get(ObjectKey::new(namespace, name)).is_some();
        let (mut failure, mut is_partial) = (None, false);
        match plan_replicas(meta::name(&*set), replicas, set.spec.delete_policy, &views, is_taken) {
            ReplicasPlan::Nothing => {}
            ReplicasPlan::Create(_) if meta::annotation(&*set, NO_CREATE_ANNOTATION).is_some() => {}
            ReplicasPlan::Create(names) => {
                is_partial = names.len() + views.len() < replicas;
                for names in names.chunks(CONCURRENCY) {
                    let created = join_all(
                        names
                            .iter()
                            .map(async |name| context.create(key, &machine(&set, name.clone())).await),
                    );
                    let mut errors = created.await.into_iter().filter_map(Result::err);
                    failure = errors.next();
                    if failure.is_some() {
                        break;
                    }
                }
            }
            ReplicasPlan::Delete(names) => {
                let doomed = machines
                    .iter()
                    .filter(|machine| names.iter().any(|name| name == meta::name(&***machine)));
                let deleted = join_all(doomed.map(async |machine| context.delete(key, &**machine).await));
                failure = deleted.await.into_iter().find_map(Result::err);
            }
        }
        let live: Vec<&Machine> = machines
            .iter()
            .map(|machine| &**machine)
            .filter(|machine| !meta::is_deleting(*machine))
            .collect();
        let message = failure.as_ref().map(ToString::to_string);
        let (status, next) = status(&set, &live, message.as_deref(), context)?;
        context.write_status(key, &self.status, &set, &status).await?;
        match failure {
            Some(error) => Err(error.into()),
            None if is_partial => Ok(Next::RequeueAfter(Duration::from_millis(1))),
            None => Ok(next.map_or(Next::AwaitChange, Next::RequeueAfter)),
        }
    }
}

//! MachineDeployments: rollouts by MachineSets, or by changes of the Machines themselves.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
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
use crate::plan::{
    MachineView, Rollout, RolloutAction, SetView, UpdateView, is_available, merge_patch,
    plan_machine_updates, plan_rollout, template_hash,
};
use crate::types::{
    DEPLOYMENT_LABEL, Machine, MachineDeployment, MachineDeploymentCondition, MachineDeploymentStatus,
    MachineSet, MachineSetSpec, MachineSpec, NO_CREATE_ANNOTATION, PROVIDER_FAILED, REVISION_ANNOTATION,
    StrategyType, TEMPLATE_HASH_LABEL, whole_second,
};

/// The controller of MachineDeployments.
pub(super) struct MachineDeployments {
    status: StatusWriter<MachineDeployment>,
}

/// A MachineSet with its Machines.
struct Group {
    set: Arc<MachineSet>,
    machines: Vec<Arc<Machine>>,
    view: SetView,
}

impl MachineDeployments {
    pub(super) fn new(shared: &Shared) -> Self {
        Self { status: status_writer(shared, Self::NAME) }
    }
}

fn revision(set: &MachineSet) -> u64 {
    meta::annotation(set, REVISION_ANNOTATION).and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// Whether a Machine or a template is as the template of a deployment.
fn is_of_template(spec: &MachineSpec, deployment: &MachineDeployment) -> bool {
    *spec == deployment.spec.template.spec
}

fn new_set(deployment: &MachineDeployment, replicas: i32, revision: u64) -> MachineSet {
    let hash = template_hash(deployment, revision);
    let name = meta::name(deployment);
    let own =
        [(TEMPLATE_HASH_LABEL.to_owned(), hash.clone()), (DEPLOYMENT_LABEL.to_owned(), name.to_owned())];
    let mut template = deployment.spec.template.clone();
    template.metadata.labels.extend(own.clone());
    let mut selector = deployment.spec.selector.clone();
    selector.match_labels.extend(own);
    MachineSet {
        metadata: ObjectMeta {
            name: Some(format!("{name}-{hash}")),
            namespace: deployment.metadata.namespace.clone(),
            labels: Some(template.metadata.labels.clone()),
            annotations: Some(BTreeMap::from([(REVISION_ANNOTATION.to_owned(), revision.to_string())])),
            owner_references: deployment.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec: MachineSetSpec {
            replicas,
            min_ready_seconds: deployment.spec.min_ready_seconds,
            selector,
            template,
            ..MachineSetSpec::default()
        },
        status: None,
    }
}

fn groups(
    deployment: &MachineDeployment,
    informers: &Informers,
    context: &Context,
) -> (Vec<Group>, Option<Duration>) {
    let now = context.now();
    let mut next: Option<Duration> = None;
    let mut sets = informers.sets_of(deployment);
    sets.retain(|set| !meta::is_deleting(&**set));
    sets.sort_by_key(|set| (revision(set), meta::name(&**set).to_owned()));
    let newest = sets.iter().rposition(|set| is_of_template(&set.spec.template.spec, deployment));
    let in_place = deployment.spec.strategy.type_ == StrategyType::UpdateMachines;
    let newest = if in_place { sets.len().checked_sub(1) } else { newest };
    let groups = sets.into_iter().enumerate().map(|(index, set)| {
        let mut machines = informers.machines_of_set(&set);
        machines.retain(|machine| !meta::is_deleting(&**machine));
        let mut available = 0;
        for machine in &machines {
            let (is_available, until) = is_available(machine, deployment.spec.min_ready_seconds, now);
            available += i32::from(is_available);
            let left = until.map(|until| Duration::try_from(until.duration_since(now)).unwrap_or_default());
            next = next.into_iter().chain(left).min();
        }
        let view = SetView {
            name: meta::name(&*set).to_owned(),
            is_new: newest == Some(index),
            desired: set.spec.replicas,
            live: meta::count(machines.len()),
            available,
        };
        Group { set, machines, view }
    });
    (groups.collect(), next)
}

async fn roll(
    key: &ObjectKey,
    deployment: &MachineDeployment,
    groups: &[Group],
    context: &Context,
) -> Result<(), Error> {
    let revision = groups.iter().map(|group| revision(&group.set)).max().unwrap_or_default();
    let on_delete = deployment.spec.strategy.type_ == StrategyType::OnDelete;
    // What a user deletes of an old set must not come back there.
    for group in groups {
        let is_marked = meta::annotation(&*group.set, NO_CREATE_ANNOTATION).is_some();
        let mark = on_delete && !group.view.is_new;
        let is_latest = !group.view.is_new || self::revision(&group.set) == revision;
        if is_marked != mark || !is_latest {
            let mut annotations = json!({NO_CREATE_ANNOTATION: mark.then_some("true")});
            if !is_latest {
                annotations[REVISION_ANNOTATION] = (revision + 1).to_string().into();
            }
            let patch = json!({"metadata": {"annotations": annotations}});
            context.patch(key, &*group.set, patch).await?;
            return Ok(());
        }
    }
    let views: Vec<SetView> = groups.iter().map(|group| group.view.clone()).collect();
    for action in plan_rollout(Rollout::of(&deployment.spec), &views) {
        match action {
            RolloutAction::Create(replicas) => {
                context.create(key, &new_set(deployment, replicas, revision + 1)).await?;
            }
            RolloutAction::Scale(name, replicas) => {
                if let Some(group) = groups.iter().find(|group| group.view.name == name) {
                    context.patch(key, &*group.set, json!({"spec": {"replicas": replicas}})).await?;
                }
            }
        }
    }
    Ok(())
}

/// Changes Machines in place of making new ones: the set and its template first, then one Machine after the other.
async fn update_machines(
    key: &ObjectKey,
    deployment: &MachineDeployment,
    groups: &[Group],
    context: &Context,
) -> Result<(), Error> {
    let Some(group) = groups.iter().find(|group| group.view.is_new) else {
        context.create(key, &new_set(deployment, deployment.spec.replicas, 1)).await?;
        return Ok(());
    };
    let spec = json!(deployment.spec.template.spec);
    let mut patch = json!({});
    if let Some(difference) = merge_patch(&json!(group.set.spec.template.spec), &spec) {
        patch["spec"]["template"]["spec"] = difference;
    }
    if group.view.desired != deployment.spec.replicas {
        patch["spec"]["replicas"] = deployment.spec.replicas.into();
    }
    if meta::annotation(&*group.set, NO_CREATE_ANNOTATION).is_some() {
        patch["metadata"]["annotations"][NO_CREATE_ANNOTATION] = serde_json::Value::Null;
    }
    if patch != json!({}) {
        context.patch(key, &*group.set, patch).await?;
        return Ok(());
    }
    let now = context.now();
    let machines: Vec<&Arc<Machine>> = groups.iter().flat_map(|group| &group.machines).collect();
    let views: Vec<UpdateView> = machines
        .iter()
        .map(|machine| UpdateView {
            name: meta::name(&***machine).to_owned(),
            is_updated: is_of_template(&machine.spec, deployment),
            is_available: is_available(machine, deployment.spec.min_ready_seconds, now).0,
            is_failed: has_failed(machine),
        })
        .collect();
    let chosen = plan_machine_updates(Rollout::of(&deployment.spec).unavailable, &views);
    for machine in machines {
        if chosen.iter().any(|name| name == meta::name(&**machine))
            && let Some(difference) = merge_patch(&json!(machine.spec), &spec)
        {
            context.patch(key, &**machine, json!({"spec": difference})).await?;
        }
    }
    Ok(())
}

/// Whether only a change of the spec helps, at the present generation.
fn has_failed(machine: &Machine) -> bool {
    machine.status.as_ref().is_some_and(|status| {
        status.error_reason.is_some() && status.observed_generation == machine.metadata.generation
    })
}

/// Deletes old sets without Machines, beyond the limit of the history.
async fn clean_up(
    key: &ObjectKey,
    deployment: &MachineDeployment,
    groups: &[Group],
    context: &Context,
) -> Result<(), Error> {
    let is_empty = |group: &&Group| {
        let status = group.set.status.as_ref();
        let is_observed =
            status.is_some_and(|status| status.observed_generation == group.set.metadata.generation);
        !group.view.is_new
            && group.view.desired == 0
            && group.view.live == 0
            && is_observed
            && context.informers.machines_of_set(&group.set).is_empty()
    };
    let mut empty: Vec<&Group> = groups.iter().filter(is_empty).collect();
    empty.sort_by_key(|group| Reverse(revision(&group.set)));
    let limit = usize::try_from(deployment.spec.revision_history_limit).unwrap_or_default();
    for group in empty.into_iter().skip(limit) {
        context.delete(key, &*group.set).await?;
    }
    Ok(())
}

fn status(
    deployment: &MachineDeployment,
    groups: &[Group],
    context: &Context,
) -> Result<(MachineDeploymentStatus, Option<Duration>), Error> {
    let (spec, now) = (&deployment.spec, context.now());
    let recorded = deployment.status.clone().unwrap_or_default();
    let machines: Vec<&Arc<Machine>> = groups.iter().flat_map(|group| &group.machines).collect();
    let in_place = spec.strategy.type_ == StrategyType::UpdateMachines;
    let is_updated = |group: &Group, machine: &Machine| match in_place {
        true => is_of_template(&machine.spec, deployment),
        false => group.view.is_new,
    };
    let updated = groups.iter().flat_map(|group| group.machines.iter().map(move |machine| (group, machine)));
    let updated = meta::count(updated.filter(|(group, machine)| is_updated(group, machine)).count());
    let total = meta::count(machines.len());
    let available: i32 = groups.iter().map(|group| group.view.available).sum();
    let old: i32 = groups.iter().filter(|group| !group.view.is_new).map(|group| group.view.desired).sum();
    let new = groups.iter().find(|group| group.view.is_new);
    let is_sized = new.is_some_and(|group| group.view.desired == spec.replicas) && old == 0;
    let is_current = is_sized && updated == spec.replicas && total == spec.replicas;
    let is_complete = is_current && available == spec.replicas;
    let has_progressed = (updated, available, total)
        != (recorded.updated_replicas, recorded.available_replicas, recorded.replicas)
        || recorded.observed_generation != deployment.metadata.generation;
    let since = recorded.last_progress_time.filter(|_| !has_progressed).unwrap_or_else(|| whole_second(now));
    let deadline = since
        .0
        .checked_add(SignedDuration::from_secs(i64::from(spec.progress_deadline_seconds)))
        .unwrap_or(since.0);
    let failed =
        machines.iter().find(|machine| is_of_template(&machine.spec, deployment) && has_failed(machine));

    let observed = deployment.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let mut conditions = Conditions::<MachineDeploymentCondition>::new(
        observed,
        deployment.metadata.generation,
        &context.clock,
    );
    let message = format!(
        "{updated} of {} Machines are updated, {available} are available, {total} exist",
        spec.replicas
    );
    let failing = machines.iter().find_map(|machine| meta::provider_failure(machine));
    let is_available = available >= spec.replicas - Rollout::of(spec).unavailable;
    let reason = if is_available { "MinimumAvailable" } else { "TooFewAvailable" };
    conditions.set(MachineDeploymentCondition::Available, is_available, reason, message.clone());
    let reason = if is_current { "UpToDate" } else { "RollingOut" };
    conditions.set(MachineDeploymentCondition::UpToDate, is_current, reason, message.clone());
    let reason = if spec.paused { "Paused" } else { "NotPaused" };
    conditions.set(MachineDeploymentCondition::Paused, spec.paused, reason, "");
    let waits_for_user =
        spec.strategy.type_ == StrategyType::OnDelete && total == spec.replicas && available == spec.replicas;
    let mut next = None;
    if is_complete {
    } else if let Some(machine) = failed {
        let status = machine.status.as_ref();
        let reason =
            status.and_then(|status| status.error_reason).map_or("MachineFailed", |reason| reason.as_str());
        let text = status.and_then(|status| status.error_message.as_deref()).unwrap_or_default();
        conditions.stalled(reason, format!("Machine {}: {text}", meta::name(&***machine)));
    } else if waits_for_user {
        conditions.stalled("WaitingForDeletion", "old Machines are replaced when a user deletes them");
    } else if now >= deadline && !spec.paused {
        conditions.stalled("ProgressDeadlineExceeded", failing.unwrap_or(message));
    } else {
        match failing.filter(|_| !spec.paused) {
            Some(failing) => conditions.reconciling(PROVIDER_FAILED, failing),
            None => conditions.reconciling(if spec.paused { "Paused" } else { "Progressing" }, message),
        };
        next = Duration::try_from(deadline.duration_since(now)).ok();
    }
    let ready = machines.iter().filter(|machine| MachineView::of(machine).is_ready).count();
    let status = MachineDeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: total,
        updated_replicas: updated,
        ready_replicas: meta::count(ready),
        available_replicas: available,
        unavailable_replicas: (spec.replicas - available).max(0),
        selector: spec.selector.text(),
        last_progress_time: Some(since),
        conditions: conditions.finish()?,
    };
    Ok((status, next))
}

impl Controller for MachineDeployments {
    const NAME: &'static str = "machinedeployment-controller";
    const BATCH: Duration = GROUP_BATCH;

    fn wake(&self, change: &AnyChange, informers: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::Cluster(change) => informers.deployments_of_cluster(&change.key),
            AnyChange::MachineDeployment(change) => vec![change.key.clone()],
            AnyChange::MachineSet(change) => {
                let set = change.new.as_ref().or(change.old.as_ref());
                set.and_then(|set| meta::controller_key(&**set, "MachineDeployment")).into_iter().collect()
            }
            AnyChange::Machine(change) => {
                let machine = change.new.as_ref().or(change.old.as_ref());
                machine.and_then(|machine| Informers::deployment_of(machine)).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let informers = &*context.informers;
        let Some(deployment) = informers.deployments.get(key) else { return Ok(Next::AwaitChange) };
        let cluster = deployment.spec.template.spec.cluster_name.as_ref();
        let is_paused = meta::is_paused(&*deployment) || informers.is_cluster_paused(&key.namespace, cluster);
        if meta::is_deleting(&*deployment) || is_paused {
            return Ok(Next::AwaitChange);
        }
        let (groups, available) = groups(&deployment, informers, context);
        if !deployment.spec.paused {
            match deployment.spec.strategy.type_ {
                StrategyType::UpdateMachines => update_machines(key, &deployment, &groups, context).await?,
                StrategyType::RollingUpdate | StrategyType::OnDelete => {
                    roll(key, &deployment, &groups, context).await?;
                }
            }
        }
        let (status, deadline) = status(&deployment, &groups, context)?;
        context.write_status(key, &self.status, &deployment, &status).await?;
        clean_up(key, &deployment, &groups, context).await?;
        Ok(available.into_iter().chain(deadline).min().map_or(Next::AwaitChange, Next::RequeueAfter))
    }
}

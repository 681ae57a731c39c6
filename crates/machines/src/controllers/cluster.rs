//! Clusters: endpoint, readiness, and the order of deletion.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use kube::Resource as _;
use kube::api::ObjectMeta;
use serde_json::json;
use settled_controller::ObjectKey;
use settled_controller::conditions::{Conditions, Status};
use settled_controller::status::StatusWriter;
use settled_controller::worker::Next;

use super::controller::{Context, Controller, Error, GROUP_BATCH, Shared, status_writer};
use super::informers::{AnyChange, Informers};
use super::meta;
use super::remote::Reach;
use crate::plan::{ClusterFacts, ClusterPlan, plan_cluster};
use crate::provider::{HostKey, Registry};
use crate::small::Secret;
use crate::types::{
    CLUSTER_FINALIZER, CLUSTER_LABEL, Cluster, ClusterCondition, ClusterPhase, ClusterStatus, KUBECONFIG_KEY,
    KUBECONFIG_SECRET_SUFFIX, Machine, MachineDeployment, MachineSet, kubeconfig_secret,
};

/// The controller of Clusters.
pub(super) struct Clusters {
    status: StatusWriter<Cluster>,
    registry: Registry,
}

impl Clusters {
    pub(super) fn new(shared: &Shared, registry: Registry) -> Self {
        Self { status: status_writer(shared, Self::NAME), registry }
    }

    /// Keeps the Secret with the kubeconfig that the provider of the control plane has.
    async fn keep_kubeconfig(
        &self,
        key: &ObjectKey,
        cluster: &Cluster,
        machines: &[&Machine],
        context: &Context,
    ) -> Result<(), Error> {
        for machine in machines.iter().filter(|machine| machine.is_control_plane()) {
            let provider = machine.status.as_ref().and_then(|status| status.provider.as_deref());
            let Some(entry) = provider.and_then(|name| self.registry.by_name(name).ok()) else { continue };
            let Some(kubeconfig) = entry.provider.kubeconfig(&HostKey::from(*machine)).await? else {
                continue;
            };
            let name = kubeconfig_secret(&key.name);
            let present = context.informers.secrets.get(ObjectKey::new(&key.namespace, &name));
            let data = [(KUBECONFIG_KEY.to_owned(), ByteString(kubeconfig.clone().into_bytes()))];
            match present {
                Some(present) if present.kubeconfig().as_ref() == Some(&kubeconfig) => {}
                Some(present) => context.patch(key, &*present, json!({"data": BTreeMap::from(data)})).await?,
                None => {
                    let metadata = ObjectMeta {
                        name: Some(name),
                        namespace: Some(key.namespace.to_string()),
                        labels: Some([(CLUSTER_LABEL.to_owned(), key.name.to_string())].into()),
                        owner_references: cluster.controller_owner_ref(&()).map(|owner| vec![owner]),
                        ..ObjectMeta::default()
                    };
                    context.create(key, &Secret { metadata, data: data.into() }).await?;
                }
            }
            return Ok(());
        }
        Ok(())
    }
}

/// Whether the API server of a Cluster answers: nothing if it is that of this object.
fn reach(key: &ObjectKey, context: &Context) -> Option<Reach> {
    let secret = context.informers.secrets.get(ObjectKey::new(&key.namespace, &kubeconfig_secret(&key.name)));
    secret.map(|_| context.remotes.get(key).map_or(Reach::Connecting, |remote| remote.reach()))
}

/// What makes Machines of a Cluster.
struct Groups {
    deployments: Vec<Arc<MachineDeployment>>,
    sets: Vec<Arc<MachineSet>>,
}

impl Groups {
    fn of(key: &ObjectKey, informers: &Informers) -> Self {
        let is_of = |name: &Option<String>| name.as_deref() == Some(&*key.name);
        let mut deployments = informers.in_namespace::<MachineDeployment>(&key.namespace);
        deployments.retain(|deployment| is_of(&deployment.spec.template.spec.cluster_name));
        let mut sets = informers.in_namespace::<MachineSet>(&key.namespace);
        sets.retain(|set| is_of(&set.spec.template.spec.cluster_name));
        Self { deployments, sets }
    }
}

/// The owner references of an object with that of its Cluster; `None` if it has one, or another object controls it.
fn owners<K: kube::Resource>(object: &K, cluster: &Cluster) -> Option<serde_json::Value> {
    let mut owners = object.meta().owner_references.clone().unwrap_or_default();
    if owners.iter().any(|owner| owner.controller == Some(true) || owner.uid == meta::uid(cluster)) {
        return None;
    }
    owners.extend(cluster.owner_ref(&()));
    Some(json!({"metadata": {"ownerReferences": owners}}))
}

/// Makes the Cluster an owner of its groups and of Machines without one, so that readers find them. Returns whether there were any.
async fn own(
    key: &ObjectKey,
    cluster: &Cluster,
    groups: &Groups,
    machines: &[&Machine],
    context: &Context,
) -> Result<bool, Error> {
    let mut has_owned = false;
    for deployment in groups.deployments.iter().filter(|group| !meta::is_deleting(&***group)) {
        if let Some(patch) = owners(&**deployment, cluster) {
            context.patch(key, &**deployment, patch).await?;
            has_owned = true;
        }
    }
    for set in groups.sets.iter().filter(|group| !meta::is_deleting(&***group)) {
        if let Some(patch) = owners(&**set, cluster) {
            context.patch(key, &**set, patch).await?;
            has_owned = true;
        }
    }
    for machine in machines.iter().filter(|machine| !meta::is_deleting(**machine)) {
        if let Some(patch) = owners(*machine, cluster) {
            context.patch(key, *machine, patch).await?;
            has_owned = true;
        }
    }
    Ok(has_owned)
}

fn is_paused(cluster: &Cluster) -> bool {
    cluster.spec.paused || meta::is_paused(cluster)
}

fn status(
    cluster: &Cluster,
    plan: ClusterPlan,
    reach: Option<&Reach>,
    context: &Context,
) -> Result<ClusterStatus, Error> {
    let recorded = cluster.status.clone().unwrap_or_default();
    let observed = cluster.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let mut conditions =
        Conditions::<ClusterCondition>::new(observed, cluster.metadata.generation, &context.clock);
    let (ready, total) = plan.control_plane;
    let workers = (plan.ready - ready, plan.machines - total);
    // A control plane without machines of its own is served elsewhere: its endpoint is declared.
    let is_serving = !plan.endpoints.is_empty() && ready == total;
    let message = format!("{ready} of {total} machines of the control plane are ready");
    let reason = if is_serving { "Ready" } else { "NotReady" };
    conditions.set(ClusterCondition::ControlPlaneReady, is_serving, reason, message.clone());
    let unreachable = match reach {
        None => {
            conditions.set(ClusterCondition::ControlPlaneReachable, true, "SameServer", "");
            None
        }
        Some(Reach::Connected) => {
            conditions.set(ClusterCondition::ControlPlaneReachable, true, "Reachable", "");
            None
        }
        Some(Reach::Connecting) => {
            let message = "the connection to the API server of the cluster is being opened";
            conditions.set(ClusterCondition::ControlPlaneReachable, Status::Unknown, "Connecting", message);
            Some(("Connecting", message.to_owned()))
        }
        Some(Reach::Lost(error)) => {
            let message = format!("the API server of the cluster does not answer: {error}");
            conditions.set(ClusterCondition::ControlPlaneReachable, false, "Unreachable", message.clone());
            Some(("ControlPlaneUnreachable", message))
        }
    };
    let are_ready = workers.0 == workers.1;
    let reason = if are_ready { "Ready" } else { "NotReady" };
    let text = format!("{} of {} other machines are ready", workers.0, workers.1);
    conditions.set(ClusterCondition::WorkersReady, are_ready, reason, text.clone());
    let is_paused = is_paused(cluster);
    let reason = if is_paused { "Paused" } else { "NotPaused" };
    conditions.set(ClusterCondition::Paused, is_paused, reason, "");
    let phase = match () {
        () if meta::is_deleting(cluster) => ClusterPhase::Deleting,
        () if plan.endpoints.is_empty() => ClusterPhase::Provisioning,
        () => ClusterPhase::Provisioned,
    };
    if phase == ClusterPhase::Deleting {
        conditions.reconciling("Deleting", format!("{} machines are left", plan.machines));
    } else if let Some((reason, message)) = unreachable {
        conditions.reconciling(reason, message);
    } else if !is_serving {
        conditions.reconciling("ControlPlaneNotReady", message);
    } else if !are_ready {
        conditions.reconciling("WorkersNotReady", text);
    }
    Ok(ClusterStatus {
        observed_generation: cluster.metadata.generation,
        phase: Some(phase),
        api_endpoints: plan.endpoints,
        version: plan.version,
        machines: meta::count(plan.machines),
        ready_machines: meta::count(plan.ready),
        conditions: conditions.finish()?,
        ..recorded
    })
}

impl Controller for Clusters {
    const NAME: &'static str = "cluster-controller";
    const BATCH: Duration = GROUP_BATCH;

    fn wake(&self, change: &AnyChange, _informers: &Informers) -> Vec<ObjectKey> {
        let of = |namespace: &str, name: Option<&String>| {
            name.map(|name| ObjectKey::new(namespace, name)).into_iter().collect()
        };
        match change {
            AnyChange::Cluster(change) => vec![change.key.clone()],
            AnyChange::Remote(key) => vec![key.clone()],
            AnyChange::Secret(change) => {
                let name = change.key.name.strip_suffix(KUBECONFIG_SECRET_SUFFIX);
                name.map(|name| ObjectKey::new(&change.key.namespace, name)).into_iter().collect()
            }
            AnyChange::Machine(change) => {
                let machine = change.new.as_ref().or(change.old.as_ref());
                of(&change.key.namespace, machine.and_then(|machine| machine.spec.cluster_name.as_ref()))
            }
            AnyChange::MachineSet(change) => {
                let set = change.new.as_ref().or(change.old.as_ref());
                of(&change.key.namespace, set.and_then(|set| set.spec.template.spec.cluster_name.as_ref()))
            }
            AnyChange::MachineDeployment(change) => {
                let deployment = change.new.as_ref().or(change.old.as_ref());
                let name =
                    deployment.and_then(|deployment| deployment.spec.template.spec.cluster_name.as_ref());
                of(&change.key.namespace, name)
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let informers = &*context.informers;
        let Some(cluster) = informers.clusters.get(key) else { return Ok(Next::AwaitChange) };
        let has_finalizer =
            cluster.metadata.finalizers.iter().flatten().any(|name| name == CLUSTER_FINALIZER);
        let is_deleting = meta::is_deleting(&*cluster);
        if !has_finalizer {
            if !is_deleting {
                context.finalize(key, &*cluster, CLUSTER_FINALIZER, true).await?;
            }
            return Ok(Next::AwaitChange);
        }
        let groups = Groups::of(key, informers);
        let machines = informers.machines_of_cluster(key);
        let machines: Vec<&Machine> = machines.iter().map(|machine| &**machine).collect();
        let count = groups.deployments.len() + groups.sets.len();
        if !is_deleting && !is_paused(&cluster) && own(key, &cluster, &groups, &machines, context).await? {
            return Ok(Next::RequeueAfter(Duration::from_millis(1)));
        }
        let plan = plan_cluster(&ClusterFacts { cluster: &cluster, machines: &machines, groups: count });
        if plan.is_gone && !is_paused(&cluster) {
            context.finalize(key, &*cluster, CLUSTER_FINALIZER, false).await?;
            return Ok(Next::AwaitChange);
        }
        let reach = reach(key, context);
        let status = status(&cluster, plan.clone(), reach.as_ref(), context)?;
        context.write_status(key, &self.status, &cluster, &status).await?;
        if is_paused(&cluster) {
            return Ok(Next::AwaitChange);
        }
        if !is_deleting {
            self.keep_kubeconfig(key, &cluster, &machines, context).await?;
        }
        if plan.delete_groups {
            for deployment in groups.deployments.iter().filter(|group| !meta::is_deleting(&***group)) {
                context.delete(key, &**deployment).await?;
            }
            for set in groups.sets.iter().filter(|group| !meta::is_deleting(&***group)) {
                context.delete(key, &**set).await?;
            }
        }
        for machine in machines {
            if plan.delete.iter().any(|name| name == meta::name(machine)) {
                context.delete(key, machine).await?;
            }
        }
        Ok(Next::AwaitChange)
    }
}

//! Cluster: its endpoint and readiness from its Machines, and the order of its deletion.

use super::replicas::is_ready;
use crate::types::{API_SERVER_ADDRESS, ApiEndpoint, Cluster, Machine, MachineAddress, MachinePhase};

/// Port of an API server.
const PORT: i32 = 6443;

/// What was observed of a Cluster.
pub(crate) struct ClusterFacts<'a> {
    pub(crate) cluster: &'a Cluster,
    /// Its Machines, by name.
    pub(crate) machines: &'a [&'a Machine],
    /// Its MachineDeployments, MachineSets and MachineHealthChecks that are left.
    pub(crate) groups: usize,
}

/// What a Cluster reports, and what of it is deleted next.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClusterPlan {
    pub(crate) endpoints: Vec<ApiEndpoint>,
    pub(crate) version: Option<String>,
    pub(crate) machines: usize,
    pub(crate) ready: usize,
    pub(crate) control_plane: (usize, usize),
    /// Whether groups are deleted next.
    pub(crate) delete_groups: bool,
    /// Machines that are deleted next.
    pub(crate) delete: Vec<String>,
    /// Whether nothing is left.
    pub(crate) is_gone: bool,
}

/// Plans a Cluster.
pub(crate) fn plan_cluster(facts: &ClusterFacts<'_>) -> ClusterPlan {
    let spec = &facts.cluster.spec;
    let control_plane: Vec<&Machine> =
        facts.machines.iter().copied().filter(|machine| machine.is_control_plane()).collect();
    let ready = |machines: &[&Machine]| machines.iter().filter(|machine| is_ready(machine)).count();
    let recorded =
        facts.cluster.status.as_ref().map(|status| status.api_endpoints.clone()).unwrap_or_default();
    let mut plan = ClusterPlan {
        endpoints: endpoints(spec.control_plane.endpoint.as_ref(), &control_plane, recorded),
        version: control_plane
            .iter()
            .filter_map(|machine| running(machine))
            .min_by_key(|version| order(version)),
        machines: facts.machines.len(),
        ready: ready(facts.machines),
        control_plane: (ready(&control_plane), control_plane.len()),
        ..ClusterPlan::default()
    };
    if facts.cluster.metadata.deletion_timestamp.is_some() {
        let workers = facts.machines.iter().copied().filter(|machine| !machine.is_control_plane());
        let workers: Vec<&Machine> = workers.collect();
        // Groups first, since they would make new Machines; the control plane last, since workers are drained with it.
        let live = |machines: &[&Machine]| {
            let live = machines.iter().filter(|machine| machine.metadata.deletion_timestamp.is_none());
            live.map(|machine| machine.metadata.name.clone().unwrap_or_default()).collect()
        };
        if facts.groups > 0 {
            plan.delete_groups = true;
        } else if !workers.is_empty() {
            plan.delete = live(&workers);
        } else {
            plan.delete = live(&control_plane);
        }
        plan.is_gone = facts.groups == 0 && facts.machines.is_empty();
    }
    plan
}

/// The declared endpoint, or that of the first machine of the control plane, for good: Nodes are registered with it.
fn endpoints(
    declared: Option<&ApiEndpoint>,
    control_plane: &[&Machine],
    recorded: Vec<ApiEndpoint>,
) -> Vec<ApiEndpoint> {
    if let Some(declared) = declared {
        return vec![declared.clone()];
    }
    if !recorded.is_empty() {
        return recorded;
    }
    let endpoints = control_plane.iter().filter_map(|machine| {
        let status = machine.status.as_ref()?;
        let is_running = status.versions.is_some() && status.phase != Some(MachinePhase::Provisioning);
        endpoint(&status.addresses).filter(|_| is_running)
    });
    endpoints.take(1).collect()
}

/// Where a machine serves: at the address that it names for that, or at its first one.
fn endpoint(addresses: &[MachineAddress]) -> Option<ApiEndpoint> {
    let served = addresses.iter().find(|address| address.type_ == API_SERVER_ADDRESS);
    if let Some((host, port)) = served.and_then(|address| address.address.rsplit_once(':')) {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        return Some(ApiEndpoint { host, port: port.parse().ok()? });
    }
    let first = addresses.first()?;
    Some(ApiEndpoint { host: first.address.clone(), port: PORT })
}

fn running(machine: &Machine) -> Option<String> {
    machine.status.as_ref()?.versions.as_ref()?.control_plane.clone()
}

/// Numbers of a version, for comparison.
fn order(version: &str) -> Vec<u64> {
    let numbers = version.trim_start_matches('v').split(['.', '-', '+']);
    numbers.map_while(|number| number.parse().ok()).collect()
}

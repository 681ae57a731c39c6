//! Repair of a control plane from outside, by its providers alone: the server that has its objects may be the dead one.

use std::time::Duration;

use serde_json::Value;
use settled_machines::provider::{Desired, HostKey, HostState, Observed, Plan, Registry, Request};
use settled_machines::types::Machine;

use crate::error::Error;
use crate::management::Management;
use crate::state::ClusterRecord;
use crate::waiting::Deadline;

/// How long an API server may take to answer before it counts as dead.
const PROBE: Duration = Duration::from_secs(5);

/// Whether the API server of a kubeconfig answers.
pub async fn is_answering(management: &Management, kubeconfig: &str) -> bool {
    let probe = async {
        let client = management.options.connector.connect(kubeconfig).await.ok()?;
        client.apiserver_version().await.ok()
    };
    matches!(tokio::time::timeout(PROBE, probe).await, Ok(Some(_)))
}

fn control_plane(record: &ClusterRecord) -> Vec<Machine> {
    let machines = record.objects.iter().filter(|object| object["kind"] == "Machine");
    let machines = machines.filter_map(|object| serde_json::from_value(object.clone()).ok());
    machines.filter(Machine::is_control_plane).collect()
}

fn config(machine: &Machine, record: &ClusterRecord) -> Option<Value> {
    let spec = &machine.spec.provider_spec;
    let class = spec.value_from.as_ref().map(|source| source.machine_class.name.clone());
    spec.value.clone().or_else(|| {
        let class = class?;
        let is_it = |object: &&Value| {
            object["kind"] == "MachineClass" && object["metadata"]["name"] == class.as_str()
        };
        record.objects.iter().find(is_it)?.pointer("/spec/providerSpec").cloned()
    })
}

/// Brings the hosts of a control plane back to what they were: those that run are left alone. What was done, for people.
///
/// # Errors
/// A host is gone, or does not start.
pub async fn repair_hosts(
    management: &Management,
    record: &ClusterRecord,
    timeout: Duration,
) -> Result<Vec<String>, Error> {
    let deadline = Deadline::after(timeout);
    let server = record.moved_to.as_deref().unwrap_or(&management.identity);
    let ledger = management.ledger();
    let guarded = management.options.providers.iter().map(|provider| ledger.guard(provider.clone(), server));
    let registry = Registry::new(guarded.collect::<Vec<_>>())?;
    let mut done = Vec::new();
    for machine in control_plane(record) {
        let name = machine.metadata.name.clone().unwrap_or_default();
        let unusable = || Error::Refused(format!("the configuration of Machine {name} cannot be used"));
        let config = config(&machine, record).ok_or_else(unusable)?;
        let entry =
            registry.find(&config).map_err(|error| Error::Refused(format!("Machine {name}: {error}")))?;
        let config =
            entry.complete(&config).map_err(|error| Error::Refused(format!("Machine {name}: {error}")))?;
        let request = Request {
            key: HostKey::from(&machine),
            machine: format!("{}/{name}", record.namespace),
            generation: machine.metadata.generation.unwrap_or_default(),
            desired: Desired {
                versions: machine.spec.versions.clone(),
                config,
                node_name: name.clone(),
                cluster: format!("{}/{}", record.namespace, record.name),
                ..Desired::default()
            },
            last_host: machine.status.as_ref().and_then(|status| status.host.clone()),
        };
        deadline
            .wait(async || {
                let action = || format!("repair the host of Machine {name}");
                let observed = entry.provider.observe(&request.key).await.map_err(Error::provider(action()))?;
                let Observed::Host(host) = observed else {
                    return Err(Error::Refused(format!(
                        "the host of Machine {name} is gone, and with it the data of the control plane: delete the cluster, and create it again"
                    )));
                };
                if host.state != HostState::Running {
                    return Ok(Err(format!("the host of Machine {name} is starting")));
                }
                // An upgrade is not a repair.
                let mut desired = request.desired.clone();
                desired.versions.clone_from(&host.versions);
                match entry.provider.plan(&host, &desired) {
                    Plan::NoOp => Ok(Ok(())),
                    Plan::InPlace { steps, .. } => {
                        for step in steps.iter().take(1) {
                            done.push(format!("Machine {name}: {step}"));
                            entry.provider.apply_step(&request, step).await.map_err(Error::provider(action()))?;
                        }
                        Ok(Err(format!("the host of Machine {name} is being repaired")))
                    }
                    Plan::Replace { reason } | Plan::Unsupported { reason } => Err(Error::Refused(format!(
                        "the host of Machine {name} cannot be repaired from outside: {reason}"
                    ))),
                }
            })
            .await?;
    }
    done.dedup();
    Ok(done)
}

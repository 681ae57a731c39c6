//! Deletion of a cluster: its Cluster object goes last, when all hosts are gone. That its API server is dead delays nothing.

use std::time::Duration;

use kube::api::DeleteParams;
use settled_machines::provider::{HostKey, Observed};

use crate::contents::Contents;
use crate::error::{Error, is_code};
use crate::kinds::api;
use crate::management::Management;
use crate::waiting::Deadline;

/// Deletes a cluster while the controllers of the management run, and waits until nothing is left of it.
///
/// # Errors
/// There is none, a request fails, or the deadline is exceeded.
pub async fn delete(
    management: &Management,
    namespace: &str,
    name: &str,
    timeout: Duration,
    waiting: &(dyn Fn(&str) + Send + Sync),
) -> Result<(), Error> {
    let deadline = Deadline::after(timeout);
    let clusters = api(&management.client, "Cluster", namespace);
    let before = Contents::read(management, namespace, name).await?;
    let hosts: Vec<(String, HostKey)> = hosts(&before);
    match clusters.delete(name, &DeleteParams::background()).await {
        Err(error) if is_code(&error, 404) => return Err(Error::NotFound(format!("Cluster {name}"))),
        Err(error) => return Err(Error::request(format!("delete Cluster {name}"))(error)),
        Ok(_) => {}
    }
    deadline
        .wait(async || {
            let contents = Contents::read(management, namespace, name).await?;
            let left = |kind: &str| contents.of_kind(kind).count();
            let (machines, is_there) = (left("Machine"), left("Cluster") > 0);
            let failed = contents.machines().into_iter().find_map(|machine| {
                let status = machine.status?;
                Some(format!("Machine {}: {}", machine.metadata.name?, status.error_message?))
            });
            let message = failed.unwrap_or_else(|| format!("{machines} Machines are left"));
            if is_there || machines > 0 {
                waiting(&message);
                return Ok(Err(message));
            }
            Ok(Ok(()))
        })
        .await?;
    // What is about Machines that are gone.
    for (kind, object) in before.objects.iter().rev() {
        let object_name = object.metadata.name.as_deref().unwrap_or_default();
        let is_shared = before.shared.contains(&(kind.clone(), object_name.to_owned()));
        if is_shared || !matches!(kind.as_str(), "MachineHealthCheck" | "MachineClass") {
            continue;
        }
        match api(&management.client, kind, namespace).delete(object_name, &DeleteParams::background()).await
        {
            Err(error) if !is_code(&error, 404) => {
                return Err(Error::request(format!("delete {kind} {object_name}"))(error));
            }
            _ => {}
        }
    }
    // What the objects have promised.
    for (provider, key) in hosts {
        let Ok(entry) = management.registry.by_name(&provider) else { continue };
        let observed =
            entry.provider.observe(&key).await.map_err(Error::provider("look for hosts that are left"))?;
        if observed != Observed::Absent {
            return Err(Error::Refused(format!("the host {key} of provider {provider} is still there")));
        }
    }
    Ok(())
}

fn hosts(contents: &Contents) -> Vec<(String, HostKey)> {
    let provider = |machine: &settled_machines::types::Machine| machine.status.as_ref()?.provider.clone();
    contents
        .machines()
        .iter()
        .filter_map(|machine| Some((provider(machine)?, HostKey::from(machine))))
        .collect()
}

/// What became of the hosts of a server that is gone for good.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct DeletedHosts {
    /// How many were deleted.
    pub deleted: usize,
    /// Those that no provider can delete: they are of a pool, whose Hosts were objects of that server.
    pub left: Vec<HostKey>,
}

/// Deletes all hosts of a server that is gone for good: those that the ledger has for it, by their providers alone.
///
/// # Errors
/// A provider fails, or the deadline is exceeded.
pub async fn delete_hosts(
    management: &Management,
    server: &str,
    timeout: Duration,
) -> Result<DeletedHosts, Error> {
    let deadline = Deadline::after(timeout);
    let mut deleted = 0;
    for provider in &management.options.providers {
        let provider = management.ledger().guard(provider.clone(), server);
        let owned = provider.list().await.map_err(Error::provider("list the hosts"))?;
        for host in owned {
            deadline
                .wait(async || {
                    let action = || format!("delete the host {}", host.key);
                    provider.delete(&host.key).await.map_err(Error::provider(action()))?;
                    let observed = provider.observe(&host.key).await.map_err(Error::provider(action()))?;
                    Ok(match observed {
                        Observed::Absent => Ok(()),
                        Observed::Host(_) => Err(format!("the host {} is being deleted", host.key)),
                    })
                })
                .await?;
            deleted += 1;
        }
    }
    // The providers forget what they delete.
    let all = management.ledger().all();
    let all = all.map_err(|source| Error::File { path: "the ledger".into(), source })?;
    let left = all.into_iter().filter(|(_, owner)| owner == server).map(|(key, _)| key).collect();
    Ok(DeletedHosts { deleted, left })
}

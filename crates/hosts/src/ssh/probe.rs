//! Probe: Hosts without a Machine are looked at from time to time, and cleaned where that was not possible before.

use std::sync::Arc;

use futures::stream::{self, StreamExt as _};
use settled_machines::types::{ClaimRef, Host};

use super::pool::{self, Holder, Report};
use super::provider::{Failure, SshProvider};
use super::transport::Transport;

/// How many Hosts are probed at the same time.
const CONCURRENCY: usize = 16;

impl<T: Transport> SshProvider<T> {
    /// Probes Hosts without a Machine, until it is dropped.
    pub async fn probe_hosts(self) {
        loop {
            self.probe_all().await;
            tokio::time::sleep(self.0.options.probe).await;
        }
    }

    /// Probes all Hosts without a Machine once.
    pub async fn probe_all(&self) {
        let hosts = self.0.pool.all().await;
        let idle = hosts.into_iter().filter(|host| pool::holder(host).is_none());
        stream::iter(idle)
            .for_each_concurrent(CONCURRENCY, |host: Arc<Host>| async move {
                if let Err(failure) = self.probe(&host).await {
                    tracing::debug!(host = %pool::name(&host), %failure, "a probe failed");
                }
            })
            .await;
    }

    async fn probe(&self, host: &Host) -> Result<(), Failure> {
        let claim = host.status.as_ref().and_then(|status| status.claim_ref.clone());
        let uid = claim.as_ref().map(|claim| claim.uid.as_str());
        let result = match uid {
            Some(uid) => self.clean(host, &self.owner(host, uid).await?).await,
            None => self.look(host).await,
        };
        match (result, uid) {
            (Ok(report), Some(uid)) => Ok(self.0.pool.release(host, uid, report).await?),
            (Ok(report), None) => Ok(self.0.pool.report(host, None, report).await?),
            (Err(failure), uid) => {
                if let Some(report) = failure.report() {
                    self.0.pool.report(host, uid, report).await?;
                }
                Err(failure)
            }
        }
    }

    /// What there is on a Host that no Machine has.
    async fn look(&self, host: &Host) -> Result<Report, Failure> {
        let found = self.inspect(host, &self.owner(host, "").await?).await?.claim;
        let Some(owner) = found else { return Ok(Report::Free) };
        match self.0.pool.holder_of(Some(&owner)).await? {
            Holder::Nobody => self.clean(host, &owner).await,
            Holder::Machine(machine) if Some(&*machine.namespace) == host.metadata.namespace.as_deref() => {
                let claim = ClaimRef {
                    name: machine.name.to_string(),
                    uid: owner.machine,
                    cluster: self.0.pool.cluster_of(&machine).await?,
                    server: Some(owner.server),
                    released_at: None,
                };
                self.0.pool.restore(host, &claim).await?;
                // It is not free: this report is for one without a claim, and is dropped.
                Ok(Report::Free)
            }
            Holder::Machine(machine) => {
                Ok(Report::NotClean("Taken", format!("it is claimed by Machine {machine}")))
            }
            Holder::Other(by) => Ok(Report::NotClean("Taken", format!("it is claimed by {by}"))),
        }
    }
}

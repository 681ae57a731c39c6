//! One of several copies of a controller works: it holds a Lease.

use std::time::Duration;

use futures::TryStreamExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::watcher;
use kube::{Api, Client};

/// How long a holder that says nothing keeps the lease, in seconds.
pub const DURATION: i32 = 15;

/// A candidate.
pub struct Leader {
    leases: Api<Lease>,
    lease: String,
    /// Who this is.
    identity: String,
}

impl Leader {
    /// A candidate of this name for a lease in a namespace.
    pub fn new(client: Client, namespace: &str, lease: &str, identity: &str) -> Self {
        let leases = Api::namespaced(client, namespace);
        Self { leases, lease: lease.to_owned(), identity: identity.to_owned() }
    }

    /// Waits until this one leads. It has to [`renew`](Self::renew) before [`DURATION`] is over.
    pub async fn acquire(&self) -> Result<(), kube::Error> {
        loop {
            let current = self.leases.get_opt(&self.lease).await?;
            let left = current.as_ref().map(|lease| self.left(lease)).unwrap_or_default();
            if left.is_zero() {
                if self.write(current, Some(&self.identity)).await? {
                    return Ok(());
                }
                // Another replica was faster.
                continue;
            }
            let seen = current.and_then(|lease| lease.metadata.resource_version);
            // Until it changes or runs out, whatever comes first.
            let _over = tokio::time::timeout(left, self.changed(seen.as_deref())).await;
        }
    }

    /// Says that this one still leads. False: another one does.
    pub async fn renew(&self) -> Result<bool, kube::Error> {
        let current = self.leases.get_opt(&self.lease).await?;
        if current.as_ref().is_none_or(|lease| holder(lease) != Some(&self.identity)) {
            return Ok(false);
        }
        self.write(current, Some(&self.identity)).await
    }

    /// Lets the next one lead at once.
    pub async fn release(&self) -> Result<(), kube::Error> {
        let current = self.leases.get_opt(&self.lease).await?;
        if current.as_ref().is_some_and(|lease| holder(lease) == Some(&self.identity)) {
            self.write(current, None).await?;
        }
        Ok(())
    }

    /// For how long another replica holds the lease.
    fn left(&self, lease: &Lease) -> Duration {
        let Some(spec) = lease.spec.as_ref().filter(|_| holder(lease) != Some(&self.identity)) else {
            return Duration::ZERO;
        };
        let (Some(_), Some(MicroTime(renewed))) = (holder(lease), &spec.renew_time) else {
            return Duration::ZERO;
        };
        let seconds = i64::from(spec.lease_duration_seconds.unwrap_or(DURATION));
        let end = *renewed + jiff::SignedDuration::from_secs(seconds);
        Duration::try_from(end.duration_since(Timestamp::now())).unwrap_or_default()
    }

    /// Writes the lease over what was seen. False: it is not as it was.
    async fn write(&self, current: Option<Lease>, holder: Option<&str>) -> Result<bool, kube::Error> {
        let before = current.as_ref().and_then(|lease| lease.spec.clone()).unwrap_or_default();
        let changes = before.holder_identity.as_deref() != holder;
        let now = MicroTime(Timestamp::now());
        let spec = LeaseSpec {
            holder_identity: holder.map(str::to_owned),
            lease_duration_seconds: Some(DURATION),
            acquire_time: if changes { Some(now.clone()) } else { before.acquire_time },
            renew_time: Some(now),
            lease_transitions: Some(before.lease_transitions.unwrap_or_default() + i32::from(changes)),
            ..LeaseSpec::default()
        };
        let metadata = ObjectMeta { name: Some(self.lease.clone()), ..ObjectMeta::default() };
        let written = match current {
            // The resourceVersion of what was seen goes along: two can't both win.
            Some(lease) => {
                let lease = Lease { spec: Some(spec), ..lease };
                self.leases.replace(&self.lease, &PostParams::default(), &lease).await
            }
            None => self.leases.create(&PostParams::default(), &Lease { metadata, spec: Some(spec) }).await,
        };
        match written {
            Ok(_) => Ok(true),
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until the lease is another one than this.
    async fn changed(&self, seen: Option<&str>) {
        let watch = watcher::watch_object(self.leases.clone(), &self.lease);
        let mut watch = std::pin::pin!(watch);
        while let Ok(Some(lease)) = watch.try_next().await {
            if lease.and_then(|lease| lease.metadata.resource_version).as_deref() != seen {
                return;
            }
        }
    }
}

fn holder(lease: &Lease) -> Option<&String> {
    lease.spec.as_ref()?.holder_identity.as_ref().filter(|holder| !holder.is_empty())
}

//! Pool: the Hosts of an API server, and which Machine has which one.
//!
//! The claim is an acknowledgment in the status of the Host: it is written with the resourceVersion that was read before anything is done on the host,
//! and removed after the host is clean. So a Host has one Machine at most, and whoever starts again finds it.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Secret as KubeSecret};
use kube::api::{Api, ListParams};
use kube::{Client, Resource as _, ResourceExt as _};
use serde_json::Value;
use settled_controller::cache::Cache;
use settled_controller::conditions::{Conditions, InvalidConditions, Status};
use settled_controller::status::{BoxError, Outcome, StatusWriter, WriteError, WriteFailure};
use settled_controller::{Clock, ObjectKey, ResourceVersion};
use settled_machines::types::{
    ClaimRef, Host, HostCondition, HostStatus, Machine, MachineVersions, whole_second,
};
use tokio::sync::OnceCell;

use super::config;
use super::program::Owner;
use super::secret::Secret;
use super::transport::{Target, TransportError};

/// Index of Hosts by the UID of the Machine that has them.
const CLAIM: &str = "claim";
/// How long a write waits for the watch to show it.
const CATCH_UP: Duration = Duration::from_secs(5);
/// How often a claim is tried again after others have changed the same Hosts.
const CLAIM_ATTEMPTS: usize = 16;
/// Name in managed fields.
const MANAGER: &str = "settled-ssh-provider";
/// Key of the private key in a Secret, as `kubernetes.io/ssh-auth` has it.
const PRIVATE_KEY: &str = "ssh-privatekey";

/// Why a pool cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// No Host is free.
    #[error("{0}")]
    NoHost(String),
    /// The API server refused a request, or could not be reached.
    #[error(transparent)]
    Request(#[from] kube::Error),
    /// A status could not be written.
    #[error(transparent)]
    Status(Box<WriteError>),
}

impl From<WriteError> for PoolError {
    fn from(error: WriteError) -> Self {
        Self::Status(Box::new(error))
    }
}

/// What is known of a Host after something was done, for its conditions.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Report {
    /// It is being prepared for its Machine.
    Preparing,
    /// It cannot be prepared: the reason in conditions, and the same for people.
    Failed(&'static str, String),
    /// It runs for its Machine.
    InUse,
    /// It cannot be reached.
    Unreachable(&'static str, String),
    /// It is not clean: the reason in conditions, and the same for people.
    NotClean(&'static str, String),
    /// It is clean, and has no Machine.
    Free,
}

impl Report {
    /// Reasons that only the owner of the pool can do something about.
    fn is_stalled(&self) -> bool {
        match self {
            Self::Unreachable(reason, _) => {
                matches!(*reason, "HostKeyVerificationFailed" | "KeyRefused" | "KeyNotFound")
            }
            Self::NotClean(reason, _) | Self::Failed(reason, _) => {
                matches!(*reason, "Taken" | "DoesNotStart")
            }
            Self::Preparing | Self::InUse | Self::Free => false,
        }
    }

    /// Writes it into the conditions of a status.
    fn apply(
        &self,
        status: &mut HostStatus,
        generation: Option<i64>,
        clock: &Clock,
    ) -> Result<(), InvalidConditions> {
        let mut conditions = Conditions::<HostCondition>::new(&status.conditions, generation, clock);
        let (reachable, prepared): ((Status, &str, &str), (Status, &str, &str)) = match self {
            Self::Preparing => ((Status::Unknown, "Unknown", ""), (Status::False, "Preparing", "")),
            Self::Failed(reason, message) => {
                ((Status::True, "Reachable", ""), (Status::False, reason, message))
            }
            Self::InUse => ((Status::True, "Reachable", ""), (Status::True, "InUse", "")),
            Self::Unreachable(reason, message) => {
                ((Status::False, reason, message), (Status::Unknown, reason, ""))
            }
            Self::NotClean(reason, message) => {
                ((Status::True, "Reachable", ""), (Status::False, reason, message))
            }
            Self::Free => ((Status::True, "Reachable", ""), (Status::True, "Free", "")),
        };
        conditions.set(HostCondition::Reachable, reachable.0, reachable.1, reachable.2);
        conditions.set(HostCondition::Prepared, prepared.0, prepared.1, prepared.2);
        match self {
            Self::InUse | Self::Free => {}
            Self::Preparing => {
                conditions.reconciling("Preparing", "the host is being prepared");
            }
            Self::Failed(reason, message)
            | Self::Unreachable(reason, message)
            | Self::NotClean(reason, message) => {
                if self.is_stalled() {
                    conditions.stalled(*reason, message.clone());
                } else {
                    conditions.reconciling(*reason, message.clone());
                }
            }
        }
        status.conditions = conditions.finish()?;
        Ok(())
    }
}

/// Who has a claim that was found on a host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Holder {
    /// Nobody that there still is: it was left behind.
    Nobody,
    /// A Machine that has no Host by its status: that of its Host was lost.
    Machine(ObjectKey),
    /// Somebody else, for messages.
    Other(String),
}

/// The claim that a Machine still holds on a Host.
pub(super) fn holder(host: &Host) -> Option<&ClaimRef> {
    host.status.as_ref()?.claim_ref.as_ref().filter(|claim| claim.released_at.is_none())
}

/// Why a Host is not free; `None` if it is.
fn unavailable(host: &Host) -> Option<&str> {
    let status = host.status.as_ref();
    let bad = |name: &str| {
        let condition = status?.conditions.iter().find(|condition| condition.type_ == name)?;
        (condition.status == "False").then_some(condition.reason.as_str())
    };
    if host.metadata.deletion_timestamp.is_some() {
        Some("being deleted")
    } else if holder(host).is_some() {
        Some("claimed")
    } else if let Some(reason) = bad("Reachable").or_else(|| bad("Prepared")) {
        Some(reason)
    } else if status.is_some_and(|status| status.claim_ref.is_some()) {
        Some("not clean")
    } else if host.spec.unschedulable {
        Some("unschedulable")
    } else {
        None
    }
}

/// The Hosts. Clones share the cache.
#[derive(Clone)]
pub(super) struct Pool {
    client: Client,
    hosts: Cache<Host>,
    writer: StatusWriter<Host>,
    clock: Clock,
    /// One Machine of this process chooses at a time: others would choose the same Host, and fail.
    turn: Arc<tokio::sync::Mutex<()>>,
    server: Arc<OnceCell<String>>,
}

impl Pool {
    /// Lists and watches the Hosts.
    pub(super) fn start(client: &Client, clock: &Clock) -> Self {
        let claims = |host: &Host| holder(host).map(|claim| claim.uid.clone()).into_iter().collect();
        Self {
            client: client.clone(),
            hosts: Cache::<Host>::builder(client.clone()).index_by(CLAIM, claims).start(),
            writer: StatusWriter::new(client.clone(), MANAGER).attempts(3).clock(clock.clone()),
            clock: clock.clone(),
            turn: Arc::default(),
            server: Arc::default(),
        }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Identity of the API server, as everybody takes it: the UID of `kube-system`.
    pub(super) async fn server(&self) -> Result<&str, PoolError> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let read = async || {
            namespaces.get_metadata("kube-system").await.map(|found| found.uid().unwrap_or_default())
        };
        Ok(self.server.get_or_try_init(read).await?)
    }

    /// The Host that a Machine has. What the cache does not have is asked of the server: a claim that was just written may not be in it.
    pub(super) async fn claimed(&self, uid: &str) -> Result<Option<Arc<Host>>, PoolError> {
        let known = self.hosts.indexed(CLAIM, uid).unwrap_or_default();
        if let Some(first) = known.into_iter().min_by_key(|host| host.name_any()) {
            return Ok(Some(first));
        }
        let hosts: Api<Host> = Api::all(self.client.clone());
        let listed = hosts.list(&ListParams::default()).await?.items;
        let own = listed.into_iter().filter(|host| holder(host).is_some_and(|claim| claim.uid == uid));
        Ok(own.min_by_key(kube::ResourceExt::name_any).map(Arc::new))
    }

    /// All Hosts that are in the cache, by namespace and name.
    pub(super) async fn all(&self) -> Vec<Arc<Host>> {
        if self.hosts.wait_until_ready().await.is_err() {
            return Vec::new();
        }
        let mut hosts = self.hosts.state();
        hosts.sort_by_key(|host| (host.namespace(), host.name_any()));
        hosts
    }

    /// The Host of this Machine: the one that it has, or a free one that its configuration selects: the one that it had last, or the first
    /// one by name.
    pub(super) async fn claim(
        &self,
        namespace: &str,
        claim: &ClaimRef,
        config: &Value,
        last: Option<&str>,
    ) -> Result<Host, PoolError> {
        let _turn = self.turn.lock().await;
        let hosts: Api<Host> = Api::namespaced(self.client.clone(), namespace);
        for _ in 0..CLAIM_ATTEMPTS {
            let mut listed = hosts.list(&ListParams::default()).await?.items;
            listed.sort_by_key(kube::ResourceExt::name_any);
            if let Some(own) =
                listed.iter().position(|host| holder(host).is_some_and(|has| has.uid == claim.uid))
            {
                return Ok(listed.swap_remove(own));
            }
            let selected: Vec<&Host> =
                listed.iter().filter(|host| config::selects(config, host.metadata.labels.as_ref())).collect();
            let mut free = selected.iter().filter(|host| unavailable(host).is_none());
            let is_last = |host: &&&Host| last.is_some_and(|last| host.name_any() == last);
            let Some(free) = free.clone().find(is_last).or_else(|| free.next()) else {
                return Err(PoolError::NoHost(no_host(namespace, config, &selected)));
            };
            let granted = self
                .update(free, |status| {
                    if status.claim_ref.is_some() {
                        return Err("it was claimed by another Machine".into());
                    }
                    status.claim_ref = Some(claim.clone());
                    Ok(Some(Report::Preparing))
                })
                .await;
            match granted {
                Ok(_) => {
                    if let Some(host) = hosts.get_opt(&free.name_any()).await?
                        && holder(&host).is_some_and(|has| has.uid == claim.uid)
                    {
                        return Ok(host);
                    }
                }
                // Another process was faster.
                Err(PoolError::Status(error))
                    if matches!(error.cause, WriteFailure::Decide { .. } | WriteFailure::Conflict { .. }) => {
                }
                Err(error) => return Err(error),
            }
        }
        Err(PoolError::NoHost("all Hosts that were free have been claimed by others meanwhile".to_owned()))
    }

    /// Changes the status of a Host. `change` may see it several times, each time as it is then.
    pub(super) async fn update(
        &self,
        host: &Host,
        change: impl Fn(&mut HostStatus) -> Result<Option<Report>, BoxError>,
    ) -> Result<Outcome, PoolError> {
        let outcome = self
            .writer
            .write(host, |now: &Host| {
                let mut status = now.status.clone().unwrap_or_default();
                let before = status.claim_ref.clone();
                let report = change(&mut status)?;
                status.observed_generation = now.metadata.generation;
                if let Some(report) = report {
                    report.apply(&mut status, now.metadata.generation, &self.clock)?;
                    if matches!(report, Report::Free) {
                        status.versions = None;
                    }
                }
                tracing::trace!(host = now.name_any(), ?before, after = ?status.claim_ref, "status");
                Ok::<_, BoxError>(status)
            })
            .await?;
        if let Outcome::Written { resource_version } = &outcome {
            self.catch_up(resource_version).await;
        }
        Ok(outcome)
    }

    /// Reports what is known of a Host of a Machine, or of one without any.
    pub(super) async fn report(
        &self,
        host: &Host,
        uid: Option<&str>,
        report: Report,
    ) -> Result<(), PoolError> {
        let is_same = |status: &HostStatus| status.claim_ref.as_ref().map(|claim| claim.uid.as_str()) == uid;
        let result = self
            .update(host, |status| {
                if is_same(status) { Ok(Some(report.clone())) } else { Err("it has another claim".into()) }
            })
            .await;
        match result {
            Err(PoolError::Status(error)) if matches!(error.cause, WriteFailure::Decide { .. }) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Reports that a Host runs for its Machine, and what runs on it.
    pub(super) async fn report_running(
        &self,
        host: &Host,
        uid: &str,
        versions: &MachineVersions,
    ) -> Result<(), PoolError> {
        self.update(host, |status| {
            if status.claim_ref.as_ref().is_none_or(|claim| claim.uid != uid) {
                return Ok(None);
            }
            status.versions = Some(versions.clone());
            Ok(Some(Report::InUse))
        })
        .await
        .map(drop)
    }

    /// Who has a claim that was found on a host.
    pub(super) async fn holder_of(&self, owner: Option<&Owner>) -> Result<Holder, PoolError> {
        let Some(owner) = owner else { return Ok(Holder::Other("an unknown owner".to_owned())) };
        if owner.server != self.server().await? {
            return Ok(Holder::Other(format!(
                "Machine {} of another API server ({})",
                owner.machine, owner.server
            )));
        }
        if let Some(host) = self.claimed(&owner.machine).await? {
            return Ok(Holder::Other(format!("Machine {}, which has Host {}", owner.machine, name(&host))));
        }
        let machines: Api<Machine> = Api::all(self.client.clone());
        let listed = machines.list_metadata(&ListParams::default()).await?.items;
        let found = listed.iter().find(|machine| machine.metadata.uid.as_deref() == Some(&owner.machine));
        Ok(found.map_or(Holder::Nobody, |machine| {
            Holder::Machine(ObjectKey::new(&machine.namespace().unwrap_or_default(), &machine.name_any()))
        }))
    }

    /// The Cluster of a Machine, as `NAMESPACE/NAME`.
    pub(super) async fn cluster_of(&self, machine: &ObjectKey) -> Result<Option<String>, PoolError> {
        let machines: Api<Machine> = Api::namespaced(self.client.clone(), &machine.namespace);
        let found = machines.get_opt(&machine.name).await?;
        let cluster = found.and_then(|found| found.spec.cluster_name);
        Ok(cluster.map(|cluster| format!("{}/{cluster}", machine.namespace)))
    }

    /// Gives a Host without a claim back to the Machine that it was found to run for.
    pub(super) async fn restore(&self, host: &Host, claim: &ClaimRef) -> Result<(), PoolError> {
        self.update(host, |status| {
            if status.claim_ref.is_some() {
                return Ok(None);
            }
            status.claim_ref = Some(claim.clone());
            Ok(Some(Report::Preparing))
        })
        .await
        .map(drop)
    }

    /// Takes the claim of a Machine away, with what is known of the Host then.
    pub(super) async fn release(&self, host: &Host, uid: &str, report: Report) -> Result<(), PoolError> {
        self.update(host, |status| {
            if status.claim_ref.as_ref().is_some_and(|claim| claim.uid == uid) {
                status.claim_ref = None;
                return Ok(Some(report.clone()));
            }
            Ok(None)
        })
        .await
        .map(drop)
    }

    /// Ends the claim of a Machine on a Host that could not be cleaned: it is cleaned before it is claimed again.
    pub(super) async fn let_go(&self, host: &Host, uid: &str, report: Report) -> Result<(), PoolError> {
        let now = whole_second(self.now());
        self.update(host, |status| match &mut status.claim_ref {
            Some(claim) if claim.uid == uid => {
                claim.released_at.get_or_insert_with(|| now.clone());
                Ok(Some(report.clone()))
            }
            _ => Ok(None),
        })
        .await
        .map(drop)
    }

    /// Waits until the cache shows a write. What is too late for it is found by the resourceVersion of the next write.
    async fn catch_up(&self, version: &str) {
        let version = ResourceVersion::new(version);
        let mut position = self.hosts.watch_position();
        let shown =
            position.wait_for(|position| position.as_ref().is_some_and(|position| position.covers(&version)));
        if tokio::time::timeout(CATCH_UP, shown).await.is_err() {
            tracing::debug!(%version, "the watch has not shown a write yet");
        }
    }

    /// How a Host is reached.
    pub(super) fn target(host: &Host) -> Target {
        let spec = &host.spec;
        Target {
            namespace: host.namespace().unwrap_or_default(),
            name: host.name_any(),
            address: spec.address.clone(),
            port: u16::try_from(spec.port).unwrap_or(22),
            user: spec.user.clone(),
            host_keys: spec.host_keys.clone(),
            key: spec.key.as_ref().map(|key| key.name.clone()).unwrap_or_default(),
        }
    }
}

/// Why no Host is free, with how many are not, and why.
fn no_host(namespace: &str, config: &Value, selected: &[&Host]) -> String {
    let mut reasons: Vec<&str> = selected.iter().filter_map(|host| unavailable(host)).collect();
    reasons.sort_unstable();
    let mut counted: Vec<(usize, &str)> = Vec::new();
    for reason in reasons {
        match counted.last_mut() {
            Some((count, last)) if *last == reason => *count += 1,
            _ => counted.push((1, reason)),
        }
    }
    let counted: Vec<String> = counted.iter().map(|(count, reason)| format!("{count} {reason}")).collect();
    let which = format!("namespace {namespace:?}{}", config::selector_text(config));
    match counted.is_empty() {
        true => format!("there is no Host in {which}"),
        false => format!("no Host is free in {which}: {}", counted.join(", ")),
    }
}

/// Private keys in Secrets of the API server.
#[derive(Clone)]
pub struct SecretKeys(Client);

impl SecretKeys {
    /// The Secrets that this client can read.
    #[must_use]
    pub const fn new(client: Client) -> Self {
        Self(client)
    }
}

impl std::fmt::Debug for SecretKeys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SecretKeys")
    }
}

impl super::transport::Keys for SecretKeys {
    fn private_key<'a>(
        &'a self,
        target: &'a Target,
    ) -> futures::future::BoxFuture<'a, Result<Secret, TransportError>> {
        Box::pin(async move {
            let missing = |why: &str| {
                TransportError::NoKey(format!("Secret {}/{}: {why}", target.namespace, target.key))
            };
            if target.key.is_empty() {
                return Err(TransportError::NoKey("the Host has no spec.key".to_owned()));
            }
            let secrets: Api<KubeSecret> = Api::namespaced(self.0.clone(), &target.namespace);
            let secret = secrets.get_opt(&target.key).await.map_err(|error| missing(&error.to_string()))?;
            let secret = secret.ok_or_else(|| missing("not found"))?;
            let mut data = secret.data.unwrap_or_default();
            let key = data.remove(PRIVATE_KEY).ok_or_else(|| missing(&format!("no {PRIVATE_KEY}")))?;
            Ok(Secret::new(key.0))
        })
    }
}

/// Since when a Host is not as it should be.
pub(super) fn bad_since(host: &Host) -> Option<Timestamp> {
    let conditions = &host.status.as_ref()?.conditions;
    let bad = conditions.iter().filter(|condition| condition.type_ == "Ready" && condition.status != "True");
    bad.map(|condition| condition.last_transition_time.0).next()
}

/// The key of a Host, for messages.
pub(super) fn name(host: &Host) -> ObjectKey {
    ObjectKey::new(host.meta().namespace.as_deref().unwrap_or_default(), &host.name_any())
}

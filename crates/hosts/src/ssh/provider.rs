//! Provider of hosts of a pool: the contract of providers on top of claims and commands.
//!
//! The order of every creation is claim, act, observe: the claim is in the status of the Host before a command is sent, each command names the claim that
//! it is for, and what was done is read from the host. So any call may be repeated, and a process that starts again goes on where the last one was.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use jiff::SignedDuration;
use kube::Client;
use settled_controller::Clock;
use settled_machines::crds::ConfigSchema;
use settled_machines::provider::{
    Desired, Host, HostKey, Observed, Owned, Plan, Progress, Provider, ProviderError, Request, Step,
};
use settled_machines::types::{self, ClaimRef, ErrorReason};

use super::artifacts::{Artifact, ArtifactError, Artifacts};
use super::config;
use super::join::Join;
use super::plan::{self, KUBELET, RUNTIME};
use super::pool::{self, Holder, Pool, PoolError, Report};
use super::program::{Command, ExitCode, Input, Inspection, Output, Owner, Verb};
use super::transport::{Transport, TransportError};

/// How many Hosts one call tries.
const MAX_HOSTS: usize = 8;
/// Time for a transfer, and for each of its megabytes.
const TRANSFER: Duration = Duration::from_secs(60);
const TRANSFER_PER_MEGABYTE: Duration = Duration::from_secs(10);

/// How a pool is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// Directory of the artifacts: `kubelet-VERSION`, `runtime-NAME-VERSION`, with `-ARCH` at the end if they are for one architecture.
    pub artifacts: PathBuf,
    /// How long an agent may take to start.
    pub start: Duration,
    /// For how long a Machine that is deleted waits for a host that cannot be cleaned. Then the host stays unavailable until it is.
    pub clean: Duration,
    /// How often Hosts without a Machine are probed.
    pub probe: Duration,
}

impl Options {
    /// With artifacts in this directory, 30 s to start, 10 minutes to clean, and a probe each minute.
    #[must_use]
    pub fn new(artifacts: impl Into<PathBuf>) -> Self {
        Self {
            artifacts: artifacts.into(),
            start: Duration::from_secs(30),
            clean: Duration::from_secs(600),
            probe: Duration::from_secs(60),
        }
    }
}

pub(super) struct Shared<T> {
    pub(super) pool: Pool,
    pub(super) transport: T,
    pub(super) options: Options,
    artifacts: Artifacts,
    join: Arc<dyn Join>,
}

/// Provider of hosts of a pool. Clones share it.
pub struct SshProvider<T>(pub(super) Arc<Shared<T>>);

impl<T> Clone for SshProvider<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> std::fmt::Debug for SshProvider<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("SshProvider").field(&self.0.options).finish()
    }
}

/// Why something was not done on a host.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Pool(#[from] PoolError),
    #[error("{host}: {error}")]
    Transport { host: String, error: TransportError },
    #[error("{host}: it is claimed by {by}")]
    Taken { host: String, by: String },
    #[error("{host}: {}", .output.message())]
    Command { host: String, output: Output },
    #[error(transparent)]
    Artifact(#[from] ArtifactError),
    #[error(transparent)]
    Join(ProviderError),
}

impl Failure {
    /// What the Host reports about it, if it is about the Host.
    pub(super) fn report(&self) -> Option<Report> {
        match self {
            Self::Transport { error, .. } => Some(Report::Unreachable(error.reason(), error.to_string())),
            Self::Taken { by, .. } => Some(Report::NotClean("Taken", format!("it is claimed by {by}"))),
            Self::Command { output, .. } if output.is_disk_full() => {
                Some(Report::Failed("DiskFull", "no space left on device".to_owned()))
            }
            Self::Command { output, .. } => match output.exit() {
                ExitCode::DoesNotStart | ExitCode::NothingWorks => {
                    Some(Report::Failed("DoesNotStart", output.message()))
                }
                ExitCode::NotClean => Some(Report::NotClean("NotClean", output.message())),
                ExitCode::Failed | ExitCode::TimedOut => {
                    Some(Report::Failed("CommandFailed", output.message()))
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether no command can have reached the host.
    fn is_unusable(&self) -> bool {
        let Self::Transport { error, .. } = self else { return false };
        matches!(
            error,
            TransportError::Unreachable(_)
                | TransportError::HostKey(_)
                | TransportError::Refused(_)
                | TransportError::NoKey(_)
        )
    }

    /// As the contract has it; a version that does not work is for good.
    fn into_error(self, reason: ErrorReason) -> ProviderError {
        let is_final = match &self {
            Self::Command { output, .. } => matches!(
                output.exit(),
                ExitCode::SteppedBack | ExitCode::DoesNotStart | ExitCode::NothingWorks
            ),
            _ => false,
        };
        match self {
            Self::Pool(PoolError::NoHost(message)) => {
                ProviderError::terminal(ErrorReason::InsufficientResources, message)
            }
            Self::Command { host, output } if output.exit() == ExitCode::SteppedBack => {
                ProviderError::terminal(
                    reason,
                    format!("{host}: {}; the version before runs again", output.message()),
                )
            }
            Self::Join(error) => error,
            other if is_final => ProviderError::terminal(reason, other.to_string()),
            other => ProviderError::Transient(other.to_string()),
        }
    }
}

impl From<Failure> for ProviderError {
    fn from(failure: Failure) -> Self {
        failure.into_error(ErrorReason::CreateError)
    }
}

impl<T: Transport> SshProvider<T> {
    /// A provider with the Hosts that this client can read.
    #[must_use]
    pub fn new(client: &Client, clock: &Clock, transport: T, join: Arc<dyn Join>, options: Options) -> Self {
        let artifacts = Artifacts::new(&options.artifacts);
        Self(Arc::new(Shared { pool: Pool::start(client, clock), transport, options, artifacts, join }))
    }

    /// The claim of a Machine on a Host, as commands name it.
    pub(super) async fn owner(&self, host: &types::Host, uid: &str) -> Result<Owner, Failure> {
        let claim = host.status.as_ref().and_then(|status| status.claim_ref.as_ref());
        let recorded = claim.filter(|claim| claim.uid == uid).and_then(|claim| claim.server.clone());
        let server = match recorded {
            Some(server) => server,
            None => self.0.pool.server().await?.to_owned(),
        };
        Ok(Owner { server, machine: uid.to_owned() })
    }

    /// Runs a command, whatever its exit code.
    pub(super) async fn run(&self, host: &types::Host, command: Command) -> Result<Output, Failure> {
        let target = Pool::target(host);
        let result = self.0.transport.run(&target, &command).await;
        result.map_err(|error| Failure::Transport { host: format!("host {}", pool::name(host)), error })
    }

    /// Runs a command that has to succeed.
    async fn perform(&self, host: &types::Host, command: Command) -> Result<Output, Failure> {
        let output = self.run(host, command).await?;
        match output.exit() {
            ExitCode::Done => Ok(output),
            _ => Err(Failure::Command { host: format!("host {}", pool::name(host)), output }),
        }
    }

    pub(super) async fn inspect(&self, host: &types::Host, owner: &Owner) -> Result<Inspection, Failure> {
        let output = self.perform(host, Command::new(owner.clone(), Verb::Inspect)).await?;
        Ok(output.inspection())
    }

    /// Stores the claim on the host, and returns what is there.
    async fn take(&self, host: &types::Host, owner: &Owner) -> Result<super::program::Inventory, Failure> {
        let claim = || Command::new(owner.clone(), Verb::Claim);
        let output = self.run(host, claim()).await?;
        let output = match output.exit() {
            ExitCode::Done => output,
            ExitCode::Claimed => {
                let found = output.claim();
                let by = match self.0.pool.holder_of(found.as_ref()).await? {
                    Holder::Nobody => None,
                    Holder::Machine(machine) => Some(format!("Machine {machine}")),
                    Holder::Other(by) => Some(by),
                };
                // What a release has left behind that was interrupted, is cleaned.
                let Some(stale) = found.filter(|_| by.is_none()) else {
                    let host = format!("host {}", pool::name(host));
                    return Err(Failure::Taken { host, by: by.unwrap_or_default() });
                };
                self.perform(host, Command::new(stale, Verb::Clean)).await?;
                self.perform(host, claim()).await?
            }
            _ => return Err(Failure::Command { host: format!("host {}", pool::name(host)), output }),
        };
        Ok(output.inventory())
    }

    /// Installs an artifact, unless the host has it.
    async fn install(
        &self,
        host: &types::Host,
        owner: &Owner,
        name: String,
        inventory: &super::program::Inventory,
    ) -> Result<(), Failure> {
        let Artifact { name, path, digest, bytes } = self.0.artifacts.find(&name, &inventory.arch)?;
        if inventory.digests.get(&name) == Some(&digest) {
            return Ok(());
        }
        let megabytes = u32::try_from(bytes / 1_000_000).unwrap_or(u32::MAX);
        let limit = TRANSFER + TRANSFER_PER_MEGABYTE.saturating_mul(megabytes);
        let command = Command::new(owner.clone(), Verb::Install { name, digest });
        self.perform(host, command.input(Input::File(path), limit)).await.map(drop)
    }

    fn runtime(&self, name: &str, version: &str) -> (String, Verb) {
        let verb =
            Verb::Runtime { name: name.to_owned(), version: version.to_owned(), start: self.0.options.start };
        (format!("runtime-{name}@{version}"), verb)
    }

    /// Everything from a claim to a running agent.
    async fn prepare(&self, host: &types::Host, owner: &Owner, request: &Request) -> Result<(), Failure> {
        let desired = &request.desired;
        let inventory = self.take(host, owner).await?;
        let kubelet = format!("kubelet-{}", desired.versions.kubelet);
        self.install(host, owner, kubelet, &inventory).await?;
        if let Some(runtime) = &desired.versions.container_runtime {
            let (artifact, verb) = self.runtime(&runtime.name, &runtime.version);
            self.install(host, owner, artifact, &inventory).await?;
            self.perform(host, Command::new(owner.clone(), verb)).await?;
        }
        for (file, content) in self.0.join.files(request, host).await.map_err(Failure::Join)? {
            let configure = Command::new(owner.clone(), Verb::Configure { file });
            self.perform(host, configure.input(Input::Secret(content), TRANSFER)).await?;
        }
        let join = Verb::Join {
            kubelet: desired.versions.kubelet.clone(),
            start: self.0.options.start,
            node: desired.node_name.clone(),
        };
        self.perform(host, Command::new(owner.clone(), join)).await.map(drop)
    }

    async fn create_host(&self, request: &Request) -> Result<Progress, Failure> {
        let pool = &self.0.pool;
        let uid = request.key.as_str();
        let (namespace, name) = request.machine.split_once('/').unwrap_or(("", &request.machine));
        let cluster = &request.desired.cluster;
        let claim = ClaimRef {
            name: name.to_owned(),
            uid: uid.to_owned(),
            cluster: (!cluster.is_empty()).then(|| cluster.clone()),
            server: Some(pool.server().await?.to_owned()),
            released_at: None,
        };
        let mut last = None;
        for _ in 0..MAX_HOSTS {
            let host =
                pool.claim(namespace, &claim, &request.desired.config, request.last_host.as_deref()).await?;
            let owner = self.owner(&host, uid).await?;
            let failure = match self.prepare(&host, &owner, request).await {
                Ok(()) => {
                    let inspection = self.inspect(&host, &owner).await?;
                    self.report_running(&host, uid, &inspection).await?;
                    return Ok(Progress::Done);
                }
                Err(failure) => failure,
            };
            match failure.report() {
                // Nothing was done on it by this call. What an earlier one has done is cleaned before somebody else has it.
                Some(report) if failure.is_unusable() => pool.let_go(&host, uid, report).await?,
                Some(report) if matches!(failure, Failure::Taken { .. }) => {
                    pool.release(&host, uid, report).await?
                }
                report => {
                    if let Some(report) = report {
                        pool.report(&host, Some(uid), report).await?;
                    }
                    return Err(failure);
                }
            }
            tracing::warn!(host = %pool::name(&host), machine = %request.machine, %failure, "the host cannot be used");
            last = Some(failure);
        }
        Err(last.unwrap_or_else(|| PoolError::NoHost("no Host can be used".to_owned()).into()))
    }

    async fn report_running(
        &self,
        host: &types::Host,
        uid: &str,
        inspection: &Inspection,
    ) -> Result<(), Failure> {
        Ok(self.0.pool.report_running(host, uid, &plan::versions(inspection)).await?)
    }

    async fn observe_host(&self, uid: &str) -> Result<Observed, Failure> {
        let Some(host) = self.0.pool.claimed(uid).await? else { return Ok(Observed::Absent) };
        let owner = self.owner(&host, uid).await?;
        let inspection = match self.inspect(&host, &owner).await {
            Ok(inspection) => inspection,
            Err(failure) => {
                // Before it has joined, its creation decides whether another Host is better.
                let has_joined = host.status.as_ref().is_some_and(|status| status.versions.is_some());
                if failure.is_unusable() && !has_joined {
                    return Ok(Observed::Host(Box::new(plan::view(&host, &Inspection::default(), false))));
                }
                if let Some(report) = failure.report() {
                    self.0.pool.report(&host, Some(uid), report).await?;
                }
                return Err(failure);
            }
        };
        let is_own = inspection.claim.as_ref() == Some(&owner);
        let view = plan::view(&host, &inspection, is_own);
        if is_own && inspection.joined.is_some() {
            self.report_running(&host, uid, &inspection).await?;
        }
        Ok(Observed::Host(Box::new(view)))
    }

    async fn update_host(&self, request: &Request, step: &Step) -> Result<Progress, Failure> {
        let uid = request.key.as_str();
        let Some(host) = self.0.pool.claimed(uid).await? else {
            return Err(Failure::Join(ProviderError::Transient("there is no host".to_owned())));
        };
        let owner = self.owner(&host, uid).await?;
        let (artifact, verb) = match step.name.as_str() {
            KUBELET => {
                let verb = Verb::Kubelet { version: step.argument.clone(), start: self.0.options.start };
                (format!("kubelet-{}", step.argument), verb)
            }
            RUNTIME => {
                let (name, version) = step.argument.split_once(' ').unwrap_or((&step.argument, ""));
                self.runtime(name, version)
            }
            name => {
                let message = format!("unknown step {name}");
                return Err(Failure::Join(ProviderError::terminal(ErrorReason::UpdateError, message)));
            }
        };
        let done = async {
            let inventory =
                self.perform(&host, Command::new(owner.clone(), Verb::Artifacts)).await?.inventory();
            self.install(&host, &owner, artifact, &inventory).await?;
            self.perform(&host, Command::new(owner.clone(), verb)).await
        };
        match done.await {
            Ok(_) => Ok(Progress::Done),
            Err(failure) => {
                if let Some(report) = failure.report() {
                    self.0.pool.report(&host, Some(uid), report).await?;
                }
                Err(failure)
            }
        }
    }

    /// Cleans a host for its next Machine. One that another server has by now is left alone.
    pub(super) async fn clean(&self, host: &types::Host, owner: &Owner) -> Result<Report, Failure> {
        let output = self.run(host, Command::new(owner.clone(), Verb::Clean)).await?;
        match output.exit() {
            ExitCode::Done => Ok(Report::Free),
            ExitCode::Claimed => Ok(Report::NotClean("Taken", output.message())),
            _ => Err(Failure::Command { host: format!("host {}", pool::name(host)), output }),
        }
    }

    async fn delete_host(&self, uid: &str) -> Result<Progress, Failure> {
        let Some(host) = self.0.pool.claimed(uid).await? else { return Ok(Progress::Done) };
        let owner = self.owner(&host, uid).await?;
        self.0.join.leave(uid, &host).await.map_err(Failure::Join)?;
        let failure = match self.clean(&host, &owner).await {
            Ok(report) => {
                self.0.pool.release(&host, uid, report).await?;
                return Ok(Progress::Done);
            }
            Err(failure) => failure,
        };
        let Some(report) = failure.report() else { return Err(failure) };
        // Since when it is not possible is in the condition.
        let since = pool::bad_since(&host).unwrap_or_else(|| self.0.pool.now());
        let waited = self.0.pool.now().duration_since(since);
        if waited >= SignedDuration::try_from(self.0.options.clean).unwrap_or(SignedDuration::MAX) {
            tracing::warn!(host = %pool::name(&host), %failure, "the host is let go without being clean");
            self.0.pool.let_go(&host, uid, report).await?;
            return Ok(Progress::Done);
        }
        self.0.pool.report(&host, Some(uid), report).await?;
        Err(failure)
    }
}

impl<T: Transport> Provider for SshProvider<T> {
    fn schema(&self) -> ConfigSchema {
        config::format()
    }

    fn validate(&self, desired: &Desired) -> Vec<String> {
        config::validate(desired)
    }

    fn observe<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Observed, ProviderError>> {
        async move { Ok(self.observe_host(key.as_str()).await?) }.boxed()
    }

    fn plan(&self, host: &Host, desired: &Desired) -> Plan {
        plan::plan(host, desired)
    }

    fn create<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move {
            if request.desired.versions.control_plane.is_some() {
                return Err(ProviderError::terminal(ErrorReason::CreateError, plan::NO_CONTROL_PLANE));
            }
            Ok(self.create_host(request).await?)
        }
        .boxed()
    }

    fn apply_step<'a>(
        &'a self,
        request: &'a Request,
        step: &'a Step,
    ) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move {
            self.update_host(request, step)
                .await
                .map_err(|failure| failure.into_error(ErrorReason::UpdateError))
        }
        .boxed()
    }

    fn delete<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move { Ok(self.delete_host(key.as_str()).await?) }.boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Owned>, ProviderError>> {
        async move {
            let owned = |host: &Arc<types::Host>| {
                let claim = pool::holder(host)?;
                Some(Owned { key: HostKey::new(&claim.uid), id: plan::id(host) })
            };
            Ok(self.0.pool.all().await.iter().filter_map(owned).collect())
        }
        .boxed()
    }
}

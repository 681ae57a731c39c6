//! The provider of namespace hosts: the contract on top of namespaces, processes and directories.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt as _};
use serde_json::json;
use settled_machines::crds::ConfigSchema;
use settled_machines::provider::{
    Desired, Host, HostKey, HostState, Observed, Owned, Plan, Progress, Provider, ProviderError, Request,
    Step,
};
use settled_machines::types::{ErrorReason, MachineAddress, MachineVersions};
use tokio::process::Command;

use super::network::{Names, Network, hash};
use super::packages::Packages;
use super::preflight::{self, Unavailable};
use super::processes;
use super::record::{Phase, Record, Records};
use super::subnet;
use crate::agent::layout::{self, LayoutError};
use crate::agent::{Asked, Credentials, CredentialsError, Grant, Settings, Timing};
use crate::local::{self, Creations, IMAGE, KUBELET, REBOOT, RUNTIME, text};
use crate::versions::minor;

/// `apiVersion` of the configuration.
pub const API_VERSION: &str = "netns.hosts.settled.dev/v1alpha1";
/// `kind` of the configuration.
pub const KIND: &str = "NetnsMachine";

/// How often the state of an agent is read that is being waited for.
const POLL: Duration = Duration::from_millis(10);
/// What an agent may take beside the start of a kubelet.
const SLACK: Duration = Duration::from_secs(5);
/// When a host is worth another look that took too long.
const LATER: Duration = Duration::from_secs(1);

/// How a provider works.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Where the state of hosts is kept.
    pub directory: PathBuf,
    /// What names of namespaces and interfaces begin with, at most six characters. It follows from the directory.
    pub prefix: String,
    /// The first two bytes of the addresses of hosts: those that the directory has, or those of a subnet that nothing else uses.
    pub subnet: [u8; 2],
    /// The command of the agent, to which `init --dir DIR` is added.
    pub agent: Vec<String>,
    /// Where programs come from.
    pub packages: Packages,
    /// How quickly agents work.
    pub timing: Timing,
}

impl Options {
    /// With a state directory and the command of the agent: `settled cluster agent`.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>, agent: Vec<String>) -> Self {
        let directory = directory.into();
        let hash = hash(directory.as_os_str().as_encoded_bytes());
        Self {
            prefix: format!("s{:04x}", hash & 0xffff),
            subnet: subnet::of(&directory),
            directory,
            agent,
            packages: Packages::default(),
            timing: Timing::default(),
        }
    }

    /// Records the subnet in the directory: from then on it stays, whatever else the machine gets.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn keep_subnet(&self) -> std::io::Result<()> {
        subnet::record(&self.directory, self.subnet)
    }

    /// Where hosts reach the machine: an address of their bridge, which it has while there are hosts.
    #[must_use]
    pub const fn gateway(&self) -> Ipv4Addr {
        Network::gateway_of(self.subnet)
    }
}

#[derive(Debug, thiserror::Error)]
enum NetnsError {
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error(transparent)]
    Ip(#[from] super::network::IpError),
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error("cannot end the processes of the host: {0}")]
    Processes(#[source] std::io::Error),
    #[error("cannot start the agent: {0}")]
    Start(#[source] std::io::Error),
    #[error("{0}")]
    Failed(String),
}

impl NetnsError {
    /// The error of a creation. What only someone else can change is asked for again.
    fn of_create(self) -> ProviderError {
        match &self {
            Self::Unavailable(_) => {
                ProviderError::terminal(ErrorReason::InsufficientResources, self.to_string())
            }
            Self::Layout(error) if error.is_disk_full() => ProviderError::terminal(
                ErrorReason::InsufficientResources,
                format!("the disk is full: {self}"),
            ),
            Self::Failed(message) => ProviderError::terminal(ErrorReason::CreateError, message.clone()),
            _ => ProviderError::Transient(self.to_string()),
        }
    }
}

impl From<NetnsError> for ProviderError {
    fn from(error: NetnsError) -> Self {
        match error {
            NetnsError::Failed(message) => Self::terminal(ErrorReason::UpdateError, message),
            error => Self::Transient(error.to_string()),
        }
    }
}

/// Provider of namespace hosts. Clones are the same one.
#[derive(Clone)]
pub struct NetnsProvider {
    options: Arc<Options>,
    network: Network,
    records: Records,
    credentials: Arc<dyn Credentials>,
    creations: Creations,
}

impl std::fmt::Debug for NetnsProvider {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("NetnsProvider").field("options", &self.options).finish_non_exhaustive()
    }
}

impl NetnsProvider {
    /// A provider with its state in a directory.
    pub fn new(options: Options, credentials: Arc<dyn Credentials>) -> Self {
        let network = Network::new(options.prefix.clone(), options.subnet);
        let records = Records::new(&options.directory);
        Self { options: Arc::new(options), network, records, credentials, creations: Creations::default() }
    }

    /// Whether this machine can have such hosts.
    ///
    /// # Errors
    /// Something is missing: what.
    pub fn check() -> Result<(), Unavailable> {
        let is_root = rustix::process::geteuid().is_root();
        preflight::check(is_root, std::env::var_os("PATH").as_deref(), std::path::Path::new("/proc/self/ns"))
    }

    /// Makes the network of the hosts. The address at which they reach the machine: the API server listens there.
    ///
    /// # Errors
    /// This machine cannot have such hosts.
    pub async fn start_network(&self) -> Result<Ipv4Addr, ProviderError> {
        Self::check().map_err(|error| NetnsError::from(error).of_create())?;
        self.network.start().await.map_err(|error| NetnsError::from(error).of_create())?;
        Ok(self.network.gateway())
    }

    /// Removes the network of the hosts, once there are none.
    ///
    /// # Errors
    /// It cannot be removed.
    pub async fn stop_network(&self) -> Result<(), ProviderError> {
        Ok(self.network.stop().await.map_err(NetnsError::from)?)
    }

    /// Cuts a host off from the network, or connects it again: for tests and rehearsals of failures.
    ///
    /// # Errors
    /// There is no such host.
    pub async fn set_connected(&self, key: &HostKey, is_connected: bool) -> Result<(), ProviderError> {
        let names = self.network.names(key.as_str());
        Ok(self.network.set_up(&names, is_connected).await.map_err(NetnsError::from)?)
    }

    /// The numbers of the processes of a host.
    #[must_use]
    pub fn processes(&self, key: &HostKey) -> Vec<i32> {
        processes::of(&self.network.names(key.as_str()).path())
    }

    /// Everything that exists of hosts: directories, namespaces, interfaces.
    ///
    /// # Errors
    /// The state directory cannot be read.
    pub fn leftovers(&self) -> Result<Vec<String>, ProviderError> {
        let mut found = self.records.keys().map_err(NetnsError::from)?;
        found.extend(self.network.existing());
        Ok(found)
    }

    /// Removes namespaces and interfaces that no host of the state directory has.
    ///
    /// # Errors
    /// Something cannot be removed.
    pub async fn sweep(&self) -> Result<Vec<String>, ProviderError> {
        let keys = self.records.keys().map_err(NetnsError::from)?;
        let known: Vec<Names> = keys.iter().map(|key| self.network.names(key)).collect();
        let is_known =
            |name: &String| known.iter().any(|names| names.namespace == *name || names.link == *name);
        let stray: Vec<String> = self.network.existing().into_iter().filter(|name| !is_known(name)).collect();
        for name in &stray {
            let names = Names { namespace: name.clone(), link: name.clone() };
            processes::end(&names.path()).await.map_err(NetnsError::Processes)?;
            self.network.disconnect(&names).await.map_err(NetnsError::from)?;
        }
        Ok(stray)
    }

    async fn build(&self, record: &Record, request: &Request) -> Result<(), NetnsError> {
        self.network.start().await?;
        let layout = self.records.layout(&record.key);
        let desired = &request.desired;
        let address = self.network.address(record.index).to_string();
        layout.set_settings(&Settings {
            node_name: desired.node_name.clone(),
            provider_id: record.id.clone(),
            machine: request.machine.clone(),
            labels: desired.labels.clone(),
            taints: desired.taints.clone(),
            addresses: vec![MachineAddress { type_: "InternalIP".to_owned(), address }],
            host: None,
            timing: self.options.timing,
            is_isolated: true,
        })?;
        layout.ask(&local::asked(request))?;
        let image = format!("NAME={0:?}\nPRETTY_NAME={0:?}\n", record.image);
        layout::write(&layout.os_release(), 0o644, image.as_bytes())?;
        self.options.packages.install(&layout, &desired.versions, &self.options.agent)?;
        let kubeconfig = self.credentials.issue(&record.grant).await?;
        layout::write(&layout.kubeconfig(), 0o600, kubeconfig.as_bytes())?;
        self.network.connect(&self.network.names(&record.key), record.index).await?;
        self.start_agent(&record.key)?;
        self.records.set(&Record { phase: Phase::Running, ..record.clone() })?;
        Ok(())
    }

    /// Starts the agent as process 1 of a namespace. It outlives this process.
    fn start_agent(&self, key: &str) -> Result<(), NetnsError> {
        let layout = self.records.layout(key);
        let log_path = layout.log();
        let log = File::options()
            .create(true)
            .append(true)
            .open(&log_path)
            .map_err(LayoutError::file(&log_path))?;
        let errors = log.try_clone().map_err(LayoutError::file(&log_path))?;
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.network.names(key).namespace]);
        command.args(["unshare", "--pid", "--mount", "--uts", "--fork", "--kill-child", "--mount-proc"]);
        command.args(&self.options.agent).args(["init", "--dir"]).arg(layout.path());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.current_dir("/").process_group(0);
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        command.spawn().map(drop).map_err(NetnsError::Start)
    }

    /// Waits until an agent runs what it is asked for, or has given up.
    async fn wait(&self, key: &str, asked: &Asked) -> Result<bool, NetnsError> {
        let layout = self.records.layout(key);
        let start = Duration::from_millis(self.options.timing.start_millis);
        let until = Instant::now() + start * 2 + SLACK;
        loop {
            if let Some(state) = layout.state()? {
                if state.versions == asked.versions && state.reboot == asked.reboot && layout.ready().exists()
                {
                    return Ok(true);
                }
                if let Some(failed) = state.failed.filter(|failed| failed.attempt == asked.attempt) {
                    return Err(NetnsError::Failed(failed.message));
                }
            }
            if Instant::now() >= until {
                return Ok(false);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn tear_down(&self, key: &str, grant: &Grant) -> Result<(), NetnsError> {
        let names = self.network.names(key);
        processes::end(&names.path()).await.map_err(NetnsError::Processes)?;
        self.network.disconnect(&names).await?;
        self.credentials.revoke(grant).await?;
        self.records.remove(key)?;
        Ok(())
    }

    async fn created(&self, request: &Request) -> Result<Progress, NetnsError> {
        let key = request.key.as_str();
        let before = self.records.get(key)?;
        match before {
            Some(Record { phase: Phase::Running, .. }) => {
                let layout = self.records.layout(key);
                let is_started = layout.state()?.is_some_and(|state| !state.versions.kubelet.is_empty());
                let asked = layout.asked()?.unwrap_or_default();
                return match is_started || self.wait(key, &asked).await? {
                    true => Ok(Progress::Done),
                    false => Ok(Progress::Pending { retry_after: LATER }),
                };
            }
            // It was cut off.
            Some(record) => self.tear_down(key, &record.grant).await?,
            None => {}
        }
        Self::check()?;
        let grant = Grant::of(&request.desired);
        let nonce = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
        let nonce = nonce.split('-').next().unwrap_or_default().to_owned();
        let image = text(&request.desired.config, IMAGE);
        let record = self.records.add(|index| Record {
            key: key.to_owned(),
            id: format!("netns://{}/{key}/{nonce}", self.options.prefix),
            index,
            image,
            phase: Phase::Creating,
            grant,
        })?;
        let built = async {
            self.build(&record, request).await?;
            let asked = self.records.layout(key).asked()?.unwrap_or_default();
            self.wait(key, &asked).await
        };
        match built.await {
            Ok(true) => Ok(Progress::Done),
            Ok(false) => Ok(Progress::Pending { retry_after: LATER }),
            Err(error) => {
                if let Err(left) = self.tear_down(key, &record.grant).await {
                    // The next look finds it, and tries again.
                    tracing::warn!(%key, error = %left, "a host that was not created is not removed yet");
                }
                Err(error)
            }
        }
    }

    async fn observed(&self, key: &str) -> Result<Observed, NetnsError> {
        let Some(record) = self.records.get(key)? else { return Ok(Observed::Absent) };
        let names = self.network.names(key);
        let layout = self.records.layout(key);
        let host = |state: HostState, versions: MachineVersions, reboot: String| {
            Ok(Observed::Host(Box::new(Host {
                pool_host: None,
                id: record.id.clone(),
                state,
                addresses: vec![MachineAddress {
                    type_: "InternalIP".to_owned(),
                    address: self.network.address(record.index).to_string(),
                }],
                versions,
                facts: BTreeMap::from([
                    (IMAGE.to_owned(), record.image.clone()),
                    (REBOOT.to_owned(), reboot),
                ]),
                node_name: record.grant.node.clone(),
            })))
        };
        match record.phase {
            Phase::Deleting => return host(HostState::Deleting, MachineVersions::default(), String::new()),
            Phase::Creating => {
                if self.creations.contains(key) {
                    return host(HostState::Creating, MachineVersions::default(), String::new());
                }
                // The process that created it has ended: begin anew.
                self.tear_down(key, &record.grant).await?;
                return Ok(Observed::Absent);
            }
            Phase::Running => {}
        }
        if !names.path().exists() {
            // The machine was restarted, or someone has removed the namespace.
            self.tear_down(key, &record.grant).await?;
            return Ok(Observed::Absent);
        }
        let state = layout.state()?;
        let is_alive = !processes::of(&names.path()).is_empty();
        if !is_alive {
            self.start_agent(key)?;
        }
        let Some(state) = state else {
            return host(HostState::Creating, MachineVersions::default(), String::new());
        };
        if state.versions.kubelet.is_empty() && state.failed.is_some() {
            // It has never started, and whoever created it has ended: the next one reports why.
            self.tear_down(key, &record.grant).await?;
            return Ok(Observed::Absent);
        }
        let asked = layout.asked()?.unwrap_or_default();
        let is_refused = state.failed.as_ref().is_some_and(|failed| failed.attempt == asked.attempt);
        let is_done = asked.versions == state.versions && asked.reboot == state.reboot || is_refused;
        let doing = if is_done && is_alive { HostState::Running } else { HostState::Updating };
        host(doing, state.versions, state.reboot)
    }

    async fn stepped(&self, request: &Request, step: &Step) -> Result<Progress, NetnsError> {
        let key = request.key.as_str();
        let gone = || NetnsError::Start(std::io::Error::other("there is no host"));
        let record =
            self.records.get(key)?.filter(|record| record.phase == Phase::Running).ok_or_else(gone)?;
        let layout = self.records.layout(&record.key);
        let state = layout.state()?.ok_or_else(gone)?;
        let mut asked = Asked {
            versions: state.versions.clone(),
            reboot: state.reboot.clone(),
            attempt: request.generation,
        };
        local::take_step(&mut asked, step);
        if asked.versions == state.versions && asked.reboot == state.reboot {
            return Ok(Progress::Done);
        }
        self.options.packages.install(&layout, &asked.versions, &self.options.agent)?;
        if layout.asked()?.as_ref() != Some(&asked) {
            layout.ask(&asked)?;
        }
        match self.wait(key, &asked).await? {
            true => {
                Packages::prune(&layout, &[&asked.versions]);
                Ok(Progress::Done)
            }
            false => Ok(Progress::Pending { retry_after: LATER }),
        }
    }

    async fn deleted(&self, key: &str) -> Result<Progress, NetnsError> {
        let Some(record) = self.records.get(key)? else {
            // A directory without a record: the process ended between the two.
            self.records.remove(key)?;
            return Ok(Progress::Done);
        };
        self.records.set(&Record { phase: Phase::Deleting, ..record.clone() }).or_else(|error| {
            // Deletion is what frees a full disk.
            if error.is_disk_full() { Ok(()) } else { Err(error) }
        })?;
        self.tear_down(key, &record.grant).await?;
        // The bridge goes with the last host. One that is created at this moment is begun anew.
        if self.records.keys()?.is_empty() {
            self.network.stop().await?;
        }
        Ok(Progress::Done)
    }

    fn listed(&self) -> Result<Vec<Owned>, NetnsError> {
        let mut owned = Vec::new();
        for key in self.records.keys()? {
            let id = self.records.get(&key)?.map(|record| record.id).unwrap_or_default();
            owned.push(Owned { key: HostKey::new(&key), id });
        }
        Ok(owned)
    }
}

impl Provider for NetnsProvider {
    fn schema(&self) -> ConfigSchema {
        ConfigSchema {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    IMAGE: {
                        "type": "string", "minLength": 1, "maxLength": 63, "default": "host",
                        "pattern": "^[A-Za-z0-9][A-Za-z0-9._ -]*$",
                        "description": "Name of the image, in os-release. Another one needs another host.",
                    },
                    REBOOT: local::reboot_schema("host"),
                },
            }),
        }
    }

    fn validate(&self, desired: &Desired) -> Vec<String> {
        let mut errors = local::validate(desired, "network-namespace host");
        let runtime = desired.versions.container_runtime.as_ref();
        if runtime.is_some_and(|runtime| {
            runtime.name == KUBELET || is_path(&runtime.name) || is_path(&runtime.version)
        }) {
            errors.push("spec.versions.containerRuntime: Invalid value: it names files".to_owned());
        }
        errors
    }

    fn observe<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Observed, ProviderError>> {
        async move { Ok(self.observed(key.as_str()).await?) }.boxed()
    }

    fn plan(&self, host: &Host, desired: &Desired) -> Plan {
        let fact = |name: &str| host.facts.get(name).map_or("", String::as_str);
        let image = text(&desired.config, IMAGE);
        if fact(IMAGE) != image {
            return Plan::Replace { reason: format!("image changes from {} to {image}", fact(IMAGE)) };
        }
        let (is, wanted) = (&host.versions, &desired.versions);
        if let Some(refused) = local::refuse_runtime(is, wanted) {
            return refused;
        }
        let mut steps = local::version_steps(is, wanted);
        let mut disruptive = steps.iter().any(|step| step.name == RUNTIME);
        disruptive |= minor(&is.kubelet) != minor(&wanted.kubelet);
        let reboot = text(&desired.config, REBOOT);
        if fact(REBOOT) != reboot {
            steps.push(Step::new(REBOOT, &reboot));
            disruptive = true;
        }
        if steps.is_empty() { Plan::NoOp } else { Plan::InPlace { steps, disruptive } }
    }

    fn create<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move {
            let _creating = self.creations.begin(request.key.as_str());
            self.created(request).await.map_err(NetnsError::of_create)
        }
        .boxed()
    }

    fn apply_step<'a>(
        &'a self,
        request: &'a Request,
        step: &'a Step,
    ) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move { Ok(self.stepped(request, step).await?) }.boxed()
    }

    fn delete<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move { Ok(self.deleted(key.as_str()).await?) }.boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Owned>, ProviderError>> {
        async move { Ok(self.listed()?) }.boxed()
    }
}

fn is_path(text: &str) -> bool {
    text.contains('/') || text.starts_with('.')
}

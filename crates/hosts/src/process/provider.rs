//! The provider of control planes as local processes.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use serde_json::{Value, json};
use settled_machines::crds::ConfigSchema;
use settled_machines::provider::{
    Desired, Host, HostKey, HostState, Observed, Owned, Plan, Progress, Provider, ProviderError, Request,
    Step,
};
use settled_machines::types::{API_SERVER_ADDRESS, ErrorReason, MachineAddress, MachineVersions};

use super::programs::{Programs, normal};
use super::record::{HostDirectory, Record};
use super::server::{Children, answers, free_port};

/// `apiVersion` of the configuration.
pub const API_VERSION: &str = "process.cluster.settled.dev/v1alpha1";
/// `kind` of the configuration.
pub const KIND: &str = "ProcessMachine";

const CONTROL_PLANE: &str = "control-plane";
const START: &str = "start";
/// How long a call waits for a server that it has started.
const WAIT: Duration = Duration::from_secs(5);
const SOON: Duration = Duration::from_millis(200);
/// How often a server of a new version is started before the old one takes its place again.
const MAX_ATTEMPTS: u32 = 3;

/// Provider of control planes as local processes.
#[derive(Debug)]
pub struct ProcessProvider {
    root: PathBuf,
    programs: Programs,
    children: Children,
    /// Ports are given one after the other.
    ports: Mutex<()>,
    /// Where servers also listen.
    host_address: Option<Ipv4Addr>,
}

/// The API server of a Cluster, as its hosts on this machine reach it.
#[derive(Clone)]
#[non_exhaustive]
pub struct LocalServer {
    /// Its data directory.
    pub data: PathBuf,
    /// The administrator's kubeconfig.
    pub kubeconfig: String,
    /// The address by which others reach it.
    pub advertise_address: String,
    /// Its port.
    pub port: u16,
    /// Whether it listens at the address of this machine on the bridge of hosts.
    pub is_on_bridge: bool,
    /// Whether it listens on the loopback interface.
    pub is_on_loopback: bool,
}

/// Without the kubeconfig, which has a key.
impl fmt::Debug for LocalServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data, advertise_address, port, .. } = self;
        let mut text = formatter.debug_struct("LocalServer");
        text.field("data", data).field("advertise_address", advertise_address).field("port", port);
        text.finish_non_exhaustive()
    }
}

fn failed(what: &str, error: &io::Error) -> ProviderError {
    ProviderError::Transient(format!("cannot {what}: {error}"))
}

fn unavailable(version: &str, installed: &[String]) -> String {
    format!("version {version} of the API server is not installed; installed: {}", installed.join(", "))
}

fn text<'v>(config: &'v Value, name: &str) -> Option<&'v str> {
    config.get(name)?.as_str().filter(|text| !text.is_empty())
}

impl ProcessProvider {
    /// A provider whose hosts are in this directory.
    #[must_use]
    pub fn new(root: &Path, programs: Programs) -> Self {
        let root = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        Self { root, programs, children: Children::default(), ports: Mutex::default(), host_address: None }
    }

    /// Servers that are started also listen on this address, by which hosts on a bridge of this machine reach it. The machine may get it later.
    #[must_use]
    pub const fn with_host_address(mut self, address: Ipv4Addr) -> Self {
        self.host_address = Some(address);
        self
    }

    /// The API server of a Cluster (`NAMESPACE/NAME`), if it is a process that has ever served.
    ///
    /// # Errors
    /// A record cannot be read.
    pub fn server_of(&self, cluster: &str) -> io::Result<Option<LocalServer>> {
        for host in HostDirectory::all(&self.root)? {
            let Some(record) = host.read()?.filter(|record| record.cluster == cluster) else { continue };
            let Some(kubeconfig) = kubeconfig(&host, &record)? else { continue };
            let is = |test: fn(&IpAddr) -> bool| record.address.parse().is_ok_and(|address| test(&address));
            let is_everywhere = is(IpAddr::is_unspecified);
            return Ok(Some(LocalServer {
                data: host.data(),
                kubeconfig,
                port: record.port,
                is_on_bridge: is_everywhere || record.host_address.is_some(),
                is_on_loopback: is_everywhere || is(IpAddr::is_loopback) || record.address == "localhost",
                advertise_address: record.advertise_address,
            }));
        }
        Ok(None)
    }

    fn directory(&self, key: &HostKey) -> HostDirectory {
        HostDirectory::new(&self.root, key.as_str())
    }

    fn record(&self, key: &HostKey) -> Result<Option<(HostDirectory, Record)>, ProviderError> {
        let directory = self.directory(key);
        let record = directory.read().map_err(|error| failed("read the record of the host", &error))?;
        Ok(record.map(|record| (directory, record)))
    }

    /// One process has one store: a Cluster has one.
    fn refuse_second(&self, request: &Request) -> Result<(), ProviderError> {
        let all = HostDirectory::all(&self.root).map_err(|error| failed("list the hosts", &error))?;
        let records = all.iter().filter_map(|host| host.read().ok().flatten());
        let mut others = records.filter(|record| record.uid != request.key.as_str());
        let same =
            others.find(|record| !record.cluster.is_empty() && record.cluster == request.desired.cluster);
        match same {
            Some(record) => Err(ProviderError::terminal(
                ErrorReason::InvalidConfiguration,
                format!(
                    "the control plane of Cluster {} is the process of Machine {}: a process has a store of its own, there cannot be two",
                    record.cluster, record.machine
                ),
            )),
            None => Ok(()),
        }
    }

    fn new_record(&self, request: &Request) -> Result<Record, ProviderError> {
        let Desired { versions, config, node_name, cluster, labels, taints, .. } = &request.desired;
        let address = text(config, "address").unwrap_or("127.0.0.1").to_owned();
        let advertise_address = text(config, "advertiseAddress").unwrap_or(&address).to_owned();
        let given = config.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
        let port = match given {
            Some(port) => port,
            None => free_port(&address).map_err(|error| failed("get a port", &error))?,
        };
        Ok(Record {
            uid: request.key.as_str().to_owned(),
            machine: request.machine.clone(),
            cluster: cluster.clone(),
            node_name: node_name.clone(),
            labels: labels.clone(),
            taints: taints.clone(),
            address,
            advertise_address,
            port,
            service_range: text(config, "serviceClusterIPRange").map(str::to_owned),
            version: versions.control_plane.clone().unwrap_or_default(),
            ..Record::default()
        })
    }

    /// Starts the server that the record names, unless it runs. Done once it answers.
    async fn started(&self, host: &HostDirectory, mut record: Record) -> Result<Progress, ProviderError> {
        // One that is found may be ending: it is not the one that does not start.
        if self.children.find(host).is_some() && !self.children.wait(host, &record, WAIT).await {
            tracing::debug!(host = record.id(), "the API server has not answered");
        }
        if self.children.find(host).is_none() {
            let program =
                self.programs.find(&record.version).ok_or_else(|| self.no_program(&record.version))?;
            // A port that was free, and is not any more: nobody knows it yet.
            if !record.has_served && record.attempts > 0 && answers(&record).await {
                record.port = free_port(&record.address).map_err(|error| failed("get a port", &error))?;
            }
            record.attempts += 1;
            // One that listens everywhere has no port left for it.
            let is_everywhere = record.address.parse().is_ok_and(|address: IpAddr| address.is_unspecified());
            record.host_address = self.host_address.filter(|_| !is_everywhere);
            host.write(&record).map_err(|error| failed("write the record of the host", &error))?;
            let started = self.children.start(host, &record, &program);
            started.map_err(|error| failed(&format!("start {}", program.display()), &error))?;
        }
        if self.children.wait(host, &record, WAIT).await {
            if !record.has_served || record.attempts > 0 || record.previous.is_some() {
                record.has_served = true;
                record.attempts = 0;
                record.previous = None;
                host.write(&record).map_err(|error| failed("write the record of the host", &error))?;
            }
            return Ok(Progress::Done);
        }
        if self.children.find(host).is_some() {
            return Ok(Progress::Pending { retry_after: SOON });
        }
        Err(ProviderError::Transient(format!("the API server ended at its start: {}", host.tail())))
    }

    fn no_program(&self, version: &str) -> ProviderError {
        ProviderError::terminal(
            ErrorReason::UnsupportedChange,
            unavailable(version, &self.programs.installed()),
        )
    }

    /// Another version: the old server ends, the new one starts. If it does not, the old one takes its place again.
    async fn update(
        &self,
        host: &HostDirectory,
        mut record: Record,
        version: &str,
    ) -> Result<Progress, ProviderError> {
        let running = self.children.find(host);
        let runs = running.as_ref().and_then(|process| self.programs.version_of(&process.program));
        if record.version != version {
            if self.programs.find(version).is_none() {
                return Err(self.no_program(version));
            }
            record.previous = Some(runs.clone().unwrap_or_else(|| record.version.clone()));
            record.version = version.to_owned();
            record.attempts = 0;
            host.write(&record).map_err(|error| failed("write the record of the host", &error))?;
        }
        if running.is_some()
            && runs.as_deref().is_some_and(|runs| runs != normal(version))
            && !self.children.stop(host).await
        {
            return Ok(Progress::Pending { retry_after: SOON });
        }
        let is_exhausted = record.attempts >= MAX_ATTEMPTS && self.children.find(host).is_none();
        match (is_exhausted, record.previous.take()) {
            (true, Some(previous)) => {
                let message = format!(
                    "the API server of version {version} does not start, {previous} runs again: {}",
                    host.tail()
                );
                record.version = previous;
                record.attempts = 0;
                host.write(&record).map_err(|error| failed("write the record of the host", &error))?;
                self.started(host, record).await?;
                Err(ProviderError::terminal(ErrorReason::UpdateError, message))
            }
            (_, previous) => {
                record.previous = previous;
                self.started(host, record).await
            }
        }
    }
}

/// The administrator's kubeconfig of a server that has ever served, with the address by which others reach it.
fn kubeconfig(host: &HostDirectory, record: &Record) -> io::Result<Option<String>> {
    if !record.has_served {
        return Ok(None);
    }
    let listens = format!("https://{}:{}", record.address, record.port);
    let serves = format!("https://{}:{}", record.advertise_address, record.port);
    match fs::read_to_string(host.data().join("admin.kubeconfig")) {
        Ok(text) => Ok(Some(text.replace(&listens, &serves))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

impl Provider for ProcessProvider {
    fn schema(&self) -> ConfigSchema {
        let address = |description: &str| json!({"type": "string", "minLength": 1, "maxLength": 253, "description": description});
        let mut listen = address("Where the API server listens.");
        listen["default"] = "127.0.0.1".into();
        ConfigSchema {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            schema: json!({
                "type": "object",
                "properties": {
                    "address": listen,
                    "advertiseAddress": address("By which address others reach it, if it is another one."),
                    "port": {"type": "integer", "minimum": 1, "maximum": 65535, "description": "Its port. Without one, any that is free."},
                    "serviceClusterIPRange": address("Range of Service IPs."),
                },
            }),
        }
    }

    fn validate(&self, desired: &Desired) -> Vec<String> {
        let mut errors = Vec::new();
        if desired.versions.control_plane.is_none() {
            errors
                .push("spec.versions.controlPlane: Required value: a process is a control plane".to_owned());
        }
        if !desired.versions.kubelet.is_empty() {
            errors.push("spec.versions.kubelet: Forbidden: a process has no kubelet".to_owned());
        }
        if desired.versions.container_runtime.is_some() {
            errors.push(
                "spec.versions.containerRuntime: Forbidden: a process has no container runtime".to_owned(),
            );
        }
        errors
    }

    fn observe<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Observed, ProviderError>> {
        async move {
            let Some((host, record)) = self.record(key)? else {
                // What a deletion has left is finished by the next one.
                return Ok(match self.directory(key).exists() {
                    true => Observed::Host(Box::new(Host { state: HostState::Deleting, ..Host::default() })),
                    false => Observed::Absent,
                });
            };
            let process = self.children.find(&host);
            let (is_running, is_ready) = (process.is_some(), process.is_some() && answers(&record).await);
            let runs = process.and_then(|process| self.programs.version_of(&process.program));
            let state = match (is_running, is_ready) {
                (true, false) if !record.has_served => HostState::Creating,
                (true, false) => HostState::Updating,
                _ => HostState::Running,
            };
            let address = |type_: &str, address: String| MachineAddress { type_: type_.to_owned(), address };
            let mut facts = BTreeMap::from([
                ("process".to_owned(), if is_running { "running" } else { "stopped" }.to_owned()),
                ("installed".to_owned(), self.programs.installed().join(",")),
                ("address".to_owned(), record.address.clone()),
                ("advertiseAddress".to_owned(), record.advertise_address.clone()),
                ("port".to_owned(), record.port.to_string()),
            ]);
            if let Some(range) = &record.service_range {
                facts.insert("serviceClusterIPRange".to_owned(), range.clone());
            }
            Ok(Observed::Host(Box::new(Host {
                pool_host: None,
                id: record.id(),
                state,
                addresses: vec![
                    address("InternalIP", record.advertise_address.clone()),
                    address(API_SERVER_ADDRESS, format!("{}:{}", record.advertise_address, record.port)),
                ],
                versions: MachineVersions {
                    // In the words of the request, if it is the same one.
                    control_plane: Some(match runs {
                        Some(runs) if runs != normal(&record.version) => runs,
                        _ => record.version.clone(),
                    }),
                    ..MachineVersions::default()
                },
                facts,
                node_name: record.node_name,
            })))
        }
        .boxed()
    }

    fn plan(&self, host: &Host, desired: &Desired) -> Plan {
        let fact = |name: &str| host.facts.get(name).map_or("", String::as_str);
        let port = desired.config.get("port").and_then(Value::as_u64).map(|port| port.to_string());
        let wanted = [
            ("address", text(&desired.config, "address").map(str::to_owned)),
            ("advertiseAddress", text(&desired.config, "advertiseAddress").map(str::to_owned)),
            ("port", port),
            ("serviceClusterIPRange", text(&desired.config, "serviceClusterIPRange").map(str::to_owned)),
        ];
        for (name, wanted) in wanted {
            if let Some(wanted) = wanted.filter(|wanted| wanted != fact(name)) {
                let reason = format!(
                    "{name} cannot change from {} to {wanted}: Nodes are registered with it",
                    fact(name)
                );
                return Plan::Unsupported { reason };
            }
        }
        let version = desired.versions.control_plane.as_deref().unwrap_or_default();
        let step = |step: Step| Plan::InPlace { steps: vec![step], disruptive: false };
        if host.versions.control_plane.as_deref() != Some(version) {
            let installed: Vec<String> = fact("installed").split(',').map(str::to_owned).collect();
            return match installed.contains(&normal(version)) {
                true => step(Step::new(CONTROL_PLANE, version)),
                false => Plan::Unsupported { reason: unavailable(version, &installed) },
            };
        }
        if fact("process") == "stopped" { step(Step::new(START, version)) } else { Plan::NoOp }
    }

    fn create<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move {
            let (host, record) = match self.record(&request.key)? {
                Some(found) => found,
                None => {
                    self.refuse_second(request)?;
                    let version = request.desired.versions.control_plane.as_deref().unwrap_or_default();
                    if self.programs.find(version).is_none() {
                        return Err(self.no_program(version));
                    }
                    let host = self.directory(&request.key);
                    if host.exists() {
                        // What a deletion has left goes first.
                        return self
                            .delete(&request.key)
                            .await
                            .map(|_| Progress::Pending { retry_after: SOON });
                    }
                    let record = {
                        let _one_by_one =
                            self.ports.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                        let record = self.new_record(request)?;
                        host.create(&record)
                            .map_err(|error| failed("make the directory of the host", &error))?;
                        record
                    };
                    (host, record)
                }
            };
            self.started(&host, record).await
        }
        .boxed()
    }

    fn apply_step<'a>(
        &'a self,
        request: &'a Request,
        step: &'a Step,
    ) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move {
            let Some((host, record)) = self.record(&request.key)? else {
                return Err(ProviderError::Transient("there is no host".to_owned()));
            };
            match step.name.as_str() {
                CONTROL_PLANE => self.update(&host, record, &step.argument).await,
                // The server of an update that was begun ended at its start: it is tried again, until the version before takes its place.
                _ if record.previous.is_some() => {
                    let version = record.version.clone();
                    self.update(&host, record, &version).await
                }
                _ => self.started(&host, record).await,
            }
        }
        .boxed()
    }

    fn delete<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move {
            let host = self.directory(key);
            if !self.children.stop(&host).await {
                return Ok(Progress::Pending { retry_after: SOON });
            }
            host.remove().map_err(|error| failed("remove the directory of the host", &error))?;
            Ok(Progress::Done)
        }
        .boxed()
    }

    fn kubeconfig<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Option<String>, ProviderError>> {
        async move {
            let Some((host, record)) = self.record(key)? else { return Ok(None) };
            kubeconfig(&host, &record)
                .map_err(|error| failed("read the kubeconfig of the API server", &error))
        }
        .boxed()
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Owned>, ProviderError>> {
        async move {
            let all = HostDirectory::all(&self.root).map_err(|error| failed("list the hosts", &error))?;
            let mut owned = Vec::new();
            for host in all {
                if let Some(record) =
                    host.read().map_err(|error| failed("read the record of a host", &error))?
                {
                    owned.push(Owned { key: HostKey::new(&record.uid), id: record.id() });
                }
            }
            Ok(owned)
        }
        .boxed()
    }
}

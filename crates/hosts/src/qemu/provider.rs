//! The provider of virtual machines: the contract on top of processes of QEMU.

use std::collections::BTreeMap;
use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::json;
use settled_machines::crds::ConfigSchema;
use settled_machines::provider::{
    Desired, Host, HostKey, HostState, Observed, Owned, Plan, Progress, Provider, ProviderError, Request,
    Step,
};
use settled_machines::types::{ErrorReason, MachineAddress};
use tokio::process::Command;

use super::cpio::Archive;
use crate::agent::layout::{self, LayoutError, builtin_package, package};
use crate::agent::{Asked, Credentials, CredentialsError, Failed, Grant, Layout, Settings, State, Timing};
use crate::local::{self, Creations, IMAGE, KUBELET, REBOOT, text};

/// `apiVersion` of the configuration.
pub const API_VERSION: &str = "qemu.hosts.settled.dev/v1alpha1";
/// `kind` of the configuration.
pub const KIND: &str = "QemuMachine";

/// Where machines reach the loopback of the machine that they run on.
pub const HOST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// When a machine that boots is worth another look.
const BOOT: Duration = Duration::from_secs(1);

/// How a provider works.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// Where the state of machines is kept.
    pub directory: PathBuf,
    /// Where images are: `NAME/vmlinuz` and `NAME/initrd`.
    pub images: PathBuf,
    /// The command of QEMU.
    pub qemu: Vec<String>,
    /// `tcg`, which emulates, or `kvm`.
    pub accelerator: String,
    /// Memory of a machine, in megabytes.
    pub memory: u32,
    /// How quickly agents work.
    pub timing: Timing,
}

impl Options {
    /// With a state directory and a directory of images; machines are emulated.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>, images: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            images: images.into(),
            qemu: vec!["qemu-system-x86_64".to_owned()],
            accelerator: "tcg".to_owned(),
            memory: 512,
            // An emulated machine may need a while for a kubelet.
            timing: Timing { start_millis: 60_000, request_millis: 60_000, ..Timing::default() },
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum QemuError {
    #[error("QEMU machines need `{0}`: install qemu-system-x86")]
    NoQemu(String),
    #[error("there is no image {0}: it needs a vmlinuz and an initrd")]
    NoImage(String),
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    #[error("{0}")]
    Failed(String),
    #[error("there is no host")]
    NoHost,
}

impl From<QemuError> for ProviderError {
    fn from(error: QemuError) -> Self {
        let text = error.to_string();
        match error {
            QemuError::NoQemu(_) => Self::terminal(ErrorReason::InsufficientResources, text),
            QemuError::Layout(error) if error.is_disk_full() => {
                Self::terminal(ErrorReason::InsufficientResources, format!("the disk is full: {text}"))
            }
            QemuError::NoImage(_) => Self::terminal(ErrorReason::CreateError, text),
            QemuError::Failed(_) => Self::terminal(ErrorReason::UpdateError, text),
            _ => Self::Transient(text),
        }
    }
}

/// What a machine boots with. It is recorded before the process is started, which has the number in its arguments: whether a process boots what is
/// recorded is read from the process.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct Boot {
    #[serde(default)]
    number: u64,
    image: String,
    asked: Asked,
}

#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
enum Phase {
    Creating,
    Running,
    Deleting,
}

/// A machine of the provider: `machine.json`.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Record {
    key: String,
    phase: Phase,
    grant: Grant,
    settings: Settings,
    kubeconfig: String,
    boot: Boot,
    /// What it booted with before: it is stepped back to.
    previous: Option<Boot>,
    failed: Option<Failed>,
}

/// Provider of virtual machines. Clones are the same one.
#[derive(Clone)]
pub struct QemuProvider {
    options: Arc<Options>,
    credentials: Arc<dyn Credentials>,
    creations: Creations,
}

impl std::fmt::Debug for QemuProvider {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("QemuProvider").field("options", &self.options).finish_non_exhaustive()
    }
}

impl QemuProvider {
    /// A provider with its state in a directory.
    pub fn new(options: Options, credentials: Arc<dyn Credentials>) -> Self {
        Self { options: Arc::new(options), credentials, creations: Creations::default() }
    }

    fn hosts(&self) -> PathBuf {
        self.options.directory.join("hosts")
    }

    fn path(&self, key: &str) -> PathBuf {
        self.hosts().join(key)
    }

    fn record(&self, key: &str) -> Result<Option<Record>, LayoutError> {
        layout::read(&self.path(key).join("machine.json"))
    }

    fn set(&self, record: &Record) -> Result<(), LayoutError> {
        let bytes = serde_json::to_vec_pretty(record).unwrap_or_default();
        layout::write(&self.path(&record.key).join("machine.json"), 0o600, &bytes)
    }

    /// An argument that only the process of this machine has.
    fn mark(&self, key: &str) -> String {
        format!("file:{}", self.path(key).join("console.log").display())
    }

    /// The processes of a machine.
    #[must_use]
    pub fn processes(&self, key: &HostKey) -> Vec<i32> {
        self.running(key.as_str()).into_iter().map(|(process, _)| process).collect()
    }

    /// The processes of a machine, with their arguments.
    fn running(&self, key: &str) -> Vec<(i32, Vec<String>)> {
        let mark = self.mark(key);
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        let arguments = |number: i32| {
            let line = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            let words = line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
            let words: Vec<String> = words.collect();
            words.contains(&mark).then_some((number, words))
        };
        numbers.filter_map(arguments).collect()
    }

    /// Whether one process runs, and boots what is recorded. After a crash it may be another boot, or none.
    fn is_booted(&self, record: &Record) -> bool {
        let running = self.running(&record.key);
        matches!(running.as_slice(), [(_, words)] if words.contains(&kernel_arguments(record.boot.number)))
    }

    /// What a boot reports.
    fn state_log(&self, key: &str, boot: u64) -> PathBuf {
        self.path(key).join(format!("state-{boot}.log"))
    }

    /// Everything that exists of machines: directories.
    #[must_use]
    pub fn leftovers(&self) -> Vec<String> {
        let entries = fs::read_dir(self.hosts()).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
    }

    async fn stop(&self, key: &str) -> Result<(), QemuError> {
        let key = HostKey::new(key);
        for _ in 0..500 {
            let processes = self.processes(&key);
            if processes.is_empty() {
                return Ok(());
            }
            for process in processes.into_iter().filter_map(Pid::from_raw) {
                // It may have ended just now.
                let _best_effort = kill_process(process, Signal::KILL);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err(QemuError::Failed("the process of QEMU does not end".to_owned()))
    }

    /// Starts a machine with what it is asked for. It outlives this process.
    fn start(&self, record: &Record) -> Result<(), QemuError> {
        let directory = self.path(&record.key);
        let image = self.options.images.join(&record.boot.image);
        let initrd = image.join("initrd");
        let base = fs::read(&initrd).map_err(|_| QemuError::NoImage(record.boot.image.clone()))?;
        let seed = directory.join("initrd");
        layout::write(&seed, 0o600, &[base, seed_of(record)].concat())?;
        // Of earlier boots, and of this one if its power was cut.
        for boot in record.boot.number.saturating_sub(1)..=record.boot.number {
            let _best_effort = fs::remove_file(self.state_log(&record.key, boot));
        }
        let state = self.state_log(&record.key, record.boot.number);
        let mut words = self.options.qemu.iter();
        let program = words.next().cloned().unwrap_or_default();
        let mut command = Command::new(&program);
        command.args(words);
        command.args(["-accel", &self.options.accelerator, "-m", &self.options.memory.to_string()]);
        command.args(["-display", "none", "-nodefaults", "-no-reboot", "-nic", "user,model=virtio-net-pci"]);
        command.arg("-serial").arg(self.mark(&record.key));
        command.arg("-serial").arg(format!("file:{}", state.display()));
        command.arg("-kernel").arg(image.join("vmlinuz")).arg("-initrd").arg(&seed);
        command.args(["-append", &kernel_arguments(record.boot.number)]);
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(drop).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => QemuError::NoQemu(program),
            _ => QemuError::Layout(LayoutError::file(&directory)(error)),
        })
    }

    /// What a machine has reported since it booted.
    fn state(&self, record: &Record) -> Option<State> {
        let text = fs::read(self.state_log(&record.key, record.boot.number)).ok()?;
        let text = String::from_utf8_lossy(&text);
        let complete = text.get(..text.rfind('\n')?)?;
        let line = complete.lines().rev().find_map(|line| line.trim().strip_prefix("SETTLED-STATE "))?;
        serde_json::from_str(line).ok()
    }

    async fn tear_down(&self, key: &str, grant: &Grant) -> Result<(), QemuError> {
        self.stop(key).await?;
        self.credentials.revoke(grant).await?;
        let directory = self.path(key);
        match fs::remove_dir_all(&directory) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(LayoutError::file(&directory)(error).into())
            }
            _ => Ok(()),
        }
    }

    async fn created(&self, request: &Request) -> Result<Progress, QemuError> {
        let key = request.key.as_str();
        match self.record(key)? {
            Some(Record { phase: Phase::Running, .. }) => return Ok(Progress::Pending { retry_after: BOOT }),
            Some(record) => self.tear_down(key, &record.grant).await?,
            None => {}
        }
        let desired = &request.desired;
        let image = text(&desired.config, IMAGE);
        if !self.options.images.join(&image).join("vmlinuz").is_file() {
            return Err(QemuError::NoImage(image));
        }
        let grant = Grant::of(desired);
        let nonce = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
        let mut record = Record {
            key: key.to_owned(),
            phase: Phase::Creating,
            settings: Settings {
                node_name: desired.node_name.clone(),
                provider_id: format!("qemu://{key}/{}", nonce.split('-').next().unwrap_or_default()),
                machine: request.machine.clone(),
                labels: desired.labels.clone(),
                taints: desired.taints.clone(),
                addresses: vec![address()],
                host: None,
                timing: self.options.timing,
                is_isolated: false,
            },
            kubeconfig: String::new(),
            boot: Boot { number: 1, image, asked: local::asked(request) },
            previous: None,
            failed: None,
            grant,
        };
        let directory = self.path(key);
        fs::create_dir_all(&directory).map_err(LayoutError::file(&directory))?;
        let built = async {
            self.set(&record)?;
            record.kubeconfig = self.credentials.issue(&record.grant).await?;
            record.phase = Phase::Running;
            self.set(&record)?;
            self.start(&record)
        };
        if let Err(error) = built.await {
            if let Err(left) = self.tear_down(key, &Grant::of(desired)).await {
                tracing::warn!(%key, error = %left, "a machine that was not created is not removed yet");
            }
            return Err(error);
        }
        Ok(Progress::Pending { retry_after: BOOT })
    }

    async fn observed(&self, key: &str) -> Result<Observed, QemuError> {
        let Some(mut record) = self.record(key)? else { return Ok(Observed::Absent) };
        if record.phase == Phase::Creating && !self.creations.contains(key) {
            // The process that created it has ended: begin anew.
            self.tear_down(key, &record.grant).await?;
            return Ok(Observed::Absent);
        }
        let is_booting = if record.previous.is_some() { HostState::Updating } else { HostState::Creating };
        let is_booted = self.is_booted(&record);
        let reported = self.state(&record).filter(|_| is_booted);
        let mut state = match record.phase {
            Phase::Deleting => HostState::Deleting,
            Phase::Creating => HostState::Creating,
            Phase::Running if !is_booted => {
                // The machine was powered off, or the process that recorded a boot ended before it.
                self.stop(key).await?;
                self.start(&record)?;
                is_booting
            }
            Phase::Running => match &reported {
                Some(state) if state.versions == record.boot.asked.versions => HostState::Running,
                Some(State { failed: Some(failed), .. }) => HostState::Failed(failed.message.clone()),
                _ => is_booting,
            },
        };
        if let (HostState::Failed(message), Some(previous)) = (&state, record.previous.take()) {
            let message = format!("{message}; {} boots again", previous.asked.versions.kubelet);
            record.failed = Some(Failed { attempt: record.boot.asked.attempt, message });
            record.boot = Boot { number: record.boot.number + 1, ..previous };
            self.set(&record)?;
            self.stop(key).await?;
            self.start(&record)?;
            state = HostState::Updating;
        }
        Ok(Observed::Host(Box::new(Host {
            pool_host: None,
            id: record.settings.provider_id.clone(),
            state,
            addresses: vec![address()],
            versions: reported.map(|state| state.versions).unwrap_or_default(),
            facts: BTreeMap::from([
                (IMAGE.to_owned(), record.boot.image.clone()),
                (REBOOT.to_owned(), record.boot.asked.reboot.clone()),
            ]),
            node_name: record.grant.node.clone(),
        })))
    }

    async fn stepped(&self, request: &Request, step: &Step) -> Result<Progress, QemuError> {
        let key = request.key.as_str();
        let record = self.record(key)?.filter(|record| record.phase == Phase::Running);
        let mut record = record.ok_or(QemuError::NoHost)?;
        if let Some(failed) = record.failed.as_ref().filter(|failed| failed.attempt == request.generation) {
            return Err(QemuError::Failed(failed.message.clone()));
        }
        let mut boot = record.boot.clone();
        local::take_step(&mut boot.asked, step);
        if step.name == IMAGE {
            boot.image.clone_from(&step.argument);
        }
        if boot == record.boot {
            return Ok(Progress::Done);
        }
        if !self.options.images.join(&boot.image).join("vmlinuz").is_file() {
            return Err(QemuError::Failed(QemuError::NoImage(boot.image).to_string()));
        }
        boot.asked.attempt = request.generation;
        boot.number += 1;
        record.previous = Some(std::mem::replace(&mut record.boot, boot));
        record.failed = None;
        self.set(&record)?;
        // A later process finds another boot, or none, and starts this one.
        self.stop(key).await?;
        self.start(&record)?;
        Ok(Progress::Pending { retry_after: BOOT })
    }

    async fn deleted(&self, key: &str) -> Result<Progress, QemuError> {
        let grant = match self.record(key)? {
            Some(mut record) => {
                record.phase = Phase::Deleting;
                // Deletion is what frees a full disk.
                self.set(&record).or_else(|error| if error.is_disk_full() { Ok(()) } else { Err(error) })?;
                record.grant
            }
            None if self.path(key).exists() => {
                let directory = self.path(key);
                fs::remove_dir_all(&directory).map_err(LayoutError::file(&directory))?;
                return Ok(Progress::Done);
            }
            None => return Ok(Progress::Done),
        };
        self.tear_down(key, &grant).await?;
        Ok(Progress::Done)
    }
}

/// The arguments of the kernel, with the number of the boot.
fn kernel_arguments(boot: u64) -> String {
    format!("console=ttyS0 quiet panic=1 rdinit=/init settled.boot={boot}")
}

/// The address that QEMU's user network gives each machine.
fn address() -> MachineAddress {
    MachineAddress { type_: "InternalIP".to_owned(), address: "10.0.2.15".to_owned() }
}

/// The files of the agent, as an archive that the kernel unpacks after the image.
fn seed_of(record: &Record) -> Vec<u8> {
    let mut archive = Archive::default();
    for (name, mode, content) in Layout::files(&record.settings, &record.boot.asked, &record.kubeconfig) {
        archive.file(&format!("host/{name}"), mode, &content);
    }
    archive.file("host/hostname", 0o644, record.settings.node_name.as_bytes());
    let versions = &record.boot.asked.versions;
    let runtime = versions.container_runtime.as_ref();
    let mut programs = vec![(KUBELET, versions.kubelet.as_str())];
    programs.extend(runtime.map(|runtime| (runtime.name.as_str(), runtime.version.as_str())));
    for (component, version) in programs {
        let script = builtin_package(component, version, &["/bin/settled-agent".to_owned()]);
        let path = PathBuf::from("host").join(package(component, version));
        archive.file(&path.to_string_lossy(), 0o755, script.as_bytes());
    }
    archive.finish()
}

impl Provider for QemuProvider {
    fn schema(&self) -> ConfigSchema {
        ConfigSchema {
            api_version: API_VERSION.to_owned(),
            kind: KIND.to_owned(),
            schema: json!({
                "type": "object",
                "required": [IMAGE],
                "properties": {
                    IMAGE: {
                        "type": "string", "minLength": 1, "maxLength": 63,
                        "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]*$",
                        "description": "Name of an image. Another one is booted in place.",
                    },
                    REBOOT: local::reboot_schema("machine"),
                },
            }),
        }
    }

    fn validate(&self, desired: &Desired) -> Vec<String> {
        local::validate(desired, "QEMU machine")
    }

    fn observe<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Observed, ProviderError>> {
        async move { Ok(self.observed(key.as_str()).await?) }.boxed()
    }

    fn plan(&self, host: &Host, desired: &Desired) -> Plan {
        let fact = |name: &str| host.facts.get(name).map_or("", String::as_str);
        let (is, wanted) = (&host.versions, &desired.versions);
        if let Some(refused) = local::refuse_runtime(is, wanted) {
            return refused;
        }
        let mut steps = Vec::new();
        for field in [IMAGE, REBOOT] {
            let value = text(&desired.config, field);
            if fact(field) != value {
                steps.push(Step::new(field, &value));
            }
        }
        steps.extend(local::version_steps(is, wanted));
        // Each step boots the machine.
        if steps.is_empty() { Plan::NoOp } else { Plan::InPlace { steps, disruptive: true } }
    }

    fn create<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        async move {
            let _creating = self.creations.begin(request.key.as_str());
            Ok(self.created(request).await?)
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
        async move {
            let mut owned = Vec::new();
            for key in self.leftovers() {
                let record = self.record(&key).map_err(QemuError::from)?;
                let id = record.map(|record| record.settings.provider_id).unwrap_or_default();
                owned.push(Owned { key: HostKey::new(&key), id });
            }
            Ok(owned)
        }
        .boxed()
    }
}

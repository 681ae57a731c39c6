//! Providers that this program has: all plan and validate, and those of hosts on this machine also create them.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
#[cfg(target_os = "linux")]
use settled_clusters::OpenPool;
use settled_clusters::Pool;
use settled_controller::Clock;
use settled_hosts::ssh::SshPlanner;
#[cfg(target_os = "linux")]
use settled_machines::live::Client;
use settled_machines::provider::{Provider, Registry};
use settled_machines::simulated::{Latency, Shared, SimulatedProvider};

use crate::error::CommandError;

/// All providers, for plans and validation: `plan`, `schema`, `defaults` and `validate` touch no host.
pub(super) fn planners() -> Result<Registry, CommandError> {
    let simulated = SimulatedProvider::new(Shared::default(), Clock::system(), Latency::CLOUD);
    let mut all: Vec<Arc<dyn Provider>> = vec![Arc::new(simulated), Arc::new(SshPlanner)];
    let nowhere = Path::new("/nonexistent");
    all.extend(made(nowhere, nowhere)?.providers);
    Registry::new(all)
        .map_err(|error| CommandError::input_error("cannot read the schema of a provider", error))
}

/// What makes hosts.
#[derive(Default)]
pub(super) struct Hosts {
    /// Providers of hosts on this machine.
    pub(super) providers: Vec<Arc<dyn Provider>>,
    /// Pools of other machines.
    pub(super) pools: Vec<Arc<dyn Pool>>,
}

/// The providers of hosts: the directories of those on this machine are below this one. Programs are control planes by their version, and what is installed
/// on hosts of a pool.
#[cfg(target_os = "linux")]
pub(super) fn hosts(directory: &Path, programs: &Path) -> Result<Hosts, CommandError> {
    use settled_hosts::netns::{NetnsProvider, Options};

    // Control planes listen at its gateway before there is a host.
    if NetnsProvider::check().is_ok() {
        let kept = Options::new(directory.join(NETNS), Vec::new()).keep_subnet();
        kept.map_err(|error| CommandError::input_error("cannot write the state directory", error))?;
    }
    made(directory, programs)
}

/// Directory of namespace hosts.
#[cfg(target_os = "linux")]
const NETNS: &str = "netns";

#[cfg(target_os = "linux")]
fn made(directory: &Path, programs: &Path) -> Result<Hosts, CommandError> {
    use settled_apiserver::auth::{Certificates, User};
    use settled_hosts::agent::Grant;
    use settled_hosts::netns::{self, NetnsProvider};
    use settled_hosts::process::{ProcessCredentials, ProcessProvider, Programs, Route};
    use settled_hosts::qemu::{self, QemuProvider};

    let program = std::env::current_exe()
        .map_err(|error| CommandError::input_error("cannot find this program", error))?;
    let versions = Programs::new(&settled_apiserver::kubernetes_version(), &program).with_directory(programs);
    let agent = vec![program.to_string_lossy().into_owned(), "cluster".to_owned(), "agent".to_owned()];
    let options = netns::Options::new(directory.join(NETNS), agent);
    let gateway = options.gateway();
    let mut processes = ProcessProvider::new(&directory.join("process"), versions);
    // Control planes listen for namespace hosts where there can be some.
    if NetnsProvider::check().is_ok() {
        processes = processes.with_host_address(gateway);
    }
    let processes = Arc::new(processes);
    let credentials = |route| {
        let made = ProcessCredentials::new(processes.clone(), route, |server, url, grant| {
            let certificates = Certificates::in_directory(&server.data.join("pki"), &Default::default())?;
            Ok(certificates.kubeconfig(url, &User::new(grant.user(), [Grant::GROUP]))?)
        });
        Arc::new(made)
    };
    let namespaces = NetnsProvider::new(options, credentials(Route::Bridge(gateway)));
    let machines = qemu::Options::new(directory.join("qemu"), directory.join("images"));
    let machines = QemuProvider::new(machines, credentials(Route::Loopback(qemu::HOST_ADDRESS)));
    let pool = SshPool { credentials: credentials(Route::Advertised), artifacts: programs.to_owned() };
    Ok(Hosts {
        providers: vec![processes, Arc::new(namespaces), Arc::new(machines)],
        pools: vec![Arc::new(pool)],
    })
}

/// Hosts that are reached by SSH: those of the API server.
#[cfg(target_os = "linux")]
struct SshPool {
    credentials: Arc<settled_hosts::process::ProcessCredentials>,
    artifacts: std::path::PathBuf,
}

#[cfg(target_os = "linux")]
impl Pool for SshPool {
    fn open(&self, client: &Client) -> OpenPool {
        use settled_hosts::agent::Timing;
        use settled_hosts::ssh::openssh::{OpenSsh, OpenSshOptions};
        use settled_hosts::ssh::{AgentJoin, Options, SecretKeys, SshProvider};

        let join = AgentJoin::new(self.credentials.clone(), Timing::default()).of_clusters();
        let keys = SecretKeys::new(client.clone());
        let transport = OpenSsh::new(OpenSshOptions::default(), Arc::new(keys));
        let options = Options::new(&self.artifacts);
        let provider = SshProvider::new(client, &Clock::system(), transport, Arc::new(join), options);
        let upkeep = provider.clone();
        OpenPool {
            provider: Arc::new(provider),
            upkeep: Arc::new(move || Box::pin(upkeep.clone().probe_hosts())),
        }
    }
}

/// Processes and namespaces are those of Linux.
#[cfg(not(target_os = "linux"))]
pub(super) fn hosts(directory: &Path, programs: &Path) -> Result<Hosts, CommandError> {
    made(directory, programs)
}

#[cfg(not(target_os = "linux"))]
fn made(_directory: &Path, _programs: &Path) -> Result<Hosts, CommandError> {
    Ok(Hosts::default())
}

/// Refuses manifests with hosts that this machine cannot have, before anything is created.
#[cfg(target_os = "linux")]
pub(super) fn check(documents: &[Value]) -> Result<(), CommandError> {
    use settled_hosts::netns::{API_VERSION, NetnsProvider};

    if !documents.iter().any(|document| names(document, API_VERSION)) {
        return Ok(());
    }
    NetnsProvider::check().map_err(|missing| CommandError::input(missing.to_string()))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn check(_documents: &[Value]) -> Result<(), CommandError> {
    Ok(())
}

/// Whether an object, or one within it, has this `apiVersion`.
#[cfg(target_os = "linux")]
fn names(value: &Value, api_version: &str) -> bool {
    match value {
        Value::Object(members) => members.iter().any(|(name, member)| {
            name == "apiVersion" && member == api_version || names(member, api_version)
        }),
        Value::Array(items) => items.iter().any(|item| names(item, api_version)),
        _ => false,
    }
}

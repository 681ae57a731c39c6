//! Providers that this program has: all plan and validate, and those of hosts on this machine also create them.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use settled_controller::Clock;
use settled_hosts::ssh::SshPlanner;
use settled_machines::provider::{Provider, Registry};
use settled_machines::simulated::{Latency, Shared, SimulatedProvider};

use crate::error::CommandError;

/// All providers, for plans and validation: `plan`, `schema`, `defaults` and `validate` touch no host.
pub(super) fn planners() -> Result<Registry, CommandError> {
    let simulated = SimulatedProvider::new(Shared::default(), Clock::system(), Latency::CLOUD);
    let mut all: Vec<Arc<dyn Provider>> = vec![Arc::new(simulated), Arc::new(SshPlanner)];
    let nowhere = Path::new("/nonexistent");
    all.extend(hosts(nowhere, nowhere)?);
    Registry::new(all)
        .map_err(|error| CommandError::input_error("cannot read the schema of a provider", error))
}

/// The providers of hosts on this machine: their directories are below this one.
#[cfg(target_os = "linux")]
pub(super) fn hosts(directory: &Path, programs: &Path) -> Result<Vec<Arc<dyn Provider>>, CommandError> {
    use settled_apiserver::auth::{Certificates, User};
    use settled_hosts::agent::Grant;
    use settled_hosts::netns::{self, NetnsProvider};
    use settled_hosts::process::{ProcessCredentials, ProcessProvider, Programs, Route};
    use settled_hosts::qemu::{self, QemuProvider};

    let program = std::env::current_exe()
        .map_err(|error| CommandError::input_error("cannot find this program", error))?;
    let versions = Programs::new(&settled_apiserver::kubernetes_version(), &program).with_directory(programs);
    let agent = vec![program.to_string_lossy().into_owned(), "cluster".to_owned(), "agent".to_owned()];
    let options = netns::Options::new(directory.join("netns"), agent);
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
    Ok(vec![processes, Arc::new(namespaces), Arc::new(machines)])
}

/// Processes and namespaces are those of Linux.
#[cfg(not(target_os = "linux"))]
pub(super) fn hosts(_directory: &Path, _programs: &Path) -> Result<Vec<Arc<dyn Provider>>, CommandError> {
    Ok(Vec::new())
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

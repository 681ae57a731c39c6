//! Providers that this program has: their schemas and plans, which need no host.

use std::path::Path;
use std::sync::Arc;

use settled_controller::Clock;
use settled_machines::provider::{Provider, Registry};
use settled_machines::simulated::{Latency, Shared, SimulatedProvider};

use crate::error::CommandError;

/// All providers, for plans and validation: `plan`, `schema`, `defaults` and `validate` touch no host.
pub(super) fn planners() -> Result<Registry, CommandError> {
    let simulated = SimulatedProvider::new(Shared::default(), Clock::system(), Latency::CLOUD);
    let mut all: Vec<Arc<dyn Provider>> = vec![Arc::new(simulated)];
    let nowhere = Path::new("/nonexistent");
    all.extend(hosts(nowhere, nowhere)?);
    Registry::new(all)
        .map_err(|error| CommandError::input_error("cannot read the schema of a provider", error))
}

/// The providers of hosts on this machine: their directories are below this one.
#[cfg(target_os = "linux")]
pub(super) fn hosts(directory: &Path, programs: &Path) -> Result<Vec<Arc<dyn Provider>>, CommandError> {
    use settled_hosts::process::{ProcessProvider, Programs};

    let program = std::env::current_exe()
        .map_err(|error| CommandError::input_error("cannot find this program", error))?;
    let versions = Programs::new(&settled_apiserver::kubernetes_version(), &program).with_directory(programs);
    Ok(vec![Arc::new(ProcessProvider::new(&directory.join("process"), versions))])
}

/// Processes are found and started as Linux does it.
#[cfg(not(target_os = "linux"))]
pub(super) fn hosts(_directory: &Path, _programs: &Path) -> Result<Vec<Arc<dyn Provider>>, CommandError> {
    Ok(Vec::new())
}

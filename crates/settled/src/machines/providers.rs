//! Providers that this program has: their schemas and plans, which need no host.

use std::sync::Arc;

use settled_controller::Clock;
use settled_machines::provider::{Provider, Registry};
use settled_machines::simulated::{Latency, Shared, SimulatedProvider};

use crate::error::CommandError;

/// All providers, for plans and validation: `plan`, `schema`, `defaults` and `validate` touch no host.
pub(super) fn planners() -> Result<Registry, CommandError> {
    let simulated = SimulatedProvider::new(Shared::default(), Clock::system(), Latency::CLOUD);
    Registry::new([Arc::new(simulated) as Arc<dyn Provider>])
        .map_err(|error| CommandError::input_error("cannot read the schema of a provider", error))
}

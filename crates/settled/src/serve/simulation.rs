//! `settled serve --simulate`: controllers, scheduler and kubelets beside the server.

use settled_apiserver::Server;
use settled_rehearsal::{Simulator, SimulatorOptions, serve_logs};

use crate::cli::serve::SimulationArgs;
use crate::error::CommandError;

/// Starts the simulation with `--simulate`. Dropping it stops it.
pub(super) async fn start(server: &Server, args: &SimulationArgs) -> Result<Option<Simulator>, CommandError> {
    let Some(components) = args.simulate else { return Ok(None) };
    let mut options = SimulatorOptions::default();
    options.components = components;
    if let Some(nodes) = &args.nodes {
        options.nodes.clone_from(&nodes.0);
    }
    if let Some(path) = &args.scenario {
        options.scenario = crate::rehearse::scenario(path)?;
    }
    let started = Simulator::start(server.client(), options).await;
    let simulator =
        started.map_err(|error| CommandError::input_error("cannot start the simulation", error))?;
    serve_logs(server, &simulator);
    Ok(Some(simulator))
}

//! `settled cluster move`: a cluster goes to another API server.

use std::process::ExitCode;

use settled_apiserver::Server;
use settled_clusters::{Management, StateDirectory, check_move, move_cluster};

use super::engine::{self, Engine, failed};
use crate::cli::lifecycle::{MoveArgs, NamedArgs};
use crate::error::CommandError;
use crate::output;

pub(super) fn run(args: &MoveArgs) -> Result<ExitCode, CommandError> {
    let NamedArgs { name, namespace, state } = &args.named;
    engine::with(state, false, async |engine, signals| {
        let work = async {
            let (destination, server, other) = destination(engine, args).await?;
            let moved = match args.dry_run {
                true => check_move(&engine.management, &destination, namespace, name).await,
                false => move_cluster(&engine.management, &destination, namespace, name).await,
            };
            let moved = moved.map_err(failed)?;
            if let (Some(other), false) = (&other, args.dry_run) {
                let record = engine.state.record(namespace, name).map_err(failed)?.unwrap_or_default();
                let kubeconfig = std::fs::read_to_string(engine.state.kubeconfig_of(name)).ok();
                let record = settled_clusters::ClusterRecord {
                    namespace: namespace.clone(),
                    name: name.clone(),
                    ..record
                };
                other.register(&record, kubeconfig.as_deref()).map_err(failed)?;
                engine.state.deregister(namespace, name).map_err(failed)?;
            }
            if let Some(server) = server {
                server.stopped().await;
            }
            let verb = if args.dry_run { "can be moved" } else { "moved" };
            let text = format!(
                "cluster.cluster.settled.dev/{name} {verb} ({} objects, {} hosts)\n",
                moved.objects, moved.hosts
            );
            output::print(text.as_bytes())
        };
        tokio::select! {
            done = work => done.map(|()| ExitCode::SUCCESS),
            () = tokio::time::sleep(state.timeout) => Err(failed(settled_clusters::Error::TimedOut { after: state.timeout, waiting: format!("Cluster {name} is being moved") })),
            () = signals.interrupted() => Ok(ExitCode::from(signals.exit_code())),
        }
    })
}

async fn destination(
    engine: &Engine,
    args: &MoveArgs,
) -> Result<(Management, Option<Server>, Option<StateDirectory>), CommandError> {
    if let Some(path) = &args.to_kubeconfig {
        let kubeconfig = std::fs::read_to_string(path)
            .map_err(|error| CommandError::input_error(format!("cannot read {}", path.display()), error))?;
        let destination = engine.management.of_cluster(&path.display().to_string(), &kubeconfig).await;
        return Ok((destination.map_err(failed)?, None, None));
    }
    let path = args.to_state.clone().unwrap_or_default();
    let state = StateDirectory::open(&path).map_err(failed)?;
    state.share_hosts(&engine.state).map_err(failed)?;
    let server = state.start_server().await.map_err(failed)?;
    let management = engine.other(&state, &server).await?;
    Ok((management, Some(server), Some(state)))
}

//! `settled cluster run`: the controllers of a state directory, and of the clusters that were moved out of it.

use std::process::ExitCode;

use settled_clusters::{Controllers, is_answering};

use super::engine::{self, Engine, failed};
use crate::cli::lifecycle::RunArgs;
use crate::error::CommandError;
use crate::{output, stderr};

pub(super) fn run(args: &RunArgs) -> Result<ExitCode, CommandError> {
    engine::with(&args.state, false, async |engine, signals| {
        let mut controllers = engine.management.start_controllers();
        let _others = others(engine).await?;
        output::print(
            format!("running; export KUBECONFIG={}\n", engine.state.kubeconfig().display()).as_bytes(),
        )?;
        tokio::select! {
            () = controllers.ended() => Err(CommandError::refused("the controllers have ended")),
            () = signals.interrupted() => Ok(ExitCode::from(signals.exit_code())),
        }
    })
}

/// The controllers of clusters that have their own objects.
async fn others(engine: &Engine) -> Result<Vec<Controllers>, CommandError> {
    let mut running = Vec::new();
    for record in engine.state.clusters().map_err(failed)? {
        let Some(path) = record.manager.filter(|_| record.moved_to.is_some()) else { continue };
        let kubeconfig = std::fs::read_to_string(&path).unwrap_or_default();
        if !is_answering(&engine.management, &kubeconfig).await {
            stderr::print_line(&format!(
                "warning: the API server of {} does not answer: `settled cluster repair {}`",
                record.name, record.name
            ));
            continue;
        }
        let inside = engine.management.of_cluster(&record.name, &kubeconfig).await.map_err(failed)?;
        running.push(inside.start_controllers());
    }
    Ok(running)
}

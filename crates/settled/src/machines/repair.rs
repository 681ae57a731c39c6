//! `settled cluster repair`: the control plane of a cluster is brought back from outside.

use std::process::ExitCode;

use settled_clusters::contents::Contents;
use settled_clusters::{ClusterRecord, repair_hosts};
use settled_machines::inventory::{Id, Kind};

use super::engine::{self, failed};
use super::watched;
use crate::cli::lifecycle::{NamedArgs, RepairArgs};
use crate::error::CommandError;
use crate::output;

pub(super) fn run(args: &RepairArgs) -> Result<ExitCode, CommandError> {
    let NamedArgs { name, namespace, state } = &args.named;
    engine::with(state, false, async |engine, signals| {
        let record = engine.state.record(namespace, name).map_err(failed)?;
        if let Some(record) = record.filter(|record| record.moved_to.is_some()) {
            let done = tokio::select! {
                done = repair_hosts(&engine.management, &record, state.timeout) => done.map_err(failed)?,
                () = signals.interrupted() => return Ok(ExitCode::from(signals.exit_code())),
            };
            let mut text: String = done.iter().map(|line| format!("repaired {line}\n")).collect();
            text.push_str(&format!("cluster.cluster.settled.dev/{name} answers\n"));
            output::print(text.as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        // By its provider: what the status says of it may be from before.
        let contents = Contents::read(&engine.management, namespace, name).await.map_err(failed)?;
        let record = ClusterRecord {
            namespace: namespace.clone(),
            name: name.clone(),
            objects: contents.into_values(),
            ..ClusterRecord::default()
        };
        tokio::select! {
            done = repair_hosts(&engine.management, &record, state.timeout) => {
                let done = done.map_err(failed)?;
                let text: String = done.iter().map(|line| format!("repaired {line}\n")).collect();
                output::print(text.as_bytes())?;
            }
            () = signals.interrupted() => return Ok(ExitCode::from(signals.exit_code())),
        }
        let controllers = engine.management.start_controllers();
        let id = Id::new(Kind::Cluster, namespace, name);
        let code = watched::wait(&engine.opened(namespace), &[id], state.timeout, signals).await?;
        controllers.stop().await;
        Ok(code)
    })
}

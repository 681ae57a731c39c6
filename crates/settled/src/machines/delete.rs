//! `settled cluster delete`: a cluster and everything outside that belongs to it.

use std::process::ExitCode;

use settled_clusters::{
    ClusterRecord, Error, delete, delete_hosts, is_answering, move_cluster, repair_hosts,
};

use super::engine::{self, Engine, failed};
use crate::cli::lifecycle::{DeleteArgs, NamedArgs};
use crate::error::CommandError;
use crate::{output, stderr};

pub(super) fn run(args: &DeleteArgs) -> Result<ExitCode, CommandError> {
    let NamedArgs { name, namespace, state } = &args.named;
    engine::with(state, false, async |engine, signals| {
        let work = async {
            let record = engine.state.record(namespace, name).map_err(failed)?;
            let moved = record.filter(|record| record.moved_to.is_some());
            let is_back = match &moved {
                Some(record) => bring_back(engine, record, state.timeout).await?,
                None => true,
            };
            if is_back {
                let controllers = engine.management.start_controllers();
                let waiting = |message: &str| tracing::info!(message, "waiting");
                delete(&engine.management, namespace, name, state.timeout, &waiting).await.map_err(failed)?;
                controllers.stop().await;
            }
            engine.state.deregister(namespace, name).map_err(failed)?;
            output::print(format!("cluster.cluster.settled.dev/{name} deleted\n").as_bytes())
        };
        tokio::select! {
            done = work => done.map(|()| ExitCode::SUCCESS),
            () = tokio::time::sleep(state.timeout) => Err(failed(Error::TimedOut { after: state.timeout, waiting: format!("Cluster {name} is being deleted") })),
            () = signals.interrupted() => Ok(ExitCode::from(signals.exit_code())),
        }
    })
}

/// Moves a cluster that has its own objects back. If its API server is dead for good, its hosts are deleted. Whether the objects are back.
async fn bring_back(
    engine: &Engine,
    record: &ClusterRecord,
    timeout: std::time::Duration,
) -> Result<bool, CommandError> {
    let path = record.manager.clone().unwrap_or_else(|| engine.state.kubeconfig_of(&record.name));
    let kubeconfig = std::fs::read_to_string(&path).unwrap_or_default();
    if !is_answering(&engine.management, &kubeconfig).await {
        stderr::print_line("the API server of the cluster does not answer: repairing it");
        match repair_hosts(&engine.management, record, timeout / 4).await {
            Ok(done) => done.iter().for_each(|line| stderr::print_line(&format!("repaired {line}"))),
            Err(error) => stderr::print_line(&format!("cannot repair it: {error}")),
        }
    }
    if is_answering(&engine.management, &kubeconfig).await {
        let inside = engine.management.of_cluster(&record.name, &kubeconfig).await.map_err(failed)?;
        move_cluster(&inside, &engine.management, &record.namespace, &record.name).await.map_err(failed)?;
        return Ok(true);
    }
    let server = record.moved_to.as_deref().unwrap_or_default();
    let hosts = delete_hosts(&engine.management, server, timeout / 2).await.map_err(failed)?;
    stderr::print_line(&format!("its objects are lost with it; {} hosts deleted", hosts.deleted));
    if !hosts.left.is_empty() {
        stderr::print_line(&format!(
            "warning: {} hosts of a pool still run for it: nobody knows their addresses any more",
            hosts.left.len()
        ));
        stderr::print_line("hint: on each of them, end the agent, and remove /var/lib/settled");
    }
    Ok(false)
}

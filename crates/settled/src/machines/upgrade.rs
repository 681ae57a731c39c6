//! `settled cluster upgrade`: changes versions in specs, those of the control plane first. How Machines get there is decided by providers.

use std::process::ExitCode;

use settled_machines::inventory::{Id, Kind};
use settled_machines::live;
use settled_machines::rollout::{Upgrade, plan_upgrade};

use super::server;
use super::watched::{self, Settled};
use crate::cli::machines::UpgradeArgs;
use crate::error::CommandError;
use crate::output;
use crate::patience::Patience;
use crate::session;
use crate::stderr;

pub(super) fn run(args: &UpgradeArgs) -> Result<ExitCode, CommandError> {
    if args.server.state.is_some() && !args.dry_run {
        return Err(CommandError::usage("cannot upgrade with --state: no controllers run there")
            .hint("start the server with `settled cluster create --state DIR`, and use its kubeconfig"));
    }
    let patience = Patience::with_timeout(Some(args.server.connection.timeout));
    session::interruptible(async |signals| {
        let opened = server::open(&args.server, patience).await?;
        let client = opened.client();
        let cluster = Id::new(Kind::Cluster, &opened.namespace, &args.name);
        let read = live::read(&client, Some(&cluster.namespace)).await.map_err(server::failed)?;
        if read.get(&cluster).is_none() {
            return Err(CommandError::input(format!(
                "there is no {cluster} in namespace {}",
                cluster.namespace
            )));
        }
        let Upgrade { control_plane, workers } = plan_upgrade(&read, &cluster, &args.version)
            .map_err(|error| CommandError::usage(error.to_string()))?;
        let workers = if args.control_plane_only { Vec::new() } else { workers };
        if control_plane.is_empty() && workers.is_empty() {
            stderr::print_line(&format!("{cluster} declares {} everywhere", args.version));
            return Ok(ExitCode::SUCCESS);
        }
        if args.dry_run {
            for (id, patch) in control_plane.iter().chain(&workers) {
                live::patch(&client, id, patch, true).await.map_err(server::failed)?;
                output::print(format!("{id} configured (dry run)\n").as_bytes())?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        // One machine of the control plane after the other.
        for (id, patch) in &control_plane {
            live::patch(&client, id, patch, false).await.map_err(server::failed)?;
            output::print(format!("{id} configured\n").as_bytes())?;
            if id.kind == Kind::Machine
                && let Settled::No(code) = watched::settle(
                    &opened,
                    std::slice::from_ref(id),
                    args.server.connection.timeout,
                    signals,
                )
                .await?
            {
                stderr::print_line("the control plane is not upgraded: workers are left as they are");
                return Ok(code);
            }
        }
        for (id, patch) in &workers {
            live::patch(&client, id, patch, false).await.map_err(server::failed)?;
            output::print(format!("{id} configured\n").as_bytes())?;
        }
        let ids: Vec<Id> = workers.into_iter().map(|(id, _)| id).chain([cluster]).collect();
        watched::wait(&opened, &ids, args.server.connection.timeout, signals).await
    })
}

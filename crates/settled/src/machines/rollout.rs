//! `settled cluster rollout`: status, pause, resume, undo and restart of a MachineDeployment.

use std::process::ExitCode;

use serde_json::Value;
use settled_machines::inventory::Kind;
use settled_machines::live;
use settled_machines::rollout::{self, RolloutError};

use super::{server, watched};
use crate::cli::machines::{RolloutArgs, RolloutCommand, RolloutTarget};
use crate::error::CommandError;
use crate::output;
use crate::patience::Patience;
use crate::session::{self, INTERRUPTED};

pub(super) fn run(args: &RolloutArgs) -> Result<ExitCode, CommandError> {
    match &args.command {
        RolloutCommand::Status(target) => status(target),
        RolloutCommand::Pause(target) => change(target, "paused", |_, _, _| Ok(rollout::pause(true))),
        RolloutCommand::Resume(target) => change(target, "resumed", |_, _, _| Ok(rollout::pause(false))),
        RolloutCommand::Undo(args) => change(&args.target, "rolled back", |deployment, sets, _| {
            rollout::undo(deployment, sets, args.to_revision)
        }),
        RolloutCommand::Restart(target) => {
            change(target, "restarted", |deployment, _, now| rollout::restart(deployment, now))
        }
    }
}

fn status(target: &RolloutTarget) -> Result<ExitCode, CommandError> {
    if target.server.state.is_some() {
        return Err(CommandError::usage("cannot wait with --state: no controllers run there"));
    }
    let patience = Patience::with_timeout(Some(target.server.connection.timeout));
    session::interruptible(async |signals| {
        let opened = server::open(&target.server, patience).await?;
        let id = server::named(&target.name, &opened.namespace, &[Kind::MachineDeployment])?;
        watched::wait(&opened, &[id], target.server.connection.timeout, signals).await
    })
}

fn change(
    target: &RolloutTarget,
    done: &str,
    patch: impl Fn(&Value, &[&Value], &str) -> Result<Value, RolloutError>,
) -> Result<ExitCode, CommandError> {
    let changed = server::with(&target.server, async |opened| {
        let id = server::named(&target.name, &opened.namespace, &[Kind::MachineDeployment])?;
        let client = opened.client();
        let inventory = live::read(&client, Some(&id.namespace)).await.map_err(server::failed)?;
        let Some(deployment) = inventory.get(&id) else {
            return Err(CommandError::input(format!("there is no {id} in namespace {}", id.namespace)));
        };
        let sets: Vec<&Value> = inventory.of_kind(Kind::MachineSet).map(|(_, set)| set).collect();
        let now = jiff::Timestamp::now().to_string();
        let patch = patch(deployment, &sets, &now)
            .map_err(|error| CommandError::refused(format!("{id}: {error}")))?;
        live::patch(&client, &id, &patch, false).await.map_err(server::failed)?;
        Ok(id)
    })?;
    let Some(id) = changed else { return Ok(ExitCode::from(INTERRUPTED)) };
    output::print(format!("machinedeployment.cluster.settled.dev/{} {done}\n", id.name).as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

//! `settled cluster`: clusters and machines as API objects, from plan to export.

mod adopt;
mod agent;
mod apply;
mod convert;
mod create;
mod delete;
mod describe;
mod diff;
mod documents;
mod engine;
mod kubeconfig;
mod manager;
mod plan;
mod providers;
mod repair;
mod rollout;
mod scale;
mod server;
mod sources;
mod transfer;
mod upgrade;
mod validate;
mod watched;

use std::process::ExitCode;

use crate::cli::machines::{MachinesArgs, MachinesCommand};
use crate::error::CommandError;

pub(crate) fn run(args: &MachinesArgs) -> Result<ExitCode, CommandError> {
    match &args.command {
        MachinesCommand::Create(args) => create::run(args),
        MachinesCommand::Delete(args) => delete::run(args),
        MachinesCommand::Move(args) => transfer::run(args),
        MachinesCommand::Repair(args) => repair::run(args),
        MachinesCommand::Run(args) => manager::run(args),
        MachinesCommand::Get(args) => kubeconfig::run(args),
        MachinesCommand::Plan(args) => plan::run(args),
        MachinesCommand::Apply(args) => apply::run(args),
        MachinesCommand::Describe(args) => describe::run(args),
        MachinesCommand::Upgrade(args) => upgrade::run(args),
        MachinesCommand::Scale(args) => scale::run(args),
        MachinesCommand::Rollout(args) => rollout::run(args),
        MachinesCommand::Diff(args) => diff::run_diff(args),
        MachinesCommand::Sync(args) => diff::run_sync(args),
        MachinesCommand::Validate(args) => validate::run(args),
        MachinesCommand::Export(args) => convert::export(args),
        MachinesCommand::Import(args) => convert::import(args),
        MachinesCommand::Adopt(args) => adopt::run(args),
        MachinesCommand::Agent(args) => Ok(agent::run(args)),
    }
}

//! `settled netpol`: what providers carry out of network policies, and what may connect to what.

mod check;
mod detection;
mod diff;
mod evaluate;
mod explain;
mod files;
mod live;
mod matrix;
mod migration;
mod notices;
mod profiles;
mod providers;
mod reach;
mod render;
#[cfg(feature = "report")]
mod report;
mod row;
mod snapshot;

use std::process::ExitCode;

use crate::cli::netpol::{NetpolArgs, NetpolCommand};
use crate::error::CommandError;

pub(crate) fn run(args: &NetpolArgs) -> Result<ExitCode, CommandError> {
    match &args.command {
        NetpolCommand::Check(args) => check::run(args),
        NetpolCommand::Reach(args) => reach::run(args),
        NetpolCommand::Diff(args) => diff::run(args),
        NetpolCommand::Explain(args) => explain::run(args),
        NetpolCommand::Matrix(args) => matrix::run(args),
        NetpolCommand::Profiles(args) => profiles::run(args),
        #[cfg(feature = "report")]
        NetpolCommand::Report(args) => report::run(args),
    }
}

//! `settled cluster scale`: sets the size of a group by its scale subresource.

use std::process::ExitCode;

use settled_machines::inventory::Kind;
use settled_machines::live;

use super::server;
use crate::cli::machines::ScaleArgs;
use crate::error::CommandError;
use crate::output;
use crate::session::INTERRUPTED;

pub(super) fn run(args: &ScaleArgs) -> Result<ExitCode, CommandError> {
    let scaled = server::with(&args.server, async |opened| {
        let kinds = [Kind::MachineDeployment, Kind::MachineSet];
        let id = server::named(&args.group, &opened.namespace, &kinds)?;
        live::scale(&opened.client(), &id, args.replicas).await.map_err(server::failed)?;
        Ok(id)
    })?;
    let Some(id) = scaled else { return Ok(ExitCode::from(INTERRUPTED)) };
    output::print(
        format!("{}.cluster.settled.dev/{} scaled\n", id.kind.as_str().to_lowercase(), id.name).as_bytes(),
    )?;
    Ok(ExitCode::SUCCESS)
}

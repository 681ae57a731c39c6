//! `settled cluster get kubeconfig`: the administrator's access to a cluster.

use std::process::ExitCode;

use settled_clusters::StateDirectory;

use super::engine::{self, failed};
use crate::cli::lifecycle::{GetArgs, GetWhat, NamedArgs};
use crate::error::CommandError;
use crate::output;

pub(super) fn run(args: &GetArgs) -> Result<ExitCode, CommandError> {
    let GetWhat::Kubeconfig(NamedArgs { name, namespace, state }) = &args.what;
    // It is registered once the cluster is ready: no server is needed then, which another command may have.
    let place = engine::place(state)?;
    let registered = place.join(format!("{name}.kubeconfig"));
    if StateDirectory::exists(&place)
        && let Ok(text) = std::fs::read_to_string(&registered)
    {
        output::print(text.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    engine::with(state, false, async |engine, _signals| {
        match engine.management.kubeconfig(namespace, name).await.map_err(failed)? {
            Some(text) => output::print(text.as_bytes()).map(|()| ExitCode::SUCCESS),
            None => Err(CommandError::input(format!("there is no kubeconfig of Cluster {name}"))
                .hint("its control plane may not serve yet, or others made it")),
        }
    })
}

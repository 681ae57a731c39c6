//! `settled netpol report`: the reporter as a process, and the objects that it needs in the cluster.

use std::process::ExitCode;

use serde_json::Value;
use settled_controller::run::{RunError, Runner};
use settled_netpol::profile::ProviderRef;
use settled_netpol_reporter::{Config, permissions, report, run as write_conditions};

use super::providers;
use crate::cli::netpol::ReportArgs;
use crate::cluster;
use crate::error::CommandError;
use crate::output;
use crate::session;

pub(super) fn run(args: &ReportArgs) -> Result<ExitCode, CommandError> {
    if args.print_crd {
        print(&[report::definition()])?;
        return Ok(ExitCode::SUCCESS);
    }
    let config = config(args)?;
    if args.print_rbac {
        print(&permissions::objects(&config, &args.namespace))?;
        return Ok(ExitCode::SUCCESS);
    }
    let runtime = session::runtime()?;
    let ended = runtime.block_on(follow(args, config));
    // Nothing that still waits keeps the process.
    runtime.shutdown_background();
    ended.map(|()| ExitCode::SUCCESS)
}

/// What policies are evaluated with. A profile with an error ends the process: without it, verdicts could be wrong.
fn config(args: &ReportArgs) -> Result<Config, CommandError> {
    let loaded = providers::load(&args.provider.profiles);
    if loaded.errors > 0 {
        return Err(CommandError::usage("a profile cannot be used, and verdicts without it could be wrong"));
    }
    providers::named(&loaded.profiles, &args.provider.providers)?;
    let references: Vec<ProviderRef> =
        args.provider.providers.iter().filter_map(|name| name.parse().ok()).collect();
    let config = Config::new(loaded.profiles).providers(references);
    Ok(if args.only_reports { config.only_reports() } else { config })
}

/// Runs until SIGTERM or Ctrl-C.
async fn follow(args: &ReportArgs, config: Config) -> Result<(), CommandError> {
    let cluster = cluster::access(&args.cluster).connect().await.map_err(|error| {
        CommandError::cluster(error.to_string())
            .hint("select another kubeconfig with --kubeconfig FILE and --context NAME")
    })?;
    let mut runner = Runner::new(cluster.client());
    if let Some(address) = &args.listen {
        runner = runner.listen(address);
    }
    if args.elect {
        runner = runner.elect(&args.namespace, permissions::LEASE);
    }
    runner.run(|runtime| write_conditions(runtime, config)).await.map_err(|error| match error {
        RunError::Listen { .. } => CommandError::input_error(format!("--listen: {error}"), error),
        RunError::LeaseLost => CommandError::cluster(error.to_string()),
        error => CommandError::cluster(error.to_string()),
    })
}

/// Prints objects as YAML documents.
fn print(objects: &[Value]) -> Result<(), CommandError> {
    let mut yaml = Vec::new();
    for object in objects {
        yaml.extend_from_slice(b"---\n");
        let json = object.to_string();
        // Memory takes all of it, and what was a value is JSON.
        settled_manifest::write_yaml(json.as_bytes(), &mut yaml).ok();
    }
    output::print(&yaml)
}

//! `settled cluster adopt`: Machines for Nodes that exist already, paused.

use std::process::ExitCode;

use serde_json::{Value, json};
use settled_machines::convert::{AdoptOptions, adopt};
use settled_machines::inventory::Id;
use settled_machines::live;

use super::{convert, documents, server};
use crate::cli::machines::AdoptArgs;
use crate::error::CommandError;
use crate::session::INTERRUPTED;
use crate::stderr;
use crate::text;

pub(super) fn run(args: &AdoptArgs) -> Result<ExitCode, CommandError> {
    let provider_spec = match (&args.class, &args.provider_spec) {
        (Some(class), _) => json!({"valueFrom": {"machineClass": {"name": class}}}),
        (None, Some(path)) => {
            json!({"value": documents::read(std::slice::from_ref(path))?.into_iter().next()})
        }
        (None, None) => return Err(CommandError::usage("--class or --provider-spec is required")),
    };
    let adopted = server::with(&args.server, async |opened| {
        let client = opened.client();
        let mut nodes = live::nodes(&client).await.map_err(server::failed)?;
        if !args.names.is_empty() {
            let name = |node: &Value| node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let known: Vec<String> = nodes.iter().map(name).collect();
            if let Some(missing) = args.names.iter().find(|wanted| !known.contains(wanted)) {
                return Err(CommandError::input(format!("there is no Node {missing}")));
            }
            nodes.retain(|node| args.names.contains(&name(node)));
        }
        // Machines of all namespaces: a Node has at most one.
        let inventory = live::read(&client, None).await.map_err(server::failed)?;
        let options =
            AdoptOptions { namespace: opened.namespace.clone(), cluster: args.of.clone(), provider_spec };
        let adopted = adopt(&nodes, &inventory, &options);
        if args.apply {
            for machine in &adopted.machines {
                if let Some(id) = Id::of(machine, &opened.namespace) {
                    live::create(&client, &id, machine).await.map_err(server::failed)?;
                }
            }
        }
        Ok(adopted)
    })?;
    let Some(adopted) = adopted else { return Ok(ExitCode::from(INTERRUPTED)) };
    documents::print(&adopted.machines, args.output.format)?;
    convert::report(&adopted.notes);
    let machines = text::plural(adopted.machines.len() as u64, "Machine");
    stderr::print_line(&match args.apply {
        true => format!(
            "{machines} created, paused: remove the annotation cluster.settled.dev/paused when the plan is as wanted"
        ),
        false => format!("{machines}; --apply creates them"),
    });
    Ok(ExitCode::SUCCESS)
}

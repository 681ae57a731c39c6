//! `settled cluster validate`: PASS or FAIL for each object, by the admission of an API server, or by status.

use std::process::ExitCode;

use serde_json::Value;
use settled_apiserver::Server;
use settled_machines::inventory::{Inventory, Kind};
use settled_machines::live::{self, ApplyOptions};
use settled_machines::validate::{Checked, check_requests, check_status};

use super::{documents, plan, providers, server};
use crate::cli::machines::ValidateArgs;
use crate::error::CommandError;
use crate::output;
use crate::session::{self, INTERRUPTED};
use crate::text;

pub(super) fn run(args: &ValidateArgs) -> Result<ExitCode, CommandError> {
    let checked = match args.manifests.files.as_slice() {
        [] => server::with(&args.server, async |opened| {
            let read = live::read(&opened.client(), Some(&opened.namespace)).await.map_err(server::failed)?;
            Ok(check_status(&read))
        })?,
        files => {
            let documents = documents::read(files)?;
            let namespace = args.server.namespace.clone().unwrap_or_else(|| "default".to_owned());
            let inventory = plan::manifests(&documents, &namespace)?;
            session::run(admission(inventory))?
        }
    };
    let Some(checked) = checked else { return Ok(ExitCode::from(INTERRUPTED)) };
    if checked.is_empty() {
        return Err(CommandError::input("no objects found"));
    }
    let mut out = String::new();
    for row in &checked {
        match &row.failure {
            None => out.push_str(&format!("PASS {}\n", row.object)),
            Some(failure) => out.push_str(&format!("FAIL {}: {}\n", row.object, text::clean(failure))),
        }
    }
    output::print(out.as_bytes())?;
    Ok(ExitCode::from(u8::from(checked.iter().any(|row| row.failure.is_some()))))
}

/// Asks an API server in the process, which stores nothing; then the rules of providers that no schema has.
async fn admission(inventory: Inventory) -> Result<Vec<Checked>, CommandError> {
    let started = |error| CommandError::input_error("cannot start the server", error);
    let server = Server::in_memory().await.map_err(started)?;
    let client = server.client();
    let registry = providers::planners()?;
    live::install(&client, &registry.formats()).await.map_err(server::failed)?;
    let mut checked = Vec::new();
    let requests = check_requests(&inventory, &registry);
    for (id, object) in inventory.iter() {
        // A namespace that does not exist is no fault of the manifest.
        let mut object: Value = object.clone();
        let place = settled_machines::inventory::Id::new(id.kind, "default", &id.name);
        object["metadata"]["namespace"] = "default".into();
        let options = ApplyOptions { dry_run: true, force: true };
        let failure = match live::apply(&client, &place, &object, options).await {
            Ok(_) => requests.iter().find(|(known, _)| known == id).map(|(_, failure)| failure.clone()),
            Err(error) => {
                Some(std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string))
            }
        };
        checked.push(Checked { object: id.to_string(), failure });
    }
    debug_assert!(Kind::ALL.len() == 7, "each kind has a schema");
    Ok(checked)
}

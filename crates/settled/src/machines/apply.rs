//! `settled cluster apply`: carries out manifests or a plan, restores exports, and waits.

use std::process::ExitCode;

use serde_json::Value;
use settled_machines::convert::restorable;
use settled_machines::inventory::{Id, Inventory, Kind};
use settled_machines::live::{self, ApplyOptions};
use settled_machines::preview::PlanFile;

use super::plan::{self, Planned};
use super::server::{self, Opened};
use super::{documents, providers, watched};
use crate::cli::machines::ApplyArgs;
use crate::error::CommandError;
use crate::output;
use crate::patience::Patience;
use crate::session::{self, INTERRUPTED};
use crate::stderr;

pub(super) fn run(args: &ApplyArgs) -> Result<ExitCode, CommandError> {
    if args.wait && args.server.state.is_some() {
        return Err(CommandError::usage("cannot combine --wait with --state: no controllers run there")
            .hint("start the server with `settled cluster create --state DIR`, and use its kubeconfig"));
    }
    let kept = match &args.plan {
        Some(path) => {
            let bytes = std::fs::read(path).map_err(|error| {
                CommandError::input_error(format!("cannot read {}", path.display()), error)
            })?;
            let file = PlanFile::parse(&bytes).map_err(|error| {
                CommandError::input_error(format!("cannot read {}", path.display()), error)
            })?;
            Some(file)
        }
        None => None,
    };
    let documents = match &kept {
        Some(file) => file.objects.clone(),
        None if args.manifests.files.is_empty() => {
            return Err(CommandError::usage("nothing to apply")
                .hint("pass manifests with -f FILE, or a plan with --plan FILE"));
        }
        None => documents::read(&args.manifests.files)?,
    };
    let done = server::with(&args.server, async |opened| {
        let namespace = kept.as_ref().map_or(&opened.namespace, |file| &file.namespace).clone();
        if args.install {
            let formats = providers::planners()?.formats();
            live::install(&opened.client(), &formats).await.map_err(server::failed)?;
        }
        // Whether the world has changed is seen first, whoever owns the fields.
        let force = args.force_conflicts || kept.is_some();
        let planned = plan::plan(opened, &documents, &namespace, force).await?;
        if let Some(file) = &kept {
            let changes = file.changes(&planned.before, &planned.preview);
            if !changes.is_empty() {
                let error = CommandError::refused("the plan is out of date: nothing was applied");
                let lines =
                    changes.iter().take(20).map(|change| format!("{} {}", change.object, change.change));
                return Err(lines
                    .fold(error, CommandError::detail)
                    .hint("make a new plan: settled cluster plan"));
            }
        }
        plan::show(&planned.preview, args.output.format, false)?;
        if args.dry_run {
            return Ok(Vec::new());
        }
        carry_out(opened, &documents, &namespace, &planned, args.force_conflicts).await
    })?;
    let Some(applied) = done else { return Ok(ExitCode::from(INTERRUPTED)) };
    if !args.wait || applied.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let patience = Patience::with_timeout(Some(args.server.connection.timeout));
    session::interruptible(async |signals| {
        let opened = server::open(&args.server, patience).await?;
        watched::wait(&opened, &applied, args.server.connection.timeout, signals).await
    })
}

/// Applies documents; what an export has and the server has not is restored with its status. Returns the objects to wait for.
async fn carry_out(
    opened: &Opened,
    documents: &[Value],
    namespace: &str,
    planned: &Planned,
    force: bool,
) -> Result<Vec<Id>, CommandError> {
    let wanted = plan::manifests(documents, namespace)?;
    let client = opened.client();
    let mut restored = Inventory::default();
    let mut lines = String::new();
    let mut ids = Vec::new();
    for (id, object) in wanted.iter() {
        if planned.before.get(id).is_none() && restorable(object) {
            restored.insert(id.clone(), object.clone());
            continue;
        }
        let applied = live::apply(&client, id, object, ApplyOptions { dry_run: false, force }).await;
        let applied = match applied {
            Ok(applied) => applied,
            Err(error) => {
                output::print(lines.as_bytes())?;
                return Err(server::failed(error));
            }
        };
        let result = match planned.before.get(id) {
            None => "created",
            Some(before) if before["spec"] == applied["spec"] && is_same_metadata(before, &applied) => {
                "unchanged"
            }
            Some(_) => "configured",
        };
        lines.push_str(&format!(
            "{}.cluster.settled.dev/{} {result}\n",
            id.kind.as_str().to_lowercase(),
            id.name
        ));
        ids.push(id.clone());
    }
    if !restored.is_empty() {
        for id in live::restore(&client, &restored).await.map_err(server::failed)? {
            lines.push_str(&format!(
                "{}.cluster.settled.dev/{} restored\n",
                id.kind.as_str().to_lowercase(),
                id.name
            ));
            ids.push(id);
        }
        stderr::print_line("restored with their status: hosts are found again by their keys");
    }
    output::print(lines.as_bytes())?;
    ids.retain(|id| !matches!(id.kind, Kind::MachineClass | Kind::Host));
    Ok(ids)
}

fn is_same_metadata(one: &Value, other: &Value) -> bool {
    ["labels", "annotations"].iter().all(|name| one["metadata"][*name] == other["metadata"][*name])
}

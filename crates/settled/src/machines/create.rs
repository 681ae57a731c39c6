//! `settled cluster create`: a cluster from manifests, without another cluster.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use settled_clusters::{CreateOptions, Error, Event, Manifests, create};
use settled_machines::inventory::{Id, Kind};

use super::{documents, engine, providers, watched};
use crate::cli::lifecycle::CreateArgs;
use crate::error::CommandError;
use crate::{output, stderr};

/// How long the explanation of a failure may take.
const EXPLAIN: Duration = Duration::from_secs(2);

pub(super) fn run(args: &CreateArgs) -> Result<ExitCode, CommandError> {
    let documents = documents::read(&args.files)?;
    providers::check(&documents)?;
    let manifests = Manifests::new(documents)
        .map_err(|error| CommandError::input(format!("the manifests are not those of a cluster: {error}")))?;
    engine::with(&args.state, true, async |engine, signals| {
        let controllers = engine.management.start_controllers();
        let mut options = CreateOptions::new(args.state.timeout);
        options.pivot = args.pivot;
        options.state = Some(engine.state.clone());
        options.listener = Arc::new(printer());
        let created = tokio::select! {
            created = create(&engine.management, &manifests, &options) => created,
            () = signals.interrupted() => {
                stderr::print_line("interrupted: the same command continues");
                return Ok(ExitCode::from(signals.exit_code()));
            }
        };
        if let Err(error) = created {
            if matches!(error, Error::TimedOut { .. } | Error::Stalled { .. }) {
                let opened = engine.opened(&manifests.namespace);
                let id = Id::new(Kind::Cluster, &manifests.namespace, &manifests.name);
                // The error is what decides; this is its explanation.
                let _explained = watched::wait(&opened, &[id], EXPLAIN, signals).await;
            }
            return Err(engine::failed(error));
        }
        controllers.stop().await;
        let kubeconfig = engine.state.kubeconfig_of(&manifests.name);
        let mut text = format!("cluster.cluster.settled.dev/{} created\n", manifests.name);
        if kubeconfig.exists() {
            text.push_str(&format!("\nexport KUBECONFIG={}\nkubectl get nodes\n", kubeconfig.display()));
        }
        output::print(text.as_bytes())?;
        Ok(ExitCode::SUCCESS)
    })
}

/// One line for each phase, and for each new thing that is waited for.
fn printer() -> impl Fn(&Event) + Send + Sync {
    let last = Mutex::new(String::new());
    move |event| {
        let line = match event {
            Event::Began(phase) => format!("phase {phase}"),
            Event::Done(phase) => format!("phase {phase} done"),
            Event::Waiting(what) => format!("  waiting: {what}"),
        };
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != line {
            stderr::print_line(&line);
            *last = line;
        }
    }
}

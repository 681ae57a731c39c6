//! Engine of commands on a state directory: the embedded server with its management, as long as the command runs.

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use settled_apiserver::Server;
use settled_clusters::{Error, Management, ManagementOptions, StateDirectory};
use settled_tracker::Cluster;

use super::providers;
use super::server::Opened;
use crate::cli::lifecycle::StateArgs;
use crate::error::{CommandError, ErrorKind};
use crate::progress::Signals;

/// The embedded server of a state directory, and what manages it.
pub(super) struct Engine {
    pub(super) state: StateDirectory,
    pub(super) management: Management,
    programs: PathBuf,
}

/// The state directory that is meant.
pub(super) fn place(args: &StateArgs) -> Result<PathBuf, CommandError> {
    if let Some(path) = &args.state {
        return Ok(path.clone());
    }
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local").join("state")));
    let base = base.ok_or_else(|| {
        CommandError::usage("there is no home directory for the state")
            .hint("name a directory with --state DIR")
    })?;
    Ok(base.join("settled").join("clusters"))
}

/// Runs something with the state directory of the arguments, within their timeout. Only `create` and `move` make one.
pub(super) fn with(
    args: &StateArgs,
    makes: bool,
    work: impl AsyncFnOnce(&Engine, &mut Signals) -> Result<ExitCode, CommandError>,
) -> Result<ExitCode, CommandError> {
    let path = place(args)?;
    if !makes && !StateDirectory::exists(&path) {
        return Err(CommandError::input(format!("{} is no state directory", path.display()))
            .hint("name that of `settled cluster create` with --state DIR"));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::input_error("cannot start the runtime", error))?;
    let code = runtime.block_on(async {
        let mut signals = Signals::of_process()
            .map_err(|error| CommandError::input_error("cannot receive signals", error))?;
        let state = StateDirectory::open(&path).map_err(failed)?;
        let server = state
            .start_server()
            .await
            .map_err(|error| failed(error).hint("only one command at a time may use a state directory"))?;
        let engine = Engine::new(state, &server, args).await?;
        let result = work(&engine, &mut signals).await;
        drop(engine);
        server.stopped().await;
        result
    });
    // Nothing that still waits keeps the process.
    runtime.shutdown_background();
    code
}

impl Engine {
    async fn new(state: StateDirectory, server: &Server, args: &StateArgs) -> Result<Self, CommandError> {
        let programs = args.programs.clone().unwrap_or_else(|| state.path().join("programs"));
        let options = options(&state, &programs)?;
        let management = Management::new(server.client(), options).await.map_err(failed)?;
        Ok(Self { state, management, programs })
    }

    /// The server as other commands know it.
    pub(super) fn opened(&self, namespace: &str) -> Opened {
        Opened::of(Cluster::new(self.management.client()), namespace.to_owned())
    }

    /// The management of another state directory, whose server is given.
    pub(super) async fn other(
        &self,
        state: &StateDirectory,
        server: &Server,
    ) -> Result<Management, CommandError> {
        Management::new(server.client(), options(state, &self.programs)?).await.map_err(failed)
    }
}

fn options(state: &StateDirectory, programs: &Path) -> Result<ManagementOptions, CommandError> {
    let hosts = providers::hosts(&state.hosts(), programs)?;
    let mut options = ManagementOptions::new(hosts.providers, state.ledger());
    options.pools = hosts.pools;
    Ok(options)
}

/// An error of a command for clusters, with its remedy and its exit code.
pub(super) fn failed(error: Error) -> CommandError {
    let kind = match &error {
        Error::TimedOut { .. } => ErrorKind::Unknown,
        Error::Stalled { .. } | Error::Refused(_) | Error::Deleted(_) | Error::Provider { .. } => {
            ErrorKind::Refused
        }
        Error::Request { source, .. } if matches!(&**source, kube_error if kube_error.source().is_none()) => {
            ErrorKind::Refused
        }
        Error::Request { .. } | Error::Connect { .. } => ErrorKind::Cluster,
        _ => ErrorKind::Input,
    };
    let mut message = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let text = inner.to_string();
        if !message.contains(&text) {
            message.push_str(": ");
            message.push_str(&text);
        }
        source = inner.source();
    }
    let failed = CommandError::new(kind, message);
    match &error {
        Error::TimedOut { .. } => failed.hint("the same command continues; --timeout allows more time"),
        Error::Stalled { .. } => failed.hint("change the spec and run the command again: it continues"),
        Error::Deleted(_) => failed.hint("run the command again: what is missing is created"),
        _ => failed,
    }
}

//! Servers of the commands: by kubeconfig, or a state directory whose server does not run.

use std::path::{Path, PathBuf};

use settled_apiserver::{BackendError, Config, Server, StartError};
use settled_machines::inventory::{Id, Kind};
use settled_machines::live::{Client, LiveError};
use settled_tracker::Cluster;

use crate::cli::args::ClusterArgs;
use crate::cli::machines::ServerArgs;
use crate::cluster;
use crate::error::CommandError;
use crate::patience::Patience;
use crate::requests::Warnings;
use crate::session;

/// The directory of the store within a state directory.
const STORE: &str = "store";

/// A server that commands work with.
pub(super) struct Opened {
    cluster: Cluster,
    /// Objects that name no namespace are in this one.
    pub(super) namespace: String,
    /// It ends with the command.
    _server: Option<Server>,
}

impl Opened {
    /// A server in this process.
    pub(super) const fn of(cluster: Cluster, namespace: String) -> Self {
        Self { cluster, namespace, _server: None }
    }

    /// Its client.
    pub(super) fn client(&self) -> Client {
        self.cluster.client()
    }

    /// The connection, for waits.
    pub(super) fn cluster(&self) -> Cluster {
        self.cluster.clone()
    }
}

/// Whether a directory is one of a server: its own, or that of a cluster.
pub(super) fn is_state(directory: &Path) -> bool {
    store(directory).is_some()
}

fn store(directory: &Path) -> Option<PathBuf> {
    let places = [directory.to_owned(), directory.join("server")];
    places.into_iter().find(|place| place.join(STORE).is_dir())
}

/// Opens the server of a state directory. One that runs is asked itself.
pub(super) async fn open_state(
    directory: &Path,
    namespace: Option<&str>,
    patience: Patience,
) -> Result<Opened, CommandError> {
    let Some(place) = store(directory) else {
        return Err(CommandError::input(format!("{} is no state directory", directory.display())).hint(
            "use the directory of `settled cluster create --state`, or of `settled serve --data-dir`",
        ));
    };
    let mut config = Config::default();
    config.data_dir = Some(place.clone());
    match Server::start(config).await {
        Ok(server) => Ok(Opened {
            cluster: Cluster::new(server.client()),
            namespace: namespace.unwrap_or("default").to_owned(),
            _server: Some(server),
        }),
        Err(StartError::Store(BackendError::Locked { .. })) => {
            let args =
                ClusterArgs { kubeconfig: Some(place.join("admin.kubeconfig")), ..ClusterArgs::default() };
            connect(&args, namespace, patience).await
        }
        Err(error) => Err(CommandError::input_error(
            format!("cannot open the state directory {}", directory.display()),
            error,
        )),
    }
}

/// Connects to the server of a kubeconfig.
pub(super) async fn connect(
    args: &ClusterArgs,
    namespace: Option<&str>,
    patience: Patience,
) -> Result<Opened, CommandError> {
    let cluster = cluster::connect(args, patience, Warnings::Printed).await?;
    let namespace = namespace.map_or_else(|| cluster.default_namespace(), str::to_owned);
    Ok(Opened { cluster, namespace, _server: None })
}

/// Runs something with the server that the arguments name, within the timeout of the command.
pub(super) fn with<T>(
    args: &ServerArgs,
    work: impl AsyncFnOnce(&Opened) -> Result<T, CommandError>,
) -> Result<Option<T>, CommandError> {
    let patience = Patience::with_timeout(Some(args.connection.timeout));
    session::run(async {
        let opened = open(args, patience).await?;
        tokio::select! {
            done = work(&opened) => done,
            () = patience.exhausted() => {
                let error = format!("the command did not end within {}", patience.limit());
                Err(CommandError::cluster(error).hint("--timeout allows more time"))
            }
        }
    })
}

/// Opens the server that the arguments name.
pub(super) async fn open(args: &ServerArgs, patience: Patience) -> Result<Opened, CommandError> {
    let namespace = args.namespace.as_deref();
    match &args.state {
        Some(directory) => open_state(directory, namespace, patience).await,
        None => connect(&args.connection.cluster, namespace, patience).await,
    }
}

/// The error of a request.
pub(super) fn failed(error: LiveError) -> CommandError {
    match error.code() {
        None if matches!(error, LiveError::NotInstalled) => CommandError::input(error.to_string())
            .hint("`settled cluster apply --install -f FILE` installs them"),
        None => CommandError::cluster(error.to_string())
            .hint("check that the server of this context is running and reachable"),
        Some(401) => {
            CommandError::cluster(error.to_string()).hint("log in again, or choose another --context")
        }
        Some(403) => CommandError::cluster(error.to_string()).hint("ask for the permission in the message"),
        Some(409) => CommandError::refused(error.to_string())
            .hint("--force-conflicts takes over fields that other managers own"),
        Some(_) => CommandError::refused(error.to_string()),
    }
}

/// The object that an argument names: `TYPE/NAME`, or a name of the only kind that is permitted.
pub(super) fn named(argument: &str, namespace: &str, permitted: &[Kind]) -> Result<Id, CommandError> {
    let (kind, name) = match (argument.split_once('/'), permitted) {
        (Some((kind, name)), _) => (Kind::parse(kind), name),
        (None, [only]) => (Some(*only), argument),
        (None, _) => (None, argument),
    };
    match kind.filter(|kind| permitted.contains(kind) && !name.is_empty()) {
        Some(kind) => Ok(Id::new(kind, namespace, name)),
        None => {
            let kinds: Vec<&str> = permitted.iter().map(|kind| kind.plural()).collect();
            Err(CommandError::usage(format!("{argument:?} names no object of {}", kinds.join(" or ")))
                .hint(format!("name it as {}/NAME", kinds.first().unwrap_or(&"machines"))))
        }
    }
}

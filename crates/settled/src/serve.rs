//! `settled serve`: the API server as a process.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use settled_apiserver::auth::Tokens;
use settled_apiserver::auth::certificates::{CertificateOptions, write_private};
use settled_apiserver::{BackendError, Config, FeatureGates, Notice, Server, StartError};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{LogFormat, ServeArgs};
use crate::error::CommandError;
use crate::output;
use crate::text;

/// Runs until a signal comes.
pub(crate) fn run(args: &ServeArgs) -> Result<ExitCode, CommandError> {
    raise_limit_of_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::input_error("the server's threads can't be started", error))?;
    let code = runtime.block_on(serve(args));
    // Nothing that still waits keeps the process.
    runtime.shutdown_background();
    code
}

/// Each connection is an open file, and 1,024 of them, the usual limit, are few for watchers. Programs in Go, kube-apiserver among
/// them, raise it as far as they may.
fn raise_limit_of_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

        let limit = getrlimit(Resource::Nofile);
        // Without it, the server takes as many as it gets.
        let _as_before = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    }
}

async fn serve(args: &ServeArgs) -> Result<ExitCode, CommandError> {
    // Before anything is started: a signal that comes early is not lost.
    let mut interrupt = listen_for(SignalKind::interrupt())?;
    let mut terminate = listen_for(SignalKind::terminate())?;
    let log = Log(args.log_format);
    let start = std::time::Instant::now();

    // What makes no sense is said before anything is made.
    let feature_gates = FeatureGates::parse(&args.feature_gates.join(","))
        .map_err(|error| CommandError::usage(format!("--feature-gates: {error}")))?;
    let (folder, temporary) = folder(args)?;
    // What is printed is used in other folders.
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    let mut config = Config::default();
    // What is gone with the process anyway need not be written.
    config.data_dir = temporary.is_none().then(|| folder.clone());
    config.memory = args.memory;
    config.feature_gates = feature_gates;
    config.listener = Some(Arc::new(move |notice| log.notice(notice)));
    config.durability = args.durability.into();
    config.certificates = CertificateOptions {
        names: args.tls_names.clone(),
        serving: args.tls_cert.clone().zip(args.tls_key.clone()),
        client_ca: args.client_ca.clone(),
        now: None,
    };
    config.controllers = args.controllers;
    config.event_ttl = Some(std::time::Duration::from_secs(args.event_ttl));
    if let Some(path) = &args.token_auth_file {
        config.tokens = tokens(path)?;
    }
    let server = Server::start(config).await.map_err(|error| not_started(error, &folder))?;
    let address = SocketAddr::new(args.bind_address, args.port);
    let address = server.listen(address).await.map_err(|error| not_started(error, &folder))?;
    let kubeconfig = folder.join("admin.kubeconfig");
    if temporary.is_some() {
        let text = server.admin_kubeconfig(&format!("https://{address}"));
        write_private(&kubeconfig, text.as_bytes()).map_err(|error| not_started(error.into(), &folder))?;
    }
    if args.log_format == LogFormat::Text {
        let kept = if args.memory { "in memory".to_owned() } else { format!("in {}", folder.display()) };
        // Each command is a whole line: to be copied, or found by a script.
        let text = format!(
            "Serving on https://{address} after {} ms; the data are {kept}. Ctrl-C ends it.\n\n\
             Use it in another terminal:\n\nexport KUBECONFIG={}\nkubectl get namespaces\n\n",
            start.elapsed().as_millis(),
            shell_word(&kubeconfig),
        );
        output::print(text.as_bytes())?;
    } else {
        log.event(
            "serving",
            &[("address", &address.to_string()), ("kubeconfig", &kubeconfig.to_string_lossy())],
        );
    }

    let (name, code) = tokio::select! {
        _ = interrupt.recv() => ("SIGINT", 130),
        _ = terminate.recv() => ("SIGTERM", 0),
    };
    log.event("stopping", &[("signal", name)]);
    tokio::select! {
        () = server.stopped() => {}
        // Whoever asks twice does not want to wait.
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    log.event("stopped", &[]);
    Ok(ExitCode::from(code))
}

fn listen_for(kind: SignalKind) -> Result<tokio::signal::unix::Signal, CommandError> {
    signal(kind).map_err(|error| CommandError::input_error("signals can't be received", error))
}

/// Where certificates and data are, and what removes them if they are not to stay.
fn folder(args: &ServeArgs) -> Result<(PathBuf, Option<tempfile::TempDir>), CommandError> {
    if let Some(folder) = &args.data_dir {
        return Ok((folder.clone(), None));
    }
    if args.memory {
        let folder = tempfile::Builder::new().prefix("settled-").tempdir();
        let folder =
            folder.map_err(|error| CommandError::input_error("no temporary folder can be made", error))?;
        return Ok((folder.path().to_owned(), Some(folder)));
    }
    let state = std::env::var_os("XDG_STATE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    let state = state.or_else(|| std::env::home_dir().map(|home| home.join(".local/state")));
    let Some(state) = state else {
        return Err(
            CommandError::usage("there is no home folder to keep data in").hint("name one: --data-dir DIR")
        );
    };
    Ok((state.join("settled"), None))
}

fn tokens(path: &Path) -> Result<Tokens, CommandError> {
    let failed =
        |error: std::io::Error| CommandError::input_error(format!("can't read {}", path.display()), error);
    let text = std::fs::read_to_string(path).map_err(failed)?;
    Tokens::parse(&text)
        .map_err(|error| CommandError::input(format!("{}: {error}", path.display())))
        .map_err(|error| error.hint("each line is: token,user,uid,\"group1,group2\""))
}

fn not_started(error: StartError, folder: &Path) -> CommandError {
    let hint = match &error {
        StartError::Listen { source, .. } if source.kind() == ErrorKind::AddrNotAvailable => {
            Some("this machine does not have the address: --bind-address IP".to_owned())
        }
        StartError::Listen { .. } => {
            Some("choose another port: --port N, or --port 0 for any that is free".to_owned())
        }
        // These say themselves what helps.
        StartError::Store(
            BackendError::Locked { .. } | BackendError::Corrupt { .. } | BackendError::Format { .. },
        ) => None,
        _ => Some(format!("the data folder is {}; another one: --data-dir DIR", folder.display())),
    };
    let error = CommandError::input_error("the server does not start", error);
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// A path as a shell takes it.
fn shell_word(path: &Path) -> String {
    let text = path.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    if text.chars().all(plain) { text.into_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// One line for each notable event, on standard error.
#[derive(Clone, Copy)]
struct Log(LogFormat);

impl Log {
    fn notice(self, notice: &Notice) {
        match self.0 {
            LogFormat::Text => output::diagnose(&text::clean(&notice.to_string())),
            LogFormat::Json => self.event(notice.event(), &notice.fields()),
        }
    }

    fn event(self, event: &str, fields: &[(&str, &str)]) {
        let now = jiff::Timestamp::now();
        let line = match self.0 {
            LogFormat::Text => {
                let fields: String = fields.iter().map(|(name, value)| format!(" {name}={value}")).collect();
                format!("{event}{fields}")
            }
            LogFormat::Json => {
                let mut line = serde_json::Map::new();
                line.insert("time".to_owned(), now.to_string().into());
                line.insert("event".to_owned(), event.into());
                line.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())));
                serde_json::Value::Object(line).to_string()
            }
        };
        output::diagnose(&line);
    }
}

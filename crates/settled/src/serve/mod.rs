//! `settled serve`: the API server as a process.

mod command;
mod directory;
mod kubeconfig;
mod log;
mod signals;
#[cfg(feature = "rehearse")]
mod simulation;

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use settled_apiserver::auth::Tokens;
use settled_apiserver::auth::certificates::{CertificateOptions, write_private};
use settled_apiserver::{BackendError, Config, FeatureGates, Server, ServiceRange, StartError};

use self::directory::{Directory, is_memory};
use self::kubeconfig::Merged;
use self::log::Log;
use self::signals::Signals;
use crate::cli::serve::{LogFormat, ServeArgs};
use crate::error::CommandError;
use crate::output;
use crate::stderr;

/// The port if none is named.
const PORT: u16 = 8443;

/// Runs until a signal comes, or until the command ends that was given.
pub(crate) fn run(args: &ServeArgs) -> Result<ExitCode, CommandError> {
    raise_limit_of_files();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| CommandError::input_error("cannot start the server's threads", error))?;
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
    let mut signals = Signals::listen()?;
    let log = Log::new(args);
    let start = std::time::Instant::now();

    // Arguments are checked before anything is written.
    let mut config = config(args, log)?;
    let directory = Directory::of(args)?;
    // Data in memory need not be written.
    config.data_dir = (!directory.is_temporary()).then(|| directory.path().to_owned());
    let not_started = |error| not_started(error, directory.path());
    let server = Server::start(config).await.map_err(not_started)?;
    let free_port = !args.command.is_empty();
    let port = args.port.unwrap_or(if free_port { 0 } else { PORT });
    let address = server.listen(SocketAddr::new(args.bind_address, port)).await.map_err(not_started)?;
    #[cfg(all(feature = "machines", target_os = "linux"))]
    if let Some(also) = args.also_bind_address {
        let also = std::net::SocketAddrV4::new(also, address.port());
        let listening =
            listen_early(also).map_err(|source| StartError::Listen { address: also.into(), source });
        // Those who use the other address do not need it.
        if let Err(error) = listening.and_then(|listener| server.listen_on(listener)) {
            stderr::print_line(&format!("warning: {error}: hosts on the bridge cannot join"));
        }
    }
    let url = format!("https://{address}");
    let own = directory.path().join("admin.kubeconfig");
    if directory.is_temporary() {
        let text = server.admin_kubeconfig(&url);
        write_private(&own, text.as_bytes()).map_err(|error| not_started(error.into()))?;
    }
    let merged = match &args.kubeconfig {
        Some(path) => Some(Merged::add(path, &args.name, &server.admin_kubeconfig(&url), is_memory(args))?),
        None => None,
    };
    let kubeconfig = merged.as_ref().map_or(own.as_path(), Merged::path);
    // It ends with the command.
    #[cfg(feature = "rehearse")]
    let _simulator = simulation::start(&server, &args.simulation).await?;
    #[cfg(all(feature = "machines", target_os = "linux"))]
    if let Some(path) = &args.register_node {
        let read = |error| CommandError::input_error(format!("cannot read {}", path.display()), error);
        let node = settled_hosts::process::SelfNode::read(path).map_err(read)?;
        tokio::spawn(node.keep(server.client(), settled_apiserver::kubernetes_version()));
    }
    let code = if args.command.is_empty() {
        if args.log_format == LogFormat::Json {
            log.event(
                "serving",
                &[("address", &address.to_string()), ("kubeconfig", &kubeconfig.to_string_lossy())],
            );
        } else if !args.quiet {
            let place = match is_memory(args) {
                true => "in memory".to_owned(),
                false => format!("in {}", directory.path().display()),
            };
            // Each command is a whole line: to be copied, or found by a script.
            let text = format!(
                "API server ready at {url} ({}ms, {place}). Press Ctrl-C to stop.\n\n\
                 In another terminal:\n\nexport KUBECONFIG={}\nkubectl get namespaces\n\n",
                start.elapsed().as_millis(),
                shell_word(kubeconfig),
            );
            output::print(text.as_bytes())?;
        }
        let stop = signals.next().await;
        log.stopping(stop);
        Ok(ExitCode::from(stop.exit_code()))
    } else {
        command::run(&args.command, &own, &mut signals).await
    };
    tokio::select! {
        () = server.stopped() => {}
        // A second signal ends it at once.
        _ = signals.next() => {}
    }
    log.stopped();
    code
}

/// Listens on an address that the machine may not have yet.
#[cfg(all(feature = "machines", target_os = "linux"))]
fn listen_early(address: std::net::SocketAddrV4) -> std::io::Result<std::net::TcpListener> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

    const BACKLOG: i32 = 1024;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    sockopt::set_ip_freebind(&socket, true)?;
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// The configuration of the server, without its directory.
fn config(args: &ServeArgs, log: Log) -> Result<Config, CommandError> {
    let mut config = Config::default();
    config.memory = is_memory(args);
    config.name = Some(args.name.clone());
    config.feature_gates = FeatureGates::parse(&args.feature_gates.join(","))
        .map_err(|error| CommandError::usage(format!("--feature-gates: {error}")))?;
    config.service_range = ServiceRange::parse(&args.service_cluster_ip_range)
        .map_err(|error| CommandError::usage(format!("--service-cluster-ip-range: {error}")))?;
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
    Ok(config)
}

fn tokens(path: &Path) -> Result<Tokens, CommandError> {
    let failed =
        |error: std::io::Error| CommandError::input_error(format!("cannot read {}", path.display()), error);
    let text = std::fs::read_to_string(path).map_err(failed)?;
    if let Some(mode) = directory::mode_for_others(path) {
        stderr::print_line(&format!(
            "warning: other users can read the tokens in {path} (mode {mode:04o}): chmod 600 {path}",
            path = path.display()
        ));
    }
    Tokens::parse(&text)
        .map_err(|error| CommandError::input(format!("{}: {error}", path.display())))
        .map_err(|error| error.hint("the format of a line is token,user,uid,\"group1,group2\""))
}

fn not_started(error: StartError, directory: &Path) -> CommandError {
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
        _ => Some(format!(
            "the data directory is {}; set another one with --data-dir DIR",
            directory.display()
        )),
    };
    let error = CommandError::input_error("cannot start the server", error);
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

//! Command line arguments of `settled serve` and `settled store`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

const STORE_CHECK_HELP_AFTER: &str = "\
Examples:
  settled store check ~/.local/state/settled
  settled store check backup/ -o json

Verifies checksums, the last seal, the order of revisions and the number of
objects, without changing anything. The server must not be running. An
unacknowledged write at the end is not damage; the next start drops it.

Exit codes:
  0  intact
  1  damaged; the output has the location and the remedy
  2  invalid arguments, no store, or in use by a server";

const SERVE_HELP_AFTER: &str = "\
Examples:
  settled serve                        keep data across restarts
  settled serve --memory -p 0          in memory, on a free port
  settled serve -- go test ./...       run a command against a new server
  settled serve --memory --simulate    with simulated Nodes and controllers
  settled serve --kubeconfig ~/.kube/config --name dev
                                       add the context \"dev\" to your kubeconfig

Then, in another terminal, with the line that the server prints:
  export KUBECONFIG=...
  kubectl get namespaces

Pods are stored but not run.
--simulate plays controllers, scheduler and kubelets.
SIGTERM or Ctrl-C stops the server.

Feature gates (default true):
  APIResponseCompression  compress responses of more than 128 KiB with gzip
  NetworkPolicyStatus     allow writing the status of NetworkPolicies
  WatchList               support sendInitialEvents of watches

Exit codes:
  0    stopped by SIGTERM
  2    failed to start
  129  stopped because the terminal was closed (SIGHUP)
  130  stopped by Ctrl-C (SIGINT)
  With a command: its exit code, 128 + the number of the signal that killed it,
  126 or 127 if it could not be run.";

/// Verify the data of `settled serve`
#[derive(Args, Debug)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    pub(crate) command: StoreCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    Check(StoreCheckArgs),
}

/// Verify a data directory without changing it
#[derive(Args, Debug)]
#[command(after_help = STORE_CHECK_HELP_AFTER)]
pub(crate) struct StoreCheckArgs {
    /// Data directory of a server, or its subdirectory `store`
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: StoreOutput,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreOutput {
    Text,
    Json,
}

/// The text after the options, without the lines about options that are not built.
fn serve_help_after() -> String {
    let is_built = |line: &&str| cfg!(feature = "rehearse") || !line.contains("--simulate");
    SERVE_HELP_AFTER.lines().filter(is_built).collect::<Vec<_>>().join("\n")
}

/// Run a Kubernetes-compatible API server for tests and control planes without Pods
///
/// The server is a single process and ready in milliseconds. The first start creates certificates and an administrator
/// kubeconfig, which only their owner can read.
#[derive(Args, Debug)]
#[command(after_help = serve_help_after())]
pub(crate) struct ServeArgs {
    /// Directory for data, certificates and `admin.kubeconfig` [default: `settled` in the user's state directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data_dir: Option<PathBuf>,

    /// Store objects in memory; they are lost when the server stops
    #[arg(long)]
    pub(crate) memory: bool,

    /// Port to listen on; 0 is any free port [default: 8443; with a command: 0]
    #[arg(short, long, value_name = "PORT")]
    pub(crate) port: Option<u16>,

    /// Address to listen on; other machines can connect unless it is a loopback address
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(crate) bind_address: std::net::IpAddr,

    /// Also listen on this address, which the machine may get later
    ///
    /// For the control planes of Clusters with hosts on a bridge of this machine.
    #[cfg(all(feature = "machines", target_os = "linux"))]
    #[arg(long, value_name = "IP", hide = true)]
    pub(crate) also_bind_address: Option<std::net::Ipv4Addr>,

    /// Add the server to this kubeconfig
    ///
    /// Cluster, user and context replace those of an earlier server with the same `--name`, and the context becomes the current one. Other
    /// entries do not change. A server without a data directory removes its entries when it stops.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Name of the cluster, user and context in kubeconfigs
    #[arg(long, value_name = "NAME", default_value = "settled", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) name: String,

    /// Range of Service IPs: a CIDR, or an IPv4 and an IPv6 CIDR separated by a comma
    #[arg(long, value_name = "CIDRS", default_value = "10.96.0.0/12")]
    pub(crate) service_cluster_ip_range: String,

    #[cfg(feature = "rehearse")]
    #[command(flatten)]
    pub(crate) simulation: SimulationArgs,

    /// Register a Node for the server itself, as this file describes it, and renew its Lease
    ///
    /// For the control planes of Clusters whose provider runs them as processes.
    #[cfg(all(feature = "machines", target_os = "linux"))]
    #[arg(long, value_name = "FILE", hide = true, value_hint = ValueHint::FilePath)]
    pub(crate) register_node: Option<PathBuf>,

    /// Whether writes are acknowledged after they are on disk
    #[arg(long, value_name = "WHEN", default_value = "sync")]
    pub(crate) durability: DurabilityArg,

    /// Static tokens: lines of `token,user,uid,"group1,group2"`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_auth_file: Option<PathBuf>,

    /// Server certificate, instead of a generated one
    #[arg(long, value_name = "FILE", requires = "tls_key", value_hint = ValueHint::FilePath)]
    pub(crate) tls_cert: Option<PathBuf>,

    /// Key of the server certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert", value_hint = ValueHint::FilePath)]
    pub(crate) tls_key: Option<PathBuf>,

    /// Additional name or address in the server certificate (can be repeated)
    #[arg(long = "tls-name", value_name = "NAME")]
    pub(crate) tls_names: Vec<String>,

    /// Additional certificate authority for client certificates
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) client_ca: Option<PathBuf>,

    /// Built-in controllers, separated by commas: `*` means all, `-NAME` disables one
    ///
    /// `namespaces` deletes the content of terminating namespaces. `garbage` deletes dependents of deleted objects. `events` deletes
    /// expired Events. `accounts` creates the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt` in each namespace. `roles`
    /// aggregates ClusterRoles. `quotas` calculates the usage of ResourceQuotas. `claims` removes protection finalizers of unused PVCs and
    /// PVs. Disable those that a real kube-controller-manager runs. Objects that kube-apiserver itself manages, such as the Service
    /// `kubernetes`, are not affected.
    #[arg(long, value_name = "NAMES", default_value = "*", allow_hyphen_values = true)]
    pub(crate) controllers: settled_apiserver::Controllers,

    /// Time to live of Events, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub(crate) event_ttl: u64,

    /// Feature gates, as `Name=true,Other=false`; see below
    #[arg(long = "feature-gates", value_name = "GATES")]
    pub(crate) feature_gates: Vec<String>,

    /// Log format on standard error
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// Print only warnings and errors
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Command to run with KUBECONFIG set; the server stops when it ends, and stores data in memory unless --data-dir is set
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments, num_args = 1..)]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// Arguments of the simulation.
#[cfg(feature = "rehearse")]
#[derive(Args, Debug)]
pub(crate) struct SimulationArgs {
    /// Simulate controllers, scheduler, Nodes and kubelets
    ///
    /// No container runs. With a value, only these components: names separated by commas, `*` for all, `-NAME` for all but one.
    #[arg(long, value_name = "COMPONENTS", num_args = 0..=1, require_equals = true, default_missing_value = "*")]
    pub(crate) simulate: Option<settled_rehearsal::Components>,

    /// Scenario of the simulation: what fails, when, and how long things take
    #[arg(long, value_name = "FILE", requires = "simulate", value_hint = ValueHint::FilePath)]
    pub(crate) scenario: Option<PathBuf>,

    /// Nodes of the simulation, such as `3x4cpu,16Gi` [default: three large ones]
    #[arg(long, value_name = "NODES", requires = "simulate", value_parser = super::rehearse::nodes)]
    pub(crate) nodes: Option<super::rehearse::Nodes>,
}

/// Durability of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityArg {
    /// After they are on disk
    Sync,
    /// Immediately; a crash loses about one second
    None,
}

impl From<DurabilityArg> for settled_apiserver::Durability {
    fn from(durability: DurabilityArg) -> Self {
        match durability {
            DurabilityArg::Sync => Self::Synced,
            DurabilityArg::None => Self::None,
        }
    }
}

/// Log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Text lines
    Text,
    /// One JSON object per line
    Json,
}

//! The arguments of `settled serve` and `settled store`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum, ValueHint};

const STORE_CHECK_HELP_AFTER: &str = "\
Examples:
  settled store check ~/.local/state/settled
  settled store check backup/ -o json

It reads the log of a server that does not run, and changes nothing: checksums
of all writes, the seal of the last one, the order of the revisions, and whether
all objects are there. A write at the end that was never acknowledged is no
damage: the next start drops it and says so.

Exit codes:
  0  the store is whole
  1  it is damaged: where, and what to do about it, is in the output
  2  wrong arguments, no store there, or a server is using it";

const SERVE_HELP_AFTER: &str = "\
Examples:
  settled serve                        keep data across restarts
  settled serve --memory -p 0          for a test: nothing is kept, any free port
  settled serve -- go test ./...       run a command against a fresh server
  settled serve --kubeconfig ~/.kube/config --name dev
                                       add it to your kubeconfig as \"dev\"

Then, in another terminal, with the line that it prints:
  export KUBECONFIG=...
  kubectl get namespaces

It keeps objects and runs no containers: Pods are stored. Programs stop it with
SIGTERM, people with Ctrl-C.

Feature gates, all on unless said otherwise:
  APIResponseCompression  answers of more than 128 KiB are gzipped
  WatchList               a watch can begin with the state

Exit codes:
  0    stopped by SIGTERM
  2    it could not start
  129  stopped because its terminal was closed (SIGHUP)
  130  stopped by Ctrl-C (SIGINT)
  With a command: that of the command, 128 and the number of the signal that
  killed it, 126 or 127 if it could not be run.";

/// Look after the data of `settled serve`
#[derive(Args, Debug)]
pub(crate) struct StoreArgs {
    #[command(subcommand)]
    pub(crate) command: StoreCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    Check(StoreCheckArgs),
}

/// Verify a data directory, and change nothing
#[derive(Args, Debug)]
#[command(after_help = STORE_CHECK_HELP_AFTER)]
pub(crate) struct StoreCheckArgs {
    /// The data directory of a server, or the `store` directory in it
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) directory: PathBuf,

    /// How to print the result
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub(crate) output: StoreOutput,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreOutput {
    Text,
    Json,
}

/// Run a Kubernetes API server: for tests, rehearsals and control planes without pods
///
/// Kubernetes-compatible, in one process, ready in milliseconds. On the first start it makes its certificates, and a
/// kubeconfig for an administrator that only its owner can read.
#[derive(Args, Debug)]
#[command(after_help = SERVE_HELP_AFTER)]
pub(crate) struct ServeArgs {
    /// Directory for data, certificates and `admin.kubeconfig` [default: settled in the user's state directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) data_dir: Option<PathBuf>,

    /// Keep objects in memory only; they are gone when the server stops
    #[arg(long)]
    pub(crate) memory: bool,

    /// The port to listen on; 0 is any that is free [default: 8443; with a command: 0]
    #[arg(short, long, value_name = "PORT")]
    pub(crate) port: Option<u16>,

    /// The address to listen on; anything but loopback lets others in
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub(crate) bind_address: std::net::IpAddr,

    /// Write the kubeconfig to this file as well; other entries in it are kept
    ///
    /// The server's cluster, user and context replace those of an earlier server of the same `--name`, and the context becomes the
    /// current one. When a server without a data directory stops, its entries are removed again.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The name of the cluster, user and context in kubeconfigs
    #[arg(long, value_name = "NAME", default_value = "settled", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub(crate) name: String,

    /// The addresses of Services: a CIDR, or one of IPv4 and one of IPv6 with a comma between them
    #[arg(long, value_name = "CIDRS", default_value = "10.96.0.0/12")]
    pub(crate) service_cluster_ip_range: String,

    /// When a write is acknowledged: once it is on disk, or before
    #[arg(long, value_name = "WHEN", default_value = "sync")]
    pub(crate) durability: DurabilityArg,

    /// Users that come with a token: lines of `token,user,uid,"group1,group2"`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) token_auth_file: Option<PathBuf>,

    /// The server's certificate, instead of one that it signs itself
    #[arg(long, value_name = "FILE", requires = "tls_key", value_hint = ValueHint::FilePath)]
    pub(crate) tls_cert: Option<PathBuf>,

    /// The key of the server's certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert", value_hint = ValueHint::FilePath)]
    pub(crate) tls_key: Option<PathBuf>,

    /// Another name or address that clients know the server by
    #[arg(long = "tls-name", value_name = "NAME")]
    pub(crate) tls_names: Vec<String>,

    /// An authority whose client certificates are accepted, besides the server's own
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) client_ca: Option<PathBuf>,

    /// Which built-in controllers run, with commas between them: `*` is all, `-NAME` all but that one
    ///
    /// `namespaces` empties namespaces that are deleted. `garbage` deletes what its owners leave behind. `events` removes
    /// Events after a time. `accounts` keeps the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt` in each
    /// namespace. `roles` gathers aggregated ClusterRoles. `quotas` counts what ResourceQuotas limit. `claims` lets
    /// claims and volumes go once nobody uses them. All are optional beside a real kube-controller-manager. What kube-apiserver
    /// keeps itself, such as the Service `kubernetes`, is always kept.
    #[arg(long, value_name = "NAMES", default_value = "*", allow_hyphen_values = true)]
    pub(crate) controllers: settled_apiserver::Controllers,

    /// How long Events stay after they were written, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub(crate) event_ttl: u64,

    /// What to switch on and off, as `Name=true,Other=false`; see below
    #[arg(long = "feature-gates", value_name = "GATES")]
    pub(crate) feature_gates: Vec<String>,

    /// How events are reported on standard error
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub(crate) log_format: LogFormat,

    /// Print nothing but warnings and errors
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// A command that runs with KUBECONFIG set; the server stops when it ends, and keeps nothing without --data-dir
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments, num_args = 1..)]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// When a write is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DurabilityArg {
    /// Once it is on disk
    Sync,
    /// At once: a crash loses the last second or so
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

/// How events are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// A JSON object in each line
    Json,
}

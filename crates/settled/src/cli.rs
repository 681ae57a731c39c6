//! The arguments.

pub(crate) mod live;

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, ValueHint};
use jiff::{SignedDuration, Timestamp};
use kstatus::{Profile, Status};

// By hand within 80 columns: what is longer would be broken anywhere.

const HELP_AFTER: &str = "\
Examples:
  settled status -A                all that is not done in the cluster
  settled why deploy/web           why it is not done
  settled wait -f k8s/             wait for what was applied
  settled status -f dump/ --not-current
  settled status --help            more examples, output formats, exit codes

Installed as `kubectl-settled` in the PATH, it is `kubectl settled` as well.";

const STATUS_HELP_AFTER: &str = "\
Examples:
  settled status                              all that is not done in the
                                              namespace (-A: in all of them)
  settled status deploy,sts -n shop           objects of a cluster
  settled status deploy -w -o jsonl           a line per change
  settled status -f examples                  all of a directory, worst first
  kubectl get pods -A -o json | settled status -f -
                                              what a cluster says now
  settled status -f dump/ --not-current       only what needs a look
  settled status -f dump/ --kind deploy,sts -n shop -o wide
                                              some of it, with more columns
  settled status -f dump/ -o jsonl | jq -r .reason
                                              for programs: JSON lines
  settled status -f dump/ -q || echo not yet  only the exit code

Output formats:
  table  worst first, fitted to the terminal; a whole line each in a pipe
  wide   with generation (observed/wanted), basis, failure class (`!` if only
         a change of the object helps) and source as well
  jsonl  one JSON line per object, in the order of the input; keys: source,
         document, apiVersion, kind, namespace, name, status, reason, message,
         basis, generation, observedGeneration, failureClass, terminal,
         conditions, problems; the ones that say nothing are left out
  json   the same as one array
  yaml   the same as YAML documents

Exit codes:
  0    all objects are Current
  1    something is Failed
  2    wrong arguments, unreadable input, or no objects found
  3    not settled yet: InProgress, Terminating, Unknown or NotFound
  4    the cluster can't be reached, or a permission is missing
  130  interrupted (129 and 143: by SIGHUP and SIGTERM)
  When several apply: 2, 4, 1, then 3. What filters leave out is not counted.";

const AUGMENT_HELP_AFTER: &str = "\
Examples:
  settled augment -f dump.yaml > amended.yaml
  kubectl get deploy -o json | settled augment -f - | jq .status.conditions

Output formats:
  jsonl  one object per line (the default if the first input is JSON)
  yaml   YAML documents (the default if the first input is YAML)
  json   one `List` of all objects

Exit codes:
  0  all objects were read and amended where they had to be
  2  wrong arguments, unreadable input, no objects in it, or some that could
     not be amended: an object is then written as it was, a document that is
     no object is left out, and standard error names it";

const RULES_HELP_AFTER: &str = "\
Examples:
  settled rules list cert-manager             what is known about a group
  settled rules show cert-manager.io/Certificate
                                              how it is decided
  settled rules explain -f dump.yaml --name web
                                              why the verdict is what it is
  settled rules test rules/                   whether your own rules are right
  settled rules import argocd-cm.yaml > pack.yaml
                                              another tool's rules in CEL

Who decides, in this order:
  1  an annotation on the object (settled.dev/current and others)
  2  your rules: --rules, SETTLED_RULES
  3  an annotation on the CustomResourceDefinition, if --rules names it
  4  the built-in rule pack
  5  what the program knows of the kind, or finds in the object";

const RULES_TEST_HELP_AFTER: &str = "\
Exit codes:
  0  all cases are as expected
  1  a case is not (with --strict: or there is a warning)
  2  something cannot be read";

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

/// Tell whether Kubernetes resources are done, and why when they are not
///
/// Settled reads Kubernetes objects and gives a verdict on each: Current (done), InProgress, Failed, Terminating,
/// NotFound or Unknown, with a reason and a message that says what is missing.
#[derive(Debug, Parser)]
#[command(name = "settled", version, long_version = long_version(), after_help = HELP_AFTER)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// When to use colours; `auto` is on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Global options")]
    pub(crate) color: Color,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Wait(Box<live::WaitArgs>),
    Why(live::WhyArgs),
    Tree(live::TreeArgs),
    Events(live::EventsArgs),
    Apply(Box<live::ApplyArgs>),
    Status(StatusArgs),
    Augment(AugmentArgs),
    Rules(RulesArgs),
    Serve(ServeArgs),
    Store(StoreArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

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

/// Show the status of objects, in files and dumps or in a cluster
///
/// Without arguments: all that is not done in the namespace. That is the category `all`, PersistentVolumeClaims, Ingresses and custom resources
/// (at most 50 kinds); objects whose owner is shown are left out. Objects of a cluster are named as for `settled wait`. Of files, it reads YAML and JSON: many documents in a file, JSON
/// lines, `List` objects, whole folders of them. Memory stays flat however large the input is.
#[derive(Args, Debug)]
#[command(after_help = STATUS_HELP_AFTER)]
#[command(mut_arg("targets", |arg| arg.hide(false).help("Objects of a cluster: TYPE/NAME..., TYPE NAME..., or TYPE")))]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,

    #[command(flatten)]
    pub(crate) select: live::SelectArgs,

    #[command(flatten)]
    pub(crate) cluster: live::ClusterArgs,

    #[command(flatten)]
    pub(crate) verdict: VerdictArgs,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,

    /// Show objects of a cluster again whenever they change, until Ctrl-C; jsonl: a line per change
    #[arg(short, long, help_heading = "Output")]
    pub(crate) watch: bool,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table", help_heading = "Output")]
    pub(crate) output: StatusOutput,

    /// What to sort by; `none` is the order of the input [default: status for tables, none for the others]
    #[arg(long, value_name = "BY", help_heading = "Output")]
    pub(crate) sort: Option<Sort>,

    /// Print nothing but errors, for the exit code
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: bool,

    /// Fit tables into so many columns, 0 for no limit [default: the terminal's; no limit in pipes]
    #[arg(long, value_name = "COLUMNS", help_heading = "Output")]
    pub(crate) width: Option<usize>,

    /// How much memory sorting may take before it goes to temporary files
    #[arg(long, value_name = "BYTES", default_value = "8MiB", value_parser = bytes, hide = true)]
    pub(crate) sort_memory: usize,
}

/// Write objects back with the standard conditions in their status
///
/// Puts `Reconciling` or `Stalled` into `status.conditions`, as the verdict on the object says, so that tools which
/// know only standard conditions understand it. Everything else stays as it is, and so does the order.
#[derive(Args, Debug)]
#[command(after_help = AUGMENT_HELP_AFTER)]
pub(crate) struct AugmentArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,

    #[command(flatten)]
    pub(crate) verdict: VerdictArgs,

    /// Output format [default: yaml if the first input is YAML, otherwise jsonl]
    #[arg(short, long, value_name = "FORMAT", help_heading = "Output")]
    pub(crate) output: Option<AugmentOutput>,

    /// Print no summary
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: bool,
}

/// Show, explain, test and import rules that say when a kind is done
#[derive(Args, Debug)]
#[command(after_help = RULES_HELP_AFTER)]
pub(crate) struct RulesArgs {
    #[command(subcommand)]
    pub(crate) command: RulesCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    List(RulesListArgs),
    Show(RulesShowArgs),
    Explain(RulesExplainArgs),
    Test(RulesTestArgs),
    Import(RulesImportArgs),
}

/// List all rules, and where each of them comes from
#[derive(Args, Debug)]
pub(crate) struct RulesListArgs {
    /// Only rules whose group or kind contains this text
    #[arg(value_name = "TEXT")]
    pub(crate) text: Option<String>,

    #[command(flatten)]
    pub(crate) rules: RuleArgs,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: RulesOutput,
}

/// Show the rules for a kind as they are written, the one that counts first
#[derive(Args, Debug)]
pub(crate) struct RulesShowArgs {
    /// The API group and the kind, such as cert-manager.io/Certificate
    #[arg(value_name = "GROUP/KIND")]
    pub(crate) kind: String,

    #[command(flatten)]
    pub(crate) rules: RuleArgs,
}

/// Explain verdicts: which expression decided, and the values that it saw
#[derive(Args, Debug)]
pub(crate) struct RulesExplainArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,

    #[command(flatten)]
    pub(crate) verdict: VerdictArgs,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}

/// Run cases, and show what differs from what they expect
///
/// A case is an object and the verdict that is expected of it. The cases of `x.test.yaml` are tried with the rules of
/// `x.yaml` beside it, before all others. Warns of branches that no case reaches, and of expressions that in every case
/// touch a field which is absent.
#[derive(Args, Debug)]
#[command(after_help = RULES_TEST_HELP_AFTER)]
pub(crate) struct RulesTestArgs {
    /// Files of cases, or folders with files that end in .test.yaml
    #[arg(value_name = "PATH", default_value = ".", value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) rules: RuleArgs,

    /// The time of cases that name none, such as 2026-11-21T12:00:00Z [default: the present]
    #[arg(long, value_name = "TIMESTAMP", value_parser = timestamp)]
    pub(crate) now: Option<Timestamp>,

    /// Count warnings as failures
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Translate another tool's rules into a rule pack, and say what can't be
#[derive(Args, Debug)]
pub(crate) struct RulesImportArgs {
    /// The file: a manifest with Flux healthCheckExprs, an argocd-cm, a kapp Config, a CustomResourceDefinition, a
    /// health.lua
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
}

/// Print the completion script of a shell
///
/// For example, `settled completions bash > ~/.local/share/bash-completion/completions/settled`, or
/// `source <(settled completions zsh)`. In bash, zsh and fish, types and names come from the cluster. For `kubectl settled`, link the
/// program as `kubectl_complete-settled` in the PATH.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page, or write those of all commands into a folder
///
/// For example, `settled man | man -l -`, or `settled man --dir ~/.local/share/man/man1`.
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// Write settled.1, settled-status.1 and so on into this folder, which is made if need be
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Input")]
pub(crate) struct InputArgs {
    // For the objects of clusters, where a command looks at them.
    #[arg(value_name = "TYPE/NAME", hide = true)]
    pub(crate) targets: Vec<String>,

    /// Read this file, all of this directory, this URL, or standard input if `-` (can be repeated)
    ///
    /// Patterns such as 'k8s/*.yaml' are expanded. Of a directory, the files that end in .yaml, .yml, .json, .jsonl or .ndjson are read, in sorted order and with
    /// those in its subdirectories; hidden ones are not. A file that is named may be called anything.
    #[arg(
        short = 'f', long = "filename", value_name = "FILE|DIR|URL|-", num_args = 1.., action = ArgAction::Append,
        value_hint = ValueHint::AnyPath
    )]
    pub(crate) files: Vec<PathBuf>,

    /// Read what kustomize builds of this directory; needs kustomize or kubectl in the PATH
    #[arg(short = 'k', long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) kustomize: Option<PathBuf>,

    /// How many threads give verdicts [default: one per core, at most 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,

    /// How large one object may be; a larger one counts as malformed
    #[arg(long, value_name = "BYTES", default_value = "16MiB", value_parser = bytes)]
    pub(crate) max_object_size: usize,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Verdict")]
pub(crate) struct VerdictArgs {
    /// How to read the evidence
    #[arg(long, value_name = "PROFILE", default_value = "settled", value_parser = profile_parser())]
    pub(crate) profile: Profile,

    /// Count objects without a status as Current instead of Unknown
    #[arg(long)]
    pub(crate) assume_current: bool,

    /// Call an Ingress or a Gateway Current without an address: some controllers never set one
    #[arg(long)]
    pub(crate) address_optional: bool,

    /// How long a Pod may be unschedulable before it is Failed
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub(crate) schedule_grace: SignedDuration,

    /// The time to count from, for old dumps, such as 2026-11-21T12:00:00Z [default: the present]
    ///
    /// It decides how long a deletion lasts and whether a Pod's grace for scheduling has passed.
    #[arg(long, value_name = "TIMESTAMP", value_parser = timestamp)]
    pub(crate) now: Option<Timestamp>,

    #[command(flatten)]
    pub(crate) rules: RuleArgs,
}

/// Which rules there are besides what the program knows of kinds.
#[derive(Args, Debug)]
#[command(next_help_heading = "Rules")]
pub(crate) struct RuleArgs {
    /// Read rules from this file, or all of this folder (can be repeated) [env: SETTLED_RULES, separated by `:`]
    ///
    /// Rule packs, and the rules of other tools as they are: Flux healthCheckExprs, argocd-cm and health.lua, kapp
    /// waitRules, CustomResourceDefinitions with annotations. See `settled rules --help`.
    #[arg(long = "rules", value_name = "FILE|DIR", action = ArgAction::Append, value_hint = ValueHint::AnyPath)]
    pub(crate) rule_files: Vec<PathBuf>,

    /// Leave out the built-in rule pack
    #[arg(long)]
    pub(crate) no_builtin_rules: bool,

    /// Ignore readiness annotations on objects
    #[arg(long)]
    pub(crate) no_annotations: bool,
}

/// Which objects are shown and count for the exit code.
#[derive(Args, Debug)]
#[command(next_help_heading = "Filters (what they leave out is not counted either)")]
pub(crate) struct FilterArgs {
    /// Only these kinds, separated by commas: `Pod`, `pods`, `po`, `deployments.apps` and so on
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) kind: Vec<String>,

    /// Only objects in these namespaces, separated by commas
    #[arg(short, long, value_name = "NAMESPACE", value_delimiter = ',')]
    pub(crate) namespace: Vec<String>,

    /// Only objects of these names, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) name: Vec<String>,

    /// Only these statuses, separated by commas: Failed, Unknown, NotFound, Terminating, InProgress, Current
    #[arg(long, value_name = "STATUS", value_delimiter = ',', ignore_case = true, hide_possible_values = true,
        value_parser = status_parser())]
    pub(crate) status: Vec<Status>,

    /// All statuses but Current
    #[arg(long, conflicts_with = "status")]
    pub(crate) not_current: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StatusOutput {
    Table,
    Wide,
    Json,
    Jsonl,
    Yaml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AugmentOutput {
    Json,
    Jsonl,
    Yaml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RulesOutput {
    Table,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    Status,
    Kind,
    Namespace,
    Name,
    Source,
    None,
}

/// The version with what it was built from, and the version of Kubernetes that `serve` speaks.
fn long_version() -> String {
    format!(
        "{}\ncommit      {}\ndate        {}\nKubernetes  {} (settled serve)",
        env!("CARGO_PKG_VERSION"),
        env!("SETTLED_COMMIT"),
        env!("SETTLED_BUILD_DATE"),
        settled_apiserver::kubernetes_version()
    )
}

fn profile_parser() -> impl clap::builder::TypedValueParser<Value = Profile> {
    wire_names(Profile::ALL.iter().map(|profile| profile.as_str()))
}

fn status_parser() -> impl clap::builder::TypedValueParser<Value = Status> {
    wire_names(Status::ALL.iter().map(|status| status.as_str()))
}

/// The names of a wire enum as clap's possible values, so that help and completions know them.
fn wire_names<T>(names: impl Iterator<Item = &'static str>) -> impl clap::builder::TypedValueParser<Value = T>
where
    T: std::str::FromStr<Err = kstatus::UnknownName> + Clone + Send + Sync + 'static,
{
    use clap::builder::TypedValueParser as _;
    clap::builder::PossibleValuesParser::new(names).try_map(|name| name.parse::<T>())
}

fn timestamp(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| "no timestamp such as 2026-11-21T12:00:00Z".to_owned())
}

fn duration(text: &str) -> Result<SignedDuration, String> {
    match text.parse::<SignedDuration>() {
        Ok(duration) if !duration.is_negative() => Ok(duration),
        _ => Err("no duration such as 15s or 1m30s".to_owned()),
    }
}

/// Reads `65536`, `64Ki`, `16M` or `16MiB`: always powers of 1024.
fn bytes(text: &str) -> Result<usize, String> {
    const MAX: u64 = 1 << 30;
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "ki" | "kb" | "kib" => 1 << 10,
        "m" | "mi" | "mb" | "mib" => 1 << 20,
        "g" | "gi" | "gb" | "gib" => 1 << 30,
        _ => return Err("no size such as 65536, 512KiB or 16MiB".to_owned()),
    };
    match number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)) {
        Some(0) | None => Err("no size such as 65536, 512KiB or 16MiB".to_owned()),
        Some(bytes) if bytes > MAX => Err("at most 1GiB".to_owned()),
        Some(bytes) => usize::try_from(bytes).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_declaration_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(bytes("65536"), Ok(65_536));
        assert_eq!(bytes("64Ki"), Ok(65_536));
        assert_eq!(bytes("16MiB"), Ok(16 << 20));
        assert_eq!(bytes("1g"), Ok(1 << 30));
        for wrong in ["", "0", "-1", "x", "1x", "1.5M", "99999999999999999999", "2G"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}

//! Command line arguments (clap): commands for files, and shared options.

pub(crate) mod args;
#[cfg(feature = "machines")]
pub(crate) mod lifecycle;
pub(crate) mod live;
#[cfg(feature = "machines")]
pub(crate) mod machines;
#[cfg(feature = "netpol")]
pub(crate) mod netpol;
#[cfg(feature = "rehearse")]
pub(crate) mod rehearse;
#[cfg(feature = "serve")]
pub(crate) mod serve;

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum, ValueHint};
use jiff::{SignedDuration, Timestamp};
use kstatus::{Confidence, Profile, Status};

// Wrapped by hand at 80 columns: clap breaks longer lines anywhere.

const HELP_AFTER: &str = "\
Examples:
  settled status -A                list all objects that are not done
  settled why deploy/web           show the root cause
  settled wait -f k8s/             wait until all objects are done
  settled status -f dump/ --not-current
  settled status --help            more examples, output formats, exit codes

Installed as `kubectl-settled` in the PATH, it is the plugin `kubectl settled`.";

const STATUS_HELP_AFTER: &str = "\
Examples:
  settled status                              all objects in the namespace that
                                              are not done (-A: all namespaces)
  settled status deploy,sts -n shop           objects of a cluster
  settled status deploy -w -o jsonl           one line per change
  settled status -f examples                  all files of a directory
  kubectl get pods -A -o json | settled status -f -
                                              output of kubectl
  settled status -f dump/ --not-current       without objects that are done
  settled status -f dump/ --kind deploy,sts -n shop -o wide
                                              filtered, with more columns
  settled status -f dump/ -o jsonl | jq -r .reason
                                              JSON lines for scripts
  settled status -f dump/ -q || echo not yet  only the exit code

Output formats:
  table  sorted by urgency, fitted to the terminal; one line each in a pipe
  wide   in addition generation (observed/desired), basis, confidence, failure
         class (`!` if recovery needs a change of the spec) and source
  jsonl  one JSON line per object, in the order of the input; keys: source,
         document, apiVersion, kind, namespace, name, status, reason, message,
         basis, confidence, generation, observedGeneration, failureClass,
         terminal, conditions, problems; absent values are omitted
  json   one JSON array
  yaml   YAML documents

Exit codes:
  0    all objects are Current
  1    an object is Failed
  2    invalid arguments, unreadable input, or no objects found
  3    not done: InProgress, Terminating, Unknown or NotFound
  4    the cluster is unreachable, or a permission is missing
  130  interrupted (129 by SIGHUP, 143 by SIGTERM)
  If several apply, the precedence is 2, 4, 1, 3. Filtered objects do not count.";

const AUGMENT_HELP_AFTER: &str = "\
Examples:
  settled augment -f dump.yaml > amended.yaml
  kubectl get deploy -o json | settled augment -f - | jq .status.conditions

Output formats:
  jsonl  one object per line (the default if the first input is JSON)
  yaml   YAML documents (the default if the first input is YAML)
  json   one `List` of all objects

Exit codes:
  0  all objects were written with their conditions
  2  invalid arguments, unreadable input, no objects, or objects whose
     conditions cannot be changed: these are written unchanged, malformed
     documents are omitted, and standard error lists both";

const RULES_HELP_AFTER: &str = "\
Examples:
  settled rules list cert-manager             rules of an API group
  settled rules show cert-manager.io/Certificate
                                              rules for a kind
  settled rules explain -f dump.yaml --name web
                                              the decisive rule and expression
  settled rules test rules/                   run test cases
  settled rules import argocd-cm.yaml > pack.yaml
                                              convert rules of another tool
  settled rules propose -f dump/ > drafts.yaml
                                              draft rules for kinds without one

Precedence:
  1  annotations on the object (settled.dev/current and others)
  2  your rules: --rules, SETTLED_RULES
  3  annotations on the CustomResourceDefinition, in --rules or in the cluster
  4  the built-in rule pack
  5  the built-in rule for the kind, or conditions and phases";

const RULES_TEST_HELP_AFTER: &str = "\
Exit codes:
  0  all cases pass
  1  a case fails (or, with --strict, there is a warning)
  2  a file cannot be read, or there is no case";

/// Wait until Kubernetes resources are ready, and explain why they are not
///
/// The status of each object is Current (done), InProgress, Failed, Terminating, NotFound or Unknown, with a reason and
/// a message.
#[derive(Debug, Parser)]
#[command(name = "settled", version, long_version = long_version(), after_help = HELP_AFTER)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// When to use colors; `auto` means on terminals, unless NO_COLOR is set
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto", help_heading = "Global options")]
    pub(crate) color: Color,

    /// Log requests, watches and state changes to standard error [default: off, or as RUST_LOG says]
    ///
    /// `info` logs state changes and, with `serve`, each request; `debug` also each request and watch; `trace` also each event of a watch. Lines have no object
    /// content and no credentials. While there is a log, `wait` prints lines instead of the live view.
    #[arg(long, global = true, value_name = "LEVEL", help_heading = "Global options")]
    pub(crate) log_level: Option<LogLevel>,
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
    #[cfg(feature = "machines")]
    Cluster(machines::MachinesArgs),
    #[cfg(feature = "netpol")]
    Netpol(netpol::NetpolArgs),
    #[cfg(feature = "rehearse")]
    Rehearse(Box<rehearse::RehearseArgs>),
    #[cfg(feature = "rehearse")]
    Demo(Box<rehearse::DemoArgs>),
    #[cfg(feature = "rehearse")]
    Play(rehearse::PlayArgs),
    #[cfg(feature = "serve")]
    Serve(serve::ServeArgs),
    #[cfg(feature = "serve")]
    Store(serve::StoreArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

/// Show the status of objects in a cluster, or in files and dumps
///
/// Without arguments, shows all objects in the namespace that are not done: of the category `all`, PersistentVolumeClaims, Ingresses and custom
/// resources (up to 50 kinds), without objects whose owner is shown. Targets in a cluster are those of `settled wait`. Files contain YAML and
/// JSON: multiple documents, JSON lines, `List` objects. Memory use does not depend on the size of the input.
#[derive(Args, Debug)]
#[command(after_help = STATUS_HELP_AFTER)]
#[command(mut_arg("targets", |arg| arg.hide(false).help("Objects of a cluster: TYPE/NAME..., TYPE NAME..., or TYPE")))]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,

    #[command(flatten)]
    pub(crate) select: args::SelectArgs,

    #[command(flatten)]
    pub(crate) cluster: args::ClusterArgs,

    #[command(flatten)]
    pub(crate) verdict: VerdictArgs,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,

    /// Watch objects of a cluster and show changes, until Ctrl-C; with jsonl one line per change
    #[arg(short, long, help_heading = "Output")]
    pub(crate) watch: bool,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table", help_heading = "Output")]
    pub(crate) output: StatusOutput,

    /// Sort order; `none` is the order of the input [default: status for tables, otherwise none]
    #[arg(long, value_name = "BY", help_heading = "Output")]
    pub(crate) sort: Option<Sort>,

    /// Print only errors
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: bool,

    /// Width of tables in columns, 0 for no limit [default: the terminal's; no limit in pipes]
    #[arg(long, value_name = "COLUMNS", help_heading = "Output")]
    pub(crate) width: Option<usize>,

    /// Memory limit of sorting, after which temporary files are used
    #[arg(long, value_name = "BYTES", default_value = "8MiB", value_parser = bytes, hide = true)]
    pub(crate) sort_memory: usize,
}

/// Add the standard conditions to the status of objects
///
/// Writes the objects back with `Reconciling` or `Stalled` in `status.conditions`, according to the verdict, for tools
/// that support only standard conditions. Everything else, including the order, does not change.
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

/// List, show, explain, test, import and propose readiness rules
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
    Propose(RulesProposeArgs),
}

/// List rules with their origin
#[derive(Args, Debug)]
pub(crate) struct RulesListArgs {
    /// Only rules whose group or kind contains this text
    #[arg(value_name = "TEXT")]
    pub(crate) text: Option<String>,

    #[command(flatten)]
    pub(crate) rules: RuleFileArgs,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: RulesOutput,
}

/// Print the rules for a kind in order of precedence
#[derive(Args, Debug)]
pub(crate) struct RulesShowArgs {
    /// API group and kind, such as cert-manager.io/Certificate
    #[arg(value_name = "GROUP/KIND")]
    pub(crate) kind: String,

    #[command(flatten)]
    pub(crate) rules: RuleFileArgs,
}

/// Explain verdicts: the decisive expression, and the values that it read
#[derive(Args, Debug)]
pub(crate) struct RulesExplainArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,

    #[command(flatten)]
    pub(crate) verdict: VerdictArgs,

    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}

/// Run test cases of rules
///
/// A case is an object and its expected verdict. For the cases of `x.test.yaml`, the rules of `x.yaml` in the same
/// directory are loaded first. Warns about branches that no case reaches, and about expressions that read an absent
/// field in every case.
#[derive(Args, Debug)]
#[command(after_help = RULES_TEST_HELP_AFTER)]
pub(crate) struct RulesTestArgs {
    /// Files with test cases, or directories with files that end in .test.yaml
    #[arg(value_name = "PATH", default_value = ".", value_hint = ValueHint::AnyPath)]
    pub(crate) paths: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) rules: RuleFileArgs,

    /// Current time for cases without `now`, such as 2026-11-21T12:00:00Z [default: now]
    #[arg(long, value_name = "TIMESTAMP", value_parser = timestamp)]
    pub(crate) now: Option<Timestamp>,

    /// Count warnings as failures
    #[arg(long)]
    pub(crate) strict: bool,
}

/// Draft rules for kinds that have none
///
/// Reads CRDs and objects from files with -f, otherwise from the cluster, and prints what schemas and statuses say,
/// with a draft of a rule and its cases for review. The drafts follow conventions: check them against the
/// controller's source.
#[derive(Args, Debug)]
pub(crate) struct RulesProposeArgs {
    #[command(flatten)]
    pub(crate) input: InputArgs,

    #[command(flatten)]
    pub(crate) rules: RuleFileArgs,

    #[command(flatten)]
    pub(crate) cluster: args::ClusterArgs,

    /// Timeout for reading the cluster
    #[arg(id = "read_timeout", long = "timeout", value_name = "DURATION", default_value = "1m", value_parser = crate::duration::parse)]
    pub(crate) timeout: std::time::Duration,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "yaml")]
    pub(crate) output: ProposeOutput,
}

/// Formats of `rules propose`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProposeOutput {
    /// Findings as comments, rules and cases
    Yaml,
    /// A list of kinds
    Json,
}

/// Convert rules of other tools into a rule pack, and list what cannot be converted
#[derive(Args, Debug)]
pub(crate) struct RulesImportArgs {
    /// Manifest with Flux healthCheckExprs, argocd-cm, kapp Config, CustomResourceDefinition, or health.lua
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
}

/// Print a shell completion script
///
/// For example, `settled completions bash > ~/.local/share/bash-completion/completions/settled`, or
/// `source <(settled completions zsh)`. In bash, zsh and fish, types and names are completed from the cluster. For `kubectl settled`, link the
/// program as `kubectl_complete-settled` in the PATH.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page, or write those of all commands into a directory
///
/// For example, `settled man | man -l -`, or `settled man --dir ~/.local/share/man/man1`.
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// Write settled.1, settled-status.1 and so on into this directory, which is created if necessary
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Input")]
pub(crate) struct InputArgs {
    // Targets in a cluster, for the commands that support them.
    #[arg(value_name = "TYPE/NAME", hide = true)]
    pub(crate) targets: Vec<String>,

    /// File, directory, URL, or `-` for standard input (can be repeated)
    ///
    /// Patterns such as 'k8s/*.yaml' are expanded. In directories, files that end in .yaml, .yml, .json, .jsonl or .ndjson are read in sorted
    /// order, including subdirectories, except for hidden files.
    #[arg(
        short = 'f', long = "filename", value_name = "FILE|DIR|URL|-", num_args = 1.., action = ArgAction::Append,
        value_hint = ValueHint::AnyPath
    )]
    pub(crate) files: Vec<PathBuf>,

    /// Directory with a kustomization; needs kustomize or kubectl in the PATH
    #[arg(short = 'k', long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) kustomize: Option<PathBuf>,

    /// Number of evaluation threads [default: one per core, at most 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,

    /// Maximum size of an object; larger ones are malformed
    #[arg(long, value_name = "BYTES", default_value = "16MiB", value_parser = bytes)]
    pub(crate) max_object_size: usize,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Verdict")]
pub(crate) struct VerdictArgs {
    /// Evaluation profile; `kstatus` evaluates exactly as upstream kstatus
    #[arg(long, value_name = "PROFILE", default_value = "settled", value_parser = profile_parser())]
    pub(crate) profile: Profile,

    /// Count objects without a status as Current instead of Unknown
    #[arg(long)]
    pub(crate) assume_current: bool,

    /// Count Ingresses and Gateways without an address as Current, for controllers that do not set one
    #[arg(long)]
    pub(crate) address_optional: bool,

    /// Time that a Pod may be unschedulable before it is Failed
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration)]
    pub(crate) schedule_grace: SignedDuration,

    /// Current time for old dumps, such as 2026-11-21T12:00:00Z [default: now]
    ///
    /// It affects the age of deletions and --schedule-grace.
    #[arg(long, value_name = "TIMESTAMP", value_parser = timestamp)]
    pub(crate) now: Option<Timestamp>,

    #[command(flatten)]
    pub(crate) rules: RuleArgs,
}

/// Rules in addition to the built-in rules for kinds.
#[derive(Args, Debug)]
#[command(next_help_heading = "Rules")]
pub(crate) struct RuleFileArgs {
    /// File or directory with rules (can be repeated) [env: SETTLED_RULES, separated by `:`]
    ///
    /// Rule packs, and rules of other tools: Flux healthCheckExprs, argocd-cm and health.lua, kapp waitRules,
    /// CustomResourceDefinitions with annotations. See `settled rules --help`.
    #[arg(long = "rules", value_name = "FILE|DIR", action = ArgAction::Append, value_hint = ValueHint::AnyPath)]
    pub(crate) rule_files: Vec<PathBuf>,

    /// Disable the built-in rule pack
    #[arg(long)]
    pub(crate) no_builtin_rules: bool,

    /// Ignore readiness annotations on objects and CRDs
    #[arg(long)]
    pub(crate) no_annotations: bool,
}

/// Rules, and how far a verdict must be relied upon.
#[derive(Args, Debug)]
pub(crate) struct RuleArgs {
    #[command(flatten)]
    pub(crate) files: RuleFileArgs,

    /// Objects that are Current with less confidence are Unknown
    ///
    /// For gates that must not rely on conventions. In descending order: verified-rule, unverified-rule,
    /// standard-condition, convention. `-o wide` and JSON show the confidence of each verdict.
    #[arg(long, value_name = "CONFIDENCE", ignore_case = true, hide_possible_values = true, value_parser = confidence_parser())]
    pub(crate) require_confidence: Option<Confidence>,
}

/// Filters: which objects are shown and count for the exit code.
#[derive(Args, Debug)]
#[command(next_help_heading = "Filters (other objects are neither shown nor counted)")]
pub(crate) struct FilterArgs {
    /// Only these kinds, separated by commas: `Pod`, `pods`, `po`, `deployments.apps` and so on
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) kind: Vec<String>,

    /// Only objects in these namespaces, separated by commas
    #[arg(short, long, value_name = "NAMESPACE", value_delimiter = ',')]
    pub(crate) namespace: Vec<String>,

    /// Only objects with these names, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) name: Vec<String>,

    /// Only these statuses, separated by commas: Failed, Unknown, NotFound, Terminating, InProgress, Current
    #[arg(long, value_name = "STATUS", value_delimiter = ',', ignore_case = true, hide_possible_values = true,
        value_parser = status_parser())]
    pub(crate) status: Vec<Status>,

    /// All statuses except Current
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
pub(crate) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
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

/// Version, commit, date, and the Kubernetes version of `serve`.
fn long_version() -> String {
    let text = format!(
        "{}\ncommit      {}\ndate        {}",
        env!("CARGO_PKG_VERSION"),
        env!("SETTLED_COMMIT"),
        env!("SETTLED_BUILD_DATE"),
    );
    #[cfg(feature = "serve")]
    let text = format!("{text}\nKubernetes  {} (settled serve)", settled_apiserver::kubernetes_version());
    text
}

fn profile_parser() -> impl clap::builder::TypedValueParser<Value = Profile> {
    wire_names(Profile::ALL.iter().map(|profile| profile.as_str()))
}

fn confidence_parser() -> impl clap::builder::TypedValueParser<Value = Confidence> {
    wire_names(Confidence::ALL.iter().rev().map(|confidence| confidence.as_str()))
}

fn status_parser() -> impl clap::builder::TypedValueParser<Value = Status> {
    wire_names(Status::ALL.iter().map(|status| status.as_str()))
}

/// Possible values of an enum by its serialized names, for help and completion.
fn wire_names<T>(names: impl Iterator<Item = &'static str>) -> impl clap::builder::TypedValueParser<Value = T>
where
    T: std::str::FromStr<Err = kstatus::UnknownName> + Clone + Send + Sync + 'static,
{
    use clap::builder::TypedValueParser as _;
    clap::builder::PossibleValuesParser::new(names).try_map(|name| name.parse::<T>())
}

fn timestamp(text: &str) -> Result<Timestamp, String> {
    text.parse().map_err(|_| "expected a timestamp such as 2026-11-21T12:00:00Z".to_owned())
}

fn duration(text: &str) -> Result<SignedDuration, String> {
    match text.parse::<SignedDuration>() {
        Ok(duration) if !duration.is_negative() => Ok(duration),
        _ => Err("expected a duration such as 15s or 1m30s".to_owned()),
    }
}

/// Parses sizes such as `65536`, `64Ki`, `16M` or `16MiB`. All units are powers of 1024.
fn bytes(text: &str) -> Result<usize, String> {
    const MAX: u64 = 1 << 30;
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "ki" | "kb" | "kib" => 1 << 10,
        "m" | "mi" | "mb" | "mib" => 1 << 20,
        "g" | "gi" | "gb" | "gib" => 1 << 30,
        _ => return Err("expected a size such as 65536, 512KiB or 16MiB".to_owned()),
    };
    match number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)) {
        Some(0) | None => Err("expected a size such as 65536, 512KiB or 16MiB".to_owned()),
        Some(bytes) if bytes > MAX => Err("the maximum is 1GiB".to_owned()),
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
        for invalid in ["", "0", "-1", "x", "1x", "1.5M", "99999999999999999999", "2G"] {
            assert!(bytes(invalid).is_err(), "{invalid}");
        }
    }
}

//! Command line arguments (clap): the commands for files, and what all commands share.

pub(crate) mod live;
#[cfg(feature = "serve")]
pub(crate) mod serve;

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
    #[cfg(feature = "serve")]
    Serve(serve::ServeArgs),
    #[cfg(feature = "serve")]
    Store(serve::StoreArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
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

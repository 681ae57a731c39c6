//! Command line arguments of the commands for clusters: `wait`, `why`, `tree`, `events`, `apply`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum, ValueHint};
use kstatus::FailureClass;
use settled_tracker::connection::Token;
use settled_tracker::release::Release;

use super::RuleArgs;
use crate::duration;

const WAIT_HELP_AFTER: &str = "\
Examples:
  settled wait -f k8s/                        all objects of a folder
  kubectl apply -f k8s/ -o yaml | settled wait -f -
                                              exactly what was just applied
  settled wait deploy/web sts/db -n shop --stable 10s
                                              by name, and still so after 10 s
  settled wait pods -l app=web --for=condition=Ready --timeout=60s
                                              as with kubectl wait
  settled wait --release helm/shop --report junit=wait.xml
                                              a release, with a file for CI

What to wait for (--for, repeatable; all of them must be met):
  ready                    done at its latest generation (the default)
  current                  the same, also where an annotation asks not to wait
  failed                   it has failed
  create, delete           it exists, it is gone
  condition=NAME[=VALUE]   a condition of its status
  jsonpath=EXPR[=VALUE]    a value in it
  cel=EXPR                 an expression over the object, `self`
  any(A, B), all(A, B)     one of them, all of them

Failure classes (--fail-fast, --grace):
  image crash configuration quota scheduling probe deadline job storage network
  deletion other

Output formats:
  text    a live view on a terminal, a line per change elsewhere, and at the end
          why it isn't done; all of it on standard error. Objects that meet
          kubectl's conditions are named on standard output, as kubectl does
  name    only the names of objects that are done, on standard output
  json    the result as one object, at the end; yaml is the same
  jsonl   a JSON object per event, as it happens
  junit   a test case per object, at the end
  github  annotations and a step summary for GitHub Actions, at the end

Exit codes:
  0    everything is as it was waited for
  1    something has failed
  2    wrong arguments, or unreadable input
  3    the time is over
  4    the cluster can't be reached, or a permission is missing
  130  interrupted (129 and 143: by SIGHUP and SIGTERM)";

const WHY_HELP_AFTER: &str = "\
Examples:
  settled why                                 all that is not done in the
                                              namespace (-A: in all of them)
  settled why deploy/web                      the chain down to the root cause
  settled why deploy -n shop                  all Deployments
  settled why --release helm/shop -o json     for programs

Exit codes:
  0    all of it is done
  1    something has failed
  2    wrong arguments, or unreadable input
  3    not settled yet
  4    the cluster can't be reached, or a permission is missing
  130  interrupted (129 and 143: by SIGHUP and SIGTERM)";

const TREE_HELP_AFTER: &str = "\
Examples:
  settled tree                                all that is not done in the
                                              namespace (-A: in all of them)
  settled tree deploy/web                     its dependents and their status
  settled tree deploy/web --full              what is Current as well
  settled tree -f k8s/ --watch                again at each change

Exit codes:
  0    all of it is done
  1    something has failed
  2    wrong arguments, or unreadable input
  3    not settled yet
  4    the cluster can't be reached, or a permission is missing
  130  interrupted (129 and 143: by SIGHUP and SIGTERM)";

const EVENTS_HELP_AFTER: &str = "\
Examples:
  settled events deploy/web                   of it, its ReplicaSets, its Pods
  settled events deploy/web --warnings        only what went wrong

Exit codes:
  0    all that was asked for was read
  2    wrong arguments, or unreadable input
  4    the cluster can't be reached, or a permission is missing
  130  interrupted (129 and 143: by SIGHUP and SIGTERM)";

const APPLY_HELP_AFTER: &str = "\
Examples:
  settled apply -f k8s/                       apply, and say what changed
  settled apply -f k8s/ --wait --timeout 10m  apply, then wait until it is done
  settled apply -f k8s/ --dry-run --diff      what would change
  settled apply -k overlays/prod              what kustomize builds
  settled apply -f k8s/ --prune --applyset shop
                                              also delete what is not in k8s/
                                              any more

CustomResourceDefinitions and Namespaces are applied first, and awaited before
the rest. Fields that belong to kubectl's client-side apply are taken over.
Nothing is deleted without --prune.

Exit codes:
  0    applied; with --wait: everything is done
  1    an object was refused; with --wait: something has failed
  2    wrong arguments, or unreadable input
  3    with --wait: timed out
  4    the cluster can't be reached, or a permission is missing
  130  interrupted (129 and 143: by SIGHUP and SIGTERM)
  When several apply: 2, 4, 1, then 3.";

/// Wait until objects of a cluster are done; stop as soon as they can't get done, and say why
///
/// Watches all of them at once, takes no status older than their latest generation for an answer, and ends the moment
/// the last one is done.
#[derive(Args, Debug)]
#[command(after_help = WAIT_HELP_AFTER)]
pub(crate) struct WaitArgs {
    #[command(flatten)]
    pub(crate) targets: TargetArgs,

    #[command(flatten)]
    pub(crate) policy: PolicyArgs,

    #[command(flatten)]
    pub(crate) evidence: EvidenceArgs,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help_heading = "Output")]
    pub(crate) output: WaitOutput,

    #[command(flatten)]
    pub(crate) show: ShowArgs,

    #[command(flatten)]
    pub(crate) evaluation: EvaluationArgs,

    #[command(flatten)]
    pub(crate) rules: RuleArgs,
}

/// Explain why objects of a cluster aren't done: the chain down to the root cause, events, logs, what to check next
///
/// Without objects: all that is not done in the namespace. That is the category `all`, PersistentVolumeClaims, Ingresses and custom resources
/// (at most 50 kinds); objects whose owner is shown are explained with it.
#[derive(Args, Debug)]
#[command(after_help = WHY_HELP_AFTER)]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    pub(crate) targets: TargetArgs,

    #[command(flatten)]
    pub(crate) evidence: EvidenceArgs,

    /// Show it again whenever it changes, until Ctrl-C
    #[arg(short, long, help_heading = "Output")]
    pub(crate) watch: bool,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help_heading = "Output")]
    pub(crate) output: TextOrJson,

    #[command(flatten)]
    pub(crate) evaluation: EvaluationArgs,

    #[command(flatten)]
    pub(crate) rules: RuleArgs,
}

/// Show objects of a cluster and their dependents, with the status of each
///
/// Without objects: all that is not done in the namespace.
#[derive(Args, Debug)]
#[command(after_help = TREE_HELP_AFTER)]
pub(crate) struct TreeArgs {
    #[command(flatten)]
    pub(crate) targets: TargetArgs,

    /// Show what is Current below something that is done, too
    #[arg(long, help_heading = "Output")]
    pub(crate) full: bool,

    /// Show it again whenever it changes, until Ctrl-C
    #[arg(short, long, help_heading = "Output")]
    pub(crate) watch: bool,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help_heading = "Output")]
    pub(crate) output: TextOrJson,

    #[command(flatten)]
    pub(crate) evaluation: EvaluationArgs,

    #[command(flatten)]
    pub(crate) rules: RuleArgs,
}

/// Show the events of objects and of all that belongs to them, in the order of time
#[derive(Args, Debug)]
#[command(after_help = EVENTS_HELP_AFTER)]
pub(crate) struct EventsArgs {
    #[command(flatten)]
    pub(crate) targets: TargetArgs,

    /// Only events of the type Warning
    #[arg(long, help_heading = "Output")]
    pub(crate) warnings: bool,

    /// Then show new events as they come, until Ctrl-C
    #[arg(short, long, help_heading = "Output")]
    pub(crate) watch: bool,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help_heading = "Output")]
    pub(crate) output: TextOrJson,
}

/// Apply objects to a cluster (server-side), in the right order, and wait for them if asked to
#[derive(Args, Debug)]
#[command(after_help = APPLY_HELP_AFTER)]
pub(crate) struct ApplyArgs {
    /// Apply this file, all of this directory, this URL, or standard input if `-` (can be repeated)
    #[arg(
        short = 'f', long = "filename", value_name = "FILE|DIR|URL|-", num_args = 1.., action = ArgAction::Append,
        required_unless_present = "kustomize", value_hint = ValueHint::AnyPath, help_heading = "Input"
    )]
    pub(crate) files: Vec<PathBuf>,

    /// Apply what kustomize builds of this directory; needs kustomize or kubectl in the PATH
    #[arg(
        short = 'k', long, value_name = "DIR", conflicts_with = "files", value_hint = ValueHint::DirPath,
        help_heading = "Input"
    )]
    pub(crate) kustomize: Option<PathBuf>,

    /// Read subdirectories as well: accepted as kubectl's, and always done
    #[arg(short = 'R', long, help_heading = "Input")]
    pub(crate) recursive: bool,

    /// The namespace of objects that name none [default: the context's]
    #[arg(short, long, value_name = "NAMESPACE", help_heading = "Input")]
    pub(crate) namespace: Option<String>,

    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,

    /// kubectl's: it is never anything else.
    #[arg(long, hide = true)]
    pub(crate) server_side: bool,

    /// Wait for all of it afterwards, as `settled wait` does
    #[arg(long, help_heading = "Apply")]
    pub(crate) wait: bool,

    /// Let the server validate everything and store nothing
    #[arg(
        long, value_name = "WHERE", num_args = 0..=1, require_equals = true, default_value = "none",
        default_missing_value = "server", hide_possible_values = true, help_heading = "Apply"
    )]
    pub(crate) dry_run: DryRun,

    /// Show what changes in each object, as `kubectl diff` does; the data of Secrets is masked
    #[arg(long, help_heading = "Apply")]
    pub(crate) diff: bool,

    /// Delete the members of the ApplySet that are not among these objects
    #[arg(long, requires = "applyset", help_heading = "Apply")]
    pub(crate) prune: bool,

    /// The ApplySet: NAME of a Secret that is created if need be, or KIND/NAME
    #[arg(long, value_name = "[KIND/]NAME", requires = "prune", help_heading = "Apply")]
    pub(crate) applyset: Option<String>,

    /// Take over fields that others own
    #[arg(long, help_heading = "Apply")]
    pub(crate) force_conflicts: bool,

    /// Who owns the fields that are applied
    #[arg(long, value_name = "NAME", default_value = "settled", help_heading = "Apply")]
    pub(crate) field_manager: String,

    #[command(flatten)]
    pub(crate) policy: PolicyArgs,

    #[command(flatten)]
    pub(crate) evidence: EvidenceArgs,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help_heading = "Output")]
    pub(crate) output: WaitOutput,

    #[command(flatten)]
    pub(crate) show: ShowArgs,

    #[command(flatten)]
    pub(crate) evaluation: EvaluationArgs,

    #[command(flatten)]
    pub(crate) rules: RuleArgs,
}

/// Which objects: the same for every command that looks at a cluster.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Targets")]
pub(crate) struct TargetArgs {
    /// Objects by type and name, or types of which to select.
    #[arg(
        value_name = "TYPE/NAME",
        help = "TYPE/NAME..., TYPE NAME..., or TYPE[,TYPE] with -l, --field-selector or --all"
    )]
    pub(crate) names: Vec<String>,

    /// The objects in this file, all of this directory, this URL, or standard input if `-` (can be repeated)
    #[arg(
        short = 'f', long = "filename", value_name = "FILE|DIR|URL|-", action = ArgAction::Append,
        value_hint = ValueHint::AnyPath
    )]
    pub(crate) files: Vec<PathBuf>,

    /// The objects that kustomize builds of this directory; needs kustomize or kubectl in the PATH
    #[arg(short = 'k', long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) kustomize: Option<PathBuf>,

    /// Read subdirectories as well: accepted as kubectl's, and always done
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,

    /// The namespace, or several separated by commas [default: the context's]
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    pub(crate) namespace: Option<String>,

    #[command(flatten)]
    pub(crate) select: SelectArgs,

    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Objects that are not named one by one.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Targets")]
pub(crate) struct SelectArgs {
    /// Objects with these labels, such as `app=web,tier!=cache`
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,

    /// Objects with these fields, such as `metadata.name=web`
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) field_selector: Option<String>,

    /// All objects of the type
    #[arg(long, conflicts_with_all = ["selector", "field_selector"])]
    pub(crate) all: bool,

    /// In all namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,

    /// All objects of a release (can be repeated): helm/NAME, kustomization/NAME, helmrelease/NAME, application/NAME,
    /// inventory/NAME, applyset/NAME
    ///
    /// The list of objects is taken from Helm's Secret, the status of Flux' or Argo CD's object, the ConfigMap or
    /// ResourceGroup of cli-utils (kpt, Config Sync), or the parent of an ApplySet, in the namespace of `-n`.
    #[arg(long = "release", value_name = "TYPE/NAME")]
    pub(crate) releases: Vec<Release>,
}

impl SelectArgs {
    /// Whether no objects are named here.
    pub(crate) fn selects_nothing(&self) -> bool {
        let Self { selector, field_selector, all, all_namespaces: _, releases } = self;
        selector.is_none() && field_selector.is_none() && !all && releases.is_empty()
    }
}

/// Which cluster, and who asks.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArgs {
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// The kubeconfig [default: $KUBECONFIG, ~/.kube/config, or the Pod's own account]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The cluster in the kubeconfig, instead of the context's
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,

    /// The user in the kubeconfig, instead of the context's
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,

    /// The server's URL, instead of the kubeconfig's
    #[arg(short, long, value_name = "URL")]
    pub(crate) server: Option<String>,

    /// The name in the server's certificate, if it is not the host of the URL
    #[arg(long, value_name = "NAME")]
    pub(crate) tls_server_name: Option<String>,

    /// Authorities (PEM) that the server's certificate may be signed by
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) certificate_authority: Option<PathBuf>,

    /// Accept any certificate of the server: connections can be intercepted and changed
    #[arg(long, conflicts_with = "certificate_authority")]
    pub(crate) insecure_skip_tls_verify: bool,

    /// The client certificate (PEM), instead of the kubeconfig's credentials
    #[arg(long, value_name = "FILE", requires = "client_key", value_hint = ValueHint::FilePath)]
    pub(crate) client_certificate: Option<PathBuf>,

    /// The key of the client certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "client_certificate", value_hint = ValueHint::FilePath)]
    pub(crate) client_key: Option<PathBuf>,

    /// The bearer token, instead of the kubeconfig's credentials
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<Token>,

    /// Ask as this user, if that is allowed
    #[arg(long = "as", value_name = "USER")]
    pub(crate) as_user: Option<String>,

    /// Ask as a member of this group (can be repeated)
    #[arg(long = "as-group", value_name = "GROUP", requires = "as_user")]
    pub(crate) as_groups: Vec<String>,

    /// Ask as the user with this UID
    #[arg(long, value_name = "UID", requires = "as_user")]
    pub(crate) as_uid: Option<String>,

    /// How long the server may take to answer a request; a bare number is seconds, 0 is no limit [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_request_timeout)]
    pub(crate) request_timeout: Option<Duration>,

    /// From level 6 on, print each request with its status and duration
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value = "0", hide_default_value = true)]
    pub(crate) verbosity: u8,

    /// kubectl's: answers are not compressed.
    #[arg(long, hide = true)]
    pub(crate) disable_compression: bool,
}

/// When a wait ends, and how.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Waiting")]
pub(crate) struct PolicyArgs {
    /// What to wait for; see `settled wait --help` (can be repeated: all of them) [default: ready]
    #[arg(long = "for", value_name = "CONDITION")]
    pub(crate) conditions: Vec<String>,

    /// Give up after this long; 0 checks once, a negative time is a week
    #[arg(long, value_name = "DURATION", default_value = "5m", allow_hyphen_values = true,
        value_parser = duration::parse_timeout)]
    pub(crate) timeout: Duration,

    /// Fail an object that is not done after this long
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) target_timeout: Option<Duration>,

    /// How long everything must stay done before it counts
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    pub(crate) stable: Duration,

    /// End early at failures of these classes only, separated by commas; others count as failed, too [default: all]
    #[arg(long, value_name = "CLASSES", num_args = 0..=1, require_equals = true, default_missing_value = "all",
        value_parser = Classes::from_str)]
    pub(crate) fail_fast: Option<Classes>,

    /// Never end early: wait until all others are done, or have failed
    #[arg(long, conflicts_with = "fail_fast")]
    pub(crate) no_fail_fast: bool,

    /// How long to tolerate a class of failure before giving up, such as `image=1m` (can be repeated)
    #[arg(long = "grace", value_name = "CLASS=DURATION", value_delimiter = ',', value_parser = grace)]
    pub(crate) graces: Vec<(FailureClass, Duration)>,

    /// How to treat objects that do not exist or get deleted
    #[arg(long, value_name = "WHAT", default_value = "auto")]
    pub(crate) on_missing: OnMissing,
}

/// How verdicts are found.
#[derive(Args, Clone, Copy, Debug, Default)]
#[command(next_help_heading = "Verdict")]
pub(crate) struct EvaluationArgs {
    /// Count objects without a status as Current instead of Unknown
    #[arg(long)]
    pub(crate) assume_current: bool,

    /// Call an Ingress or a Gateway Current without an address: some controllers never set one
    #[arg(long)]
    pub(crate) address_optional: bool,
}

/// What is gathered for explanations.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Explanation")]
pub(crate) struct EvidenceArgs {
    /// Logs of crashed containers: `tail` (their last 10 lines, at the end), N (that many), `live` (as they are written,
    /// too), `none`
    #[arg(long, value_name = "HOW", default_value = "tail", value_parser = Logs::from_str)]
    pub(crate) logs: Logs,

    /// The same as --logs=none
    #[arg(long, conflicts_with = "logs")]
    pub(crate) no_logs: bool,
}

impl EvidenceArgs {
    /// How many lines of logs are wanted at the end.
    pub(crate) fn log_lines(&self) -> u32 {
        match self.logs {
            _ if self.no_logs => 0,
            Logs::None => 0,
            Logs::Tail(lines) => u32::from(lines),
            Logs::Live => u32::from(Logs::TAIL_LINES),
        }
    }

    /// Whether logs are followed during a wait.
    pub(crate) fn live_logs(&self) -> bool {
        self.logs == Logs::Live && !self.no_logs
    }
}

/// Which lines of logs are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logs {
    None,
    /// So many, at the end.
    Tail(u16),
    Live,
}

impl Logs {
    const TAIL_LINES: u16 = 10;
    const LINES_MAX: u16 = 1000;
}

impl FromStr for Logs {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("tail", _) => Ok(Self::Tail(Self::TAIL_LINES)),
            ("live", _) => Ok(Self::Live),
            ("none", _) => Ok(Self::None),
            (_, Ok(lines @ ..=Self::LINES_MAX)) => Ok(Self::Tail(lines)),
            _ => Err(format!("expected tail, live, none, or a number of lines up to {}", Self::LINES_MAX)),
        }
    }
}

/// How a wait is shown, besides its format.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct ShowArgs {
    /// Write another format to a file, too (can be repeated): `junit=FILE`, `github=FILE`, `jsonl=FILE`, `json=FILE`
    #[arg(long = "report", value_name = "FORMAT=FILE")]
    pub(crate) reports: Vec<ReportFile>,

    /// Lines instead of the live view, on a terminal too
    #[arg(long)]
    pub(crate) plain: bool,

    /// Print nothing but errors, for the exit code
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Failure classes as they are listed in an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Classes(pub(crate) Vec<FailureClass>);

impl FromStr for Classes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self(FailureClass::ALL.to_vec()));
        }
        let classes: Result<Vec<FailureClass>, _> = text.split(',').map(|name| name.trim().parse()).collect();
        classes.map(Self).map_err(|error| error.to_string())
    }
}

fn grace(text: &str) -> Result<(FailureClass, Duration), String> {
    let (class, time) = text.split_once('=').ok_or("write CLASS=DURATION, such as image=1m")?;
    Ok((class.parse().map_err(|error: kstatus::UnknownName| error.to_string())?, duration::parse(time)?))
}

/// A format, and the file that gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReportFile {
    pub(crate) format: ReportFormat,
    pub(crate) path: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportFormat {
    Junit,
    Github,
    Jsonl,
    Json,
}

impl FromStr for ReportFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write junit=FILE, github=FILE, jsonl=FILE or json=FILE".to_owned();
        let (format, path) = text.split_once('=').ok_or_else(wrong)?;
        let format = match format {
            "junit" => ReportFormat::Junit,
            "github" => ReportFormat::Github,
            "jsonl" => ReportFormat::Jsonl,
            "json" => ReportFormat::Json,
            _ => return Err(wrong()),
        };
        if path.is_empty() {
            return Err(wrong());
        }
        Ok(Self { format, path: path.into() })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitOutput {
    Text,
    Name,
    Json,
    Yaml,
    Jsonl,
    Junit,
    Github,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextOrJson {
    Text,
    Json,
}

/// Whether something is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// Apply
    None,
    /// Validate on the server, store nothing
    Server,
    /// Nothing is asked of the server: no use with server-side apply
    #[value(hide = true)]
    Client,
}

/// What an object is that isn't there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnMissing {
    /// Not there yet; failed if it was deleted during the wait and doesn't come back
    Auto,
    /// Not there yet
    Wait,
    /// Failed
    Fail,
    /// Done
    Done,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_classes_and_graces() {
        assert_eq!("image, crash".parse(), Ok(Classes(vec![FailureClass::Image, FailureClass::Crash])));
        assert_eq!("all".parse::<Classes>().unwrap().0.len(), FailureClass::ALL.len());
        assert!("images".parse::<Classes>().unwrap_err().contains("known are image"));
        assert_eq!(grace("image=1m"), Ok((FailureClass::Image, Duration::from_secs(60))));
        assert!(grace("image").is_err());
        assert!(grace("image=-1s").is_err());
    }

    #[test]
    fn logs_are_a_word_or_a_number() {
        assert_eq!("tail".parse(), Ok(Logs::Tail(10)));
        assert_eq!("25".parse(), Ok(Logs::Tail(25)));
        assert_eq!("0".parse(), Ok(Logs::Tail(0)));
        assert_eq!("live".parse(), Ok(Logs::Live));
        assert_eq!("none".parse(), Ok(Logs::None));
        for wrong in ["", "follow", "1001", "-1"] {
            assert!(wrong.parse::<Logs>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn reports_name_a_format_and_a_file() {
        let report = "junit=out/a=b.xml".parse::<ReportFile>().unwrap();
        assert_eq!((report.format, report.path), (ReportFormat::Junit, "out/a=b.xml".into()));
        for wrong in ["junit", "junit=", "xml=a", "=a"] {
            assert!(wrong.parse::<ReportFile>().is_err(), "{wrong}");
        }
    }
}

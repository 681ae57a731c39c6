//! Command line arguments of the commands for clusters: `wait`, `why`, `tree`, `events`, `apply`.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueHint};

use super::RuleArgs;
use super::args::{
    ClusterArgs, DryRun, EvaluationArgs, EvidenceArgs, PolicyArgs, ShowArgs, TargetArgs, TextOrJson,
    WaitOutput,
};

const WAIT_HELP_AFTER: &str = "\
Examples:
  settled wait -f k8s/                        objects in manifests
  kubectl apply -f k8s/ -o yaml | settled wait -f -
                                              applied objects
  settled wait deploy/web sts/db -n shop --stable 10s
                                              by name; done for 10 seconds
  settled wait pods -l app=web --for=condition=Ready --timeout=60s
                                              as with kubectl wait
  settled wait --release helm/shop --report junit=wait.xml
                                              a Helm release with a JUnit report

Conditions (--for, can be repeated; all must be met):
  ready                    done at the latest generation (default)
  current                  as ready, ignoring annotations not to wait
  failed                   failed
  create, delete           the object exists, does not exist
  condition=NAME[=VALUE]   status condition
  jsonpath=EXPR[=VALUE]    value in the object
  cel=EXPR                 CEL expression over the object, `self`
  any(A, B), all(A, B)     at least one of them, all of them

Failure classes (--fail-fast, --grace):
  image crash configuration quota scheduling probe deadline job storage network
  deletion other

Output formats:
  text    a live view on terminals, otherwise one line per change, and an
          explanation at the end, on standard error. Objects that meet kubectl's
          conditions are printed on standard output, as kubectl does
  name    names of objects that are done, on standard output
  json    the result as one object, at the end (also yaml)
  jsonl   one JSON object per event, as it happens
  junit   one test case per object, at the end
  github  annotations and a step summary for GitHub Actions, at the end

Exit codes:
  0    all conditions are met
  1    an object failed
  2    invalid arguments, or unreadable input
  3    timed out
  4    the cluster is unreachable, or a permission is missing
  130  interrupted (129 by SIGHUP, 143 by SIGTERM)";

const WHY_HELP_AFTER: &str = "\
Examples:
  settled why                                 all objects in the namespace that
                                              are not done (-A: all namespaces)
  settled why deploy/web                      one Deployment
  settled why deploy -n shop                  all Deployments
  settled why --release helm/shop -o json     a Helm release, as JSON

Exit codes:
  0    all objects are done
  1    an object failed
  2    invalid arguments, or unreadable input
  3    not done
  4    the cluster is unreachable, or a permission is missing
  130  interrupted (129 by SIGHUP, 143 by SIGTERM)";

const TREE_HELP_AFTER: &str = "\
Examples:
  settled tree                                all objects in the namespace that
                                              are not done (-A: all namespaces)
  settled tree deploy/web                     dependents and their status
  settled tree deploy/web --full              including dependents that are done
  settled tree -f k8s/ --watch                updated at each change

Exit codes:
  0    all objects are done
  1    an object failed
  2    invalid arguments, or unreadable input
  3    not done
  4    the cluster is unreachable, or a permission is missing
  130  interrupted (129 by SIGHUP, 143 by SIGTERM)";

const EVENTS_HELP_AFTER: &str = "\
Examples:
  settled events deploy/web                   including ReplicaSets and Pods
  settled events deploy/web --warnings        only warnings

Exit codes:
  0    all Events were read
  2    invalid arguments, or unreadable input
  4    the cluster is unreachable, or a permission is missing
  130  interrupted (129 by SIGHUP, 143 by SIGTERM)";

const APPLY_HELP_AFTER: &str = "\
Examples:
  settled apply -f k8s/                       apply, and print changes
  settled apply -f k8s/ --wait --timeout 10m  apply and wait
  settled apply -f k8s/ --dry-run --diff      preview changes
  settled apply -k overlays/prod              apply a kustomization
  settled apply -f k8s/ --prune --applyset shop
                                              also delete objects that are no
                                              longer in k8s/

CustomResourceDefinitions and Namespaces are applied first; objects that need
them are applied once they are ready. Fields of kubectl's client-side apply are
taken over. Nothing is deleted without --prune.

Exit codes:
  0    applied; with --wait: all objects are done
  1    an object was rejected; with --wait: an object failed
  2    invalid arguments, or unreadable input
  3    with --wait: timed out
  4    the cluster is unreachable, or a permission is missing
  130  interrupted (129 by SIGHUP, 143 by SIGTERM)
  If several apply, the precedence is 2, 4, 1, 3.";

/// Wait until objects are done; fail early with the root cause if they cannot become ready
///
/// Watches all objects concurrently, ignores any status older than their latest generation, and exits as soon as the last
/// object is done.
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

/// Explain why objects are not done: root cause, events, logs, next steps
///
/// Without targets, explains all objects in the namespace that are not done: of the category `all`, PersistentVolumeClaims, Ingresses and
/// custom resources (up to 50 kinds). Dependents are explained with their owner.
#[derive(Args, Debug)]
#[command(after_help = WHY_HELP_AFTER)]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    pub(crate) targets: TargetArgs,

    #[command(flatten)]
    pub(crate) evidence: EvidenceArgs,

    /// Watch for changes, until Ctrl-C
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

/// Show objects and their dependents as a tree, with the status of each
///
/// Without targets, shows all objects in the namespace that are not done.
#[derive(Args, Debug)]
#[command(after_help = TREE_HELP_AFTER)]
pub(crate) struct TreeArgs {
    #[command(flatten)]
    pub(crate) targets: TargetArgs,

    /// Show all dependents, including those that are Current
    #[arg(long, help_heading = "Output")]
    pub(crate) full: bool,

    /// Watch for changes, until Ctrl-C
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

/// Show the events of objects and their dependents in chronological order
#[derive(Args, Debug)]
#[command(after_help = EVENTS_HELP_AFTER)]
pub(crate) struct EventsArgs {
    #[command(flatten)]
    pub(crate) targets: TargetArgs,

    /// Only events of type Warning
    #[arg(long, help_heading = "Output")]
    pub(crate) warnings: bool,

    /// Watch for new events, until Ctrl-C
    #[arg(short, long, help_heading = "Output")]
    pub(crate) watch: bool,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help_heading = "Output")]
    pub(crate) output: TextOrJson,
}

/// Apply objects server-side in a working order, and optionally wait for them
#[derive(Args, Debug)]
#[command(after_help = APPLY_HELP_AFTER)]
pub(crate) struct ApplyArgs {
    /// File, directory, URL, or `-` for standard input (can be repeated)
    #[arg(
        short = 'f', long = "filename", value_name = "FILE|DIR|URL|-", num_args = 1.., action = ArgAction::Append,
        required_unless_present = "kustomize", value_hint = ValueHint::AnyPath, help_heading = "Input"
    )]
    pub(crate) files: Vec<PathBuf>,

    /// Directory with a kustomization; needs kustomize or kubectl in the PATH
    #[arg(
        short = 'k', long, value_name = "DIR", conflicts_with = "files", value_hint = ValueHint::DirPath,
        help_heading = "Input"
    )]
    pub(crate) kustomize: Option<PathBuf>,

    /// Accepted for compatibility with kubectl: subdirectories are always read
    #[arg(short = 'R', long, help_heading = "Input")]
    pub(crate) recursive: bool,

    /// Namespace for objects that specify none [default: the context's]
    #[arg(short, long, value_name = "NAMESPACE", help_heading = "Input")]
    pub(crate) namespace: Option<String>,

    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,

    /// Accepted for compatibility with kubectl.
    #[arg(long, hide = true)]
    pub(crate) server_side: bool,

    /// Wait for the applied objects, as `settled wait` does
    #[arg(long, help_heading = "Apply")]
    pub(crate) wait: bool,

    /// Validate on the server without storing anything
    #[arg(
        long, value_name = "WHERE", num_args = 0..=1, require_equals = true, default_value = "none",
        default_missing_value = "server", hide_possible_values = true, help_heading = "Apply"
    )]
    pub(crate) dry_run: DryRun,

    /// Show changes as `kubectl diff` does; data of Secrets is masked
    #[arg(long, help_heading = "Apply")]
    pub(crate) diff: bool,

    /// Delete members of the ApplySet that are no longer applied
    #[arg(long, requires = "applyset", help_heading = "Apply")]
    pub(crate) prune: bool,

    /// Parent of the ApplySet: NAME of a Secret, which is created if necessary, or KIND/NAME
    #[arg(long, value_name = "[KIND/]NAME", requires = "prune", help_heading = "Apply")]
    pub(crate) applyset: Option<String>,

    /// Take over fields of other field managers
    #[arg(long, help_heading = "Apply")]
    pub(crate) force_conflicts: bool,

    /// Field manager of the applied fields
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

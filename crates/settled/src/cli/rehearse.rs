//! Command line arguments of `settled rehearse`.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum, ValueHint};
use settled_netpol::profile::ProviderRef;
use settled_rehearsal::{NodeSpec, NodeSpecError, Speed};

use super::RuleArgs;
use super::args::{EvaluationArgs, EvidenceArgs, PolicyArgs, ShowArgs, WaitOutput};

const REHEARSE_HELP_AFTER: &str = "\
Examples:
  settled rehearse -f k8s/                 does everything become ready?
  helm template shop | settled rehearse -f -
  settled rehearse --from old/ -f new/     from the old version to the new one
  settled rehearse -f k8s/ --speed 1x      watch it live

Exit codes:
  0    all objects are done
  1    an object has failed or was refused
  2    invalid arguments, unreadable input
  3    not done when the virtual time was over
  130  interrupted";

const DEMO_HELP_AFTER: &str = "\
Examples:
  settled demo                      a rollout that succeeds
  settled demo image                one that fails, with its root cause
  settled demo crash --print        its manifests and its scenario

Exit codes are those of `settled rehearse`.";

/// Play a deployment without a cluster
///
/// Starts an API server in this process, simulates the controllers of Kubernetes, its scheduler and kubelets, applies the manifests, and waits as `settled wait`
/// does. No container runs, and nothing outside of this process is changed. Time is virtual: an hour takes less than a second.
#[derive(Args, Debug)]
#[command(after_help = REHEARSE_HELP_AFTER)]
#[command(mut_arg("timeout", |arg| arg.default_value("1h").help("Timeout in virtual time")))]
pub(crate) struct RehearseArgs {
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

    /// The version before: it is applied first, and the rehearsal begins once it is done
    #[arg(long, value_name = "FILE|DIR|URL|-", num_args = 1.., action = ArgAction::Append, value_hint = ValueHint::AnyPath, help_heading = "Input")]
    pub(crate) from: Vec<PathBuf>,

    /// Context of a cluster whose objects are there at the beginning: what is in the namespaces of the manifests is read
    ///
    /// Nothing is written to the cluster. Of Secrets, only the keys are kept.
    #[arg(long, value_name = "CONTEXT", conflicts_with = "from", help_heading = "Input")]
    pub(crate) against: Option<String>,

    /// Kubeconfig of the cluster [default: KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "FILE", requires = "against", value_hint = ValueHint::FilePath, help_heading = "Input")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Namespace for objects that specify none
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default", help_heading = "Input")]
    pub(crate) namespace: String,

    #[command(flatten)]
    pub(crate) options: RehearsalOptions,
}

/// How a rehearsal is played, and what is written about it.
#[derive(Args, Debug)]
#[command(next_help_heading = "Rehearsal")]
pub(crate) struct RehearsalOptions {
    /// How fast virtual time passes: `max`, or a factor such as `1x` or `10x` [default: max; demos on a terminal: slower]
    #[arg(long, value_name = "SPEED", help_heading = "Rehearsal")]
    pub(crate) speed: Option<Speed>,

    /// What random delays and names follow from
    #[arg(long, value_name = "NUMBER", default_value_t = 1, help_heading = "Rehearsal")]
    pub(crate) seed: u64,

    /// Scenario: what fails, when, and how long things take
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Rehearsal")]
    pub(crate) scenario: Option<PathBuf>,

    /// Nodes of the cluster, such as `3x4cpu,16Gi` or `2x8cpu,32Gi,zone=a,taint=key=value:NoSchedule`, separated by spaces or `;` [default: three large ones]
    #[arg(long, value_name = "NODES", value_parser = nodes, help_heading = "Rehearsal")]
    pub(crate) nodes: Option<Nodes>,

    /// Record what is shown, with virtual times, for `settled play` and asciinema
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Rehearsal")]
    pub(crate) record: Option<PathBuf>,

    /// Network provider that NetworkPolicies are checked against, such as `cilium@1.16`
    #[arg(long, value_name = "NAME@VERSION", help_heading = "Rehearsal")]
    pub(crate) provider: Option<ProviderRef>,

    /// Version of Kubernetes that is meant, such as `1.31`: API versions that it does not serve are errors
    #[arg(long, value_name = "VERSION", value_parser = minor_version, help_heading = "Rehearsal")]
    pub(crate) kubernetes: Option<u32>,

    /// Treat warnings as errors, and kinds without a CustomResourceDefinition too
    #[arg(long, help_heading = "Rehearsal")]
    pub(crate) strict: bool,

    #[command(flatten)]
    pub(crate) policy: PolicyArgs,

    #[command(flatten)]
    pub(crate) evidence: EvidenceArgs,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help_heading = "Output")]
    pub(crate) output: RehearseOutput,

    #[command(flatten)]
    pub(crate) show: ShowArgs,

    #[command(flatten)]
    pub(crate) evaluation: EvaluationArgs,

    #[command(flatten)]
    pub(crate) rules: RuleArgs,
}

/// Show a recording of a rehearsal
#[derive(Args, Debug)]
pub(crate) struct PlayArgs {
    /// File that `settled rehearse --record` has written
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,

    /// How fast: a factor such as `1x` or `10x`, or `max`
    #[arg(long, value_name = "SPEED", default_value = "1x")]
    pub(crate) speed: Speed,

    /// Longest pause between two lines
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = crate::duration::parse)]
    pub(crate) max_pause: std::time::Duration,
}

/// Play a built-in example: a rollout that succeeds, or one of its ways to fail
#[derive(Args, Debug)]
#[command(after_help = DEMO_HELP_AFTER)]
#[command(mut_arg("timeout", |arg| arg.default_value("1h").help("Timeout in virtual time")))]
pub(crate) struct DemoArgs {
    /// Which one
    #[arg(value_name = "NAME", default_value = "good")]
    pub(crate) name: DemoName,

    /// Print its manifests and its scenario, and play nothing
    #[arg(long)]
    pub(crate) print: bool,

    #[command(flatten)]
    pub(crate) options: RehearsalOptions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DemoName {
    /// A small shop becomes ready
    Good,
    /// An update to an image that does not exist
    Image,
    /// A container that crashes at its start
    Crash,
    /// A quota that allows too few Pods
    Quota,
    /// A namespace that is not deleted, because of a finalizer
    Finalizer,
    /// A Node that dies
    Node,
}

/// Formats of a rehearsal's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RehearseOutput {
    Text,
    Json,
    Jsonl,
    Junit,
    Github,
    Sarif,
}

impl From<RehearseOutput> for WaitOutput {
    /// What is shown during the wait.
    fn from(output: RehearseOutput) -> Self {
        match output {
            RehearseOutput::Text => Self::Text,
            RehearseOutput::Json | RehearseOutput::Sarif => Self::Json,
            RehearseOutput::Jsonl => Self::Jsonl,
            RehearseOutput::Junit => Self::Junit,
            RehearseOutput::Github => Self::Github,
        }
    }
}

/// Nodes of a text.
#[derive(Clone, Debug)]
pub(crate) struct Nodes(pub(crate) Vec<NodeSpec>);

pub(super) fn nodes(text: &str) -> Result<Nodes, NodeSpecError> {
    NodeSpec::parse_all(text).map(Nodes)
}

/// The minor version of `1.31`.
fn minor_version(text: &str) -> Result<u32, String> {
    let minor = text.strip_prefix('v').unwrap_or(text).strip_prefix("1.");
    let minor = minor.and_then(|rest| rest.split('.').next()?.parse().ok());
    minor.ok_or_else(|| "expected a version such as 1.31".to_owned())
}

//! Command line arguments of `settled cluster`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Subcommand, ValueEnum, ValueHint};

use super::args::ClusterArgs;
use super::lifecycle;
use crate::duration;

const CLUSTER_HELP_AFTER: &str = "\
Examples:
  settled cluster create -f cluster.yaml      a cluster, from nothing
  settled cluster plan -f cluster.yaml        what becomes of each Machine
  settled cluster apply -f cluster.yaml       carry it out
  settled cluster describe prod               Cluster, groups, Machines, hosts
  settled cluster upgrade prod --version v1.37.0
                                              control plane first, then workers
  settled cluster diff prod.yaml context:staging
                                              compare two clusters
  settled cluster sync prod.yaml context:staging
                                              copy versions, sizes, labels, …

docs/machines.md describes the kinds, the providers, and what each proves.";

const PLAN_HELP_AFTER: &str = "\
Examples:
  settled cluster plan -f cluster.yaml        what an apply makes of each Machine
  settled cluster plan -f cluster.yaml --out plan.json
                                              keep it, for apply --plan
  settled cluster plan --state ~/prod         what the controllers do now

Decisions:
  Create       the Machine, or its host, is created
  NoOp         nothing
  InPlace      updated on the running host, by the steps listed
  Replace      another host under the same Machine
  Unsupported  the host keeps serving, the Machine is Stalled
  Delete       the Machine is deleted

Exit codes:
  0  the plan was printed
  1  the server rejects an object
  2  invalid arguments or unreadable input
  4  the cluster is unreachable, or a permission is missing";

const APPLY_HELP_AFTER: &str = "\
Examples:
  settled cluster apply -f cluster.yaml       plan, then apply
  settled cluster apply -f cluster.yaml --wait
                                              and wait until all is done
  settled cluster apply --plan plan.json      a plan that was reviewed
  settled cluster apply -f export.yaml        restore an export, with its status

Exit codes:
  0  applied; with --wait: everything is done
  1  an object was rejected, or the plan is out of date; with --wait: Failed
  2  invalid arguments or unreadable input
  3  with --wait: timed out
  4  the cluster is unreachable, or a permission is missing";

const DIFF_HELP_AFTER: &str = "\
Examples:
  settled cluster diff prod.yaml staging.yaml two exports
  settled cluster diff context:prod context:staging
                                              two live servers
  settled cluster diff ~/prod prod.yaml       a state directory and an export
  settled cluster diff prod.yaml context:prod --observed
                                              what really runs
  settled cluster diff fleet.yaml#eu fleet.yaml#us
                                              two clusters of one file
  settled cluster diff a.yaml b.yaml --part agnostic -o json
                                              only one part, with JSON patches

Sources:
  FILE, DIR, -      manifests, or an export
  DIR               a state directory of `settled serve` or `cluster create`
  FILE              a kubeconfig: the server of its current context
  context:NAME      the server of a context of the kubeconfig
  SOURCE#NAME, SOURCE#NAMESPACE/NAME
                    one Cluster of several

Exit codes:
  0  the same
  1  they differ
  2  error: invalid arguments, unreadable input, or an unreachable cluster";

const SYNC_HELP_AFTER: &str = "\
Examples:
  settled cluster sync context:prod context:staging --dry-run
                                              what would change
  settled cluster sync prod.yaml context:staging
                                              versions, networks, taints, labels,
                                              strategies and sizes of prod

Sources are those of `settled cluster diff`; B is a server or a state directory.
The configuration of providers is never changed.

Exit codes:
  0  synchronized: no agnostic difference is left
  1  a difference is left, or was rejected
  2  invalid arguments or unreadable input
  4  the cluster is unreachable, or a permission is missing";

const UPGRADE_HELP_AFTER: &str = "\
Examples:
  settled cluster upgrade prod --version v1.37.0
                                              control plane, then workers
  settled cluster upgrade prod --version v1.36.3 --control-plane-only
                                              a downgrade is the same
  settled cluster rollout status md/workers   wait for the workers";

const SCALE_HELP_AFTER: &str = "\
Examples:
  settled cluster scale md/workers --replicas 5
  settled cluster scale ms/workers-1f0c2a3b --replicas 0
                                              a MachineSet without an owner";

const ROLLOUT_HELP_AFTER: &str = "\
Examples:
  settled cluster rollout status md/workers   wait for its end
  settled cluster rollout pause md/workers
  settled cluster rollout undo md/workers     back to the template before
  settled cluster rollout restart md/workers  new Machines, same template";

const IMPORT_HELP_AFTER: &str = "\
Examples:
  settled cluster import -f machines.yaml > new.yaml
                                              manifests of cluster.k8s.io/v1alpha1
  settled cluster import -f kubeadm.yaml      a ClusterConfiguration of kubeadm

What has no field here is kept in an annotation, and reported on standard error.

Exit codes:
  0  imported
  1  with --strict: something is not carried out
  2  invalid arguments, unreadable input, or nothing to import";

const EXPORT_HELP_AFTER: &str = "\
Examples:
  settled cluster export --state ~/prod > prod.yaml
                                              all objects, with their status
  settled cluster export prod --format kubeadm
                                              a ClusterConfiguration
  settled cluster export prod --format v1alpha1
                                              manifests of cluster.k8s.io/v1alpha1

An export that is applied to an empty server finds its hosts again: nothing is
created or deleted.";

const ADOPT_HELP_AFTER: &str = "\
Examples:
  settled cluster adopt --class small > machines.yaml
                                              Machines for all Nodes without one
  settled cluster adopt node-1 --provider-spec config.yaml --apply

The Machines are paused: inspect the plan, then remove the annotation
cluster.settled.dev/paused.";

const VALIDATE_HELP_AFTER: &str = "\
Examples:
  settled cluster validate -f cluster.yaml    schemas of kinds and providers
  settled cluster validate                    status of the objects of a server

Exit codes:
  0  all lines are PASS
  1  a line is FAIL
  2  invalid arguments or unreadable input
  4  the cluster is unreachable, or a permission is missing";

/// Declare clusters and machines: plan, apply, compare, upgrade and convert them
///
/// A Machine declares a Node; a provider makes a host of it. All objects are of cluster.settled.dev/v1alpha1.
#[derive(Args, Debug)]
#[command(after_help = CLUSTER_HELP_AFTER)]
pub(crate) struct MachinesArgs {
    #[command(subcommand)]
    pub(crate) command: MachinesCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MachinesCommand {
    Create(lifecycle::CreateArgs),
    Delete(lifecycle::DeleteArgs),
    Move(lifecycle::MoveArgs),
    Repair(lifecycle::RepairArgs),
    Run(lifecycle::RunArgs),
    Get(lifecycle::GetArgs),
    Plan(Box<PlanArgs>),
    Apply(Box<ApplyArgs>),
    Describe(Box<DescribeArgs>),
    Upgrade(Box<UpgradeArgs>),
    Scale(Box<ScaleArgs>),
    Rollout(RolloutArgs),
    Diff(Box<DiffArgs>),
    Sync(Box<SyncArgs>),
    Validate(Box<ValidateArgs>),
    Export(Box<ExportArgs>),
    Import(ImportArgs),
    Adopt(Box<AdoptArgs>),
    #[command(hide = true)]
    Agent(AgentArgs),
}

/// How a command connects to API servers, and for how long it may work.
#[derive(Args, Clone, Debug)]
pub(crate) struct ConnectionArgs {
    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,

    /// Timeout of the command
    #[arg(id = "command_timeout", long = "timeout", value_name = "DURATION", default_value = "5m", value_parser = duration::parse)]
    pub(crate) timeout: Duration,
}

/// The server of a command.
#[derive(Args, Clone, Debug)]
pub(crate) struct ServerArgs {
    /// State directory of a cluster without a running server, instead of a kubeconfig
    #[arg(long, value_name = "DIR", conflicts_with_all = ["kubeconfig", "context", "server"], value_hint = ValueHint::DirPath,
        help_heading = "Cluster")]
    pub(crate) state: Option<PathBuf>,

    /// Namespace [default: the context's]
    #[arg(short, long, value_name = "NAMESPACE", help_heading = "Targets")]
    pub(crate) namespace: Option<String>,

    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// Manifests.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Input")]
pub(crate) struct ManifestArgs {
    /// File, directory, URL, or `-` for standard input (can be repeated)
    #[arg(
        short = 'f', long = "filename", value_name = "FILE|DIR|URL|-", action = ArgAction::Append,
        value_hint = ValueHint::AnyPath
    )]
    pub(crate) files: Vec<PathBuf>,
}

/// Show what becomes of each Machine, before anything is touched
///
/// Without -f, shows what the controllers do with the objects as they are.
#[derive(Args, Debug)]
#[command(after_help = PLAN_HELP_AFTER)]
pub(crate) struct PlanArgs {
    /// Write the plan to this file, for `apply --plan`
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) out: Option<PathBuf>,

    /// Also show Machines that do not change
    #[arg(long)]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,

    #[command(flatten)]
    pub(crate) server: ServerArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs<TableOutput>,
}

/// Apply manifests, or a plan; the plan is printed first
#[derive(Args, Debug)]
#[command(after_help = APPLY_HELP_AFTER)]
pub(crate) struct ApplyArgs {
    /// Plan of `settled cluster plan --out`; refused if the world has changed since
    #[arg(long, value_name = "FILE", conflicts_with = "files", value_hint = ValueHint::FilePath)]
    pub(crate) plan: Option<PathBuf>,

    /// Print the plan without applying it
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// Wait until Clusters, groups and Machines are ready, within --timeout
    #[arg(long)]
    pub(crate) wait: bool,

    /// Install the kinds first, with the schemas of the providers that this program has
    #[arg(long)]
    pub(crate) install: bool,

    /// Take over fields that other managers own
    #[arg(long)]
    pub(crate) force_conflicts: bool,

    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,

    #[command(flatten)]
    pub(crate) server: ServerArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs<TableOutput>,
}

/// Show a Cluster with its groups, Machines, Nodes and hosts
#[derive(Args, Debug)]
pub(crate) struct DescribeArgs {
    /// Name of the Cluster [default: all objects of the namespace]
    #[arg(value_name = "CLUSTER")]
    pub(crate) name: Option<String>,

    /// Show each Machine; by default, Machines of a group with the same state are one line
    #[arg(long)]
    pub(crate) all: bool,

    #[command(flatten)]
    pub(crate) server: ServerArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs<TextOutput>,
}

/// Upgrade or downgrade a Cluster: the control plane first, then the workers
///
/// Only specs are changed: how each Machine gets there is decided by its provider.
#[derive(Args, Debug)]
#[command(after_help = UPGRADE_HELP_AFTER)]
pub(crate) struct UpgradeArgs {
    /// Name of the Cluster
    #[arg(value_name = "CLUSTER")]
    pub(crate) name: String,

    /// Version of the control plane and of all kubelets, such as v1.37.0
    #[arg(id = "to_version", long = "version", value_name = "VERSION")]
    pub(crate) version: String,

    /// Do not change the workers
    #[arg(long)]
    pub(crate) control_plane_only: bool,

    /// Print which objects would be changed, without changing them
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Set the size of a MachineDeployment or a MachineSet
#[derive(Args, Debug)]
#[command(after_help = SCALE_HELP_AFTER)]
pub(crate) struct ScaleArgs {
    /// The group: md/NAME or ms/NAME
    #[arg(value_name = "TYPE/NAME")]
    pub(crate) group: String,

    /// Number of Machines
    #[arg(long, value_name = "COUNT")]
    pub(crate) replicas: u32,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Watch, pause, resume, undo or restart a rollout
#[derive(Args, Debug)]
#[command(after_help = ROLLOUT_HELP_AFTER)]
pub(crate) struct RolloutArgs {
    #[command(subcommand)]
    pub(crate) command: RolloutCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RolloutCommand {
    /// Wait for the end of a rollout
    Status(Box<RolloutTarget>),
    /// Pause a rollout
    Pause(Box<RolloutTarget>),
    /// Resume a rollout
    Resume(Box<RolloutTarget>),
    /// Go back to the template of an earlier revision
    Undo(Box<UndoArgs>),
    /// Replace all Machines by new ones of the same template
    Restart(Box<RolloutTarget>),
}

/// The MachineDeployment of a rollout.
#[derive(Args, Debug)]
pub(crate) struct RolloutTarget {
    /// The MachineDeployment: md/NAME or NAME
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// The MachineDeployment, and where it goes back to.
#[derive(Args, Debug)]
pub(crate) struct UndoArgs {
    /// Revision of the template [default: the one before the present one]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) to_revision: Option<u64>,

    #[command(flatten)]
    pub(crate) target: RolloutTarget,
}

/// Compare two clusters: what they declare, or what really runs
///
/// Names, status and what controllers own are left out: two clusters with different names are the same if they declare the same.
#[derive(Args, Debug)]
#[command(after_help = DIFF_HELP_AFTER)]
pub(crate) struct DiffArgs {
    /// First cluster: a file, a directory, `-`, or context:NAME
    #[arg(value_name = "A")]
    pub(crate) a: String,

    /// Second cluster
    #[arg(value_name = "B")]
    pub(crate) b: String,

    /// Compare only this part of what they declare
    #[arg(long, value_name = "PART")]
    pub(crate) part: Option<PartName>,

    /// Compare the versions that really run, by group
    #[arg(long, conflicts_with = "part")]
    pub(crate) observed: bool,

    /// Do not compare the sizes of groups
    #[arg(long)]
    pub(crate) ignore_replicas: bool,

    #[command(flatten)]
    pub(crate) server: SourceArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs<TextOutput>,
}

/// How sources of a comparison are read.
#[derive(Args, Clone, Debug)]
pub(crate) struct SourceArgs {
    /// Namespace of manifests that name none, and the only one that is read of servers [default: all]
    #[arg(short, long, value_name = "NAMESPACE", help_heading = "Targets")]
    pub(crate) namespace: Option<String>,

    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// Copy what a cluster declares to another one, without the configuration of providers
#[derive(Args, Debug)]
#[command(after_help = SYNC_HELP_AFTER)]
pub(crate) struct SyncArgs {
    /// Cluster to copy from: a file, a directory, `-`, or context:NAME
    #[arg(value_name = "A")]
    pub(crate) a: String,

    /// Cluster to change: context:NAME, a kubeconfig, or a state directory
    #[arg(value_name = "B")]
    pub(crate) b: String,

    /// Do not change the sizes of groups
    #[arg(long)]
    pub(crate) ignore_replicas: bool,

    /// Print the plan without changing anything
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) server: SourceArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs<TableOutput>,
}

/// Check manifests against the schemas of kinds and providers, or the status of a server's objects
#[derive(Args, Debug)]
#[command(after_help = VALIDATE_HELP_AFTER)]
pub(crate) struct ValidateArgs {
    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,

    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Print all objects with their status, to be restored or converted
#[derive(Args, Debug)]
#[command(after_help = EXPORT_HELP_AFTER)]
pub(crate) struct ExportArgs {
    /// Name of the Cluster [default: all objects]
    #[arg(value_name = "CLUSTER")]
    pub(crate) name: Option<String>,

    /// Format of the manifests
    #[arg(long, value_name = "FORMAT", default_value = "settled")]
    pub(crate) format: ExportFormat,

    #[command(flatten)]
    pub(crate) server: ServerArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs<ObjectOutput>,
}

/// Convert manifests of cluster.k8s.io/v1alpha1, or a configuration of kubeadm
#[derive(Args, Debug)]
#[command(after_help = IMPORT_HELP_AFTER)]
pub(crate) struct ImportArgs {
    /// Fail if the manifests declare something that has no field here
    #[arg(long)]
    pub(crate) strict: bool,

    /// Namespace of objects that name none
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub(crate) namespace: String,

    #[command(flatten)]
    pub(crate) manifests: ManifestArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs<ObjectOutput>,
}

/// Make Machines for Nodes that exist already, paused
#[derive(Args, Debug)]
#[command(after_help = ADOPT_HELP_AFTER)]
pub(crate) struct AdoptArgs {
    /// Names of Nodes [default: all Nodes without a Machine]
    #[arg(value_name = "NODE")]
    pub(crate) names: Vec<String>,

    /// MachineClass with the configuration of the provider, in the same namespace
    #[arg(long, value_name = "NAME", required_unless_present = "provider_spec")]
    pub(crate) class: Option<String>,

    /// File with the configuration of the provider (YAML or JSON)
    #[arg(long, value_name = "FILE", conflicts_with = "class", value_hint = ValueHint::FilePath)]
    pub(crate) provider_spec: Option<PathBuf>,

    /// Cluster of the Machines [default: none]
    #[arg(long, value_name = "NAME")]
    pub(crate) of: Option<String>,

    /// Create the Machines; by default, they are only printed
    #[arg(long)]
    pub(crate) apply: bool,

    #[command(flatten)]
    pub(crate) server: ServerArgs,

    #[command(flatten)]
    pub(crate) output: OutputArgs<ObjectOutput>,
}

/// Output of a command.
#[derive(Args, Clone, Debug)]
pub(crate) struct OutputArgs<F: OutputFormat> {
    /// Output format
    #[arg(id = "output", short = 'o', long = "output", value_name = "FORMAT", default_value = F::DEFAULT, help_heading = "Output")]
    pub(crate) format: F,
}

/// Output formats of a command.
pub(crate) trait OutputFormat: ValueEnum + Send + Sync + 'static {
    /// The one that is not asked for.
    const DEFAULT: &'static str;
}

impl OutputFormat for TableOutput {
    const DEFAULT: &'static str = "table";
}

impl OutputFormat for TextOutput {
    const DEFAULT: &'static str = "text";
}

impl OutputFormat for ObjectOutput {
    const DEFAULT: &'static str = "yaml";
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableOutput {
    Table,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextOutput {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ObjectOutput {
    Yaml,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// All objects with their status
    Settled,
    /// A ClusterConfiguration
    Kubeadm,
    /// cluster.k8s.io/v1alpha1
    V1alpha1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PartName {
    /// Versions, networks, taints, labels, strategies, sizes
    Agnostic,
    /// Configuration of providers, and addresses
    Provider,
}

/// Run the node agent: providers start it on hosts
#[derive(Args, Debug)]
#[command(disable_help_flag = true)]
pub(crate) struct AgentArgs {
    /// `init --dir DIR`, or `kubelet --dir DIR --version VERSION`
    #[arg(value_name = "ARGUMENT", trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub(crate) words: Vec<OsString>,
}

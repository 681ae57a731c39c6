//! Command line arguments of `settled cluster` for the life of a cluster: create, delete, move, repair, run, get.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Subcommand, ValueHint};

use crate::duration;

const CREATE_HELP_AFTER: &str = "\
Examples:
  settled cluster create -f cluster.yaml -f machines.yaml
                                              a cluster, from nothing
  settled cluster create -f cluster.yaml --state ~/prod --pivot
                                              one that has its own objects

Starts an API server in the state directory, creates the control plane and then
the workers. Each phase is recorded in the status of the Cluster: interrupted at
any point, the same command continues. The hosts stay when the command ends;
`settled cluster run` keeps the controllers running.

Exit codes:
  0    the cluster is ready
  1    an object was rejected, or needs a change of its spec
  2    invalid arguments or unreadable input
  3    timed out
  4    an API server is unreachable
  130  interrupted (129 by SIGHUP, 143 by SIGTERM)";

const DELETE_HELP_AFTER: &str = "\
Examples:
  settled cluster delete prod                 hosts, Nodes and objects

Groups go first, then workers, then the control plane. That the API server of
the cluster is dead delays nothing. A cluster that was created with --pivot is
moved back first; if its API server cannot be repaired, its hosts are deleted by
their providers alone.";

const MOVE_HELP_AFTER: &str = "\
Examples:
  settled cluster move prod --to-state ~/other --dry-run
                                              whether it can be moved
  settled cluster move prod --to-kubeconfig manager.kubeconfig
                                              to another API server

Objects are moved with their status, in one transaction: until its last step,
this server has the cluster, and after it the other one. Interrupted, the same
command continues. Hosts and Nodes are not touched.";

/// State directory of the embedded server.
#[derive(Args, Clone, Debug)]
pub(crate) struct StateArgs {
    /// State directory: API server, hosts, kubeconfigs [default: `settled/clusters` in the user's state directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) state: Option<PathBuf>,

    /// Programs of other versions of the control plane, as VERSION/settled, and what is installed on hosts of an SSH pool, as kubelet-VERSION and
    /// runtime-NAME-VERSION [default: `programs` in the state directory]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) programs: Option<PathBuf>,

    /// Timeout of the command
    #[arg(id = "command_timeout", long = "timeout", value_name = "DURATION", default_value = "10m", value_parser = duration::parse)]
    pub(crate) timeout: Duration,
}

/// A cluster of a state directory.
#[derive(Args, Clone, Debug)]
pub(crate) struct NamedArgs {
    /// Name of the Cluster
    #[arg(value_name = "CLUSTER")]
    pub(crate) name: String,

    /// Namespace of the Cluster
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub(crate) namespace: String,

    #[command(flatten)]
    pub(crate) state: StateArgs,
}

/// Create a cluster from manifests, without another cluster
#[derive(Args, Debug)]
#[command(after_help = CREATE_HELP_AFTER)]
pub(crate) struct CreateArgs {
    /// File, directory, URL, or `-` for standard input (can be repeated)
    #[arg(
        short = 'f', long = "filename", value_name = "FILE|DIR|URL|-", action = ArgAction::Append, required = true,
        value_hint = ValueHint::AnyPath
    )]
    pub(crate) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) state: StateArgs,

    /// Move the objects into the cluster when it is ready, with their status
    #[arg(long)]
    pub(crate) pivot: bool,
}

/// Delete a cluster: groups, workers, control plane, and everything outside
#[derive(Args, Debug)]
#[command(after_help = DELETE_HELP_AFTER)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) named: NamedArgs,
}

/// Move a cluster to another API server, with its status, in one transaction
#[derive(Args, Debug)]
#[command(after_help = MOVE_HELP_AFTER)]
pub(crate) struct MoveArgs {
    #[command(flatten)]
    pub(crate) named: NamedArgs,

    /// State directory that it is moved to; it shares the hosts
    #[arg(long, value_name = "DIR", required_unless_present = "to_kubeconfig", conflicts_with = "to_kubeconfig", value_hint = ValueHint::DirPath)]
    pub(crate) to_state: Option<PathBuf>,

    /// Kubeconfig of the API server that it is moved to
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) to_kubeconfig: Option<PathBuf>,

    /// Only check whether it can be moved
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Repair the control plane of a cluster from outside
///
/// Works when the API server that has the objects of the cluster is the one that is dead.
#[derive(Args, Debug)]
pub(crate) struct RepairArgs {
    #[command(flatten)]
    pub(crate) named: NamedArgs,
}

/// Run the controllers of a state directory, until Ctrl-C
///
/// Also for clusters that have their own objects.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) state: StateArgs,
}

/// Print what belongs to a cluster
#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    #[command(subcommand)]
    pub(crate) what: GetWhat,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GetWhat {
    /// Print the administrator's kubeconfig of a cluster
    Kubeconfig(NamedArgs),
}

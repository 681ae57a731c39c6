//! Command line arguments of `settled netpol`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Subcommand, ValueEnum, ValueHint};

use super::args::ClusterArgs;
use super::bytes;
use crate::duration;

const NETPOL_HELP_AFTER: &str = "\
Examples:
  settled netpol check -f k8s/ --provider cilium@1.16
                                              policies in files, offline
  settled netpol check -A                     policies and provider of a cluster
  settled netpol check -f k8s/ --from-provider calico@3.25 \\
      --to-provider cilium@1.17               what a migration changes
  settled netpol reach --from shop/web --to shop/db --port 5432
                                              may one pod connect to another
  settled netpol diff main/ branch/           what connectivity changes
  settled netpol matrix                       features by providers

`as written` is the meaning that the Kubernetes API documents. `as carried out`
is what a version of a provider does instead.";

const CHECK_HELP_AFTER: &str = "\
Examples:
  settled netpol check -f k8s/ --provider cilium@1.15
                                              policies in files, offline
  settled netpol check -f k8s/ --provider cilium@1.16 --provider calico@3.29
                                              several providers
  settled netpol check -A                     policies, provider and version of
                                              the cluster
  settled netpol check -f k8s/ --from-provider calico@3.25 \\
      --to-provider cilium@1.17               policies that change their meaning
  settled netpol check -f k8s/ --provider cilium@1.16 -o sarif > netpol.sarif
                                              code scanning

Output formats:
  table   one line per policy and provider, and one for each finding
  wide    in addition feature, place in the file, and source
  json    one JSON object: providers, policies, summary (also yaml)
  jsonl   one JSON line per policy and provider
  sarif   SARIF 2.1.0, for code scanning
  junit   one test case per policy and provider
  github  annotations and a step summary for GitHub Actions

Exit codes:
  0    all policies are carried out as written
  1    a policy is not carried out as written; with --from-provider: a policy
       changes its meaning
  2    invalid arguments, unreadable input, or an invalid policy
  3    Unknown: the provider, its version or a feature is not known
  4    the cluster is unreachable, or a permission is missing
  5    the cluster's provider was not detected, or several were
  130  interrupted (129 by SIGHUP, 143 by SIGTERM)
  If several apply, the precedence is 2, 4, 5, 1, 3.";

const MATRIX_HELP_AFTER: &str = "\
Examples:
  settled netpol matrix                       newest known version of each
  settled netpol matrix --provider cilium@1.15 --provider cilium@1.16
                                              two versions of one provider
  settled netpol matrix --feature port.end -o markdown
                                              one feature, for a document

Output formats:
  table     features by providers
  markdown  the same, with footnotes and links
  json      all rows with notes and sources (also yaml)

Exit codes:
  0  the matrix was printed
  2  invalid arguments, or an invalid profile
  3  a provider or version is not known";

const EXPLAIN_HELP_AFTER: &str = "\
Examples:
  settled netpol explain myegress -n shop     a policy of the cluster
  settled netpol explain myegress -f k8s/     a policy in files
  settled netpol explain myegress -f k8s/ --provider cilium@1.15
                                              and what the provider does instead

POLICY is a name, or KIND/NAME, such as adminnetworkpolicy/default-deny.

Exit codes:
  0    explained; with a provider: carried out as written
  1    with a provider: not carried out as written
  2    invalid arguments, unreadable input, or no such policy
  3    Unknown: the provider, its version or a feature is not known
  4    the cluster is unreachable, or a permission is missing
  130  interrupted (129 by SIGHUP, 143 by SIGTERM)";

const REACH_HELP_AFTER: &str = "\
Examples:
  settled netpol reach --from shop/web --to shop/db --port 5432
                                              from the cluster
  settled netpol reach --from shop/web --to service/shop/db --port 5432
                                              the pods behind a Service
  settled netpol reach --from shop/web --to shop/db:postgres
                                              a port by its name in the pods
  settled netpol reach --from internet --to shop/web --port 443 -f dump/
                                              from files
  settled netpol reach --from shop/web --to 10.1.2.3 --port 53/UDP -o json
                                              an address, as JSON

Ends of a connection:
  NAMESPACE/NAME            a pod, or all pods of a workload
  NAME                      the same, in the namespace of -n
  service/NAMESPACE/NAME    the pods behind a Service (--to)
  node/NAME                 a node
  10.1.2.3, 10.0.0.0/8      an address, or addresses outside of the cluster
  internet                  all global addresses

Exit codes:
  0    allowed: all connections that were asked about, as carried out if the
       provider is known, otherwise as written
  1    denied: at least one of them
  2    invalid arguments, unreadable input, or an end that does not exist
  3    Unknown
  4    the cluster is unreachable, or a permission is missing
  5    the cluster's provider was not detected, or several were; the answer as
       written is printed
  130  interrupted (129 by SIGHUP, 143 by SIGTERM)
  If several apply, the precedence is 2, 4, 5, 1, 3.";

const DIFF_HELP_AFTER: &str = "\
Examples:
  settled netpol diff main/k8s branch/k8s     two directories
  settled netpol diff -f k8s/                 files against the cluster
  settled netpol diff main/k8s branch/k8s --provider cilium@1.16
                                              as carried out by a provider

Pods, namespaces, nodes and Services are read from the same files, or from the
cluster. Without them, only changes for ranges of addresses are found.

Exit codes:
  0    no connectivity changes
  1    connectivity changes
  2    invalid arguments, or unreadable input
  3    Unknown
  4    the cluster is unreachable, or a permission is missing
  130  interrupted (129 by SIGHUP, 143 by SIGTERM)
  If several apply, the precedence is 2, 4, 1, 3.";

const PROFILES_HELP_AFTER: &str = "\
Examples:
  settled netpol profiles                     all providers and their versions
  settled netpol profiles cilium              what is known of one
  settled netpol profiles --profiles my.yaml  check a file of your own

docs/netpol-profiles.md describes how to write a profile.

Exit codes:
  0  all profiles are valid
  2  invalid arguments, or an invalid profile: the rest is listed
  3  no such provider";

/// Check network policies: what providers carry out, and what may connect to what
///
/// Evaluates NetworkPolicy, AdminNetworkPolicy, BaselineAdminNetworkPolicy and ClusterNetworkPolicy objects. Providers that implement them (CNI
/// plugins) ignore features that they do not have, often without a message.
#[derive(Args, Debug)]
#[command(after_help = NETPOL_HELP_AFTER)]
pub(crate) struct NetpolArgs {
    #[command(subcommand)]
    pub(crate) command: NetpolCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum NetpolCommand {
    Check(Box<CheckArgs>),
    Reach(Box<ReachArgs>),
    Diff(Box<DiffArgs>),
    Explain(Box<ExplainArgs>),
    Matrix(MatrixArgs),
    Profiles(ProfilesArgs),
    #[cfg(feature = "report")]
    Report(Box<ReportArgs>),
}

/// Check whether providers carry out policies as written
///
/// Reports for each policy what the provider does instead, whether that allows more or less than written, and which version supports it. Without
/// -f, reads policies of the cluster; without --provider, detects the cluster's provider and its version.
#[derive(Args, Debug)]
#[command(after_help = CHECK_HELP_AFTER)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) input: PolicyArgs,

    #[command(flatten)]
    pub(crate) provider: ProviderArgs,

    /// Provider that is replaced, such as calico@3.25
    #[arg(
        long,
        value_name = "NAME@VERSION",
        requires = "to_provider",
        conflicts_with = "providers",
        help_heading = "Provider"
    )]
    pub(crate) from_provider: Option<String>,

    /// Provider that replaces it, such as cilium@1.17
    #[arg(
        long,
        value_name = "NAME@VERSION",
        requires = "from_provider",
        conflicts_with = "providers",
        help_heading = "Provider"
    )]
    pub(crate) to_provider: Option<String>,

    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table", help_heading = "Output")]
    pub(crate) output: CheckOutput,

    /// Print only errors
    #[arg(short, long, help_heading = "Output")]
    pub(crate) quiet: bool,

    /// Width of tables in columns, 0 for no limit [default: the terminal's; no limit in pipes]
    #[arg(long, value_name = "COLUMNS", help_heading = "Output")]
    pub(crate) width: Option<usize>,
}

/// Show which providers carry out which features of policies
#[derive(Args, Debug)]
#[command(after_help = MATRIX_HELP_AFTER)]
#[command(mut_arg("providers", |arg| arg.help("Provider and version (can be repeated) [default: all, in their newest version]").long_help(clap::builder::Resettable::Reset)))]
pub(crate) struct MatrixArgs {
    #[command(flatten)]
    pub(crate) provider: ProviderArgs,

    /// Only these features, such as port.end (can be repeated)
    #[arg(long = "feature", value_name = "ID")]
    pub(crate) features: Vec<String>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table", help_heading = "Output")]
    pub(crate) output: MatrixOutput,
}

/// Explain a policy in sentences
#[derive(Args, Debug)]
#[command(after_help = EXPLAIN_HELP_AFTER)]
pub(crate) struct ExplainArgs {
    /// Name of the policy, or KIND/NAME
    #[arg(value_name = "POLICY")]
    pub(crate) policy: String,

    #[command(flatten)]
    pub(crate) input: PolicyArgs,

    #[command(flatten)]
    pub(crate) provider: ProviderArgs,

    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help_heading = "Output")]
    pub(crate) output: TextOutput,
}

/// Evaluate whether one end may connect to another, and by which policies
#[derive(Args, Debug)]
#[command(after_help = REACH_HELP_AFTER)]
pub(crate) struct ReachArgs {
    /// Source of the connection
    #[arg(long, value_name = "END")]
    pub(crate) from: String,

    /// Destination of the connection
    #[arg(long, value_name = "END")]
    pub(crate) to: String,

    /// Port by number or name, and protocol, such as 443, 53/UDP or http [default: all ports]
    ///
    /// A name is that of a container port of the destination's pods, or of the Service's port. It can also stand at the end of --to:
    /// shop/db:5432.
    #[arg(long, value_name = "PORT[/PROTOCOL]")]
    pub(crate) port: Option<String>,

    #[command(flatten)]
    pub(crate) input: PolicyArgs,

    #[command(flatten)]
    pub(crate) provider: ProviderArgs,

    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help_heading = "Output")]
    pub(crate) output: TextOutput,
}

/// Show what connectivity changes between two sets of policies
#[derive(Args, Debug)]
#[command(after_help = DIFF_HELP_AFTER)]
pub(crate) struct DiffArgs {
    /// File or directory with the policies before
    #[arg(value_name = "A", required_unless_present_any = ["files", "kustomize"], requires = "after", value_hint = ValueHint::AnyPath)]
    pub(crate) before: Option<PathBuf>,

    /// File or directory with the policies after
    #[arg(value_name = "B", conflicts_with_all = ["files", "kustomize"], value_hint = ValueHint::AnyPath)]
    pub(crate) after: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) input: PolicyArgs,

    #[command(flatten)]
    pub(crate) provider: ProviderArgs,

    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", help_heading = "Output")]
    pub(crate) output: TextOutput,
}

/// List the known providers, or show what is known of one
#[derive(Args, Debug)]
#[command(after_help = PROFILES_HELP_AFTER)]
pub(crate) struct ProfilesArgs {
    /// Name of a provider
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Profile, or directory with profiles, in addition to the built-in ones (can be repeated)
    #[arg(long, value_name = "FILE|DIR", action = ArgAction::Append, value_hint = ValueHint::AnyPath)]
    pub(crate) profiles: Vec<PathBuf>,

    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    pub(crate) output: ProfilesOutput,
}

/// Policies, and the objects that they select.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Input")]
pub(crate) struct PolicyArgs {
    /// File, directory, URL, or `-` for standard input (can be repeated) [default: the cluster]
    ///
    /// Other objects in the files (Pods, Namespaces, Nodes, Services) are what the policies select. Without them, findings that depend on them are
    /// not reported.
    #[arg(
        short = 'f', long = "filename", value_name = "FILE|DIR|URL|-", action = ArgAction::Append,
        value_hint = ValueHint::AnyPath
    )]
    pub(crate) files: Vec<PathBuf>,

    /// Directory with a kustomization; needs kustomize or kubectl in the PATH
    #[arg(short = 'k', long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) kustomize: Option<PathBuf>,

    /// Namespace, or a comma-separated list [default: the context's; with -f all]
    ///
    /// In files, objects without a namespace are in the first one, or in `default`.
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    pub(crate) namespace: Option<String>,

    /// All namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,

    /// Timeout for reading the cluster
    #[arg(id = "read_timeout", long = "timeout", value_name = "DURATION", default_value = "1m", value_parser = duration::parse)]
    pub(crate) timeout: Duration,

    /// Number of threads that read files [default: one per core, at most 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,

    /// Maximum size of an object; larger ones are malformed
    #[arg(long, value_name = "BYTES", default_value = "16MiB", value_parser = bytes)]
    pub(crate) max_object_size: usize,
}

impl PolicyArgs {
    /// Whether policies are read from files.
    pub(crate) fn names_files(&self) -> bool {
        !self.files.is_empty() || self.kustomize.is_some()
    }
}

/// Providers, and where their profiles come from.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Provider")]
pub(crate) struct ProviderArgs {
    /// Provider and version, such as cilium@1.16 (can be repeated) [default: the cluster's]
    ///
    /// A variant follows a slash (azure-npm@1.5/windows), options follow commas (cilium@1.16,enable-sctp). `settled netpol profiles NAME` lists
    /// both.
    #[arg(long = "provider", value_name = "NAME@VERSION", action = ArgAction::Append)]
    pub(crate) providers: Vec<String>,

    /// Profile, or directory with profiles, in addition to the built-in ones (can be repeated)
    #[arg(long, value_name = "FILE|DIR", action = ArgAction::Append, value_hint = ValueHint::AnyPath)]
    pub(crate) profiles: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckOutput {
    Table,
    Wide,
    Json,
    Jsonl,
    Yaml,
    Sarif,
    Junit,
    Github,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MatrixOutput {
    Table,
    Markdown,
    Json,
    Yaml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextOutput {
    Text,
    Json,
    Yaml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProfilesOutput {
    Table,
    Json,
    Yaml,
}

#[cfg(feature = "report")]
const REPORT_HELP_AFTER: &str = "\
Examples:
  settled netpol report --print-crd | kubectl apply -f -
                                              the kind NetworkPolicyReport
  settled netpol report --print-rbac -n settled-system | kubectl apply -f -
                                              a ServiceAccount and its permissions
  settled netpol report --listen 0.0.0.0:8080 --elect -n settled-system
                                              in a Pod of this ServiceAccount
  settled netpol report --provider cilium@1.16
                                              without detection

Conditions are written to the status of NetworkPolicies where the API server has
that field, elsewhere to a NetworkPolicyReport of the same name. Specs are never
written. --log-level info prints what happens.

Exit codes:
  0  stopped by SIGTERM or Ctrl-C
  2  invalid arguments, or an invalid profile
  3  a provider is not known
  4  the cluster is unreachable, or the lease was lost";

/// Write conditions of network policies into the cluster
///
/// A controller: detects the cluster's provider and its version, evaluates all NetworkPolicies, and writes the conditions Accepted, PartialFailure
/// and Failure (KEP-2943) whenever a policy or the provider changes.
#[cfg(feature = "report")]
#[derive(Args, Debug)]
#[command(after_help = REPORT_HELP_AFTER)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) provider: ProviderArgs,

    /// Write NetworkPolicyReports even if the API server has the field
    #[arg(long)]
    pub(crate) only_reports: bool,

    /// Address for /livez, /readyz and /metrics, such as 0.0.0.0:8080
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,

    /// Write only while this process holds a Lease, for several replicas
    #[arg(long)]
    pub(crate) elect: bool,

    /// Namespace of the ServiceAccount and of the Lease
    #[arg(short, long, value_name = "NAMESPACE", default_value = "settled-system")]
    pub(crate) namespace: String,

    /// Print the CustomResourceDefinition of NetworkPolicyReports
    #[arg(long, conflicts_with = "print_rbac")]
    pub(crate) print_crd: bool,

    /// Print a ServiceAccount with the permissions that are needed
    #[arg(long)]
    pub(crate) print_rbac: bool,

    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

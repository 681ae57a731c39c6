//! Argument groups shared by the commands for clusters: targets, connection, policy, evaluation and output.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum, ValueHint};
use kstatus::FailureClass;
use settled_tracker::connection::Token;
use settled_tracker::release::Release;

use crate::duration;

/// Targets, the same for all commands that read a cluster.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Targets")]
pub(crate) struct TargetArgs {
    /// Objects by type and name, or types to select from.
    #[arg(
        value_name = "TYPE/NAME",
        help = "TYPE/NAME..., TYPE NAME..., or TYPE[,TYPE] with -l, --field-selector or --all"
    )]
    pub(crate) names: Vec<String>,

    /// Objects in a file, directory, URL, or `-` for standard input (can be repeated)
    #[arg(
        short = 'f', long = "filename", value_name = "FILE|DIR|URL|-", action = ArgAction::Append,
        value_hint = ValueHint::AnyPath
    )]
    pub(crate) files: Vec<PathBuf>,

    /// Objects of a directory with a kustomization; needs kustomize or kubectl in the PATH
    #[arg(short = 'k', long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) kustomize: Option<PathBuf>,

    /// Accepted for compatibility with kubectl: subdirectories are always read
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,

    /// Namespace, or a comma-separated list [default: the context's]
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "all_namespaces")]
    pub(crate) namespace: Option<String>,

    #[command(flatten)]
    pub(crate) select: SelectArgs,

    #[command(flatten)]
    pub(crate) cluster: ClusterArgs,
}

/// Selections of objects.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Targets")]
pub(crate) struct SelectArgs {
    /// Label selector, such as `app=web,tier!=cache`
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    pub(crate) selector: Option<String>,

    /// Field selector, such as `metadata.name=web`
    #[arg(long, value_name = "SELECTOR")]
    pub(crate) field_selector: Option<String>,

    /// All objects of the given types
    #[arg(long, conflicts_with_all = ["selector", "field_selector"])]
    pub(crate) all: bool,

    /// All namespaces
    #[arg(short = 'A', long)]
    pub(crate) all_namespaces: bool,

    /// All objects of a release (can be repeated): helm/NAME, kustomization/NAME, helmrelease/NAME, application/NAME,
    /// inventory/NAME, applyset/NAME
    ///
    /// The list of objects is read from Helm's Secret, the status of a Flux or Argo CD object, the ConfigMap or
    /// ResourceGroup of cli-utils (kpt, Config Sync), or the parent of an ApplySet, in the namespace of `-n`.
    #[arg(long = "release", value_name = "TYPE/NAME")]
    pub(crate) releases: Vec<Release>,
}

impl SelectArgs {
    /// Whether nothing is selected.
    pub(crate) fn selects_nothing(&self) -> bool {
        let Self { selector, field_selector, all, all_namespaces: _, releases } = self;
        selector.is_none() && field_selector.is_none() && !all && releases.is_empty()
    }
}

/// Connection options.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArgs {
    /// Context of the kubeconfig [default: the current context]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// Kubeconfig [default: $KUBECONFIG, ~/.kube/config, or the Pod's ServiceAccount]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Cluster of the kubeconfig, instead of the context's
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,

    /// User of the kubeconfig, instead of the context's
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,

    /// URL of the API server, instead of the kubeconfig's
    #[arg(short, long, value_name = "URL")]
    pub(crate) server: Option<String>,

    /// Name in the server's certificate, if it differs from the host of the URL
    #[arg(long, value_name = "NAME")]
    pub(crate) tls_server_name: Option<String>,

    /// Certificate authorities (PEM) for the server's certificate
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) certificate_authority: Option<PathBuf>,

    /// Do not verify the server's certificate. This is insecure
    #[arg(long, conflicts_with = "certificate_authority")]
    pub(crate) insecure_skip_tls_verify: bool,

    /// Client certificate (PEM), instead of the kubeconfig's credentials
    #[arg(long, value_name = "FILE", requires = "client_key", value_hint = ValueHint::FilePath)]
    pub(crate) client_certificate: Option<PathBuf>,

    /// Key of the client certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "client_certificate", value_hint = ValueHint::FilePath)]
    pub(crate) client_key: Option<PathBuf>,

    /// Bearer token, instead of the kubeconfig's credentials
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<Token>,

    /// User to impersonate
    #[arg(long = "as", value_name = "USER")]
    pub(crate) as_user: Option<String>,

    /// Group to impersonate (can be repeated)
    #[arg(long = "as-group", value_name = "GROUP", requires = "as_user")]
    pub(crate) as_groups: Vec<String>,

    /// UID to impersonate
    #[arg(long, value_name = "UID", requires = "as_user")]
    pub(crate) as_uid: Option<String>,

    /// Timeout of a single request; a number without unit is seconds, 0 is no limit [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_request_timeout)]
    pub(crate) request_timeout: Option<Duration>,

    /// Print each request with its status and duration, with level 6 or higher
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value = "0", hide_default_value = true)]
    pub(crate) verbosity: u8,

    /// Accepted for compatibility with kubectl.
    #[arg(long, hide = true)]
    pub(crate) disable_compression: bool,
}

/// Conditions, timeouts and failures of a wait.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Waiting")]
pub(crate) struct PolicyArgs {
    /// Condition to wait for, see `settled wait --help` (can be repeated) [default: ready]
    #[arg(long = "for", value_name = "CONDITION")]
    pub(crate) conditions: Vec<String>,

    /// Timeout of the command; 0 checks once, a negative value is one week
    #[arg(long, value_name = "DURATION", default_value = "5m", allow_hyphen_values = true,
        value_parser = duration::parse_timeout)]
    pub(crate) timeout: Duration,

    /// Fail each object that is not done after this time
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) target_timeout: Option<Duration>,

    /// Time that all objects must stay done
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration::parse)]
    pub(crate) stable: Duration,

    /// Failure classes that end the wait early, separated by commas [default: all]
    #[arg(long, value_name = "CLASSES", num_args = 0..=1, require_equals = true, default_missing_value = "all",
        value_parser = Classes::from_str)]
    pub(crate) fail_fast: Option<Classes>,

    /// Wait until all objects are done or failed
    #[arg(long, conflicts_with = "fail_fast")]
    pub(crate) no_fail_fast: bool,

    /// Grace period of a failure class, such as `image=1m` (can be repeated)
    #[arg(long = "grace", value_name = "CLASS=DURATION", value_delimiter = ',', value_parser = grace)]
    pub(crate) graces: Vec<(FailureClass, Duration)>,

    /// How to treat objects that do not exist or are deleted
    #[arg(long, value_name = "POLICY", default_value = "auto")]
    pub(crate) on_missing: OnMissing,
}

/// Evaluation options.
#[derive(Args, Clone, Copy, Debug, Default)]
#[command(next_help_heading = "Verdict")]
pub(crate) struct EvaluationArgs {
    /// Count objects without a status as Current instead of Unknown
    #[arg(long)]
    pub(crate) assume_current: bool,

    /// Count Ingresses and Gateways without an address as Current, for controllers that do not set one
    #[arg(long)]
    pub(crate) address_optional: bool,
}

/// Evidence in explanations.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Explanation")]
pub(crate) struct EvidenceArgs {
    /// Logs of crashed containers: `tail` (the last 10 lines), N (the last N lines), `live` (also during the wait), `none`
    #[arg(long, value_name = "HOW", default_value = "tail", value_parser = Logs::from_str)]
    pub(crate) logs: Logs,

    /// Same as --logs=none
    #[arg(long, conflicts_with = "logs")]
    pub(crate) no_logs: bool,
}

impl EvidenceArgs {
    /// Number of log lines at the end.
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

/// Log lines in explanations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logs {
    None,
    /// The last lines.
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

/// Output options of a wait.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct ShowArgs {
    /// Additional report (can be repeated): `junit=FILE`, `github=FILE`, `jsonl=FILE`, `json=FILE`
    #[arg(long = "report", value_name = "FORMAT=FILE")]
    pub(crate) reports: Vec<ReportFile>,

    /// Print lines instead of the live view
    #[arg(long)]
    pub(crate) plain: bool,

    /// Print only errors
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Comma-separated failure classes.
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
    let (class, time) = text.split_once('=').ok_or("expected CLASS=DURATION, such as image=1m")?;
    Ok((class.parse().map_err(|error: kstatus::UnknownName| error.to_string())?, duration::parse(time)?))
}

/// Format and file of a report.
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
        let invalid = || "expected junit=FILE, github=FILE, jsonl=FILE or json=FILE".to_owned();
        let (format, path) = text.split_once('=').ok_or_else(invalid)?;
        let format = match format {
            "junit" => ReportFormat::Junit,
            "github" => ReportFormat::Github,
            "jsonl" => ReportFormat::Jsonl,
            "json" => ReportFormat::Json,
            _ => return Err(invalid()),
        };
        if path.is_empty() {
            return Err(invalid());
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

/// Dry run mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DryRun {
    /// Apply
    None,
    /// Validate on the server, store nothing
    Server,
    /// Not supported with server-side apply
    #[value(hide = true)]
    Client,
}

/// Treatment of missing objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnMissing {
    /// Wait; fail if the object is deleted during the wait and not created again
    Auto,
    /// Wait
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
        for invalid in ["", "follow", "1001", "-1"] {
            assert!(invalid.parse::<Logs>().is_err(), "{invalid}");
        }
    }

    #[test]
    fn reports_name_a_format_and_a_file() {
        let report = "junit=out/a=b.xml".parse::<ReportFile>().unwrap();
        assert_eq!((report.format, report.path), (ReportFormat::Junit, "out/a=b.xml".into()));
        for invalid in ["junit", "junit=", "xml=a", "=a"] {
            assert!(invalid.parse::<ReportFile>().is_err(), "{invalid}");
        }
    }
}

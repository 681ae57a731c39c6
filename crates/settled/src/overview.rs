//! Overview: all objects that are not done, for `status`, `why` and `tree` without arguments.

use std::io::{self, IsTerminal as _};

use settled_tracker::request::{KindName, Selection};
use settled_tracker::{Target, Tracker};

use crate::cli::args::SelectArgs;
use crate::error::CommandError;
use crate::stderr;
use crate::style::Palette;
use crate::text::plural;

/// How many forbidden kinds are named.
const NAMED_MAX: usize = 3;

/// Where was looked, and what could not be listed.
#[derive(Debug)]
pub(crate) struct Overview {
    /// `namespace shop`, `namespaces a, b` or `all namespaces`.
    place: String,
    kinds: settled_tracker::request::Overview,
    /// Namespaces that do not exist; one alone is only asked for where nothing was found.
    absent: Vec<String>,
}

/// All that is deployed in the namespace, or everywhere.
pub(crate) fn target(select: &SelectArgs) -> Target {
    Target::Select(Selection {
        kind: KindName::Overview,
        namespace: None,
        everywhere: select.all_namespaces,
        labels: None,
        fields: None,
    })
}

/// Whether standard input is a pipe or file, which suggests a missing `-f -`.
pub(crate) fn input_is_piped() -> bool {
    if io::stdin().is_terminal() {
        return false;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        std::fs::metadata("/dev/stdin").is_ok_and(|input| input.file_type().is_fifo() || input.is_file())
    }
    #[cfg(not(unix))]
    true
}

/// Whether the server says so; one that may not be read may exist.
async fn does_not_exist(tracker: &Tracker, namespace: &str) -> bool {
    let Some(resource) = tracker.resources().of_kind("", None, "Namespace") else { return false };
    tracker.cluster().object(resource, None, namespace).await.is_err_and(|error| error.is_not_found())
}

impl Overview {
    /// The overview that a tracker gave, if one was asked for.
    pub(crate) async fn of(tracker: &Tracker, namespace: Option<&str>, everywhere: bool) -> Option<Self> {
        let kinds = tracker.overview()?.clone();
        let default = tracker.cluster().default_namespace();
        let namespaces: Vec<&str> =
            namespace.unwrap_or(&default).split(',').map(str::trim).filter(|_| !everywhere).collect();
        let place = match &*namespaces {
            [] => "all namespaces".to_owned(),
            [name] => format!("namespace {name}"),
            names => format!("namespaces {}", names.join(", ")),
        };
        let mut absent = Vec::new();
        // What one of several lacks, the count does not show.
        if tracker.counts().total == 0 || namespaces.len() > 1 {
            for name in namespaces {
                if does_not_exist(tracker, name).await {
                    absent.push(name.to_owned());
                }
            }
        }
        Some(Self { place, kinds, absent })
    }

    /// That nothing is shown must not pass for everything being done.
    pub(crate) fn check(&self, objects: u64) -> Result<(), CommandError> {
        if self.kinds.is_forbidden() {
            return Err(CommandError::cluster(format!("no permission to list objects in {}", self.place))
                .hint("grant list and watch, or name objects that you may read, such as deploy/web"));
        }
        if !self.absent.is_empty() {
            let each = self.absent.iter().map(|name| format!("namespace \"{name}\" does not exist"));
            return Err(CommandError::input(each.collect::<Vec<_>>().join("; ")).hint(
                "list namespaces with kubectl get namespaces, or select another cluster with --context",
            ));
        }
        if objects == 0 {
            return Err(
                CommandError::input(format!("no objects in {}", self.place)).hint("set -n NAMESPACE or -A")
            );
        }
        Ok(())
    }

    /// All of it is done.
    pub(crate) fn done(&self, objects: u64) {
        stderr::print_line(&format!("everything in {} is done ({})", self.place, plural(objects, "object")));
    }

    /// Prints hints about kinds that are not included.
    pub(crate) fn hints(&self) {
        let label = Palette::stderr().hint("hint:");
        let mut forbidden = self.kinds.forbidden.clone();
        forbidden.sort_unstable();
        forbidden.dedup();
        if let Some(first) = forbidden.get(..forbidden.len().min(NAMED_MAX)).filter(|names| !names.is_empty())
        {
            let more = if forbidden.len() > first.len() { ", …" } else { "" };
            let count = plural(forbidden.len() as u64, "kind");
            stderr::print_line(&format!(
                "{label} no permission to list {count}, not included: {}{more}",
                first.join(", ")
            ));
        }
        if self.kinds.left_out > 0 {
            let count = plural(self.kinds.left_out as u64, "custom kind");
            stderr::print_line(&format!(
                "{label} {count} not included, because there are too many; name their types"
            ));
        }
    }
}

//! Waits for Clusters, groups and Machines, with the live view and the explanations of `settled wait`.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;
use settled_machines::inventory::Id;
use settled_rules::RuleSet;
use settled_tracker::request::EvidenceOptions;
use settled_tracker::{Outcome, Target};

use super::server::Opened;
use crate::cli::args::{ClusterArgs, EvaluationArgs, OnMissing, PolicyArgs, ShowArgs, WaitOutput};
use crate::cluster;
use crate::error::CommandError;
use crate::progress::Signals;
use crate::wait::{self, Output, Over};

/// The policy of such a wait.
fn policy(timeout: Duration) -> PolicyArgs {
    PolicyArgs {
        conditions: Vec::new(),
        timeout,
        target_timeout: None,
        stable: Duration::ZERO,
        fail_fast: None,
        no_fail_fast: false,
        graces: Vec::new(),
        on_missing: OnMissing::Auto,
    }
}

fn target(id: &Id) -> Result<Target, CommandError> {
    let manifest = json!({
        "apiVersion": "cluster.settled.dev/v1alpha1", "kind": id.kind.as_str(),
        "metadata": {"namespace": id.namespace, "name": id.name},
    });
    Target::manifest(manifest.to_string().as_bytes())
        .map_err(|error| CommandError::input_error("cannot wait", error))
}

/// Waits to the end; an explanation of what is not done is on standard error.
pub(super) async fn wait(
    opened: &Opened,
    ids: &[Id],
    timeout: Duration,
    signals: &mut Signals,
) -> Result<ExitCode, CommandError> {
    Ok(match settle(opened, ids, timeout, signals).await? {
        Settled::Yes => ExitCode::SUCCESS,
        Settled::No(code) => code,
    })
}

/// How a wait has ended.
pub(super) enum Settled {
    /// All is done.
    Yes,
    /// It is not, and this is the exit code.
    No(ExitCode),
}

/// The same, for commands that go on after it.
pub(super) async fn settle(
    opened: &Opened,
    ids: &[Id],
    timeout: Duration,
    signals: &mut Signals,
) -> Result<Settled, CommandError> {
    let targets = ids.iter().map(target).collect::<Result<Vec<_>, _>>()?;
    let rules = RuleSet::builder().builtin(true).annotations(true).build();
    let policy = policy(timeout);
    let (conditions, limits) = cluster::policy(&policy)?;
    let mut request = cluster::look(targets, None, rules, EvaluationArgs::default());
    request.conditions = conditions;
    request.limits = limits;
    request.evidence = EvidenceOptions { events: true, log_lines: 0 };
    let show = ShowArgs { reports: Vec::new(), plain: false, quiet: false };
    let output = Output::new(WaitOutput::Text, &show, &policy, &ClusterArgs::default())?;
    request.causes = output.causes();
    let tracker = tokio::select! {
        tracker = cluster::start(opened.cluster(), request) => tracker?,
        () = signals.interrupted() => return Ok(Settled::No(ExitCode::from(signals.exit_code()))),
    };
    match wait::to_end(tracker, output, signals).await? {
        Over::Ended(ended, end) => {
            end.write(&ended)?;
            Ok(match ended.report.outcome {
                Outcome::Settled => Settled::Yes,
                _ => Settled::No(wait::exit_code(&ended, signals)),
            })
        }
        Over::Abandoned(code) => Ok(Settled::No(code)),
    }
}

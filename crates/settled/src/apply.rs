//! `settled apply`: server-side apply of manifests, and with `--wait` a wait for them.

mod report;
mod watched;

use std::process::ExitCode;

use settled_tracker::apply::{ApplyError, ApplyOptions, ApplyReport, ApplySetError};
use settled_tracker::request::EvidenceOptions;
use settled_tracker::{Cluster, Limits, Outcome, WaitCondition, apply};

use self::watched::Finished;

pub(crate) use self::report::Reporter;
pub(crate) use self::watched::Watched;
use crate::arguments;
use crate::cli::args::DryRun;
use crate::cli::live::ApplyArgs;
use crate::cluster;
use crate::error::CommandError;
use crate::patience::Patience;
use crate::requests::Warnings;
use crate::session;
use crate::stderr;
use crate::style::Palette;
use crate::text::plural;
use crate::wait::{self, Output};

pub(crate) fn run(args: &ApplyArgs) -> Result<ExitCode, CommandError> {
    check(args)?;
    let dry_run = args.dry_run == DryRun::Server;
    if let [_, _, ..] = &*cluster::namespaces(args.namespace.as_deref())? {
        return Err(CommandError::usage("apply accepts only one namespace"));
    }
    let (conditions, limits) = cluster::policy(&args.policy)?;
    let rules = arguments::rule_set(&args.rules)?;
    let objects = cluster::objects(&args.files, args.kustomize.as_deref())?;
    let output = Output::new(args.output, &args.show, &args.policy, &args.cluster)?;
    let options = ApplyOptions {
        field_manager: args.field_manager.clone(),
        force: args.force_conflicts,
        dry_run,
        namespace: args.namespace.clone(),
        apply_set: args.applyset.clone(),
        versions: args.diff,
    };
    let patience = Patience::with_timeout(Some(args.policy.timeout));
    let warnings = if args.show.quiet { Warnings::Ignored } else { Warnings::Printed };
    session::interruptible(async |signals| {
        let cluster = cluster::connect(&args.cluster, patience, warnings).await?;
        let mut reporter = Reporter::new(args.output, args.show.quiet).dry_run(dry_run);
        let applied = tokio::select! {
            applied = apply(&cluster, objects, &options, |event| reporter.event(&event)) => applied,
            () = patience.exhausted() => {
                let error = format!("not all objects were applied within {}", patience.limit());
                return Err(CommandError::cluster(error).hint("--timeout allows more time"));
            }
            () = signals.interrupted() => return Ok(ExitCode::from(signals.exit_code())),
        };
        let report = applied.map_err(|error| failed(&error))?;
        reporter.finish()?;
        if let Some(code) = refused(&report, args.wait) {
            return Ok(code);
        }
        if !args.wait {
            return Ok(ExitCode::SUCCESS);
        }
        if !report.pruned.is_empty() {
            if !args.show.quiet {
                let objects = plural(report.pruned.len() as u64, "pruned object");
                stderr::print_line(&format!("waiting for the deletion of {objects}"));
            }
            let stuck = tokio::select! {
                stuck = deleted(&cluster, &report, &limits) => stuck?,
                () = signals.interrupted() => return Ok(ExitCode::from(signals.exit_code())),
            };
            if let Some(stuck) = stuck {
                return wait::follow(stuck, output, signals).await;
            }
        }
        let ApplyReport { targets, states, .. } = report;
        let mut request = cluster::look(targets, args.namespace.as_deref(), rules, args.evaluation);
        request.conditions = conditions;
        request.limits = limits;
        request.evidence = EvidenceOptions { events: true, log_lines: args.evidence.log_lines() };
        request.live_logs = args.evidence.live_logs();
        request.causes = output.causes();
        let tracker = tokio::select! {
            tracker = cluster::start(cluster.clone(), request) => tracker?,
            () = signals.interrupted() => return Ok(ExitCode::from(signals.exit_code())),
        };
        wait::follow(Watched::new(tracker, cluster, states), output, signals).await
    })
}

fn check(args: &ApplyArgs) -> Result<(), CommandError> {
    match args.dry_run {
        DryRun::Client => {
            Err(CommandError::usage("--dry-run=client is not supported with server-side apply").hint(
                "--dry-run=server validates on the server without storing anything; settled status -f FILE evaluates files without a cluster",
            ))
        }
        DryRun::Server if args.wait => {
            Err(CommandError::usage("cannot combine --dry-run with --wait"))
        }
        DryRun::Server | DryRun::None => Ok(()),
    }
}

fn failed(error: &ApplyError) -> CommandError {
    match error {
        ApplyError::Request(error) => cluster::unreachable(error),
        ApplyError::ApplySet(ApplySetError::Request { parent, source }) => {
            let named = CommandError::cluster(format!("ApplySet {parent}: {source}"));
            match source.code() {
                Some(403) => {
                    named.hint("grant get and patch on its parent, and list and delete on its members")
                }
                Some(404) => {
                    named.hint("its namespace does not exist: create it first, or choose another one with -n")
                }
                _ => named,
            }
        }
        ApplyError::ApplySet(ApplySetError::Refused { parent, message, remedy }) => {
            let refused = CommandError::refused(format!("ApplySet {parent}: {message}"));
            match remedy {
                Some(remedy) => refused.hint(remedy.clone()),
                None => refused,
            }
        }
    }
}

/// The exit code if not everything was applied.
fn refused(report: &ApplyReport, wait: bool) -> Option<ExitCode> {
    if report.refused == 0 {
        return None;
    }
    let all = plural((report.refused + report.targets.len()) as u64, "object");
    stderr::print_line(&format!(
        "{} {} of {all} not applied{}",
        Palette::stderr().error("error:"),
        report.refused,
        if wait { "; not waiting" } else { "" }
    ));
    Some(ExitCode::from(if report.unreachable > 0 { 4 } else { 1 }))
}

/// Waits until what was pruned is gone; how that ended if it is not.
async fn deleted(
    cluster: &Cluster,
    report: &ApplyReport,
    limits: &Limits,
) -> Result<Option<Finished>, CommandError> {
    let mut request = settled_tracker::Request::new(report.pruned.clone());
    request.conditions = vec![WaitCondition::Delete];
    request.limits = limits.clone();
    let mut tracker = cluster::start(cluster.clone(), request).await?;
    let report = session::seen_once(&mut tracker).await;
    Ok((report.outcome != Outcome::Settled).then(|| Finished::new(report, tracker.snapshot(0))))
}

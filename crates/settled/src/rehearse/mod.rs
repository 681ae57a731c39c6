//! `settled rehearse`: a deployment on an API server in this process, with simulated controllers and virtual time.

mod refusal;
mod report;
mod sources;
mod stage;

use std::process::ExitCode;

use settled_rehearsal::findings::{Check, Finding, Hook, Manifest, Phase, Severity, find};
use settled_rehearsal::{Availability, Environment, Options, Speed, prepare, runtime};
use settled_tracker::{Cluster, Outcome, State};

use self::report::Row;
use self::sources::Source;
use self::stage::Stage;
use crate::cause::Cause;
use crate::cli::rehearse::RehearseArgs;
use crate::error::CommandError;
use crate::progress::{Ended, Signals};
use crate::session;
use crate::time;
use crate::wait::{self, Output, Over};

pub(crate) fn run(args: &RehearseArgs) -> Result<ExitCode, CommandError> {
    let before = match args.from.is_empty() {
        true => Vec::new(),
        false => sources::read(&args.from, None, &args.namespace)?,
    };
    let sources = sources::read(&args.files, args.kustomize.as_deref(), &args.namespace)?;
    let output =
        Output::of_rehearsal(args.output.into(), &args.show, &args.policy, args.speed != Speed::Max)?;
    let runtime =
        runtime(args.speed).map_err(|error| CommandError::input_error("cannot start the runtime", error))?;
    let code = runtime.block_on(rehearse(args, &before, &sources, output));
    // Nothing that still waits keeps the process.
    std::mem::forget(runtime);
    code
}

async fn rehearse(
    args: &RehearseArgs,
    before: &[Source],
    sources: &[Source],
    output: Output,
) -> Result<ExitCode, CommandError> {
    let mut signals =
        Signals::of_process().map_err(|error| CommandError::input_error("cannot receive signals", error))?;
    let interrupted = |signals: &Signals| Ok(ExitCode::from(signals.exit_code()));
    let mut options = Options::default();
    options.seed = args.seed;
    options.speed = args.speed;
    let environment = Environment::start(options)
        .await
        .map_err(|error| CommandError::input_error("cannot start the rehearsal", error))?;
    let clock = environment.clock().clone();
    time::follow(move || clock.now());
    let clock = environment.clock().clone();
    let cluster = Cluster::with_clock(environment.client(), move || clock.now());

    let mut findings = Vec::new();
    prepare(&environment, &cluster, args, before, sources, &mut findings).await?;
    let mut stage = Stage::new(args, cluster.clone())?;
    if !before.is_empty() {
        let Some(staged) = stage.quietly(before.iter().collect(), &mut signals).await? else {
            return interrupted(&signals);
        };
        if let Some(reason) = staged.not_done() {
            let message = format!("the version before is not done: {reason}");
            findings.push(Finding::new(Severity::Warning, Check::Unfinished, None, "", message));
        }
    }
    let availability = Availability::watch(environment.client(), environment.clock().clone()).await;
    let availability = availability
        .map_err(|error| CommandError::input_error("cannot read the rehearsal's server", error))?;
    let hooks: Vec<Hook> =
        sources.iter().map(|source| Hook::of(&source.manifest.object, !before.is_empty())).collect();
    for weight in weights(&hooks, Phase::Before) {
        let Some(staged) = stage.quietly(of(sources, &hooks, Phase::Before, weight), &mut signals).await?
        else {
            return interrupted(&signals);
        };
        findings.extend(staged.refused(sources));
        if let Some(reason) = staged.not_done() {
            let message = format!("a hook is not done, so that nothing after it would be applied: {reason}");
            findings.push(Finding::new(Severity::Error, Check::HookOrder, staged.open(sources), "", message));
        }
    }
    let main = (0..sources.len()).filter(|index| hooks[*index].phase == Phase::Main);
    let main: Vec<&Source> = main.map(|index| &sources[index]).collect();
    let Some(staged) = stage.apply(main, true, &mut signals).await? else { return interrupted(&signals) };
    findings.extend(staged.refused(sources));
    let tracker = stage.follow(staged, output.causes()).await?;
    let over = tokio::select! {
        over = wait::to_end(tracker, output, &mut signals) => over?,
        () = environment.is_stuck() => return Err(stuck(&environment)),
    };
    let (ended, end) = match over {
        Over::Ended(ended, end) => (ended, end),
        Over::Abandoned(code) => return Ok(code),
    };
    for weight in weights(&hooks, Phase::After) {
        let Some(staged) = stage.quietly(of(sources, &hooks, Phase::After, weight), &mut signals).await?
        else {
            return interrupted(&signals);
        };
        findings.extend(staged.refused(sources));
        if let Some(reason) = staged.not_done() {
            let message = format!("a hook is not done: {reason}");
            findings.push(Finding::new(
                Severity::Error,
                Check::Unfinished,
                staged.open(sources),
                "",
                message,
            ));
        }
    }
    findings.extend(unfinished(&ended, sources));
    findings.extend(lost_availability(&availability, sources));
    if ended.report.outcome != Outcome::Settled
        && let Some(found) = environment.loops()
    {
        let message = format!(
            "{} was {} of the last 2,000 writes: a controller does not come to rest",
            found.object, found.writes
        );
        findings.push(Finding::new(Severity::Error, Check::Loop, None, "", message));
    }
    let manifests: Vec<Manifest> = sources.iter().map(|source| source.manifest.clone()).collect();
    let found = find(&environment.client(), &manifests).await;
    findings.extend(
        found.map_err(|error| CommandError::input_error("cannot read the rehearsal's server", error))?,
    );
    if args.strict {
        for finding in findings.iter_mut().filter(|finding| finding.severity == Severity::Warning) {
            finding.severity = Severity::Error;
        }
    }
    findings.sort();
    findings.dedup();
    let rows: Vec<Row> = findings.into_iter().map(|finding| Row::new(finding, sources)).collect();
    end.write(&ended)?;
    let outcome = session::exit_code(ended.report.outcome);
    let code = if outcome == 0 && rows.iter().any(Row::is_error) { 1 } else { outcome };
    report::write(args.output, args.show.quiet, &ended, &rows, code)?;
    Ok(match code {
        session::INTERRUPTED => ExitCode::from(signals.exit_code()),
        code => ExitCode::from(code),
    })
}

/// The weights of a phase, lowest first.
fn weights(hooks: &[Hook], phase: Phase) -> Vec<i64> {
    let mut weights: Vec<i64> =
        hooks.iter().filter(|hook| hook.phase == phase).map(|hook| hook.weight).collect();
    weights.sort_unstable();
    weights.dedup();
    weights
}

/// The sources of a phase with a weight.
fn of<'s>(sources: &'s [Source], hooks: &[Hook], phase: Phase, weight: i64) -> Vec<&'s Source> {
    let of_stage = sources.iter().zip(hooks).filter(|(_, hook)| **hook == Hook { phase, weight });
    of_stage.map(|(source, _)| source).collect()
}

/// Creates what manifests take for granted, and says so.
async fn prepare(
    environment: &Environment,
    cluster: &Cluster,
    args: &RehearseArgs,
    before: &[Source],
    sources: &[Source],
    findings: &mut Vec<Finding>,
) -> Result<(), CommandError> {
    let manifests = |sources: &[Source]| -> Vec<Manifest> {
        sources.iter().map(|source| source.manifest.clone()).collect()
    };
    let (before, manifests) = (manifests(before), manifests(sources));
    let served = cluster
        .resources()
        .await
        .map_err(|error| CommandError::input_error("cannot read the rehearsal's server", error))?;
    let is_served = |group: &str, kind: &str| served.of_kind(group, None, kind).is_some();
    let mut namespaces = prepare::missing_namespaces(&manifests);
    findings.extend(namespaces.iter().map(|(name, index)| prepare::namespace_finding(name, *index)));
    for (name, index) in prepare::missing_namespaces(&before) {
        namespaces.entry(name).or_insert(index);
    }
    let mut kinds = prepare::opaque_kinds(&manifests, is_served);
    findings.extend(kinds.iter().map(|kind| kind.finding(args.strict)));
    for kind in prepare::opaque_kinds(&before, is_served) {
        if !kinds.iter().any(|known| (&known.group, &known.kind) == (&kind.group, &kind.kind)) {
            kinds.push(kind);
        }
    }
    let created = prepare::create(&environment.client(), namespaces.keys().map(|name| &**name), &kinds).await;
    created.map_err(|error| CommandError::input_error("cannot prepare the rehearsal", error))
}

/// The error of a rehearsal whose time stands still.
fn stuck(environment: &Environment) -> CommandError {
    let error = CommandError::refused("virtual time stands still: a controller writes without an end");
    match environment.loops() {
        Some(found) => {
            error.detail(format!("{} was {} of the last 2,000 writes", found.object, found.writes))
        }
        None => error,
    }
}

/// A finding for each Service that had endpoints before, and none for a while.
fn lost_availability(availability: &Availability, sources: &[Source]) -> Vec<Finding> {
    let lost = availability
        .lowest()
        .into_iter()
        .filter(|(_, lowest)| lowest.before > 0 && lowest.lowest < lowest.before);
    lost.map(|((namespace, name), lowest)| {
        let index = sources.iter().position(|source| {
            let manifest = &source.manifest;
            (&*manifest.kind, &manifest.namespace, &manifest.name) == ("Service", &namespace, &name)
        });
        let (severity, what) = match lowest.lowest {
            0 => (Severity::Error, "no ready endpoints".to_owned()),
            few => (Severity::Note, format!("only {few} ready endpoints")),
        };
        let message = format!(
            "Service {namespace}/{name} has {what} during the rollout (at {}), of {} before",
            lowest.since, lowest.before
        );
        Finding::new(severity, Check::LostAvailability, index, "", message)
    })
    .collect()
}

/// A finding for each object that is not done, with its place.
fn unfinished(ended: &Ended, sources: &[Source]) -> Vec<Finding> {
    let open =
        ended.report.targets.iter().filter(|target| matches!(target.state, State::Failed | State::Waiting));
    open.map(|target| {
        let cause = Cause::of(target);
        let index = stage::index_of(sources, &target.object);
        let message = format!("{}: {}", cause.reason, cause.message);
        let check = match &*cause.reason {
            _ if message.contains("exceeded quota") => Check::ExceededQuota,
            "Unschedulable" => Check::Unschedulable,
            _ => Check::Unfinished,
        };
        Finding::new(Severity::Error, check, index, "", message)
    })
    .collect()
}

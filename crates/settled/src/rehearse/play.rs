//! Flow of a rehearsal: preparation, the version before, hooks, the manifests, and the report.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use settled_rehearsal::findings::{Check, Finding, Hook, Manifest, Phase, Severity, find, hook_order};
use settled_rehearsal::{Availability, Environment, NodeSpec, Options, Runtime, Scenario, Speed, prepare};
use settled_tracker::report::Counts;
use settled_tracker::{Cluster, Outcome, Report, Target, WaitCondition};

use super::cast::Cast;
use super::customs;
use super::ending::{endless, lost_availability, stuck, stuck_finding, unfinished};
use super::network;
use super::report::{self, Row};
use super::sources::Source;
use super::stage::Stage;
use crate::arguments;
use crate::cli::rehearse::RehearsalOptions;
use crate::error::CommandError;
use crate::progress::{Ended, Signals};
use crate::session;
use crate::style::Palette;
use crate::time;
use crate::wait::{self, Output, Over, ReportTo};

/// How long a deletion is waited for.
const DELETION: Duration = Duration::from_secs(5 * 60);

/// What is played.
pub(super) struct Play<'a> {
    pub(super) options: &'a RehearsalOptions,
    pub(super) namespace: &'a str,
    pub(super) speed: Speed,
    /// What happens other than success.
    pub(super) scenario: Scenario,
    /// What is known before it is played.
    pub(super) notes: Vec<Finding>,
    /// The Nodes of the cluster of `--against`.
    pub(super) nodes: Option<Vec<NodeSpec>>,
    /// How much of that cluster could not be read.
    pub(super) unread: usize,
    /// The version before; empty if there is none.
    pub(super) before: Vec<Source>,
    pub(super) sources: Vec<Source>,
    /// What is deleted once everything is done, and waited for then: the path of the request, and the target.
    pub(super) deletes: Option<(&'static str, Target)>,
}

impl Play<'_> {
    /// Plays it.
    pub(super) fn run(&self) -> Result<ExitCode, CommandError> {
        let options = self.options;
        let recording =
            options.record.as_deref().map(|path| Cast::create(path, "settled rehearse")).transpose()?;
        let output = Output::of_rehearsal(
            options.output.into(),
            &options.show,
            &options.policy,
            self.speed != Speed::Max,
            recording.clone(),
        )?;
        let runtime = Runtime::new(self.speed)
            .map_err(|error| CommandError::input_error("cannot start the runtime", error))?;
        let code = runtime.block_on(self.rehearse(output, recording));
        // Nothing that still waits keeps the process.
        std::mem::forget(runtime);
        code
    }

    async fn rehearse(&self, output: Output, recording: Option<Cast>) -> Result<ExitCode, CommandError> {
        let mut signals = Signals::of_process()
            .map_err(|error| CommandError::input_error("cannot receive signals", error))?;
        let mut options = Options::default();
        options.seed = self.options.seed;
        options.speed = self.speed;
        options.scenario = self.scenario.clone();
        options.customs = customs::of_pack(arguments::rule_set(&self.options.rules)?);
        if let Some(nodes) = self.options.nodes.as_ref().map(|nodes| &nodes.0).or(self.nodes.as_ref()) {
            options.nodes.clone_from(nodes);
        }
        let environment = Environment::start(options)
            .await
            .map_err(|error| CommandError::input_error("cannot start the rehearsal", error))?;
        let clock = environment.clock().clone();
        time::follow(move || clock.now());
        let clock = environment.clock().clone();
        let cluster = Cluster::with_clock(environment.client(), move || clock.now());
        let files = output.file_handles();
        let played = tokio::select! {
            played = self.play(&environment, &cluster, output, recording, &mut signals) => played?,
            () = environment.is_stuck() => {
                self.report_stuck(&environment, files)?;
                return Err(stuck(&environment));
            }
        };
        Ok(match played {
            Some(session::INTERRUPTED) | None => ExitCode::from(signals.exit_code()),
            Some(code) => ExitCode::from(code),
        })
    }

    /// None if the user does not want to wait for it.
    async fn play(
        &self,
        environment: &Environment,
        cluster: &Cluster,
        output: Output,
        recording: Option<Cast>,
        signals: &mut Signals,
    ) -> Result<Option<u8>, CommandError> {
        let sources = &*self.sources;
        let (mut findings, opaque) = self.prepare(environment, cluster).await?;
        findings.extend(self.notes.iter().cloned());
        // Before anything is played: the provider may be unknown.
        if let Some(provider) = &self.options.provider {
            findings.extend(network::check(provider, sources)?);
        }
        let mut stage = Stage::new(self.options, self.namespace, cluster.clone())?;
        stage.opaque = opaque;
        if !self.before.is_empty() {
            let Some(staged) = stage.quietly(self.before.iter().collect(), signals).await? else {
                return Ok(None);
            };
            if let Some(reason) = staged.not_done() {
                let message = format!("the version before is not done: {reason}");
                findings.push(Finding::new(Severity::Warning, Check::Unfinished, None, "", message));
            }
        }
        let availability = Availability::watch(environment.client(), environment.clock().clone())
            .await
            .map_err(|error| CommandError::input_error("cannot read the rehearsal's server", error))?;
        let hooks: Vec<Hook> = sources
            .iter()
            .map(|source| Hook::of(&source.manifest.object(), !self.before.is_empty()))
            .collect();
        if self.deletes.is_none() {
            let manifests: Vec<Manifest> = sources.iter().map(|source| source.manifest.clone()).collect();
            findings.extend(hook_order(&manifests, &hooks, |referred| {
                self.before.iter().any(|before| {
                    let Manifest { kind, namespace, name, .. } = &before.manifest;
                    (kind.as_str(), namespace, name) == (referred.kind, &referred.namespace, &referred.name)
                })
            }));
        }
        for weight in weights(&hooks, Phase::Before) {
            let hooks = of(sources, &hooks, Phase::Before, weight);
            let Some(staged) = stage.quietly(hooks, signals).await? else { return Ok(None) };
            findings.extend(staged.refused(sources, self.options.kubernetes));
            if let Some(reason) = staged.not_done() {
                let message =
                    format!("a hook is not done, so that nothing after it would be applied: {reason}");
                let hook = staged.open(sources);
                findings.push(Finding::new(Severity::Error, Check::HookOrder, hook, "", message));
            }
        }
        let main: Vec<&Source> = sources
            .iter()
            .zip(&hooks)
            .filter(|(_, hook)| hook.phase == Phase::Main)
            .map(|(source, _)| source)
            .collect();
        let tracker = match &self.deletes {
            None => {
                let Some(staged) = stage.apply(main, true, signals).await? else { return Ok(None) };
                findings.extend(staged.refused(sources, self.options.kubernetes));
                if staged.is_empty() {
                    return self.nothing_to_wait_for(findings, output.into_files()).map(Some);
                }
                stage.follow(staged, output.causes()).await?
            }
            Some((path, target)) => {
                let Some(staged) = stage.quietly(main, signals).await? else { return Ok(None) };
                findings.extend(staged.refused(sources, self.options.kubernetes));
                environment
                    .delete(path)
                    .await
                    .map_err(|error| CommandError::input_error(format!("cannot delete {path}"), error))?;
                stage.conditions = vec![WaitCondition::Delete];
                stage.limits.timeout = stage.limits.timeout.map(|timeout| timeout.min(DELETION));
                stage.follow_targets(vec![target.clone()], output.causes()).await?
            }
        };
        let (mut ended, mut end) = match wait::to_end(tracker, output, signals).await? {
            Over::Ended(ended, end) => (ended, end),
            Over::Abandoned(_) => return Ok(None),
        };
        // There is no cluster to run commands on.
        let causes = ended.report.targets.iter_mut().flat_map(|target| &mut target.causes);
        causes.for_each(|cause| cause.next.clear());
        for weight in weights(&hooks, Phase::After) {
            let hooks = of(sources, &hooks, Phase::After, weight);
            let Some(staged) = stage.quietly(hooks, signals).await? else { return Ok(None) };
            findings.extend(staged.refused(sources, self.options.kubernetes));
            if let Some(reason) = staged.not_done() {
                let (hook, message) = (staged.open(sources), format!("a hook is not done: {reason}"));
                findings.push(Finding::new(Severity::Error, Check::Unfinished, hook, "", message));
            }
        }
        findings.extend(unfinished(&ended, sources));
        findings.extend(lost_availability(&availability, sources));
        findings.extend(endless(environment, &ended));
        findings.extend(
            environment
                .unmatched()
                .into_iter()
                .map(|entry| Finding::new(Severity::Warning, Check::Scenario, None, "", entry.to_string())),
        );
        // Findings need the server only, and list all of its objects.
        environment.stop();
        if self.deletes.is_none() {
            let manifests: Vec<Manifest> = sources.iter().map(|source| source.manifest.clone()).collect();
            let found = find(&environment.client(), &manifests).await;
            findings.extend(
                found.map_err(|error| {
                    CommandError::input_error("cannot read the rehearsal's server", error)
                })?,
            );
        }
        let rows = self.rows(findings);
        report::write_files(end.take_files(), &ended, &rows, self.unread)?;
        end.write(&ended)?;
        if let Some(mut recording) = recording {
            let explanation = wait::explanation(&ended.ending(), Palette::ALWAYS, None);
            let lines = report::lines(&rows, Palette::ALWAYS);
            let written =
                write!(recording, "\n{}\n{lines}", explanation.trim_end()).and_then(|()| recording.flush());
            written.map_err(|error| CommandError::output("cannot write the recording", error))?;
        }
        let code = match session::exit_code(ended.report.outcome) {
            0 | 3 if rows.iter().any(Row::fails) => 1,
            code => code,
        };
        report::write(self.options.output, self.options.show.quiet, &ended, &rows, (code, self.unread))?;
        Ok(Some(code))
    }

    /// Nothing was applied.
    fn nothing_to_wait_for(&self, findings: Vec<Finding>, files: Vec<ReportTo>) -> Result<u8, CommandError> {
        let rows = self.rows(findings);
        let code = u8::from(rows.iter().any(Row::fails));
        let ended = without_targets(if code == 0 { Outcome::Settled } else { Outcome::Failed });
        report::write_files(files, &ended, &rows, self.unread)?;
        report::write(self.options.output, self.options.show.quiet, &ended, &rows, (code, self.unread))?;
        Ok(code)
    }

    /// The report of a rehearsal that comes to no end; people read the error.
    fn report_stuck(&self, environment: &Environment, files: Vec<ReportTo>) -> Result<(), CommandError> {
        let rows = self.rows(vec![stuck_finding(environment)]);
        let ended = without_targets(Outcome::Failed);
        report::write_files(files, &ended, &rows, self.unread)?;
        report::write_document(self.options.output, &ended, &rows, (1, self.unread))
    }

    /// Findings in order, with their places.
    fn rows(&self, mut findings: Vec<Finding>) -> Vec<Row> {
        if self.options.strict {
            for finding in findings.iter_mut().filter(|finding| finding.severity == Severity::Warning) {
                finding.severity = Severity::Error;
            }
        }
        findings.sort();
        findings.dedup();
        findings.into_iter().map(|finding| Row::new(finding, &self.sources)).collect()
    }

    /// Creates what manifests take for granted, and says so.
    async fn prepare(
        &self,
        environment: &Environment,
        cluster: &Cluster,
    ) -> Result<(Vec<Finding>, BTreeSet<(String, String)>), CommandError> {
        let mut findings = Vec::new();
        let manifests = |sources: &[Source]| -> Vec<Manifest> {
            sources.iter().map(|source| source.manifest.clone()).collect()
        };
        let (before, manifests) = (manifests(&self.before), manifests(&self.sources));
        if let Some(minor) = self.options.kubernetes {
            findings.extend(prepare::removed_apis(&manifests, minor));
        }
        let served = cluster
            .resources()
            .await
            .map_err(|error| CommandError::input_error("cannot read the rehearsal's server", error))?;
        let is_served = |group: &str, kind: &str| served.of_kind(group, None, kind).is_some();
        let mut namespaces = prepare::missing_namespaces(&manifests);
        namespaces.retain(|name, _| !before.iter().any(|of| of.kind == "Namespace" && of.name == *name));
        findings.extend(namespaces.iter().map(|(name, index)| prepare::namespace_finding(name, *index)));
        for (name, index) in prepare::missing_namespaces(&before) {
            namespaces.entry(name).or_insert(index);
        }
        let mut kinds = prepare::opaque_kinds(&manifests, is_served);
        findings.extend(kinds.iter().map(|kind| kind.finding(self.options.strict)));
        for kind in prepare::opaque_kinds(&before, is_served) {
            if !kinds.iter().any(|known| (&known.group, &known.kind) == (&kind.group, &kind.kind)) {
                kinds.push(kind);
            }
        }
        let created =
            prepare::create(&environment.client(), namespaces.keys().map(|name| &**name), &kinds).await;
        created.map_err(|error| CommandError::input_error("cannot prepare the rehearsal", error))?;
        // Nobody plays the controllers of other kinds than those that the server begins with.
        let mut opaque: BTreeMap<(String, String), usize> = BTreeMap::new();
        for (index, manifest) in manifests.iter().chain(&before).enumerate() {
            let Manifest { api_version, kind, namespace, name, .. } = manifest;
            let is_played = || customs::is_played(api_version, kind, namespace, name, &self.scenario);
            let is_unanswered = prepare::is_not_called(manifest.group(), kind)
                || !is_served(manifest.group(), kind) && !is_played();
            if is_unanswered {
                opaque.entry((manifest.group().to_owned(), manifest.kind.clone())).or_insert(index);
            }
        }
        let is_defined = |key: &(String, String)| {
            !prepare::is_not_called(&key.0, &key.1)
                && !kinds.iter().any(|known| (&known.group, &known.kind) == (&key.0, &key.1))
        };
        findings.extend(
            opaque.iter().filter(|(key, index)| is_defined(key) && **index < manifests.len()).map(
                |((_, kind), index)| {
                    let message =
                        format!("nobody plays the controller of {kind}: its objects are not waited for");
                    Finding::new(Severity::Note, Check::Opaque, Some(*index), "kind", message)
                },
            ),
        );
        Ok((findings, opaque.into_keys().collect()))
    }
}

/// The end of a rehearsal in which nothing was waited for.
fn without_targets(outcome: Outcome) -> Ended {
    let report = Report {
        outcome,
        elapsed: Duration::ZERO,
        counts: Counts::default(),
        targets: Vec::new(),
        unmatched: Vec::new(),
        notices: Vec::new(),
        changed_by_others: Vec::new(),
    };
    Ended { report, times: HashMap::new() }
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

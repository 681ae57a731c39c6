//! Stages of a rehearsal: manifests that are applied together, and awaited before the next ones.

use std::collections::BTreeSet;

use kstatus::FailureClass;
use settled_rehearsal::findings::Finding;
use settled_rehearsal::invalid;
use settled_tracker::apply::{ApplyEvent, ApplyOptions, ApplyReport};
use settled_tracker::request::{Causes, EvidenceOptions, KindName};
use settled_tracker::{Cluster, Limits, ObjectId, Outcome, Request, Target, WaitCondition, apply};

use super::refusal;
use super::sources::Source;
use crate::apply::{Reporter, Watched};
use crate::arguments;
use crate::cause::Cause;
use crate::cli::rehearse::RehearsalOptions;
use crate::cluster;
use crate::error::CommandError;
use crate::progress::Signals;
use crate::session;

/// What all stages share.
pub(super) struct Stage<'a> {
    options: &'a RehearsalOptions,
    namespace: &'a str,
    cluster: Cluster,
    pub(super) conditions: Vec<WaitCondition>,
    pub(super) limits: Limits,
    /// Groups and kinds that nobody plays: their objects are not waited for.
    pub(super) opaque: BTreeSet<(String, String)>,
}

/// An object that the server refused, its message, and what would help.
type Refused = (ObjectId, String, Option<String>);

/// Manifests that were applied.
#[derive(Default)]
pub(super) struct Staged {
    report: ApplyReport,
    refused: Vec<Refused>,
    /// Why it is not done, and which object.
    open: Option<(String, Option<ObjectId>)>,
}

impl Staged {
    /// Is there nothing to wait for?
    pub(super) fn is_empty(&self) -> bool {
        self.report.targets.is_empty()
    }

    /// Why the stage is not done, once it was awaited.
    pub(super) fn not_done(&self) -> Option<&str> {
        self.open.as_ref().map(|(reason, _)| &**reason)
    }

    /// The manifest that is not done.
    pub(super) fn open(&self, sources: &[Source]) -> Option<usize> {
        index_of(sources, self.open.as_ref()?.1.as_ref()?)
    }

    /// Findings for what was refused.
    pub(super) fn refused(&self, sources: &[Source], kubernetes: Option<u32>) -> Vec<Finding> {
        let findings = self.refused.iter().flat_map(|(object, message, remedy)| {
            let index = index_of(sources, object);
            let source = index.and_then(|index| sources.get(index));
            refusal::findings(index, source, message, remedy.as_deref(), kubernetes)
        });
        findings.collect()
    }
}

/// The manifest of an object.
pub(super) fn index_of(sources: &[Source], object: &ObjectId) -> Option<usize> {
    sources.iter().position(|source| is_of(source, object))
}

fn is_of(source: &Source, object: &ObjectId) -> bool {
    let manifest = &source.manifest;
    let same = *object.kind == *manifest.kind && *object.name == *manifest.name;
    same && *object.group == *manifest.group()
        && (object.namespace.is_empty() || *object.namespace == *manifest.namespace)
}

impl<'a> Stage<'a> {
    pub(super) fn new(
        options: &'a RehearsalOptions,
        namespace: &'a str,
        cluster: Cluster,
    ) -> Result<Self, CommandError> {
        let (conditions, limits) = cluster::policy(&options.policy)?;
        Ok(Self { options, namespace, cluster, conditions, limits, opaque: BTreeSet::new() })
    }

    /// Applies manifests. None if the user does not want to wait for it.
    pub(super) async fn apply(
        &mut self,
        sources: Vec<&Source>,
        is_shown: bool,
        signals: &mut Signals,
    ) -> Result<Option<Staged>, CommandError> {
        let objects = sources.iter().map(|source| source.json()).collect();
        let options = ApplyOptions { namespace: Some(self.namespace.to_owned()), ..ApplyOptions::default() };
        let mut reporter = Reporter::new(self.options.output.into(), self.options.show.quiet || !is_shown);
        let mut staged = Staged::default();
        let each = |event: ApplyEvent| match event {
            // It becomes a finding.
            ApplyEvent::Refused { object, message, remedy, .. } => {
                staged.refused.push((object, message, remedy))
            }
            event => reporter.event(&event),
        };
        let applied = tokio::select! {
            applied = apply(&self.cluster, objects, &options, each) => applied,
            () = signals.interrupted() => return Ok(None),
        };
        let further = self.refused_further(&sources, &staged.refused).await;
        staged.refused.extend(further);
        staged.report =
            applied.map_err(|error| CommandError::input_error("cannot apply the objects", error))?;
        reporter.finish()?;
        staged.report.targets.retain(|target| match target {
            Target::Object { kind: KindName::Exact { group, kind, .. }, .. } => {
                !self.opaque.contains(&(group.clone(), kind.clone()))
            }
            _ => true,
        });
        Ok(Some(staged))
    }

    /// What else is wrong with the objects that were refused for fields which their kinds do not have.
    async fn refused_further(&self, sources: &[&Source], refused: &[Refused]) -> Vec<Refused> {
        let mut further = Vec::new();
        for (object, ..) in refused.iter().filter(|(_, message, _)| refusal::is_of_unknown_fields(message)) {
            let Some(source) = sources.iter().find(|source| is_of(source, object)) else { continue };
            let manifest = &source.manifest;
            let version = manifest.api_version.rsplit('/').next();
            let Ok(resources) = self.cluster.resources().await else { continue };
            let Some(resource) = resources.of_kind(&object.group, version, &object.kind) else { continue };
            let namespace = resource.namespaced.then_some(&*manifest.namespace);
            let path = resource.path(namespace, None);
            let message = invalid(&self.cluster.client(), &path, manifest.json()).await;
            further.extend(message.map(|message| (object.clone(), message, None)));
        }
        further
    }

    fn request(&self, targets: Vec<Target>, causes: Causes) -> Result<Request, CommandError> {
        let rules = arguments::rule_set(&self.options.rules)?;
        let mut request = cluster::look(targets, Some(self.namespace), rules, self.options.evaluation);
        request.conditions.clone_from(&self.conditions);
        request.limits = self.limits.clone();
        request.evidence = EvidenceOptions { events: true, log_lines: self.options.evidence.log_lines() };
        request.live_logs = self.options.evidence.live_logs();
        request.causes = causes;
        request.started = Some(tokio::time::Instant::now());
        Ok(request)
    }

    /// Starts to wait for what was applied.
    pub(super) async fn follow(&self, mut staged: Staged, causes: Causes) -> Result<Watched, CommandError> {
        let request = self.request(std::mem::take(&mut staged.report.targets), causes)?;
        let tracker = cluster::start(self.cluster.clone(), request).await?;
        Ok(Watched::new(tracker, self.cluster.clone(), staged.report.states))
    }

    /// Starts to wait for other targets.
    pub(super) async fn follow_targets(
        &self,
        targets: Vec<Target>,
        causes: Causes,
    ) -> Result<Watched, CommandError> {
        let tracker = cluster::start(self.cluster.clone(), self.request(targets, causes)?).await?;
        Ok(Watched::new(tracker, self.cluster.clone(), Vec::new()))
    }

    /// Applies manifests and waits for them, without a picture.
    pub(super) async fn quietly(
        &mut self,
        sources: Vec<&Source>,
        signals: &mut Signals,
    ) -> Result<Option<Staged>, CommandError> {
        let Some(mut staged) = self.apply(sources, false, signals).await? else { return Ok(None) };
        if staged.is_empty() {
            return Ok(Some(staged));
        }
        let mut request = self.request(std::mem::take(&mut staged.report.targets), Causes::Grouped)?;
        request.limits.fail_fast = FailureClass::ALL.to_vec();
        let mut tracker = cluster::start(self.cluster.clone(), request).await?;
        let report = tokio::select! {
            report = session::seen_once(&mut tracker) => report,
            () = signals.interrupted() => return Ok(None),
        };
        if report.outcome != Outcome::Settled {
            let open: BTreeSet<_> = report
                .targets
                .iter()
                .filter(|target| crate::render::explain::is_open(target))
                .map(|target| (Cause::of(target).urgency, target.object.clone()))
                .collect();
            let first = open.first().map(|(_, object)| object.clone());
            let cause = report.targets.iter().find(|target| Some(&target.object) == first.as_ref());
            let reason = cause.map_or_else(
                || format!("{:?}", report.outcome),
                |target| {
                    let cause = Cause::of(target);
                    format!(
                        "{}/{}: {}: {}",
                        target.object.kind, target.object.name, cause.reason, cause.message
                    )
                },
            );
            staged.open = Some((reason, first));
        }
        Ok(Some(staged))
    }
}

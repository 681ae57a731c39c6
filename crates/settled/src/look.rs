//! `settled why`, `settled tree`, `settled events`: the present state of objects in a cluster.

use std::collections::HashSet;
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::Duration;

use jiff::Timestamp;
use kstatus::Status;
use settled_tracker::connection::events_of;
use settled_tracker::report::{Branch, EventNote};
use settled_tracker::request::{EvidenceOptions, KindName, Selection};
use settled_tracker::{Cluster, ObjectId, Outcome, Request, RequestError, Target, TargetReport, Tracker};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::arguments;
use crate::cli::args::{EvaluationArgs, TargetArgs, TextOrJson};
use crate::cli::live::{EventsArgs, TreeArgs, WhyArgs};
use crate::cluster;
use crate::error::CommandError;
use crate::names::Names;
use crate::output;
use crate::overview::Overview;
use crate::progress::{self, Signal, Signals};
use crate::render::explain::{self, Explain};
use crate::render::json_line as json;
use crate::render::timeline::Timeline;
use crate::render::tree::Tree;
use crate::session::{self, INTERRUPTED, unread};
use crate::stderr;
use crate::style::Palette;
use crate::targets::BareType;
use crate::watch::{self, Changes, View};

/// Of so many objects events are asked for.
const MAX_OBJECTS: usize = 200;
/// Maximum number of concurrent requests.
const MAX_CONCURRENT: usize = 16;
/// How often events are asked for while they are watched; less often, the more objects there are.
const EVENTS_EVERY: Duration = Duration::from_secs(2);

/// The terminal's width on standard output, if it is one.
fn width() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(io::stdout()).filter(|_| io::stdout().is_terminal())?;
    Some(usize::from(width.0).max(20))
}

pub(crate) fn why(args: &WhyArgs) -> Result<ExitCode, CommandError> {
    let targets = cluster::targets_or_overview(&args.targets)?;
    let namespace = args.targets.namespace.as_deref();
    let evaluation = evaluation(args.evaluation, &targets);
    let mut request = cluster::look(targets, namespace, arguments::rule_set(&args.rules)?, evaluation);
    request.evidence = EvidenceOptions { events: true, log_lines: args.evidence.log_lines() };
    if args.watch {
        let mut view = WhyView { output: args.output, changes: None };
        return watch::run(&args.targets, request, args.output == TextOrJson::Text, &mut view);
    }
    let report = session::run(async {
        let mut tracker = cluster::follow(&args.targets, request).await?;
        let report = session::seen_once(&mut tracker).await;
        let overview = overview_of(&tracker, &args.targets).await;
        Ok((report, overview))
    })?;
    let Some((mut report, overview)) = report else { return Ok(ExitCode::from(INTERRUPTED)) };
    cluster::warn(&report.notices);
    if let Some(overview) = &overview {
        overview.check(report.counts.total as u64)?;
        report.targets.retain(explain::is_open);
    }
    if args.output == TextOrJson::Json {
        output::print(&json(&report))?;
    } else {
        let names = Names::of(report.targets.iter().map(|target| &target.object));
        let explain =
            Explain { palette: Palette::stdout(), width: width(), names: &names, now: Timestamp::now() };
        output::print(explain.all(&report.targets).as_bytes())?;
    }
    if let Some(overview) = &overview {
        if report.outcome == Outcome::Settled {
            overview.done(report.counts.total as u64);
        }
        overview.hints();
    }
    Ok(ExitCode::from(session::exit_code(report.outcome)))
}

/// How verdicts are found: kinds without a status are no news in an overview.
fn evaluation(args: EvaluationArgs, targets: &[Target]) -> EvaluationArgs {
    let of_overview =
        |target: &Target| matches!(target, Target::Select(Selection { kind: KindName::Overview, .. }));
    EvaluationArgs { assume_current: args.assume_current || targets.iter().any(of_overview), ..args }
}

async fn overview_of(tracker: &Tracker, args: &TargetArgs) -> Option<Overview> {
    Overview::of(tracker, args.namespace.as_deref(), args.select.all_namespaces).await
}

/// Whether a tree is in the overview.
fn is_open(branch: &Branch) -> bool {
    branch.verdict.blocking && branch.verdict.status != Status::Current
}

pub(crate) fn tree(args: &TreeArgs) -> Result<ExitCode, CommandError> {
    let targets = cluster::targets_or_overview(&args.targets)?;
    let namespace = args.targets.namespace.as_deref();
    let evaluation = evaluation(args.evaluation, &targets);
    let mut request = cluster::look(targets, namespace, arguments::rule_set(&args.rules)?, evaluation);
    // Nothing ends it: the tree of what is done is of interest, too.
    watch::endless(&mut request);
    if args.watch {
        let mut view = TreeView { full: args.full, output: args.output, last: Vec::new() };
        return watch::run(&args.targets, request, args.output == TextOrJson::Text, &mut view);
    }
    let seen = session::run(async {
        let mut tracker = cluster::follow(&args.targets, request).await?;
        tracker.survey().await;
        let overview = overview_of(&tracker, &args.targets).await;
        Ok((tracker.branches(args.full), tracker.notices().to_vec(), unread(&tracker), overview))
    })?;
    let Some((mut branches, notices, unread, overview)) = seen else {
        return Ok(ExitCode::from(INTERRUPTED));
    };
    cluster::warn(&notices);
    let total = branches.len() as u64;
    if let Some(overview) = &overview {
        if unread.is_none() {
            overview.check(total)?;
        }
        branches.retain(is_open);
    }
    if args.output == TextOrJson::Json {
        output::print(&json(&branches))?;
    } else {
        output::print(drawn(&branches, width()).as_bytes())?;
    }
    if let Some(overview) = &overview {
        if branches.is_empty() && unread.is_none() {
            overview.done(total);
        }
        overview.hints();
    }
    Ok(ExitCode::from(unread.unwrap_or_else(|| exit_code(&branches))))
}

fn drawn(branches: &[Branch], width: Option<usize>) -> String {
    if branches.is_empty() {
        return String::new();
    }
    let names = Names::of(branches.iter().map(|branch| &branch.object));
    Tree { palette: Palette::stdout(), width, names: &names, now: Timestamp::now() }.text(branches)
}

/// Exit code for the roots of trees.
fn exit_code(branches: &[Branch]) -> u8 {
    let has = |wanted: &dyn Fn(Status) -> bool| {
        branches.iter().any(|branch| branch.verdict.blocking && wanted(branch.verdict.status))
    };
    if has(&|status| status == Status::Failed) {
        1
    } else if has(&|status| status != Status::Current) {
        3
    } else {
        0
    }
}

/// Trees that are watched.
struct TreeView {
    full: bool,
    output: TextOrJson,
    /// Ages change all the time: in a log they are no news.
    last: Vec<u8>,
}

impl TreeView {
    fn branches(&self, tracker: &Tracker) -> Vec<Branch> {
        let mut branches = tracker.branches(self.full);
        if tracker.overview().is_some() {
            branches.retain(is_open);
        }
        branches
    }
}

impl View for TreeView {
    fn picture(&mut self, tracker: &Tracker, width: usize) -> String {
        or_done(drawn(&self.branches(tracker), Some(width)))
    }

    fn changes(&mut self, tracker: &Tracker) -> Vec<u8> {
        let branches = self.branches(tracker);
        let news = json(&branches);
        if news == self.last {
            return Vec::new();
        }
        let text = match self.output {
            TextOrJson::Json => news.clone(),
            TextOrJson::Text => format!("{}\n", or_done(drawn(&branches, None))).into_bytes(),
        };
        self.last = news;
        text
    }
}

/// Explanations that are watched.
struct WhyView {
    output: TextOrJson,
    changes: Option<Changes>,
}

impl WhyView {
    fn text(targets: &[TargetReport], width: Option<usize>) -> String {
        let names = Names::of(targets.iter().map(|target| &target.object));
        Explain { palette: Palette::stdout(), width, names: &names, now: Timestamp::now() }.all(targets)
    }
}

impl View for WhyView {
    fn picture(&mut self, tracker: &Tracker, width: usize) -> String {
        let mut targets = tracker.snapshot(usize::MAX).targets;
        if tracker.overview().is_some() {
            targets.retain(explain::is_open);
        }
        or_done(Self::text(&targets, Some(width)))
    }

    fn changes(&mut self, tracker: &Tracker) -> Vec<u8> {
        let is_first = self.changes.is_none();
        let changes = self.changes.get_or_insert_default();
        let mut changed = changes.of(tracker.snapshot(usize::MAX).targets);
        if is_first && tracker.overview().is_some() {
            changed.retain(explain::is_open);
        }
        match self.output {
            _ if changed.is_empty() => Vec::new(),
            TextOrJson::Json => changed.iter().flat_map(json).collect(),
            TextOrJson::Text => format!("{}\n", Self::text(&changed, None)).into_bytes(),
        }
    }
}

/// An overview without anything in it.
fn or_done(text: String) -> String {
    if text.is_empty() { "everything is done\n".to_owned() } else { text }
}

/// Events that are watched: the new ones below the others, on terminals as well.
async fn watch_events(
    args: &EventsArgs,
    request: Request,
    signals: &mut Signals,
) -> Result<ExitCode, CommandError> {
    let mut seen: HashSet<(ObjectId, String, String, Option<Timestamp>, u64)> = HashSet::new();
    let following = async {
        let mut tracker = cluster::follow(&args.targets, request).await?;
        tracker.survey().await;
        Ok(tracker)
    };
    let mut tracker = tokio::select! {
        tracker = following => tracker?,
        () = signals.interrupted() => return Ok(ExitCode::from(signals.exit_code())),
    };
    cluster::warn(tracker.notices());
    if let Some(code) = unread(&tracker) {
        return Ok(ExitCode::from(code));
    }
    loop {
        let mut objects = Vec::new();
        tracker.branches(true).iter().for_each(|branch| collect(branch, &mut objects));
        objects.truncate(MAX_OBJECTS);
        let pause =
            EVENTS_EVERY + Duration::from_millis(100) * u32::try_from(objects.len()).unwrap_or_default();
        let found = tokio::select! {
            found = gather(tracker.cluster(), objects) => found,
            () = signals.interrupted() => return Ok(ExitCode::from(signals.exit_code())),
        };
        // A cluster that does not answer now is asked again.
        let mut events = found.unwrap_or_default();
        events.retain(|event| {
            let EventNote { object, reason, message, last, count, .. } = event;
            let is_new = seen.insert((object.clone(), reason.clone(), message.clone(), *last, *count));
            is_new && (!args.warnings || event.type_ != "Normal")
        });
        if args.output == TextOrJson::Json {
            let lines: Vec<u8> = events.iter().flat_map(json).collect();
            output::print(&lines)?;
        } else if !events.is_empty() {
            output::print(timeline(&events).as_bytes())?;
        }
        let until = Instant::now() + pause;
        while Instant::now() < until {
            match watch::step(&mut tracker, signals, until).await {
                Some(Signal::Interrupt | Signal::Hangup) => return Ok(ExitCode::from(signals.exit_code())),
                Some(Signal::Stop) => progress::stop(),
                Some(Signal::Resize) | None => {}
            }
        }
    }
}

fn timeline(events: &[EventNote]) -> String {
    let names = Names::of(events.iter().map(|event| &event.object));
    Timeline { palette: Palette::stdout(), width: width(), names: &names, now: Timestamp::now() }.text(events)
}

pub(crate) fn events(args: &EventsArgs) -> Result<ExitCode, CommandError> {
    let targets = cluster::targets(&args.targets, BareType::All)?;
    let namespace = args.targets.namespace.as_deref();
    let mut request =
        cluster::look(targets, namespace, settled_rules::RuleSet::default(), EvaluationArgs::default());
    watch::endless(&mut request);
    if args.watch {
        return session::interruptible(async |signals| watch_events(args, request, signals).await);
    }
    let found = session::run(async {
        let mut tracker = cluster::follow(&args.targets, request).await?;
        tracker.survey().await;
        let mut objects = Vec::new();
        tracker.branches(true).iter().for_each(|branch| collect(branch, &mut objects));
        let missing = objects.len().saturating_sub(MAX_OBJECTS);
        objects.truncate(MAX_OBJECTS);
        // Of a cluster that did not answer, no more is asked.
        let objects = if tracker.outcome().is_some() { Vec::new() } else { objects };
        let events = gather(tracker.cluster(), objects)
            .await
            .map_err(|error| cluster::unreachable_at(tracker.cluster(), &error))?;
        Ok((events, missing, tracker.notices().to_vec(), unread(&tracker)))
    })?;
    let Some((mut events, missing, notices, unread)) = found else { return Ok(ExitCode::from(INTERRUPTED)) };
    cluster::warn(&notices);
    if missing > 0 {
        let label = Palette::stderr().warning("warning:");
        stderr::print_line(&format!("{label} events of {missing} more objects were not requested"));
    }
    if args.warnings {
        events.retain(|event| event.type_ != "Normal");
    }
    if args.output == TextOrJson::Json {
        output::print(&json(&events))?;
    } else if events.is_empty() {
        if unread.is_none() {
            stderr::print_line("no events");
        }
    } else {
        let names = Names::of(events.iter().map(|event| &event.object));
        let timeline =
            Timeline { palette: Palette::stdout(), width: width(), names: &names, now: Timestamp::now() };
        output::print(timeline.text(&events).as_bytes())?;
    }
    Ok(ExitCode::from(unread.unwrap_or_default()))
}

fn collect(branch: &Branch, objects: &mut Vec<ObjectId>) {
    objects.push(branch.object.clone());
    branch.children.iter().for_each(|child| collect(child, objects));
}

/// The events of all of them, in the order of time.
async fn gather(cluster: &Cluster, objects: Vec<ObjectId>) -> Result<Vec<EventNote>, RequestError> {
    let mut events = Vec::new();
    let mut objects = objects.into_iter();
    let mut asked = JoinSet::new();
    loop {
        while asked.len() < MAX_CONCURRENT {
            let Some(object) = objects.next() else { break };
            let cluster = cluster.clone();
            asked.spawn(async move { events_of(&cluster, &object, None).await });
        }
        match asked.join_next().await {
            None => break,
            Some(Ok(found)) => events.extend(found?),
            // It has panicked, or was given up: neither is for us to hide.
            Some(Err(error)) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    events.sort_by(|a, b| (a.last.or(a.first), &a.object).cmp(&(b.last.or(b.first), &b.object)));
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenes;

    #[test]
    fn roots_decide_the_exit_code() {
        let with = |status| scenes::branch("Deployment", "web", status, "", "");
        let mut optional = with(Status::Failed);
        std::sync::Arc::make_mut(&mut optional.verdict).blocking = false;
        assert_eq!(exit_code(&[with(Status::Current), optional]), 0);
        assert_eq!(exit_code(&[with(Status::Current), with(Status::NotFound)]), 3);
        assert_eq!(exit_code(&[with(Status::InProgress), with(Status::Failed)]), 1);
        let mut parent = with(Status::Current);
        parent.children = vec![with(Status::Failed)];
        assert_eq!(exit_code(&[parent]), 0);
    }
}

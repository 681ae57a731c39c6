//! `settled status TYPE/NAME`: the status of objects of a cluster.

use std::borrow::Cow;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use kstatus::{Profile, Status, Verdict};
use settled_tracker::connection::Resources;
use settled_tracker::report::Unmatched;
use settled_tracker::request::{Causes, KindName, Selection};
use settled_tracker::{Outcome, State, Target, TargetReport, Tracker};

use super::report::Report;
use super::rows::{Evaluator, Mark, Rows};
use super::writer::Writer;
use crate::arguments;
use crate::cli::args::{ClusterArgs, EvaluationArgs, TargetArgs};
use crate::cli::{StatusArgs, StatusOutput};
use crate::cluster;
use crate::error::CommandError;
use crate::filter::Filter;
use crate::output::{self, Stopped};
use crate::overview::{self, Overview};
use crate::pipeline::{InputId, Syntax};
use crate::render::{Form, Table};
use crate::row::Identity;
use crate::session;
use crate::style::Palette;
use crate::targets::BareType;
use crate::watch::{self, Changes, View};

/// How many rows of objects of a cluster are made before they are written.
const ROWS_AT_ONCE: usize = 500;

/// The status of objects of a cluster: as soon as all of them were seen once.
pub(super) fn run(
    args: &StatusArgs,
    evaluator: Evaluator,
    started: Instant,
) -> Result<ExitCode, CommandError> {
    if !args.input.files.is_empty() {
        return Err(CommandError::usage("cannot combine -f with objects of a cluster")
            .hint("to evaluate the objects of files in a cluster, use settled wait -f FILE --timeout 0"));
    }
    if evaluator.how.options.profile == Profile::Kstatus {
        return Err(CommandError::usage("--profile kstatus only applies to files")
            .hint("kubectl get TYPE -o yaml | settled status --profile kstatus -f -"));
    }
    if args.verdict.now.is_some() {
        return Err(CommandError::usage("--now only applies to files"));
    }
    let mut targets = cluster::named(&args.input.targets, &args.select, BareType::All)?;
    let is_overview = targets.is_empty() && args.select.releases.is_empty();
    if is_overview {
        targets.push(overview::target(&args.select));
    }
    // What is watched is limited to one namespace where only one is asked about.
    let (namespace, targets) = match &*args.filter.namespace {
        [] => (None, targets),
        [one] => (Some(one.clone()), targets),
        many => (None, cluster::in_each(&targets, many)),
    };
    let kinds: Vec<KindName> = targets.iter().map(kind_of).cloned().collect();
    let rules = arguments::rule_set(&args.verdict.rules)?;
    let how = EvaluationArgs {
        // Kinds that have no status are no news.
        assume_current: args.verdict.assume_current || is_overview,
        address_optional: args.verdict.address_optional,
    };
    let mut request = cluster::look(targets, namespace.as_deref(), rules, how);
    request.causes = Causes::None;
    let names = TargetArgs {
        namespace,
        select: args.select.clone(),
        cluster: args.cluster.clone(),
        ..TargetArgs::default()
    };
    if args.watch {
        let everything = evaluator.clone().with(Filter::new(&args.filter).in_any_namespace());
        let later = if is_overview { everything } else { evaluator.clone() };
        let source = source(&args.cluster);
        let mut view = StatusView { args, evaluator, later, source, changes: None };
        let in_place = matches!(args.output, StatusOutput::Table | StatusOutput::Wide) && !args.quiet;
        return watch::run(&names, request, in_place, &mut view);
    }
    let seen = session::run(async {
        let mut tracker = cluster::follow(&names, request).await?;
        let found = session::seen_once(&mut tracker).await;
        // It may be another version than that of the manifest: the one the server prefers.
        let namespaces = Some(args.filter.namespace.join(",")).filter(|list| !list.is_empty());
        let overview = Overview::of(&tracker, namespaces.as_deref(), names.select.all_namespaces).await;
        Ok((found, tracker.resources().clone(), overview))
    })?;
    let Some((found, resources, overview)) = seen else { return Ok(ExitCode::from(session::INTERRUPTED)) };
    let unmatched = Unmatched::sentences(&found.unmatched);
    let is_empty = found.counts.total == 0;
    let mut notices = found.notices;
    // The error says it.
    notices.retain(|notice| !is_empty || !unmatched.contains(&notice.message));
    cluster::warn(&notices);
    let source = source(&args.cluster);
    let mut report = Report::default();
    let mut writer = Writer::new(args, evaluator.form, evaluator.sort);
    let input =
        InputId { source: Arc::clone(&source), ordinal: 0, is_stream: true, first_syntax: Syntax::Json };
    let written = found.targets.chunks(ROWS_AT_ONCE).try_for_each(|targets| {
        let rows = rows_of(&evaluator, targets, &resources, &source);
        writer.rows(&input, &rows, &mut report)
    });
    let measure = writer.measure.clone();
    let written = written.and_then(|()| writer.finish());
    let shortened = matches!(written, Ok(true));
    Stopped::forgive(written.map(|_| ()))?;
    if let Some(overview) = &overview {
        overview.check(report.read)?;
    }
    let unread = matches!(found.outcome, Outcome::Unreachable | Outcome::Rejected);
    if report.nothing_to_judge() && !unread {
        let message = match unmatched.as_slice() {
            sentences if is_empty && !sentences.is_empty() => sentences.join("; "),
            _ => "no such objects found".to_owned(),
        };
        let error = CommandError::input(message);
        let namespaced =
            kinds.iter().any(|kind| kind.find(&resources).is_none_or(|resource| resource.namespaced));
        return Err(match namespaced && !args.select.all_namespaces {
            true => error.hint("set -n NAMESPACE or -A"),
            false => error,
        });
    }
    if !args.quiet && report.read > 0 {
        match &overview {
            Some(overview) if report.shown() == 0 && args.filter.status.is_empty() && !unread => {
                overview.done(report.hidden);
            }
            _ => report.summary(measure.only_namespace(), started),
        }
        report.hints(shortened);
        if let Some(overview) = &overview {
            overview.hints();
        }
    }
    Ok(ExitCode::from(if unread { session::exit_code(found.outcome) } else { report.exit_code() }))
}

/// Source of objects of a cluster.
fn source(args: &ClusterArgs) -> Arc<str> {
    args.context.as_deref().unwrap_or("cluster").into()
}

/// The rows of targets.
fn rows_of(evaluator: &Evaluator, targets: &[TargetReport], resources: &Resources, source: &str) -> Rows {
    let mut rows = Rows::default();
    for target in targets {
        let object = &target.object;
        let version = resources.of_kind(&object.group, None, &object.kind);
        let part =
            |text: &'_ str| Some(text.to_owned().into()).filter(|text: &Cow<'_, str>| !text.is_empty());
        let identity = Identity {
            api_version: version.map(|resource| resource.api_version().into()),
            kind: part(&object.kind),
            namespace: part(&object.namespace),
            name: part(&object.name),
            created: target.created.map(|created| created.to_string().into()),
        };
        evaluator.row(&identity, || with_note(target), source, &mut rows);
    }
    rows
}

/// Rows that are watched.
struct StatusView<'a> {
    args: &'a StatusArgs,
    evaluator: Evaluator,
    /// Changes are shown, including those to Current in an overview.
    later: Evaluator,
    source: Arc<str>,
    changes: Option<Changes>,
}

impl StatusView<'_> {
    /// Rows in their order, as the output has them.
    fn text(
        &self,
        evaluator: &Evaluator,
        targets: &[TargetReport],
        tracker: &Tracker,
        width: Option<usize>,
    ) -> Vec<u8> {
        let rows = rows_of(evaluator, targets, tracker.resources(), &self.source);
        let mut measure = rows.measure.clone();
        let (mut start, mut lines) = (0, Vec::new());
        for (number, mark) in rows.marks.iter().enumerate() {
            let Mark::Shown { key_end, end, .. } = *mark else { continue };
            let mut head = Vec::new();
            evaluator.form.head(&self.source, number as u64, &mut head);
            if evaluator.form == Form::Table {
                measure.head(&head);
            }
            lines.push((&rows.bytes[start..key_end], [&head, &rows.bytes[key_end..end]].concat()));
            start = end;
        }
        lines.sort_by(|one, other| one.0.cmp(other.0));
        let mut out = Vec::new();
        let mut table =
            Table::new(&measure, self.args.output == StatusOutput::Wide, width, Palette::stdout());
        for (_, line) in lines {
            // Writing to memory does not fail.
            match evaluator.form {
                Form::Nothing => {}
                Form::Table => table.row(&mut out, &line).unwrap_or_default(),
                Form::Yaml => out.extend(line),
                Form::Json => {
                    out.extend(line);
                    out.push(b'\n');
                }
            }
        }
        out
    }
}

impl View for StatusView<'_> {
    fn picture(&mut self, tracker: &Tracker, width: usize) -> String {
        let width = self.args.width.map_or(width, |asked| asked.clamp(1, width));
        let text = self.text(&self.evaluator, &tracker.snapshot(usize::MAX).targets, tracker, Some(width));
        match String::from_utf8_lossy(&text) {
            text if text.is_empty() => "everything is done\n".to_owned(),
            text => text.into_owned(),
        }
    }

    fn changes(&mut self, tracker: &Tracker) -> Vec<u8> {
        let is_first = self.changes.is_none();
        let changed = self.changes.get_or_insert_default().of(tracker.snapshot(usize::MAX).targets);
        let evaluator = if is_first { &self.evaluator } else { &self.later };
        self.text(evaluator, &changed, tracker, output::width(self.args.width))
    }
}

/// The verdict on a target, with what a reader should know of one that is done.
fn with_note(target: &TargetReport) -> Verdict {
    let mut verdict = (*target.verdict).clone();
    if let (State::Done, Some(note)) = (target.state, &target.note)
        && verdict.status == Status::Current
    {
        verdict.message = format!("{}; {note}", verdict.message).into();
    }
    verdict
}

fn kind_of(target: &Target) -> &KindName {
    match target {
        Target::Object { kind, .. } | Target::Select(Selection { kind, .. }) => kind,
    }
}

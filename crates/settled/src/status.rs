//! `settled status`: a verdict on every object of the input.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use kstatus::{Profile, Status, Verdict};
use settled_manifest::Batch;
use settled_tracker::{
    Causes, KindName, Outcome, Resources, Selection, State, Target, TargetReport, Tracker, Unmatched,
};

use crate::cli::live::{ClusterArgs, JudgeArgs, SelectArgs, TargetArgs};
use crate::cli::{Sort, StatusArgs, StatusOutput};
use crate::cluster;
use crate::command;
use crate::error::CommandError;
use crate::filter::Filter;
use crate::inputs::{self, Inputs};
use crate::output::{self, Stdout, Stopped};
use crate::overview::{self, Overview};
use crate::pipeline::{self, Event, InputId, Syntax, Work};
use crate::render::{Envelope, Form, Measure, Table};
use crate::row::{self, Identity, Reader, Verdicts};
use crate::sort::Sorter;
use crate::style::Palette;
use crate::targets::BareType;
use crate::text::{self, plural};
use crate::wait;
use crate::watch::{self, Changes, View};

/// How many rows of objects of a cluster are made before they are written.
const ROWS_AT_ONCE: usize = 500;

pub(crate) fn run(args: &StatusArgs) -> Result<ExitCode, CommandError> {
    let started = Instant::now();
    let form = match args.output {
        _ if args.quiet => Form::Nothing,
        StatusOutput::Table | StatusOutput::Wide => Form::Table,
        StatusOutput::Json | StatusOutput::Jsonl => Form::Json,
        StatusOutput::Yaml => Form::Yaml,
    };
    let sort = args.sort.unwrap_or(if form == Form::Table { Sort::Status } else { Sort::None });
    let mut judge = Judge {
        how: command::verdicts(&args.verdict)?,
        filter: Filter::new(&args.filter),
        form,
        sort,
        reader: Reader::default(),
    };
    if !args.input.targets.is_empty() || !args.select.releases.is_empty() {
        // What is asked of the cluster is limited to them already, and what has no namespace was named.
        judge.filter = Filter::new(&args.filter).in_any_namespace();
        return live(args, judge, started);
    }
    let names_files = !args.input.files.is_empty() || args.input.kustomize.is_some();
    let piped = || !args.select.all_namespaces && overview::input_is_piped();
    if !names_files && args.select.selects_nothing() && !piped() {
        judge.filter = Filter::new(&args.filter).in_any_namespace().not_current();
        return live(args, judge, started);
    }
    if args.watch {
        return Err(CommandError::usage("--watch is for objects of a cluster")
            .hint("to read the files again and again: watch settled status -f FILE"));
    }
    let SelectArgs { selector, field_selector, all, .. } = &args.select;
    if selector.is_some() || field_selector.is_some() || *all {
        return Err(CommandError::usage("selectors are for objects of a cluster")
            .hint("name their type: settled status pods -l app=web; of files, choose by --kind and --name"));
    }
    let inputs = Inputs::new(&args.input, "status")?;
    let mut report = Report::default();
    let mut writer = Writer::new(args, form, sort);
    let stopped = pipeline::run(inputs, command::settings(&args.input), &judge, |event| match event {
        Event::Output(input, rows) => writer.rows(input, rows, &mut report),
        Event::Unreadable(input, error) => {
            report.unreadable += 1;
            output::unreadable(&input.source, error);
            Ok(())
        }
        Event::End => {
            report.inputs += 1;
            Ok(())
        }
        Event::Idle => Ok(writer.out.flush()?),
    })?;
    let measure = writer.measure.clone();
    let finished = stopped.and_then(|()| writer.finish());
    let shortened = matches!(finished, Ok(true));
    Stopped::forgive(finished.map(|_| ()))?;
    if report.nothing_to_judge() {
        return Err(nothing_found(args, &report));
    }
    if !args.quiet && report.read > 0 {
        report.summary(measure.only_namespace(), started);
        report.hints(shortened);
    }
    Ok(ExitCode::from(report.exit_code()))
}

/// The status of objects of a cluster: as soon as all of them were seen once.
fn live(args: &StatusArgs, judge: Judge, started: Instant) -> Result<ExitCode, CommandError> {
    if !args.input.files.is_empty() {
        return Err(CommandError::usage("cannot combine -f with objects of a cluster")
            .hint("to look at the objects of files in a cluster: settled wait -f FILE --timeout 0"));
    }
    if judge.how.options.profile == Profile::Kstatus {
        return Err(CommandError::usage("--profile kstatus is for files only")
            .hint("kubectl get TYPE -o yaml | settled status --profile kstatus -f -"));
    }
    if args.verdict.now.is_some() {
        return Err(CommandError::usage("--now applies to files only"));
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
    let rules = command::rule_set(&args.verdict.rules)?;
    let how = JudgeArgs {
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
        let everything = judge.clone().with(Filter::new(&args.filter).in_any_namespace());
        let later = if is_overview { everything } else { judge.clone() };
        let source = source(&args.cluster);
        let mut view = StatusView { args, judge, later, source, changes: None };
        let in_place = matches!(args.output, StatusOutput::Table | StatusOutput::Wide) && !args.quiet;
        return watch::run(&names, request, in_place, &mut view);
    }
    let seen = cluster::run(async {
        let mut tracker = cluster::follow(&names, request).await?;
        let found = wait::look(&mut tracker).await;
        // It may be another version than that of the manifest: the one the server prefers.
        let namespaces = Some(args.filter.namespace.join(",")).filter(|list| !list.is_empty());
        let overview = Overview::of(&tracker, namespaces.as_deref(), names.select.all_namespaces).await;
        Ok((found, tracker.resources().clone(), overview))
    })?;
    let Some((found, resources, overview)) = seen else { return Ok(ExitCode::from(wait::INTERRUPTED)) };
    let unmatched = Unmatched::sentences(&found.unmatched);
    let is_empty = found.counts.total == 0;
    let mut notices = found.notices;
    // The error says it.
    notices.retain(|notice| !is_empty || !unmatched.contains(&notice.message));
    cluster::warn(&notices);
    let source = source(&args.cluster);
    let mut report = Report::default();
    let mut writer = Writer::new(args, judge.form, judge.sort);
    let input = InputId { source: Arc::clone(&source), ordinal: 0, first_syntax: Syntax::Json };
    let written = found.targets.chunks(ROWS_AT_ONCE).try_for_each(|targets| {
        let rows = rows_of(&judge, targets, &resources, &source);
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
            true => error.hint("-n NAMESPACE or -A says where to look"),
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
    Ok(ExitCode::from(if unread { wait::exit_code(found.outcome) } else { report.exit_code() }))
}

/// What objects of a cluster are said to come from.
fn source(args: &ClusterArgs) -> Arc<str> {
    args.context.as_deref().unwrap_or("cluster").into()
}

/// The rows of targets.
fn rows_of(judge: &Judge, targets: &[TargetReport], resources: &Resources, source: &str) -> Rows {
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
        judge.row(&identity, || with_note(target), source, &mut rows);
    }
    rows
}

/// Rows that are watched.
struct StatusView<'a> {
    args: &'a StatusArgs,
    judge: Judge,
    /// What shows changes: that something is done now is news, also in an overview.
    later: Judge,
    source: Arc<str>,
    changes: Option<Changes>,
}

impl StatusView<'_> {
    /// Rows in their order, as the output has them.
    fn text(
        &self,
        judge: &Judge,
        targets: &[TargetReport],
        tracker: &Tracker,
        width: Option<usize>,
    ) -> Vec<u8> {
        let rows = rows_of(judge, targets, tracker.resources(), &self.source);
        let mut measure = rows.measure.clone();
        let (mut start, mut lines) = (0, Vec::new());
        for (number, mark) in rows.marks.iter().enumerate() {
            let Mark::Shown { key_end, end, .. } = *mark else { continue };
            let mut head = Vec::new();
            judge.form.head(&self.source, number as u64, &mut head);
            if judge.form == Form::Table {
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
            match judge.form {
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
        let text = self.text(&self.judge, &tracker.snapshot(usize::MAX).targets, tracker, Some(width));
        match String::from_utf8_lossy(&text) {
            text if text.is_empty() => "everything is done\n".to_owned(),
            text => text.into_owned(),
        }
    }

    fn changes(&mut self, tracker: &Tracker) -> Vec<u8> {
        let is_first = self.changes.is_none();
        let changed = self.changes.get_or_insert_default().of(tracker.snapshot(usize::MAX).targets);
        let judge = if is_first { &self.judge } else { &self.later };
        self.text(judge, &changed, tracker, width(self.args.width))
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

/// Gives verdicts, on any thread.
#[derive(Debug)]
struct Judge {
    how: Verdicts,
    filter: Filter,
    form: Form,
    sort: Sort,
    reader: Reader,
}

impl Judge {
    fn with(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }
}

impl Clone for Judge {
    fn clone(&self) -> Self {
        let Self { how, filter, form, sort, reader: _ } = self;
        Self { how: how.clone(), filter: filter.clone(), form: *form, sort: *sort, reader: Reader::default() }
    }
}

/// The rows of one batch.
#[derive(Debug, Default)]
struct Rows {
    /// Keys and bodies, one after another.
    bytes: Vec<u8>,
    /// One per object, shown or not.
    marks: Vec<Mark>,
    measure: Measure,
}

#[derive(Clone, Copy, Debug)]
enum Mark {
    /// Not what the user asks about.
    Passed,
    /// Not in a status that the user asks about.
    Hidden,
    Shown {
        status: Status,
        silent: bool,
        /// Somebody waits for the object.
        blocking: bool,
        key_end: usize,
        end: usize,
    },
}

impl Work for Judge {
    type Output = Rows;

    fn size(rows: &Rows) -> usize {
        rows.bytes.capacity()
    }

    fn work(&mut self, input: &InputId, batch: &Batch, rows: &mut Rows) {
        rows.bytes.clear();
        rows.marks.clear();
        rows.measure.clear();
        let mut reader = std::mem::take(&mut self.reader);
        row::verdicts(&mut reader, batch, &self.how, |identity, verdict| {
            self.row(identity, verdict, &input.source, rows);
        });
        self.reader = reader;
    }
}

impl Judge {
    /// Adds an object, or why it isn't shown.
    fn row(&self, identity: &Identity<'_>, verdict: impl Fn() -> Verdict, source: &str, rows: &mut Rows) {
        let Rows { bytes, marks, measure } = rows;
        if !self.filter.selects(identity) {
            return marks.push(Mark::Passed);
        }
        let verdict = verdict();
        if !self.filter.shows(&verdict) {
            return marks.push(Mark::Hidden);
        }
        identity.push_key(self.sort, verdict.status, source, bytes);
        let key_end = bytes.len();
        self.form.push_body(identity, &verdict, self.how.options.now, measure, bytes);
        // For a hint only.
        let silent = verdict.reason == "NoSignal";
        let (status, blocking) = (verdict.status, verdict.blocking);
        marks.push(Mark::Shown { status, silent, blocking, key_end, end: bytes.len() });
    }
}

/// Writes rows, at once or at the end.
struct Writer {
    out: Stdout,
    form: Form,
    envelope: Envelope,
    /// Where rows wait that are to be sorted, or whose columns are to be measured.
    sorter: Option<Sorter>,
    measure: Measure,
    wide: bool,
    width: Option<usize>,
    head: Vec<u8>,
    /// The input that the last row came from, and how many objects it gave so far.
    input: Option<u64>,
    document: u64,
}

impl Writer {
    fn new(args: &StatusArgs, form: Form, sort: Sort) -> Self {
        let waits = form == Form::Table || (sort != Sort::None && form != Form::Nothing);
        Self {
            out: output::stdout(),
            form,
            envelope: match args.output {
                StatusOutput::Json => Envelope::ARRAY,
                StatusOutput::Jsonl => Envelope::LINES,
                StatusOutput::Yaml | StatusOutput::Table | StatusOutput::Wide => Envelope::DOCUMENTS,
            },
            sorter: waits.then(|| Sorter::new(args.sort_memory)),
            measure: Measure::default(),
            wide: args.output == StatusOutput::Wide,
            width: width(args.width),
            head: Vec::new(),
            input: None,
            document: 0,
        }
    }

    fn rows(&mut self, input: &InputId, rows: &Rows, report: &mut Report) -> Result<(), Stopped> {
        if self.input.replace(input.ordinal) != Some(input.ordinal) {
            self.document = 0;
        }
        self.measure.merge(&rows.measure);
        let mut start = 0;
        for mark in &rows.marks {
            let document = self.document;
            self.document += 1;
            report.read += 1;
            let (key_end, end) = match *mark {
                Mark::Passed => continue,
                Mark::Hidden => {
                    report.hidden += 1;
                    continue;
                }
                Mark::Shown { status, silent, blocking, key_end, end } => {
                    report.count(status, silent, blocking);
                    (key_end, end)
                }
            };
            let (key, body) = (&rows.bytes[start..key_end], &rows.bytes[key_end..end]);
            start = end;
            self.form.head(&input.source, document, &mut self.head);
            match &mut self.sorter {
                _ if self.form == Form::Nothing => {}
                None => self.envelope.row(&mut self.out, &[&self.head, body])?,
                Some(sorter) => {
                    if self.form == Form::Table {
                        self.measure.head(&self.head);
                    }
                    sorter.push(key, &[&self.head, body])?;
                }
            }
        }
        Ok(())
    }

    /// Writes what is left. Says whether some of it had to be shortened.
    fn finish(self) -> Result<bool, Stopped> {
        let Self { mut out, form, mut envelope, sorter, measure, wide, width, .. } = self;
        let mut shortened = false;
        match sorter {
            _ if form == Form::Nothing => {}
            Some(sorter) if form == Form::Table => {
                let mut table = Table::new(&measure, wide, width, Palette::stdout());
                sorter.finish(|row| table.row(&mut out, row).map_err(Stopped::from))?;
                shortened = table.shortened();
            }
            Some(sorter) => {
                sorter.finish(|row| envelope.row(&mut out, &[row]).map_err(Stopped::from))?;
                envelope.end(&mut out)?;
            }
            None => envelope.end(&mut out)?,
        }
        out.flush()?;
        Ok(shortened)
    }
}

/// The width of tables: as asked for, or the terminal's.
fn width(asked: Option<usize>) -> Option<usize> {
    const NARROWEST: usize = 20;
    let width = match asked {
        Some(width) => Some(width).filter(|width| *width > 0),
        None if io::stdout().is_terminal() => {
            Some(terminal_size::terminal_size_of(io::stdout()).map_or(80, |(width, _)| usize::from(width.0)))
        }
        None => None,
    };
    width.map(|width| width.max(NARROWEST))
}

/// What was found.
#[derive(Debug, Default)]
struct Report {
    counts: [u64; Status::ALL.len()],
    /// Of these, the ones that nobody waits for.
    non_blocking: [u64; Status::ALL.len()],
    /// Objects in the input, asked about or not.
    read: u64,
    /// Objects that are only not shown because of their status.
    hidden: u64,
    /// Some object says nothing about its state.
    silent: bool,
    inputs: u64,
    unreadable: u64,
}

impl Report {
    fn count(&mut self, status: Status, silent: bool, blocking: bool) {
        self.counts[status as usize] += 1;
        self.non_blocking[status as usize] += u64::from(!blocking);
        self.silent |= silent;
    }

    fn shown(&self) -> u64 {
        self.counts.iter().sum()
    }

    fn has(&self, status: Status) -> bool {
        self.counts[status as usize] > 0
    }

    /// How many objects in a status count for the exit code.
    fn waited_for(&self, status: Status) -> u64 {
        self.counts[status as usize] - self.non_blocking[status as usize]
    }

    /// Nothing was asked about that is there; to call that settled would hide a mistake. Unless something can't be
    /// read, which was said already.
    fn nothing_to_judge(&self) -> bool {
        self.shown() == 0 && self.hidden == 0 && self.unreadable == 0
    }

    fn exit_code(&self) -> u8 {
        if self.unreadable > 0 {
            2
        } else if self.waited_for(Status::Failed) > 0 {
            1
        } else if Status::ALL.iter().any(|status| *status != Status::Current && self.waited_for(*status) > 0)
        {
            3
        } else {
            0
        }
    }

    fn summary(&self, namespace: Option<&str>, started: Instant) {
        let palette = Palette::stderr();
        let mut line = plural(self.shown(), "object");
        if let Some(namespace) = namespace {
            let _ = write!(line, " in {namespace}");
        }
        let mut separator = ": ";
        for status in Status::ALL {
            if self.has(*status) {
                let count = format!("{} {status}", self.counts[*status as usize]);
                let _ = write!(line, "{separator}{}", palette.status(*status, &count));
                separator = ", ";
            }
        }
        let _ = match self.inputs {
            0 => write!(line, " ("),
            files => write!(line, " ({}, ", plural(files, "file")),
        };
        if self.read > self.shown() {
            let _ = write!(line, "{} not shown, ", self.read - self.shown());
        }
        let _ = write!(line, "{})", text::elapsed(started.elapsed()));
        output::diagnose(&line);
    }

    fn hints(&self, shortened: bool) {
        let label = Palette::stderr().hint("hint:");
        if self.silent {
            output::diagnose(&format!(
                "{label} --assume-current counts objects without a status (NoSignal) as Current"
            ));
        }
        let ignored: u64 = self.non_blocking.iter().sum();
        let waiting = ignored - self.non_blocking[Status::Current as usize];
        if waiting > 0 {
            output::diagnose(&format!(
                "{label} {} not counted for the exit code: annotations ask not to wait for them; --no-annotations counts them",
                plural(waiting, "object")
            ));
        }
        if shortened {
            output::diagnose(&format!("{label} some messages are cut short; -o yaml has them whole"));
        }
    }
}

fn nothing_found(args: &StatusArgs, report: &Report) -> CommandError {
    if report.read > 0 {
        let objects = plural(report.read, "object");
        return CommandError::input(format!(
            "none of {objects} is in the kinds, namespaces or names asked for"
        ))
        .hint("to see what there is, leave out --kind, --namespace and --name");
    }
    inputs::nothing_found(&args.input)
}

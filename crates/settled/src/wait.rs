//! `settled wait`: waits until objects of a cluster are done, and writes the result in all formats.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::mem::ManuallyDrop;
use std::path::Path;
use std::process::ExitCode;

use settled_tracker::report::Snapshot;
use settled_tracker::request::{Causes, EvidenceOptions};
use settled_tracker::{Event, Outcome, Report, State, Tracker, WaitCondition};

use crate::arguments;
use crate::cli::args::{ClusterArgs, PolicyArgs, ReportFile, ReportFormat, ShowArgs, WaitOutput};
use crate::cli::live::WaitArgs;
use crate::cluster;
use crate::error::CommandError;
use crate::live::terminal;
use crate::log;
use crate::names::kubectl_name;
use crate::output;
use crate::progress::{self, Abandoned, Ended, JsonLines, LiveView, PlainLines, Show, Signals, Source};
use crate::render::explain::Explain;
use crate::render::{Ending, github, json_line, junit};
use crate::requests;
use crate::session;
use crate::stderr;
use crate::style::Palette;
use crate::targets::BareType;

pub(crate) fn run(args: &WaitArgs) -> Result<ExitCode, CommandError> {
    let (conditions, limits) = cluster::policy(&args.policy)?;
    let targets = cluster::targets(&args.targets, BareType::Mistake)?;
    let namespace = args.targets.namespace.as_deref();
    let mut request = cluster::look(targets, namespace, arguments::rule_set(&args.rules)?, args.evaluation);
    request.conditions = conditions;
    request.limits = limits;
    request.evidence = EvidenceOptions { events: true, log_lines: args.evidence.log_lines() };
    request.live_logs = args.evidence.live_logs();
    let output = Output::new(args.output, &args.show, &args.policy, &args.targets.cluster)?;
    request.causes = output.causes();
    session::interruptible(async |signals| {
        let tracker = tokio::select! {
            tracker = cluster::follow(&args.targets, request) => tracker?,
            () = signals.interrupted() => return Ok(ExitCode::from(signals.exit_code())),
        };
        follow(tracker, output, signals).await
    })
}

/// Follows to the end, and says how it was.
pub(crate) async fn follow<S: Source>(
    source: S,
    output: Output,
    signals: &mut Signals,
) -> Result<ExitCode, CommandError> {
    match to_end(source, output, signals).await? {
        Over::Ended(ended, end) => {
            end.write(&ended)?;
            Ok(exit_code(&ended, signals))
        }
        Over::Abandoned(code) => Ok(code),
    }
}

/// How it is over.
pub(crate) enum Over {
    /// The wait has ended, and this writes how.
    Ended(Box<Ended>, Box<End>),
    /// Nobody wants to know any more.
    Abandoned(ExitCode),
}

/// Exit code of a wait that has ended.
pub(crate) fn exit_code(ended: &Ended, signals: &Signals) -> ExitCode {
    ExitCode::from(match ended.report.outcome {
        Outcome::Interrupted => signals.exit_code(),
        outcome => session::exit_code(outcome),
    })
}

/// Follows to the end.
pub(crate) async fn to_end<S: Source>(
    source: S,
    output: Output,
    signals: &mut Signals,
) -> Result<Over, CommandError> {
    let with_times = output.has_times();
    let (mut shows, end) = output.shows();
    // The process exits without freeing it, so that its caller does not wait for that.
    let mut source = ManuallyDrop::new(source);
    match progress::follow(&mut *source, &mut shows, signals, with_times).await {
        Ok(ended) => Ok(Over::Ended(Box::new(ended), Box::new(end))),
        Err(Abandoned::Impatient) => Ok(Over::Abandoned(ExitCode::from(signals.exit_code()))),
        Err(Abandoned::Unread(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(Over::Abandoned(ExitCode::from(session::INTERRUPTED)))
        }
        Err(Abandoned::Unread(error)) => Err(CommandError::output("cannot write the output", error)),
    }
}

impl Source for Tracker {
    async fn next(&mut self) -> Option<Event> {
        Self::next(self).await
    }

    fn snapshot(&self, limit: usize) -> Snapshot {
        Self::snapshot(self, limit)
    }

    fn interrupt(&mut self) {
        Self::interrupt(self);
    }
}

/// Where everything goes.
pub(crate) struct Output {
    format: WaitOutput,
    quiet: bool,
    plain: bool,
    /// Report files, opened before the wait so that it does not fail at its end because of a missing directory.
    files: Vec<ReportTo>,
    /// True if all conditions are kubectl's, so that its lines are printed.
    kubectl: bool,
    /// Somebody else writes the result: only the explanation is ours.
    only_explains: bool,
    /// Where the lines are recorded.
    #[cfg(feature = "rehearse")]
    recording: Option<crate::rehearse::cast::Cast>,
}

/// A file of `--report`: its format, path and handle.
pub(crate) type ReportTo = (ReportFormat, String, File);

/// Output at the end of the wait.
pub(crate) struct End {
    format: WaitOutput,
    quiet: bool,
    files: Vec<ReportTo>,
    kubectl: bool,
    only_explains: bool,
}

impl Output {
    pub(crate) fn new(
        format: WaitOutput,
        args: &ShowArgs,
        policy: &PolicyArgs,
        cluster: &ClusterArgs,
    ) -> Result<Self, CommandError> {
        let open = |report: &ReportFile| {
            let path: &Path = &report.path;
            let file = File::create(path)
                .map_err(|error| CommandError::output(format!("cannot write {}", path.display()), error))?;
            Ok((report.format, path.display().to_string(), file))
        };
        let known = |condition: &String| {
            let wanted = condition.parse::<WaitCondition>();
            matches!(
                wanted,
                Ok(WaitCondition::Create
                    | WaitCondition::Delete
                    | WaitCondition::Condition { .. }
                    | WaitCondition::JsonPath { .. })
            )
        };
        Ok(Self {
            format,
            quiet: args.quiet,
            // Lines about requests, and those of the log, would tear the live view.
            plain: args.plain || requests::are_logged(cluster) || log::is_started(),
            files: args.reports.iter().map(open).collect::<Result<_, CommandError>>()?,
            kubectl: !policy.conditions.is_empty() && policy.conditions.iter().all(known),
            only_explains: false,
            #[cfg(feature = "rehearse")]
            recording: None,
        })
    }

    /// That of a rehearsal: only in step with real time there is something to follow on a screen.
    #[cfg(feature = "rehearse")]
    pub(crate) fn of_rehearsal(
        format: WaitOutput,
        args: &ShowArgs,
        policy: &PolicyArgs,
        is_paced: bool,
        recording: Option<crate::rehearse::cast::Cast>,
    ) -> Result<Self, CommandError> {
        let mut output = Self::new(format, args, policy, &ClusterArgs::default())?;
        output.plain |= !is_paced;
        output.only_explains = true;
        output.recording = recording;
        Ok(output)
    }

    /// The files of `--report`, where there is no wait.
    #[cfg(feature = "rehearse")]
    pub(crate) fn into_files(self) -> Vec<ReportTo> {
        self.files
    }

    /// Text groups targets with the same cause; other formats report the causes of each.
    pub(crate) fn causes(&self) -> Causes {
        match self.format {
            WaitOutput::Text | WaitOutput::Name if self.files.is_empty() => Causes::Grouped,
            _ => Causes::All,
        }
    }

    /// Handles of the same files, for a wait that is given up.
    #[cfg(feature = "rehearse")]
    pub(crate) fn file_handles(&self) -> Vec<ReportTo> {
        let handle = |(format, path, file): &ReportTo| Some((*format, path.clone(), file.try_clone().ok()?));
        self.files.iter().filter_map(handle).collect()
    }

    /// Whether something that is written at the end has the times of targets.
    fn has_times(&self) -> bool {
        let has_times = |format| matches!(format, ReportFormat::Junit | ReportFormat::Github);
        matches!(self.format, WaitOutput::Junit | WaitOutput::Github)
            || self.files.iter().any(|(format, ..)| has_times(*format))
    }

    /// The display during the wait, and the output at its end.
    fn shows(self) -> (Vec<Box<dyn Show>>, End) {
        let Self { format, quiet, plain, files, kubectl, only_explains, .. } = self;
        let mut shows: Vec<Box<dyn Show>> = Vec::new();
        #[cfg(feature = "rehearse")]
        if let Some(recording) = self.recording {
            shows.push(Box::new(PlainLines::new(recording, Palette::ALWAYS).without_heartbeat()));
        }
        let lines = format == WaitOutput::Jsonl;
        if !quiet {
            let both_on_terminal = lines && io::stdout().is_terminal();
            if !plain && !both_on_terminal && terminal::can_show_live_view() {
                shows.push(Box::new(LiveView::new(io::stderr(), terminal::size, Palette::stderr()).quiet()));
            } else if !lines {
                let lines = PlainLines::new(io::stderr(), Palette::stderr());
                shows.push(Box::new(if only_explains { lines.without_heartbeat() } else { lines }));
            }
            if lines {
                shows.push(Box::new(JsonLines::new(output::stdout())));
            }
        }
        let mut rest = Vec::new();
        for (format, path, file) in files {
            match format {
                ReportFormat::Jsonl => {
                    // Of a rehearsal, findings follow at the end.
                    if only_explains && let Ok(same) = file.try_clone() {
                        rest.push((format, path, same));
                    }
                    shows.push(Box::new(JsonLines::new(BufWriter::new(file))));
                }
                ReportFormat::Junit | ReportFormat::Github | ReportFormat::Json => {
                    rest.push((format, path, file))
                }
            }
        }
        (shows, End { format, quiet, files: rest, kubectl, only_explains })
    }
}

impl End {
    /// The files of `--report`, for a report that has more than the wait.
    #[cfg(feature = "rehearse")]
    pub(crate) fn take_files(&mut self) -> Vec<ReportTo> {
        std::mem::take(&mut self.files)
    }

    pub(crate) fn write(self, ended: &Ended) -> Result<(), CommandError> {
        let report = &ended.report;
        let ending = ended.ending();
        for (format, path, mut file) in self.files {
            let text = match format {
                ReportFormat::Junit => junit::document(&ending).into_bytes(),
                ReportFormat::Github => github::summary(&ending).into_bytes(),
                ReportFormat::Json | ReportFormat::Jsonl => json_line(report),
            };
            file.write_all(&text)
                .map_err(|error| CommandError::output(format!("cannot write {path}"), error))?;
        }
        if self.quiet {
            return Ok(());
        }
        if !matches!(self.format, WaitOutput::Jsonl | WaitOutput::Github) {
            explain(&ending);
        }
        if self.only_explains {
            return Ok(());
        }
        match self.format {
            WaitOutput::Text if self.kubectl => {
                output::print(kubectl_lines(report, " condition met").as_bytes())
            }
            WaitOutput::Text | WaitOutput::Jsonl => Ok(()),
            WaitOutput::Name => output::print(kubectl_lines(report, "").as_bytes()),
            WaitOutput::Json => output::print_json(report),
            WaitOutput::Yaml => {
                let mut yaml = Vec::new();
                // Our own JSON is JSON.
                settled_manifest::write_yaml(&json_line(report), &mut yaml).ok();
                output::print(&yaml)
            }
            WaitOutput::Junit => output::print(junit::document(&ending).as_bytes()),
            WaitOutput::Github => {
                output::print(github::commands(&ending).as_bytes())?;
                output::append_step_summary(&github::summary(&ending))
            }
        }
    }
}

/// Why it isn't done, and how it ended, in text.
pub(crate) fn explanation(ending: &Ending<'_>, palette: Palette, width: Option<usize>) -> String {
    let explain = Explain { palette, width, names: &ending.names, now: ending.now };
    explain.report(ending.report)
}

/// Why it isn't done, and how it ended, on standard error.
fn explain(ending: &Ending<'_>) {
    let width = terminal::width().filter(|_| io::stderr().is_terminal());
    let text = explanation(ending, Palette::stderr(), width);
    if text.lines().count() > 1 {
        stderr::print_line("");
    }
    stderr::print_line(text.trim_end());
}

/// The objects that are done, each as kubectl names it.
fn kubectl_lines(report: &Report, tail: &str) -> String {
    let done = report.targets.iter().filter(|target| target.state == State::Done);
    done.map(|target| format!("{}{tail}\n", kubectl_name(&target.object))).collect()
}

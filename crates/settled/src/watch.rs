//! `-w`: redraws objects in place on a terminal, or prints changes.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::time::Duration;

use settled_tracker::{ObjectId, Request, TargetReport, Tracker};
use tokio::time::Instant;

use crate::cli::args::TargetArgs;
use crate::cluster;
use crate::error::CommandError;
use crate::live::echo::Quiet;
use crate::live::screen::Screen;
use crate::live::terminal;
use crate::log;
use crate::output;
use crate::progress::{self, Signal, Signals};
use crate::session;
use crate::style::Palette;

/// The least time between two pictures.
const PICTURE: Duration = Duration::from_millis(250);

/// Watched objects, as shown by a command.
pub(crate) trait View {
    /// The whole picture, for a terminal with so many columns.
    fn picture(&mut self, tracker: &Tracker, width: usize) -> String;

    /// Changes since the last call; initially all objects.
    fn changes(&mut self, tracker: &Tracker) -> Vec<u8>;
}

/// Nothing but the user ends a request that is watched.
pub(crate) fn endless(request: &mut Request) {
    request.limits.timeout = None;
}

/// Watches until a signal comes. `in_place`: on a terminal, pictures replace each other.
pub(crate) fn run(
    args: &TargetArgs,
    mut request: Request,
    in_place: bool,
    view: &mut dyn View,
) -> Result<ExitCode, CommandError> {
    endless(&mut request);
    session::interruptible(async |signals| watch(args, request, in_place, view, signals).await)
}

async fn watch(
    args: &TargetArgs,
    request: Request,
    in_place: bool,
    view: &mut dyn View,
    signals: &mut Signals,
) -> Result<ExitCode, CommandError> {
    let looking = async {
        let mut tracker = cluster::follow(args, request).await?;
        tracker.survey().await;
        Ok(tracker)
    };
    let mut tracker = tokio::select! {
        tracker = looking => tracker?,
        () = signals.interrupted() => return Ok(ExitCode::from(signals.exit_code())),
    };
    cluster::warn(tracker.notices());
    if tracker.outcome().is_some() {
        return Ok(ExitCode::from(session::unread(&tracker).unwrap_or_default()));
    }
    let mut screen = terminal::size()
        .filter(|_| terminal::CAN_MOVE_CURSOR && io::stdout().is_terminal() && in_place && !is_torn_by_log())
        .map(|size| Screen::new(io::stdout(), size, Palette::stdout().is_enabled()));
    let mut quiet = screen.is_some().then(Quiet::stdout);
    loop {
        match &mut screen {
            Some(screen) => draw(screen, |width| view.picture(&tracker, width))?,
            None => {
                let news = view.changes(&tracker);
                if !news.is_empty() {
                    output::print(&news)?;
                }
            }
        }
        match step(&mut tracker, signals, Instant::now() + PICTURE).await {
            Some(Signal::Interrupt | Signal::Hangup) => {
                // The last output stays on the screen.
                if let Some(screen) = &mut screen {
                    let rows = rows(&view.picture(&tracker, width()), u16::MAX);
                    let closed = screen.close(&rows);
                    closed.map_err(|error| CommandError::output("cannot write the output", error))?;
                }
                return Ok(ExitCode::from(signals.exit_code()));
            }
            Some(Signal::Stop) => {
                if let Some(screen) = &mut screen {
                    screen.close(&[]).ok();
                }
                if let Some(quiet) = &mut quiet {
                    quiet.undo();
                }
                progress::stop();
                if let Some(quiet) = &mut quiet {
                    quiet.again();
                }
            }
            Some(Signal::Resize) | None => {}
        }
    }
}

/// Whether the lines of a log would come between the rows of a picture.
fn is_torn_by_log() -> bool {
    log::is_started() && io::stderr().is_terminal()
}

/// Follows until there is something new to show, and for a while beyond; or until a signal comes.
pub(crate) async fn step(
    tracker: &mut Tracker,
    signals: &mut Signals,
    not_before: Instant,
) -> Option<Signal> {
    // On a terminal ages move on.
    let at_last = not_before + Duration::from_secs(1);
    let mut news = false;
    loop {
        let until = if news { not_before } else { at_last };
        tokio::select! {
            Some(_) = tracker.next() => news = true,
            signal = signals.next() => return Some(signal),
            () = tokio::time::sleep_until(until) => return None,
        }
    }
}

/// The columns of the terminal that pictures take: the last one stays free.
fn width() -> usize {
    terminal::size().map_or(80, |size| usize::from(size.columns)).saturating_sub(1).max(20)
}

fn draw(screen: &mut Screen<io::Stdout>, picture: impl FnOnce(usize) -> String) -> Result<(), CommandError> {
    let Some(size) = terminal::size() else { return Ok(()) };
    let rows = rows(&picture(width()), size.rows);
    screen.draw_rows(&[], rows, size).map_err(|error| CommandError::output("cannot write the output", error))
}

/// The rows of a picture that fit.
fn rows(picture: &str, height: u16) -> Vec<String> {
    let mut rows: Vec<String> = picture.lines().map(str::to_owned).collect();
    let most = usize::from(height).saturating_sub(1).max(2);
    if rows.len() > most {
        let more = rows.len() - most + 1;
        rows.truncate(most - 1);
        rows.push(format!("… and {more} more"));
    }
    rows
}

/// Which targets changed since the last time.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    hasher: RandomState,
    last: HashMap<ObjectId, u64>,
}

impl Changes {
    /// The targets whose status, reason, message or note is another one than before.
    pub(crate) fn of(&mut self, targets: Vec<TargetReport>) -> Vec<TargetReport> {
        let mut last = HashMap::with_capacity(targets.len());
        let changed = targets.into_iter().filter(|target| {
            let verdict = &target.verdict;
            let shown = (verdict.status.as_str(), &verdict.reason, &verdict.message, target.state as u8);
            let now = self.hasher.hash_one(shown);
            last.insert(target.object.clone(), now);
            self.last.get(&target.object) != Some(&now)
        });
        let changed = changed.collect();
        self.last = last;
        changed
    }
}

//! Sessions of commands for clusters: runtime, signals and exit codes.

use std::process::ExitCode;
use std::time::Duration;

use settled_tracker::{Outcome, Report, Tracker};
use tokio::runtime::Runtime;

use crate::error::CommandError;
use crate::progress::Signals;

/// Exit code after an interrupt.
pub(crate) const INTERRUPTED: u8 = 130;

/// How long a thread that has read files at the start is kept for more. Each that still sleeps when the process exits makes that longer.
const IDLE: Duration = Duration::from_millis(20);

/// Where everything that talks to clusters runs: it waits most of the time, and one thread is enough for that.
pub(crate) fn runtime() -> Result<Runtime, CommandError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .thread_keep_alive(IDLE)
        .build()
        .map_err(|error| CommandError::input_error("cannot start the runtime", error))
}

/// Runs something that a Ctrl-C ends, before there is anything to tell of.
pub(crate) fn run<T>(work: impl Future<Output = Result<T, CommandError>>) -> Result<Option<T>, CommandError> {
    let runtime = runtime()?;
    let result = runtime.block_on(async {
        tokio::select! {
            result = work => result.map(Some),
            interrupted = tokio::signal::ctrl_c() => match interrupted {
                Ok(()) => Ok(None),
                Err(error) => Err(CommandError::input_error("cannot receive signals", error)),
            },
        }
    });
    // Nothing that still waits keeps the process.
    runtime.shutdown_background();
    result
}

/// Runs something that takes care of signals itself.
pub(crate) fn interruptible(
    work: impl AsyncFnOnce(&mut Signals) -> Result<ExitCode, CommandError>,
) -> Result<ExitCode, CommandError> {
    let runtime = runtime()?;
    let code = runtime.block_on(async {
        let mut signals = Signals::of_process()
            .map_err(|error| CommandError::input_error("cannot receive signals", error))?;
        work(&mut signals).await
    });
    // Nothing that still waits keeps the process, which is about to end: there is no use in taking everything apart.
    std::mem::forget(runtime);
    code
}

/// Exit code for the outcome of a wait.
pub(crate) fn exit_code(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Settled => 0,
        Outcome::Failed => 1,
        Outcome::Rejected => 2,
        Outcome::TimedOut => 3,
        Outcome::Unreachable => 4,
        Outcome::Interrupted => INTERRUPTED,
    }
}

/// Exit code if some targets could not be read.
pub(crate) fn unread(tracker: &Tracker) -> Option<u8> {
    match tracker.outcome() {
        Some(outcome) => Some(exit_code(outcome)),
        None if tracker.is_incomplete() => Some(exit_code(Outcome::Unreachable)),
        None => None,
    }
}

/// Follows until everything was seen once, and no longer.
pub(crate) async fn seen_once(tracker: &mut Tracker) -> Report {
    match tracker.finished().await {
        Some(report) => report,
        None => std::future::pending().await,
    }
}

//! `settled serve -- COMMAND`: runs a command with a server that stops when the command ends.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};

use tokio::process::{Child, Command};

use super::signals::{Signals, Stop};
use crate::error::CommandError;

/// Runs a command to its end and gives its exit code, 128 and the signal that killed it, or what shells give for a command that
/// cannot be run.
pub(super) async fn run(
    words: &[OsString],
    kubeconfig: &Path,
    signals: &mut Signals,
) -> Result<ExitCode, CommandError> {
    let Some((program, arguments)) = words.split_first() else { return Ok(ExitCode::SUCCESS) };
    let mut command = Command::new(program);
    command.args(arguments).env("KUBECONFIG", kubeconfig).kill_on_drop(true);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let code = if error.kind() == ErrorKind::NotFound { 127 } else { 126 };
            let what = format!("cannot run {}", program.to_string_lossy());
            let _reported = CommandError::input_error(what, error).report();
            return Ok(ExitCode::from(code));
        }
    };
    let mut forwarded = 0;
    loop {
        let stop = tokio::select! {
            status = child.wait() => {
                let failed = |error| CommandError::input_error("cannot wait for the command", error);
                return Ok(ExitCode::from(exit_code(status.map_err(failed)?)));
            }
            stop = signals.next() => stop,
        };
        // Ctrl-C in a terminal reaches the command without us.
        let has_it = stop == Stop::Interrupt && forwarded == 0 && is_foreground();
        forwarded += 1;
        if !has_it {
            forward(stop, &mut child);
        }
    }
}

#[cfg(unix)]
fn forward(stop: Stop, child: &mut Child) {
    use rustix::process::{Pid, Signal, kill_process};

    let signal = match stop {
        Stop::Interrupt => Signal::INT,
        Stop::Terminate => Signal::TERM,
        Stop::Hangup => Signal::HUP,
    };
    if let Some(process) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        // It may have ended just now.
        let _best_effort = kill_process(process, signal);
    }
}

/// There is nothing milder there.
#[cfg(windows)]
fn forward(_stop: Stop, child: &mut Child) {
    let _best_effort = child.start_kill();
}

#[cfg(unix)]
fn is_foreground() -> bool {
    use std::io;

    use rustix::process::getpgrp;
    use rustix::termios::tcgetpgrp;

    tcgetpgrp(io::stdin()).or_else(|_| tcgetpgrp(io::stderr())).is_ok_and(|group| group == getpgrp())
}

/// The command has the same console.
#[cfg(windows)]
fn is_foreground() -> bool {
    true
}

fn exit_code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(windows)]
    let signal: Option<i32> = None;
    let code = status.code().or_else(|| signal.map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

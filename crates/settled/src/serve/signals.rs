//! Signals that shut the server down.

use crate::error::CommandError;

/// A request to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Ctrl-C.
    Interrupt,
    /// How programs stop a server.
    Terminate,
    /// The terminal was closed.
    Hangup,
}

impl Stop {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
            Self::Hangup => "SIGHUP",
        }
    }

    /// SIGTERM is a regular shutdown with exit code 0; the other signals are interruptions.
    pub(super) const fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 0,
            Self::Hangup => 129,
        }
    }
}

#[cfg(unix)]
pub(super) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    pub(super) fn listen() -> Result<Self, CommandError> {
        use tokio::signal::unix::{SignalKind, signal};

        let listen = |kind| signal(kind).map_err(failed);
        let hangup = match may_hang_up() {
            true => Some(listen(SignalKind::hangup())?),
            false => None,
        };
        let [interrupt, terminate] = [listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?];
        Ok(Self { interrupt, terminate, hangup })
    }

    pub(super) async fn next(&mut self) -> Stop {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Stop::Interrupt,
            _ = self.terminate.recv() => Stop::Terminate,
            _ = hangup => Stop::Hangup,
        }
    }
}

/// `nohup` has the signal ignored, and a handler would undo that. Where it cannot be known, the signal is left alone: the next
/// start removes what is left.
#[cfg(unix)]
fn may_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // The lowest bit is signal 1, SIGHUP.
    ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 0)
}

/// What a console sends in place of signals.
#[cfg(windows)]
pub(super) struct Signals {
    interrupt: tokio::signal::windows::CtrlC,
    terminate: tokio::signal::windows::CtrlBreak,
    hangup: tokio::signal::windows::CtrlClose,
}

#[cfg(windows)]
impl Signals {
    pub(super) fn listen() -> Result<Self, CommandError> {
        use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close};

        Ok(Self {
            interrupt: ctrl_c().map_err(failed)?,
            terminate: ctrl_break().map_err(failed)?,
            hangup: ctrl_close().map_err(failed)?,
        })
    }

    pub(super) async fn next(&mut self) -> Stop {
        tokio::select! {
            _ = self.interrupt.recv() => Stop::Interrupt,
            _ = self.terminate.recv() => Stop::Terminate,
            _ = self.hangup.recv() => Stop::Hangup,
        }
    }
}

fn failed(error: std::io::Error) -> CommandError {
    CommandError::input_error("cannot listen for signals", error)
}

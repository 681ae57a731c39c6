//! What is typed during a live view.

#[cfg(unix)]
use rustix::fd::BorrowedFd;
#[cfg(unix)]
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// Keeps what is typed off the screen, where it would stand in the middle of the view. Signals like Ctrl-C work as ever, but
/// the part of a frame that the terminal has not shown yet is not dropped, as it is by default: the view has to know where the
/// cursor is.
#[derive(Debug)]
pub(crate) struct Quiet {
    #[cfg(unix)]
    terminal: BorrowedFd<'static>,
    #[cfg(unix)]
    before: Option<Termios>,
}

#[cfg(unix)]
impl Quiet {
    /// For a view on standard output.
    pub(crate) fn stdout() -> Self {
        Self::of(rustix::stdio::stdout())
    }

    /// For a view on standard error.
    pub(crate) fn stderr() -> Self {
        Self::of(rustix::stdio::stderr())
    }

    fn of(terminal: BorrowedFd<'static>) -> Self {
        let mut quiet = Self { terminal, before: None };
        quiet.again();
        quiet
    }

    /// Does it (again).
    pub(crate) fn again(&mut self) {
        let terminal = self.terminal;
        // A process in the background that touches the terminal is stopped.
        if tcgetpgrp(terminal).is_ok_and(|group| group != rustix::process::getpgrp()) {
            return;
        }
        let Ok(modes) = tcgetattr(terminal) else { return };
        let mut silent = modes.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        silent.local_modes.insert(LocalModes::NOFLSH);
        if tcsetattr(terminal, OptionalActions::Now, &silent).is_ok() {
            self.before.get_or_insert(modes);
        }
    }

    /// Makes the terminal as it was.
    pub(crate) fn undo(&mut self) {
        if let Some(modes) = self.before.take() {
            tcsetattr(self.terminal, OptionalActions::Now, &modes).ok();
        }
    }
}

/// There is no live view there, and nothing to be done.
#[cfg(windows)]
impl Quiet {
    pub(crate) fn stdout() -> Self {
        Self {}
    }

    pub(crate) fn stderr() -> Self {
        Self {}
    }

    pub(crate) fn again(&mut self) {}

    pub(crate) fn undo(&mut self) {}
}

impl Drop for Quiet {
    fn drop(&mut self) {
        self.undo();
    }
}

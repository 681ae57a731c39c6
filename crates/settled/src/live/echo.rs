//! What is typed during a live view.

#[cfg(unix)]
use std::io;

#[cfg(unix)]
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// Keeps what is typed off the screen, where it would stand in the middle of the view. Signals like Ctrl-C work as ever.
#[derive(Debug)]
pub(crate) struct Quiet {
    #[cfg(unix)]
    before: Option<Termios>,
}

#[cfg(unix)]
impl Quiet {
    pub(crate) fn new() -> Self {
        let mut quiet = Self { before: None };
        quiet.again();
        quiet
    }

    /// Does it (again).
    pub(crate) fn again(&mut self) {
        let terminal = io::stderr();
        // A process in the background that touches the terminal is stopped.
        if tcgetpgrp(&terminal).is_ok_and(|group| group != rustix::process::getpgrp()) {
            return;
        }
        let Ok(modes) = tcgetattr(&terminal) else { return };
        let mut silent = modes.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        if tcsetattr(&terminal, OptionalActions::Now, &silent).is_ok() {
            self.before.get_or_insert(modes);
        }
    }

    /// Makes the terminal as it was.
    pub(crate) fn undo(&mut self) {
        if let Some(modes) = self.before.take() {
            tcsetattr(io::stderr(), OptionalActions::Now, &modes).ok();
        }
    }
}

/// There is no live view there, and nothing to be done.
#[cfg(windows)]
impl Quiet {
    pub(crate) fn new() -> Self {
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

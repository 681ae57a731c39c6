//! Terminal of standard error: size, capabilities and modes.

use std::io::{self, IsTerminal as _};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};

use super::screen::Size;

/// The size of the terminal, if there is one.
pub(crate) fn size() -> Option<Size> {
    let (columns, rows) = terminal_size::terminal_size_of(io::stderr())?;
    Some(Size { columns: columns.0, rows: rows.0 })
}

/// How many columns it has, for text that is to be broken between words.
pub(crate) fn width() -> Option<usize> {
    const WIDTH_MIN: usize = 20;
    Some(usize::from(size()?.columns).max(WIDTH_MIN))
}

/// Whether a live view makes sense: a terminal that can move its cursor, and nobody who only keeps a log of it.
pub(crate) fn can_show_live_view() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "false");
    io::stderr().is_terminal() && !set("CI") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Keeps what is typed off the screen, where it would stand in the middle of the view. Signals like Ctrl-C work as ever.
#[derive(Debug)]
pub(crate) struct Quiet {
    before: Option<Termios>,
}

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

impl Drop for Quiet {
    fn drop(&mut self) {
        self.undo();
    }
}

//! Terminal of standard error: size, capabilities and modes.

use std::io::{self, IsTerminal as _};

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

/// Whether pictures can be drawn in place. A Windows console has to be asked for it first.
pub(crate) const CAN_MOVE_CURSOR: bool = cfg!(unix);

/// Whether a live view is possible: a terminal with cursor movement, outside of CI.
pub(crate) fn can_show_live_view() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "false");
    CAN_MOVE_CURSOR
        && io::stderr().is_terminal()
        && !set("CI")
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

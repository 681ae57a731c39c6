//! Signals and changes of the terminal size.

/// A signal, whatever the system calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// End the wait: SIGINT or SIGTERM.
    Interrupt,
    /// The terminal was closed (SIGHUP).
    Hangup,
    /// The terminal has another size.
    #[cfg_attr(windows, allow(dead_code, reason = "consoles send no signal for it"))]
    Resize,
    /// Ctrl-Z.
    #[cfg_attr(windows, allow(dead_code, reason = "there are no stopped processes"))]
    Stop,
}

//! Colors, and when to use them.

use std::sync::OnceLock;

use anstream::ColorChoice;
use anstyle::{AnsiColor, Style};
use kstatus::Status;
use settled_tracker::State;

use crate::cli::Color;

static CHOSEN: OnceLock<Color> = OnceLock::new();

/// Remembers what `--color` said. Before that, and for errors in the arguments, it is `auto`.
pub(crate) fn choose(color: Color) {
    CHOSEN.get_or_init(|| color);
}

/// Paints text, or leaves it alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Palette {
    enabled: bool,
}

impl Palette {
    /// Never any colours: for files.
    pub(crate) const NONE: Self = Self { enabled: false };

    #[cfg(test)]
    pub(crate) const ALL: Self = Self { enabled: true };

    /// Always: for recordings.
    #[cfg(feature = "rehearse")]
    pub(crate) const ALWAYS: Self = Self { enabled: true };

    /// For standard output: colours on a terminal, unless `NO_COLOR` or `--color` says otherwise.
    pub(crate) fn stdout() -> Self {
        Self::new(anstream::AutoStream::choice(&std::io::stdout()))
    }

    /// As [`Palette::stdout`], for standard error.
    pub(crate) fn stderr() -> Self {
        Self::new(anstream::AutoStream::choice(&std::io::stderr()))
    }

    fn new(detected: ColorChoice) -> Self {
        let enabled = match CHOSEN.get().copied().unwrap_or_default() {
            Color::Auto => detected != ColorChoice::Never,
            Color::Always => true,
            Color::Never => false,
        };
        Self { enabled }
    }

    pub(crate) fn is_enabled(self) -> bool {
        self.enabled
    }

    pub(crate) fn error(self, text: &str) -> String {
        self.paint(AnsiColor::Red.on_default().bold(), text)
    }

    pub(crate) fn hint(self, text: &str) -> String {
        self.paint(HINT, text)
    }

    pub(crate) fn heading(self, text: &str) -> String {
        self.paint(Style::new().bold(), text)
    }

    /// Secondary text.
    pub(crate) fn dim(self, text: &str) -> String {
        self.paint(DIM, text)
    }

    /// Warnings.
    pub(crate) fn warning(self, text: &str) -> String {
        self.paint(WARNING, text)
    }

    /// How a wait stands with an object.
    pub(crate) fn state(self, state: State, text: &str) -> String {
        self.paint(state_style(state), text)
    }

    /// Removed lines of a diff.
    pub(crate) fn removed(self, text: &str) -> String {
        self.paint(AnsiColor::Red.on_default(), text)
    }

    /// Added lines of a diff.
    pub(crate) fn added(self, text: &str) -> String {
        self.paint(AnsiColor::Green.on_default(), text)
    }

    /// `text` in the colour of a status: the status itself, or a count of it.
    pub(crate) fn status(self, status: Status, text: &str) -> String {
        self.paint(status_style(status), text)
    }

    /// `text` in a style; nothing of nothing.
    pub(crate) fn paint(self, style: Style, text: &str) -> String {
        if self.enabled && !text.is_empty() && style != Style::new() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }
}

pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
pub(crate) const HINT: Style = AnsiColor::Cyan.on_default().bold();
pub(crate) const DIM: Style = Style::new().effects(anstyle::Effects::DIMMED);

/// The sign for how a wait stands with an object: it says the same as the colour.
pub(crate) fn mark(state: State) -> &'static str {
    match state {
        State::Failed => "✗",
        State::Waiting => "•",
        State::Done => "✓",
        State::Skipped => "-",
    }
}

pub(crate) fn state_style(state: State) -> Style {
    match state {
        State::Failed => AnsiColor::Red.on_default().bold(),
        State::Waiting => AnsiColor::Cyan.on_default(),
        State::Done => AnsiColor::Green.on_default(),
        State::Skipped => DIM,
    }
}

pub(crate) fn status_style(status: Status) -> Style {
    match status {
        Status::Failed => AnsiColor::Red.on_default().bold(),
        Status::Unknown | Status::NotFound => AnsiColor::Magenta.on_default(),
        Status::Terminating => AnsiColor::Yellow.on_default(),
        Status::InProgress => AnsiColor::Cyan.on_default(),
        Status::Current => AnsiColor::Green.on_default(),
    }
}

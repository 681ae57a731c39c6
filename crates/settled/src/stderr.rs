//! Standard error, for everything that is not data: progress, warnings and errors.

use std::io::{self, Write as _};

use crate::style::Palette;
use crate::text;

/// Writes one line to standard error, ignoring errors.
pub(crate) fn print_line(line: &str) {
    io::stderr().lock().write_all(format!("{line}\n").as_bytes()).ok();
}

/// A warning: what is read goes on.
pub(crate) fn warning(message: &str) {
    print_line(&format!("{} {}", Palette::stderr().warning("warning:"), text::clean(message)));
}

/// Says that an input cannot be read. The rest of them go on.
pub(crate) fn unreadable(source: &str, error: &io::Error) {
    let label = Palette::stderr().error("error:");
    print_line(&format!(
        "{label} cannot read {}: {}",
        text::clean(source),
        text::os_words(&error.to_string())
    ));
}

/// Reports a document that is no object; the error begins with its place.
pub(crate) fn unreadable_document(source: &str, error: &str) {
    let source = if source == "-" { "standard input" } else { source };
    print_line(&format!(
        "{} {}: {}",
        Palette::stderr().error("error:"),
        text::clean(source),
        text::clean(error)
    ));
}

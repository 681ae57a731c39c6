//! The two streams. Data goes to standard output, everything else to standard error.

use std::io::{self, BufWriter, StdoutLock, Write};

use serde::Serialize;

use crate::error::CommandError;
use crate::render::write_json_line;
use crate::style::Palette;
use crate::text;

/// Standard output, for data.
pub(crate) type Stdout = BufWriter<StdoutLock<'static>>;

pub(crate) fn stdout() -> Stdout {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
}

/// Writes one line to standard error. Where that fails there is nobody left to tell.
pub(crate) fn diagnose(line: &str) {
    io::stderr().lock().write_all(format!("{line}\n").as_bytes()).ok();
}

/// Says that an input can't be read. The rest of them go on.
pub(crate) fn unreadable(source: &str, error: &io::Error) {
    let label = Palette::stderr().error("error:");
    diagnose(&format!("{label} cannot read {}: {}", text::clean(source), text::os_words(&error.to_string())));
}

/// Reports a document that is no object; the error begins with its place.
pub(crate) fn unreadable_document(source: &str, error: &str) {
    let source = if source == "-" { "standard input" } else { source };
    diagnose(&format!(
        "{} {}: {}",
        Palette::stderr().error("error:"),
        text::clean(source),
        text::clean(error)
    ));
}

/// Why writing ended early.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The reader of our output has enough (`| head`): no error.
    Closed,
    /// A real error.
    Failed(io::Error),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::Closed } else { Self::Failed(error) }
    }
}

impl Stopped {
    /// A closed pipe is no error.
    pub(crate) fn forgive(result: Result<(), Self>) -> Result<(), CommandError> {
        match result {
            Ok(()) | Err(Self::Closed) => Ok(()),
            Err(Self::Failed(error)) => Err(CommandError::output("cannot write the output", error)),
        }
    }
}

/// Writes a value to standard output, as one line of JSON.
pub(crate) fn print_json<T: Serialize>(value: &T) -> Result<(), CommandError> {
    let mut out = stdout();
    let written = write_json_line(value, &mut out).and_then(|()| out.flush());
    Stopped::forgive(written.map_err(Stopped::from))
}

/// Writes all of `text` to standard output.
pub(crate) fn print(text: &[u8]) -> Result<(), CommandError> {
    let mut out = stdout();
    Stopped::forgive(out.write_all(text).and_then(|()| out.flush()).map_err(Stopped::from))
}

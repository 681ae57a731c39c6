//! Standard output, for data.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, StdoutLock, Write};
use std::path::Path;

use serde::Serialize;

use crate::error::CommandError;
use crate::render::write_json_line;

/// Standard output, buffered.
pub(crate) type Stdout = BufWriter<StdoutLock<'static>>;

pub(crate) fn stdout() -> Stdout {
    BufWriter::with_capacity(64 << 10, io::stdout().lock())
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

/// The width of tables: as asked for, or the terminal's; none in pipes.
pub(crate) fn width(asked: Option<usize>) -> Option<usize> {
    const NARROWEST: usize = 20;
    let width = match asked {
        Some(width) => Some(width).filter(|width| *width > 0),
        None if io::stdout().is_terminal() => {
            Some(terminal_size::terminal_size_of(io::stdout()).map_or(80, |(width, _)| usize::from(width.0)))
        }
        None => None,
    };
    width.map(|width| width.max(NARROWEST))
}

/// Adds Markdown to the step summary of GitHub Actions, in the file that it names, if it does.
pub(crate) fn append_step_summary(markdown: &str) -> Result<(), CommandError> {
    let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()) else {
        return Ok(());
    };
    let file = File::options().create(true).append(true).open(&path);
    file.and_then(|mut file| file.write_all(markdown.as_bytes()))
        .map_err(|error| CommandError::output(format!("cannot write {}", Path::new(&path).display()), error))
}

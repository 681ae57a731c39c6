//! Recordings: lines with their times, as asciinema's casts have them, and `settled play`, which shows them again.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use settled_rehearsal::Speed;
use tokio::time::Instant;

use crate::cli::rehearse::PlayArgs;
use crate::error::CommandError;
use crate::output::{self, Stopped};
use crate::session;

/// Width of recorded lines.
const COLUMNS: usize = 120;
const ROWS: usize = 40;
/// Longest line of a recording that is read.
const LINE_MAX: usize = 1 << 20;

/// A recording in the making. Copies write to the same file.
#[derive(Clone)]
pub(crate) struct Cast(Arc<Mutex<Inner>>);

struct Inner {
    out: BufWriter<File>,
    begin: Option<Instant>,
    /// What is not a whole line yet.
    line: Vec<u8>,
}

impl Cast {
    /// Begins a file.
    pub(super) fn create(path: &Path, title: &str) -> Result<Self, CommandError> {
        let failed = |error| CommandError::output(format!("cannot write {}", path.display()), error);
        let mut out = BufWriter::new(File::create(path).map_err(failed)?);
        let header = json!({"version": 2, "width": COLUMNS, "height": ROWS, "title": title});
        writeln!(out, "{header}").map_err(failed)?;
        Ok(Self(Arc::new(Mutex::new(Inner { out, begin: None, line: Vec::new() }))))
    }
}

impl Write for Cast {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = *inner.begin.get_or_insert_with(Instant::now);
        let elapsed = begin.elapsed().as_secs_f64();
        inner.line.extend_from_slice(bytes);
        let Some(end) = inner.line.iter().rposition(|byte| *byte == b'\n') else { return Ok(bytes.len()) };
        let rest = inner.line.split_off(end + 1);
        let lines = std::mem::replace(&mut inner.line, rest);
        let text = String::from_utf8_lossy(&lines).replace('\n', "\r\n");
        writeln!(inner.out, "{}", json!([(elapsed * 1e3).round() / 1e3, "o", text]))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).out.flush()
    }
}

/// Shows a recording.
pub(crate) fn play(args: &PlayArgs) -> Result<ExitCode, CommandError> {
    let file = File::open(&args.file)
        .map_err(|error| CommandError::input_error(format!("cannot read {}", args.file.display()), error))?;
    let played = session::run(async {
        let mut last = 0.0_f64;
        for (number, line) in BufReader::new(file).lines().enumerate() {
            let malformed = |what: &str| {
                CommandError::input(format!("{}:{}: {what}", args.file.display(), number + 1))
                    .hint("settled rehearse --record FILE writes recordings")
            };
            let line = line.map_err(|error| malformed(&error.to_string()))?;
            if line.len() > LINE_MAX {
                return Err(malformed("the line is too long"));
            }
            let value: Value = serde_json::from_str(&line).map_err(|error| malformed(&error.to_string()))?;
            if number == 0 {
                if value.get("version") != Some(&json!(2)) {
                    return Err(malformed("not a recording of version 2"));
                }
                continue;
            }
            let (Some(at), Some("o"), Some(text)) =
                (value[0].as_f64().filter(|at| at.is_finite()), value[1].as_str(), value[2].as_str())
            else {
                return Err(malformed("expected [TIME, \"o\", TEXT]"));
            };
            let pause = Duration::try_from_secs_f64((at - last).max(0.0)).unwrap_or_default();
            last = at;
            if let Speed::Times(times) = args.speed {
                tokio::time::sleep(pause.div_f64(times).min(args.max_pause)).await;
            }
            let mut out = output::stdout();
            let written = out.write_all(text.replace("\r\n", "\n").as_bytes()).and_then(|()| out.flush());
            if let Err(error) = written {
                Stopped::forgive(Err(Stopped::from(error)))?;
                return Ok(());
            }
        }
        Ok(())
    })?;
    Ok(if played.is_some() { ExitCode::SUCCESS } else { ExitCode::from(session::INTERRUPTED) })
}

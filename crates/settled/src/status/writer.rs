//! Status output: rows at once, or at the end where they are sorted or their columns are measured.

use std::io::Write as _;

use super::report::Report;
use super::rows::{Mark, Rows};
use crate::cli::{Sort, StatusArgs, StatusOutput};
use crate::output::{self, Stdout, Stopped};
use crate::pipeline::InputId;
use crate::render::{Envelope, Form, Measure, Table};
use crate::sort::Sorter;
use crate::style::Palette;

/// Writes rows, at once or at the end.
pub(super) struct Writer {
    pub(super) out: Stdout,
    form: Form,
    envelope: Envelope,
    /// Where rows wait that are to be sorted, or whose columns are to be measured.
    sorter: Option<Sorter>,
    pub(super) measure: Measure,
    wide: bool,
    width: Option<usize>,
    head: Vec<u8>,
    /// The input that the last row came from, and how many objects it gave so far.
    input: Option<u64>,
    document: u64,
}

impl Writer {
    pub(super) fn new(args: &StatusArgs, form: Form, sort: Sort) -> Self {
        let waits = form == Form::Table || (sort != Sort::None && form != Form::Nothing);
        Self {
            out: output::stdout(),
            form,
            envelope: match args.output {
                StatusOutput::Json => Envelope::ARRAY,
                StatusOutput::Jsonl => Envelope::LINES,
                StatusOutput::Yaml | StatusOutput::Table | StatusOutput::Wide => Envelope::DOCUMENTS,
            },
            sorter: waits.then(|| Sorter::new(args.sort_memory)),
            measure: Measure::default(),
            wide: args.output == StatusOutput::Wide,
            width: output::width(args.width),
            head: Vec::new(),
            input: None,
            document: 0,
        }
    }

    pub(super) fn rows(&mut self, input: &InputId, rows: &Rows, report: &mut Report) -> Result<(), Stopped> {
        if self.input.replace(input.ordinal) != Some(input.ordinal) {
            self.document = 0;
        }
        self.measure.merge(&rows.measure);
        let mut start = 0;
        for mark in &rows.marks {
            let document = self.document;
            self.document += 1;
            report.read += 1;
            let (key_end, end) = match *mark {
                Mark::Passed => continue,
                Mark::Hidden => {
                    report.hidden += 1;
                    continue;
                }
                Mark::Shown { status, silent, blocking, key_end, end } => {
                    report.count(status, silent, blocking);
                    (key_end, end)
                }
            };
            let (key, body) = (&rows.bytes[start..key_end], &rows.bytes[key_end..end]);
            start = end;
            self.form.head(&input.source, document, &mut self.head);
            match &mut self.sorter {
                _ if self.form == Form::Nothing => {}
                None => self.envelope.row(&mut self.out, &[&self.head, body])?,
                Some(sorter) => {
                    if self.form == Form::Table {
                        self.measure.head(&self.head);
                    }
                    sorter.push(key, &[&self.head, body])?;
                }
            }
        }
        Ok(())
    }

    /// Writes what is left. Says whether some of it had to be shortened.
    pub(super) fn finish(self) -> Result<bool, Stopped> {
        let Self { mut out, form, mut envelope, sorter, measure, wide, width, .. } = self;
        let mut shortened = false;
        match sorter {
            _ if form == Form::Nothing => {}
            Some(sorter) if form == Form::Table => {
                let mut table = Table::new(&measure, wide, width, Palette::stdout());
                sorter.finish(|row| table.row(&mut out, row).map_err(Stopped::from))?;
                shortened = table.shortened();
            }
            Some(sorter) => {
                sorter.finish(|row| envelope.row(&mut out, &[row]).map_err(Stopped::from))?;
                envelope.end(&mut out)?;
            }
            None => envelope.end(&mut out)?,
        }
        out.flush()?;
        Ok(shortened)
    }
}

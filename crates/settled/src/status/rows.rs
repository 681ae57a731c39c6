//! Status rows: the evaluated objects of a batch, each with its sort key.

use kstatus::{Status, Verdict, reason};
use settled_manifest::Batch;

use crate::cli::Sort;
use crate::filter::Filter;
use crate::pipeline::{InputId, Work};
use crate::render::{Form, Measure};
use crate::row::{self, Identity, Reader, Verdicts};

/// Evaluates objects, on any thread.
#[derive(Debug)]
pub(super) struct Evaluator {
    pub(super) how: Verdicts,
    pub(super) filter: Filter,
    pub(super) form: Form,
    pub(super) sort: Sort,
    pub(super) reader: Reader,
}

impl Evaluator {
    pub(super) fn with(mut self, filter: Filter) -> Self {
        self.filter = filter;
        self
    }

    /// Adds an object, or why it isn't shown.
    pub(super) fn row(
        &self,
        identity: &Identity<'_>,
        verdict: impl Fn() -> Verdict,
        source: &str,
        rows: &mut Rows,
    ) {
        let Rows { bytes, marks, measure } = rows;
        if !self.filter.selects(identity) {
            return marks.push(Mark::Passed);
        }
        let verdict = verdict();
        if !self.filter.shows(&verdict) {
            return marks.push(Mark::Hidden);
        }
        identity.push_key(self.sort, verdict.status, source, bytes);
        let key_end = bytes.len();
        self.form.push_body(identity, &verdict, self.how.options.now, measure, bytes);
        // For a hint only.
        let silent = verdict.reason == reason::NO_SIGNAL;
        let (status, blocking) = (verdict.status, verdict.blocking);
        marks.push(Mark::Shown { status, silent, blocking, key_end, end: bytes.len() });
    }
}

impl Clone for Evaluator {
    fn clone(&self) -> Self {
        let Self { how, filter, form, sort, reader: _ } = self;
        Self { how: how.clone(), filter: filter.clone(), form: *form, sort: *sort, reader: Reader::default() }
    }
}

/// The rows of one batch.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Keys and bodies, one after another.
    pub(super) bytes: Vec<u8>,
    /// One per object, shown or not.
    pub(super) marks: Vec<Mark>,
    pub(super) measure: Measure,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Mark {
    /// Not what the user asks about.
    Passed,
    /// Not in a status that the user asks about.
    Hidden,
    Shown {
        status: Status,
        silent: bool,
        /// The exit code counts the object.
        blocking: bool,
        key_end: usize,
        end: usize,
    },
}

impl Work for Evaluator {
    type Output = Rows;

    fn size(rows: &Rows) -> usize {
        rows.bytes.capacity()
    }

    fn work(&mut self, input: &InputId, batch: &Batch, rows: &mut Rows) {
        rows.bytes.clear();
        rows.marks.clear();
        rows.measure.clear();
        let mut reader = std::mem::take(&mut self.reader);
        row::verdicts(&mut reader, input, batch, &self.how, |identity, verdict| {
            self.row(identity, verdict, &input.source, rows);
        });
        self.reader = reader;
    }
}

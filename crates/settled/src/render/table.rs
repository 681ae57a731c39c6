//! Table rows: a line, or a few lines where the terminal is narrow.
//!
//! While rows wait to be sorted they are packed: clean cells with a control character between them. How wide the
//! columns must be is only known at the end, and measured on the way.

use std::io::{self, Write};

use jiff::Timestamp;
use kstatus::{Status, Verdict};

use crate::duration;
use crate::row::Identity;
use crate::style::Palette;
use crate::text;

/// Between the cells of a packed row. Clean text has no control characters.
const SEPARATOR: u8 = 0x1f;
/// How narrow a column of messages may be; below that they go under the row.
const MESSAGE_WIDTH_MIN: usize = 48;
/// How narrow a column of objects may be, if that is narrower than the longest of them.
const OBJECT_WIDTH_MIN: usize = 36;
/// How many lines an object's name may take: enough for all that Kubernetes allows.
const OBJECT_LINES_MAX: usize = 12;
/// How many lines a message may take, except that of an object which is Current.
const MESSAGE_LINES_MAX: usize = 4;
/// How far a column is filled up with spaces where nothing limits the width: a single name of a megabyte would
/// otherwise make every row as long.
const PADDING_MAX: usize = 80;
const GAP: &str = "  ";

/// The cells of a packed row, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Source,
    Status,
    Namespace,
    Object,
    Age,
    Reason,
    Generation,
    Basis,
    Confidence,
    Class,
    Message,
}

const CELLS: usize = 11;

impl Cell {
    const fn heading(self) -> &'static str {
        match self {
            Self::Source => "SOURCE",
            Self::Status => "STATUS",
            Self::Namespace => "NAMESPACE",
            Self::Object => "OBJECT",
            Self::Age => "AGE",
            Self::Reason => "REASON",
            Self::Generation => "GENERATION",
            Self::Basis => "BASIS",
            Self::Confidence => "CONFIDENCE",
            Self::Class => "CLASS",
            Self::Message => "MESSAGE",
        }
    }
}

/// How wide the columns must be, and what they need not say.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measure {
    widths: [usize; CELLS],
    namespaces: Namespaces,
    /// A row is of a document that cannot be read: its object is its source.
    unreadable: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Namespaces {
    #[default]
    None,
    /// All rows are in this one, or all are in none (the empty name).
    Same(String),
    Many,
}

impl Measure {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (width, other) in self.widths.iter_mut().zip(other.widths) {
            *width = (*width).max(other);
        }
        self.unreadable |= other.unreadable;
        match &other.namespaces {
            Namespaces::None => {}
            Namespaces::Same(name) => self.namespace(name),
            Namespaces::Many => self.namespaces = Namespaces::Many,
        }
    }

    /// Counts the head of a row, which is not seen by the worker that measures the rest.
    pub(crate) fn head(&mut self, head: &[u8]) {
        if let Ok(source) = std::str::from_utf8(head) {
            self.cell(Cell::Source, source.trim_end_matches('\u{1f}'));
        }
    }

    /// The namespace that all rows are in, if there is one.
    pub(crate) fn only_namespace(&self) -> Option<&str> {
        match &self.namespaces {
            Namespaces::Same(name) if !name.is_empty() => Some(name),
            _ => None,
        }
    }

    fn namespace(&mut self, name: &str) {
        match &self.namespaces {
            Namespaces::None => self.namespaces = Namespaces::Same(name.to_owned()),
            Namespaces::Same(same) if same != name => self.namespaces = Namespaces::Many,
            Namespaces::Same(_) | Namespaces::Many => {}
        }
    }

    fn width(&self, cell: Cell) -> usize {
        let width = self.widths[cell as usize];
        match cell {
            Cell::Object if self.unreadable => width.max(self.widths[Cell::Source as usize]),
            _ => width,
        }
    }

    fn cell(&mut self, cell: Cell, text: &str) {
        let width = &mut self.widths[cell as usize];
        *width = (*width).max(text::width(text));
    }
}

/// Appends where the object was found.
pub(super) fn push_head(source: &str, document: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(text::clean(source).as_bytes());
    out.extend_from_slice(format!("#{document}").as_bytes());
    out.push(SEPARATOR);
}

/// Appends the other cells.
pub(super) fn push_body(
    identity: &Identity<'_>,
    verdict: &Verdict,
    now: Timestamp,
    measure: &mut Measure,
    out: &mut Vec<u8>,
) {
    let mut cell = String::new();
    let mut push = |which: Cell, fill: &mut dyn FnMut(&mut String)| {
        cell.clear();
        fill(&mut cell);
        out.extend_from_slice(cell.as_bytes());
        if which == Cell::Namespace {
            measure.namespace(&cell);
        }
        if which != Cell::Message {
            measure.cell(which, &cell);
            out.push(SEPARATOR);
        }
    };
    push(Cell::Status, &mut |cell| cell.push_str(verdict.status.as_str()));
    push(Cell::Namespace, &mut |cell| {
        text::push_clean(cell, identity.namespace.as_deref().unwrap_or_default());
    });
    push(Cell::Object, &mut |cell| {
        if !identity.is_unreadable() {
            text::push_clean(cell, &identity.to_string());
        }
    });
    push(Cell::Age, &mut |cell| {
        if let Some(age) = identity.age(now) {
            cell.push_str(&duration::format(age));
        }
    });
    push(Cell::Reason, &mut |cell| text::push_clean(cell, &verdict.reason));
    push(Cell::Generation, &mut |cell| match (verdict.observed_generation, verdict.generation) {
        (Some(observed), Some(wanted)) if observed != wanted => {
            cell.push_str(&format!("{observed}/{wanted}"))
        }
        (_, Some(wanted)) => cell.push_str(&wanted.to_string()),
        (_, None) => {}
    });
    push(Cell::Basis, &mut |cell| cell.push_str(verdict.basis.as_str()));
    push(Cell::Confidence, &mut |cell| cell.push_str(verdict.confidence.as_str()));
    push(Cell::Class, &mut |cell| {
        if let Some(failure) = verdict.failure {
            cell.push_str(failure.class.as_str());
            if failure.terminal {
                cell.push('!');
            }
        }
    });
    push(Cell::Message, &mut |cell| text::push_clean(cell, &verdict.message));
    measure.unreadable |= identity.is_unreadable();
}

/// How a table is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// One line per row, however long.
    Unlimited,
    /// Messages in a column of this width.
    Columns(usize),
    /// Messages below the row.
    Below,
    /// Status and object, everything else below.
    Narrow,
}

/// Writes packed rows as a table.
#[derive(Debug)]
pub(crate) struct Table {
    palette: Palette,
    /// The columns but the message's, and how wide each is.
    columns: Vec<(Cell, usize)>,
    layout: Layout,
    width: usize,
    headed: bool,
    shortened: bool,
}

impl Table {
    /// A table of at most `width` columns, if that is limited.
    pub(crate) fn new(measure: &Measure, wide: bool, width: Option<usize>, palette: Palette) -> Self {
        let mut cells = vec![Cell::Status];
        if measure.namespaces == Namespaces::Many {
            cells.push(Cell::Namespace);
        }
        cells.extend([Cell::Object, Cell::Age, Cell::Reason]);
        if wide {
            cells.extend([Cell::Generation, Cell::Basis, Cell::Confidence, Cell::Class, Cell::Source]);
        }
        let mut columns = Vec::new();
        for cell in cells {
            let measured = measure.width(cell);
            if measured > 0 || cell == Cell::Object {
                columns.push((cell, measured.max(cell.heading().len())));
            }
        }
        let layout = Self::layout(&mut columns, width);
        Self { palette, columns, layout, width: width.unwrap_or(usize::MAX), headed: false, shortened: false }
    }

    /// The best layout for the width. It may narrow the column of objects, since one long name among thousands
    /// should not decide how all of them look.
    fn layout(columns: &mut [(Cell, usize)], width: Option<usize>) -> Layout {
        let Some(width) = width else {
            columns.iter_mut().for_each(|(_, width)| *width = (*width).min(PADDING_MAX));
            return Layout::Unlimited;
        };
        let is_object = |(cell, _): &&mut (Cell, usize)| *cell == Cell::Object;
        let others: usize = columns
            .iter()
            .filter(|(cell, _)| *cell != Cell::Object)
            .map(|(_, width)| width + GAP.len())
            .sum();
        let Some((_, object)) = columns.iter_mut().find(is_object) else { return Layout::Narrow };
        let mut fits = |reserved: usize| match width.checked_sub(others + reserved) {
            Some(left) if left >= (*object).min(OBJECT_WIDTH_MIN) => {
                *object = left.min(*object);
                true
            }
            _ => false,
        };
        if fits(GAP.len() + MESSAGE_WIDTH_MIN) {
            Layout::Columns(width - others - *object - GAP.len())
        } else if fits(0) {
            Layout::Below
        } else {
            Layout::Narrow
        }
    }

    /// Whether some message was cut short.
    pub(crate) fn shortened(&self) -> bool {
        self.shortened
    }

    /// Writes a packed row, and the heading before the first.
    pub(crate) fn row(&mut self, out: &mut impl Write, packed: &[u8]) -> io::Result<()> {
        if !self.headed {
            self.headed = true;
            self.heading(out)?;
        }
        let packed = String::from_utf8_lossy(packed);
        let mut cells = [""; CELLS];
        for (cell, text) in cells.iter_mut().zip(packed.split(char::from(SEPARATOR))) {
            *cell = text;
        }
        // An object without a name can still be found.
        if cells[Cell::Object as usize].is_empty() {
            cells[Cell::Object as usize] = cells[Cell::Source as usize];
        }
        let status = cells[Cell::Status as usize].parse().unwrap_or(Status::Unknown);
        let message = cells[Cell::Message as usize];
        match self.layout {
            Layout::Unlimited => self.columns(out, &cells, status, &[message.to_owned()]),
            Layout::Columns(width) => {
                let message = self.wrap(message, width, status);
                self.columns(out, &cells, status, &message)
            }
            Layout::Below => {
                self.columns(out, &cells, status, &[])?;
                self.below(out, message, status)
            }
            Layout::Narrow => self.narrow(out, &cells, status),
        }
    }

    fn heading(&self, out: &mut impl Write) -> io::Result<()> {
        let mut line = String::new();
        for (cell, width) in &self.columns {
            if self.layout == Layout::Narrow && !matches!(cell, Cell::Status | Cell::Object) {
                continue;
            }
            push_padded(&mut line, cell.heading(), *width);
            line.push_str(GAP);
        }
        if matches!(self.layout, Layout::Unlimited | Layout::Columns(_)) {
            line.push_str(Cell::Message.heading());
        }
        writeln!(out, "{}", self.palette.heading(line.trim_end()))
    }

    /// Writes the cells side by side, the message last; objects and messages may take several lines.
    fn columns(
        &self,
        out: &mut impl Write,
        cells: &[&str; CELLS],
        status: Status,
        message: &[String],
    ) -> io::Result<()> {
        let object = cells[Cell::Object as usize];
        let objects = match self.columns.iter().find(|(cell, _)| *cell == Cell::Object) {
            Some((_, width)) if self.layout != Layout::Unlimited => {
                text::wrap(object, *width, OBJECT_LINES_MAX).0
            }
            _ => vec![object.to_owned()],
        };
        for number in 0..objects.len().max(message.len()).max(1) {
            let mut line = String::new();
            for (cell, width) in &self.columns {
                let text = match cell {
                    Cell::Object => objects.get(number).map_or("", String::as_str),
                    _ if number > 0 => "",
                    _ => cells[*cell as usize],
                };
                if *cell == Cell::Status && number == 0 {
                    let mut padded = String::new();
                    push_padded(&mut padded, text, *width);
                    line.push_str(&self.palette.status(status, &padded));
                } else {
                    push_padded(&mut line, text, *width);
                }
                line.push_str(GAP);
            }
            line.push_str(message.get(number).map_or("", String::as_str));
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }

    /// Writes what is below a row: nothing for an object that is Current, since there is nothing to do about it.
    fn below(&mut self, out: &mut impl Write, text: &str, status: Status) -> io::Result<()> {
        if status == Status::Current {
            return Ok(());
        }
        let lines = self.wrap(text, self.width.saturating_sub(self.indent()), status);
        self.indented(out, &lines)
    }

    fn narrow(&mut self, out: &mut impl Write, cells: &[&str; CELLS], status: Status) -> io::Result<()> {
        let cell = |which: Cell| cells[which as usize];
        let width = self.width.saturating_sub(self.indent());
        let shown =
            |which: Cell| self.columns.iter().any(|(column, _)| *column == which) && !cell(which).is_empty();
        let mut object = cell(Cell::Object).to_owned();
        if shown(Cell::Namespace) {
            object = format!("{object} ({})", cell(Cell::Namespace));
        }
        let extras: Vec<_> = [Cell::Generation, Cell::Basis, Cell::Confidence, Cell::Class, Cell::Source]
            .into_iter()
            .filter(|which| shown(*which))
            .map(|which| format!("{} {}", which.heading().to_lowercase(), cell(which)))
            .collect();
        let (objects, _) = text::wrap(&object, width, OBJECT_LINES_MAX);
        let (extras, _) = text::wrap(&extras.join(", "), width, usize::MAX);
        let mut padded = String::new();
        push_padded(&mut padded, cell(Cell::Status), self.indent() - GAP.len());
        let (first, rest) = objects.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
        writeln!(out, "{}{GAP}{first}", self.palette.status(status, &padded))?;
        self.indented(out, rest)?;
        self.below(out, &format!("{}: {}", cell(Cell::Reason), cell(Cell::Message)), status)?;
        self.indented(out, &extras)
    }

    fn indented(&self, out: &mut impl Write, lines: &[String]) -> io::Result<()> {
        let indent = self.indent();
        lines.iter().try_for_each(|line| writeln!(out, "{:indent$}{line}", ""))
    }

    /// How far in the lines below a row begin: under the second column.
    fn indent(&self) -> usize {
        self.columns.first().map_or(0, |(_, width)| width + GAP.len())
    }

    fn wrap(&mut self, text: &str, width: usize, status: Status) -> Vec<String> {
        if status == Status::Current {
            return vec![text::truncate(text, width).0];
        }
        let (lines, shortened) = text::wrap(text, width, MESSAGE_LINES_MAX);
        self.shortened |= shortened;
        lines
    }
}

fn push_padded(line: &mut String, text: &str, width: usize) {
    line.push_str(text);
    line.extend(std::iter::repeat_n(' ', width.saturating_sub(text::width(text))));
}

//! Envelopes: what surrounds and separates rows in each format.

use std::io::{self, Write};

/// Joins rows to one output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Envelope {
    begin: &'static [u8],
    between: &'static [u8],
    end: &'static [u8],
    /// Output without rows.
    empty: &'static [u8],
    begun: bool,
}

impl Envelope {
    pub(crate) const LINES: Self = Self::new(b"", b"\n", b"\n", b"");
    pub(crate) const ARRAY: Self = Self::new(b"[\n", b",\n", b"\n]\n", b"[]\n");
    /// Each row brings its own `---` and line feed.
    pub(crate) const DOCUMENTS: Self = Self::new(b"", b"", b"", b"");
    pub(crate) const LIST: Self = Self::new(
        b"{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n",
        b",\n",
        b"\n]}\n",
        b"{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[]}\n",
    );

    const fn new(
        begin: &'static [u8],
        between: &'static [u8],
        end: &'static [u8],
        empty: &'static [u8],
    ) -> Self {
        Self { begin, between, end, empty, begun: false }
    }

    /// Writes a row, which is in parts.
    pub(crate) fn row(&mut self, out: &mut impl Write, parts: &[&[u8]]) -> io::Result<()> {
        out.write_all(if self.begun { self.between } else { self.begin })?;
        self.begun = true;
        parts.iter().try_for_each(|part| out.write_all(part))
    }

    pub(crate) fn end(self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(if self.begun { self.end } else { self.empty })
    }
}

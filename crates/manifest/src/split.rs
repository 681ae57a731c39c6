//! Cutting a stream into batches of whole documents.

use std::io::{self, Read};

use crate::batch::Batch;

/// What a reader may hold at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How much a batch should hold. It holds more only when a single object is larger.
    pub batch_bytes: usize,
    /// How large one object may be. A larger one is malformed, and the reading goes on after it.
    pub object_bytes: usize,
    /// How deeply arrays and objects may nest (Go's decoder refuses more than 10,000, too).
    pub depth: usize,
}

impl Default for Limits {
    /// Batches of 512 KiB, objects of up to 16 MiB, 10,000 levels.
    fn default() -> Self {
        Self { batch_bytes: 512 << 10, object_bytes: 16 << 20, depth: 10_000 }
    }
}

/// Cuts a stream into [`Batch`]es of whole documents.
#[derive(Debug)]
pub struct Splitter<R> {
    reader: R,
    limits: Limits,
}

impl<R: Read> Splitter<R> {
    /// A splitter with the default [`Limits`].
    pub fn new(reader: R) -> Self {
        Self::with_limits(reader, Limits::default())
    }

    /// A splitter with other limits.
    pub fn with_limits(reader: R, limits: Limits) -> Self {
        Self { reader, limits }
    }

    /// The next batch, or `None` at the end. `recycled` is a batch that was worked off, for its memory; to begin
    /// with, `Batch::default()`.
    ///
    /// # Errors
    ///
    /// What the reader says, except `Interrupted`, which is tried again. After an error the splitter is at its end.
    pub fn next_batch(&mut self, recycled: Batch) -> io::Result<Option<Batch>> {
        let mut batch = recycled;
        batch.data.clear();
        (&mut self.reader).take(self.limits.object_bytes as u64).read_to_end(&mut batch.data)?;
        Ok((!batch.data.is_empty()).then_some(batch))
    }
}

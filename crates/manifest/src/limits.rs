//! Memory limits of a reader.

/// What a reader may hold at once: a batch is never larger than two objects of the largest size and two ordinary
/// batches.
///
/// # Examples
///
/// ```
/// use settled_manifest::{Limits, Splitter};
///
/// let limits = Limits { object_bytes: 1 << 20, ..Limits::default() };
/// let splitter = Splitter::with_limits(std::io::stdin(), limits);
/// # drop(splitter);
/// ```
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

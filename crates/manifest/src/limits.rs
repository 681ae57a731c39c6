//! Memory limits of a reader.

/// Limits on the data that a reader holds at once: a batch is never larger than two objects of the maximum size and two
/// ordinary batches.
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
    /// Target size of a batch. Only a single larger object exceeds it.
    pub batch_bytes: usize,
    /// Maximum size of an object. A larger one is malformed, and reading continues after it.
    pub object_bytes: usize,
    /// Maximum nesting of arrays and objects (10,000 in Go's decoder).
    pub depth: usize,
}

impl Default for Limits {
    /// Batches of 512 KiB, objects of up to 16 MiB, 10,000 levels.
    fn default() -> Self {
        Self { batch_bytes: 512 << 10, object_bytes: 16 << 20, depth: 10_000 }
    }
}

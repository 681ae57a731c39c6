//! What an evaluation may use, and why it may end without a value.

use std::cell::Cell;
use std::sync::Arc;

/// The part of an expression that named something absent: an operation of a program, and how many of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub(crate) op: u32,
    pub(crate) steps: usize,
}

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It asks for what CEL does not have, such as the order of a text and a number.
    Error(Arc<str>),
    /// It reads a field that is not there, of data without a schema.
    Absent(Place),
    /// It would cost more than it may, or needs more steps than it may have.
    Limit,
    /// It needs more memory than it may have.
    Room,
    /// What upstream runs into by mistake: no other side of `||` makes up for it.
    Internal,
}

/// A value, or why there is none.
pub type Result<T, E = Fault> = std::result::Result<T, E>;

impl Fault {
    /// A fault with a text.
    pub fn error(text: impl Into<Arc<str>>) -> Self {
        Self::Error(text.into())
    }

    /// Whether it ends the expression, whatever else there is.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Limit | Self::Room | Self::Internal)
    }

    pub(crate) fn no_overload() -> Self {
        Self::error("no such overload")
    }
}

/// Steps and memory that are left. Steps also bound work that costs nothing in cel-go: values may share their parts, so
/// that going over them takes exponential time.
#[derive(Debug)]
pub struct Budget {
    steps: Cell<u64>,
    room: Cell<u64>,
}

impl Budget {
    /// A budget of steps, and of bytes that may be allocated.
    #[must_use]
    pub const fn new(steps: u64, room: u64) -> Self {
        Self { steps: Cell::new(steps), room: Cell::new(room) }
    }

    /// Where costs are what is limited.
    pub(crate) const fn of_costs() -> Self {
        Self::new(20_000_000, u64::MAX)
    }

    /// Takes steps.
    ///
    /// # Errors
    /// If there are not as many left.
    pub fn step(&self, steps: u64) -> Result<()> {
        self.steps.set(self.steps.get().checked_sub(steps).ok_or(Fault::Limit)?);
        Ok(())
    }

    /// Takes room, and the steps of filling it.
    ///
    /// # Errors
    /// If there is not as much left.
    pub fn allocate(&self, bytes: usize) -> Result<()> {
        self.room.set(self.room.get().checked_sub(bytes as u64).ok_or(Fault::Room)?);
        self.step(bytes as u64 / 64)
    }
}

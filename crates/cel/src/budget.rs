//! Evaluation budget, and evaluation errors.

use std::cell::Cell;
use std::sync::Arc;

/// The expression part that refers to something absent: an operation of a program, and the number of its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub(crate) op: u32,
    pub(crate) steps: usize,
}

/// Evaluation error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An operation that CEL does not define, such as ordering a string and a number.
    Error(Arc<str>),
    /// A missing field of data without a schema.
    Absent(Place),
    /// The cost or step limit.
    Limit,
    /// The memory limit.
    Room,
    /// An error that upstream does not let `||` and `&&` absorb.
    Internal,
}

/// A value, or an evaluation error.
pub type Result<T, E = Fault> = std::result::Result<T, E>;

impl Fault {
    /// An error with a message.
    pub fn error(text: impl Into<Arc<str>>) -> Self {
        Self::Error(text.into())
    }

    /// Whether it ends the evaluation unconditionally.
    #[must_use]
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Limit | Self::Room | Self::Internal)
    }

    pub(crate) fn no_overload() -> Self {
        Self::error("no such overload")
    }
}

/// Remaining steps and memory. Steps also limit work without a cost in cel-go: values may share parts, so that
/// traversing them takes exponential time.
#[derive(Debug)]
pub struct Budget {
    steps: Cell<u64>,
    room: Cell<u64>,
}

impl Budget {
    /// A budget of steps and allocated bytes.
    #[must_use]
    pub const fn new(steps: u64, room: u64) -> Self {
        Self { steps: Cell::new(steps), room: Cell::new(room) }
    }

    /// A budget for evaluations that limit costs instead.
    pub(crate) const fn of_costs() -> Self {
        Self::new(20_000_000, u64::MAX)
    }

    /// Begins anew with as many steps and bytes.
    pub fn refill(&self, steps: u64, room: u64) {
        self.steps.set(steps);
        self.room.set(room);
    }

    /// Consumes steps.
    ///
    /// # Errors
    /// Fewer steps are left.
    pub fn step(&self, steps: u64) -> Result<()> {
        self.steps.set(self.steps.get().checked_sub(steps).ok_or(Fault::Limit)?);
        Ok(())
    }

    /// Consumes memory, and the steps to fill it.
    ///
    /// # Errors
    /// Less memory is left.
    pub fn allocate(&self, bytes: usize) -> Result<()> {
        self.room.set(self.room.get().checked_sub(bytes as u64).ok_or(Fault::Room)?);
        self.step(bytes as u64 / 64)
    }
}

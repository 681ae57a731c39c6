//! What an evaluation may use, and how it ends early.

use std::cell::Cell;

/// Steps of one evaluation: a node of the expression, an element that is gone over, or 64 bytes of text are one each.
/// Rules need some dozens; this many take a few milliseconds.
pub(crate) const STEPS: usize = 100_000;

/// Bytes that one evaluation may allocate in all.
pub(crate) const ROOM: usize = 1 << 20;

/// Why an expression has no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It touches a field that is not there: the number of the node of the program.
    Absent(u32),
    /// It asks for what CEL does not have, such as the order of a text and a number.
    Error(Box<str>),
    /// It needs more steps than it may have.
    Steps,
    /// It needs more memory than it may have.
    Room,
}

impl Fault {
    pub(crate) fn error(text: impl Into<Box<str>>) -> Self {
        Self::Error(text.into())
    }

    /// Whether evaluation must end, whatever the other side of `||` says.
    pub(crate) fn is_limit(&self) -> bool {
        matches!(self, Self::Steps | Self::Room)
    }
}

/// What is left of the budget.
#[derive(Debug)]
pub(crate) struct Fuel {
    steps: Cell<usize>,
    room: Cell<usize>,
}

impl Fuel {
    pub(crate) fn new() -> Self {
        Self { steps: Cell::new(STEPS), room: Cell::new(ROOM) }
    }

    pub(crate) fn step(&self) -> Result<(), Fault> {
        self.steps(1)
    }

    pub(crate) fn steps(&self, steps: usize) -> Result<(), Fault> {
        self.steps.set(self.steps.get().checked_sub(steps).ok_or(Fault::Steps)?);
        Ok(())
    }

    pub(crate) fn allocate(&self, bytes: usize) -> Result<(), Fault> {
        self.room.set(self.room.get().checked_sub(bytes).ok_or(Fault::Room)?);
        self.steps(bytes / 64)
    }
}

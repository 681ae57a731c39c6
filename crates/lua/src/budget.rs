//! Run budget, shared by the instruction hook and the functions in Rust.

use std::cell::Cell;
use std::time::Instant;

use crate::{Error, Limits};

/// A limit was reached. The [`Budget`] records which one.
pub(crate) struct Spent;

/// Resource limits of one run. After the first exceeded limit, all requests fail until the next run.
pub(crate) struct Budget {
    limits: Cell<Limits>,
    left: Cell<u64>,
    started: Cell<Instant>,
    reached: Cell<Option<Limit>>,
}

#[derive(Clone, Copy)]
pub(crate) enum Limit {
    Instructions,
    Memory,
    Time,
}

impl Budget {
    pub(crate) fn new() -> Self {
        Self {
            limits: Cell::new(Limits::default()),
            left: Cell::new(0),
            started: Cell::new(Instant::now()),
            reached: Cell::new(None),
        }
    }

    pub(crate) fn start(&self, limits: &Limits) {
        self.limits.set(*limits);
        self.left.set(limits.instructions);
        self.started.set(Instant::now());
        self.reached.set(None);
    }

    pub(crate) fn charge(&self, instructions: u64) -> Result<(), Spent> {
        if self.reached.get().is_some() {
            return Err(Spent);
        }
        match self.left.get().checked_sub(instructions) {
            None => self.reach(Limit::Instructions),
            Some(_) if self.started.get().elapsed() > self.limits.get().time => self.reach(Limit::Time),
            Some(left) => self.left.set(left),
        }
        if self.reached.get().is_some() { Err(Spent) } else { Ok(()) }
    }

    /// Records an exceeded limit; only the first one counts.
    pub(crate) fn reach(&self, limit: Limit) {
        if self.reached.get().is_none() {
            self.reached.set(Some(limit));
        }
    }

    /// Maximum length of a string: the memory limit.
    pub(crate) fn memory(&self) -> usize {
        self.limits.get().memory
    }

    /// The error for the exceeded limit, if any.
    pub(crate) fn error(&self) -> Option<Error> {
        let limits = self.limits.get();
        self.reached.get().map(|limit| match limit {
            Limit::Instructions => Error::Instructions { limit: limits.instructions },
            Limit::Memory => Error::Memory { limit: limits.memory },
            Limit::Time => Error::Time { limit: limits.time },
        })
    }
}

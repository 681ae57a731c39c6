//! Fault enumeration for controllers: see [`settled_faults`]. With the feature `faults`, for tests.

pub use settled_faults::*;

use crate::clock::Clock;

impl<W: World> From<&Context<W>> for Clock {
    /// The clock of a run, which follows tokio's virtual time.
    fn from(context: &Context<W>) -> Self {
        let now = context.clock();
        Self::new(move || now())
    }
}

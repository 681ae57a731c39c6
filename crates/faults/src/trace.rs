//! Trace: events of a run in order, for the report of a failure.

use std::fmt;
use std::time::Duration;

use crate::schedule::Place;

/// Author of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    User,
    /// The controller, since its nth start.
    Controller(u32),
    /// A built-in controller of the server.
    Server,
    /// Another client, on behalf of a fault.
    Other,
    /// The fault itself.
    Fault,
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User => f.write_str("user"),
            Self::Controller(1) => f.write_str("controller"),
            Self::Controller(start) => write!(f, "controller/{start}"),
            Self::Server => f.write_str("server"),
            Self::Other => f.write_str("other"),
            Self::Fault => f.write_str("fault"),
        }
    }
}

/// One line of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceLine {
    pub(crate) at: Duration,
    pub(crate) actor: Actor,
    /// The write, if it is one.
    pub(crate) write: Option<Place>,
    pub(crate) text: String,
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = format!("{:.3}s", self.at.as_secs_f64());
        let write = self.write.map(|write| format!("#{write}")).unwrap_or_default();
        write!(f, "{seconds:>9}  {:<13} {write:>4} {}", self.actor.to_string(), self.text)
    }
}

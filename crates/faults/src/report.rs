//! Report: extent of the exploration, and for each failure the smallest schedule that reproduces it, with its trace.

use std::fmt;
use std::time::Duration;

use crate::checks::Violation;
use crate::schedule::Schedule;
use crate::trace::TraceLine;

/// Number of lines of the trace that a failure prints from its beginning, and from its end.
const SHOWN: usize = 60;

/// A failed check, and how to reproduce it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The check and its message.
    pub violation: Violation,
    /// The smallest schedule that reproduces it.
    pub schedule: Schedule,
    /// Seed of UIDs and generated names.
    pub seed: u64,
    pub(crate) trace: Vec<TraceLine>,
}

impl Failure {
    /// Trace: writes, events and faults.
    pub fn trace(&self) -> impl Iterator<Item = String> {
        self.trace.iter().map(TraceLine::to_string)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.violation)?;
        let schedule = self.schedule.to_string();
        let named = if schedule.is_empty() { "no fault" } else { &schedule };
        writeln!(f, "  schedule: {named}; seed {}", self.seed)?;
        writeln!(
            f,
            "  replay:   settled_faults::replay(&controller, &scenario, &{schedule:?}.parse()?, &Options::default().seed({}))",
            self.seed
        )?;
        let (begin, middle, end) = match self.trace.split_at_checked(SHOWN) {
            Some((begin, rest)) => {
                let (middle, end) = rest.split_at(rest.len().saturating_sub(SHOWN));
                (begin, middle.len(), end)
            }
            None => (self.trace.as_slice(), 0, [].as_slice()),
        };
        begin.iter().try_for_each(|line| writeln!(f, "  {line}"))?;
        if middle > 0 {
            writeln!(f, "  ... {middle} lines")?;
        }
        end.iter().try_for_each(|line| writeln!(f, "  {line}"))
    }
}

/// Result of exploring a controller. `Display` prints all of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The name of the scenario.
    pub scenario: String,
    /// Number of writes of the controller without faults, including calls of the external system.
    pub writes: usize,
    /// Number of schedules that were run.
    pub schedules: usize,
    /// Number of all schedules.
    pub possible: usize,
    /// Elapsed time.
    pub elapsed: Duration,
    /// Each failure is of another check.
    pub failures: Vec<Failure>,
}

impl Report {
    /// Whether every run passed all checks.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.failures.is_empty()
    }

    /// Number of schedules per minute.
    #[must_use]
    pub fn per_minute(&self) -> f64 {
        let schedules = u32::try_from(self.schedules).unwrap_or(u32::MAX);
        f64::from(schedules) * 60.0 / self.elapsed.as_secs_f64().max(f64::EPSILON)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match self.failures.len() {
            0 => "all pass".to_owned(),
            1 => "1 check fails".to_owned(),
            failures => format!("{failures} checks fail"),
        };
        writeln!(
            f,
            "{}: {} of {} schedules over {} writes in {:.1}s ({:.0} per minute): {outcome}",
            self.scenario,
            self.schedules,
            self.possible,
            self.writes,
            self.elapsed.as_secs_f64(),
            self.per_minute(),
        )?;
        self.failures.iter().try_for_each(|failure| write!(f, "\n{failure}"))
    }
}

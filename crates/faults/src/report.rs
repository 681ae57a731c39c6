//! Report: how much was explored, and for each failure the smallest schedule that shows it, with what happened.

use std::fmt;
use std::time::Duration;

use crate::checks::Violation;
use crate::schedule::Schedule;
use crate::trace::TraceLine;

/// Of how many lines at the beginning and at the end the text of a failure has its trace.
const SHOWN: usize = 60;

/// A check that failed, and how to see it again.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The check, and what was found.
    pub violation: Violation,
    /// The smallest schedule that shows it.
    pub schedule: Schedule,
    /// What UIDs and generated names depended on.
    pub seed: u64,
    pub(crate) trace: Vec<TraceLine>,
}

impl Failure {
    /// What happened: writes, events and faults, a line each.
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

/// What exploring a controller came to. Its text has everything.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The name of the scenario.
    pub scenario: String,
    /// How many writes the controller sends without faults, calls of the external system among them.
    pub writes: usize,
    /// How many schedules were run.
    pub schedules: usize,
    /// How many there are, of which these are a share.
    pub possible: usize,
    /// How long it took.
    pub elapsed: Duration,
    /// Each failure is of another check.
    pub failures: Vec<Failure>,
}

impl Report {
    /// Did every run pass all checks?
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.failures.is_empty()
    }

    /// How many schedules were run per minute.
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

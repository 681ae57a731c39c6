//! Schedules: which faults are injected at which writes of a run, and when the edits of the scenario are made.

use std::fmt;
use std::str::FromStr;

/// A fault at a write of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The controller crashes before the write is performed, and starts again with empty memory.
    CrashBefore,
    /// The write is performed, and the controller crashes before it has the response.
    CrashAfter,
    /// The write is performed, and the connection breaks before the response.
    LostResponse,
    /// Another client writes the object just before; the write is refused with `409 Conflict`.
    Conflict,
    /// From the write on, all watches lag by this many events, for [`Options::fault_window`](crate::Options::fault_window).
    Stale(u32),
    /// As [`Fault::Stale`], for the watches of one resource only: its objects are staler than those of other resources.
    StaleWatch {
        /// Number of the resource, in the order in which the controller first watches them, from 1. In
        /// [`Options::faults`](crate::Options::faults), 0 stands for each of them in turn.
        watch: u32,
        /// Number of undelivered events.
        events: u32,
    },
    /// As [`Fault::CrashAfter`], with a restart on an API server whose cache is stale by so many writes ("time travel"). For
    /// [`Options::fault_window`](crate::Options::fault_window), lists that accept any version (`resourceVersion=0`) return the
    /// objects of that time, and watches deliver nothing newer. Lists without a resourceVersion are consistent, as in Kubernetes.
    StaleList(u32),
    /// After the write, the next event of each watch is delivered twice.
    Duplicate,
    /// From the write on, nothing comes through the watches that are open; after
    /// [`Options::fault_window`](crate::Options::fault_window) they end with `410 Expired`.
    Expired,
    /// Just before the write, another instance takes over the controller's Leases, for 40 s. In that time, the next edit is made.
    LostLease,
    /// Just before the write, the next edit of the scenario is made.
    Edit,
    /// The API server is killed after the write, and starts again: for [`explore_server`](crate::explore_server) alone.
    Restart,
}

impl Fault {
    /// All faults of a controller, with watches and lists that lag by one and by three events.
    pub const ALL: [Self; 14] = [
        Self::CrashBefore,
        Self::CrashAfter,
        Self::LostResponse,
        Self::Conflict,
        Self::Stale(1),
        Self::Stale(3),
        Self::StaleWatch { watch: 0, events: 1 },
        Self::StaleWatch { watch: 0, events: 3 },
        Self::StaleList(1),
        Self::StaleList(3),
        Self::Duplicate,
        Self::Expired,
        Self::LostLease,
        Self::Edit,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::CrashBefore => "crash-before",
            Self::CrashAfter => "crash-after",
            Self::LostResponse => "lost-response",
            Self::Conflict => "conflict",
            Self::Stale(_) => "stale",
            Self::StaleWatch { .. } => "stale-watch",
            Self::StaleList(_) => "stale-list",
            Self::Duplicate => "duplicate",
            Self::Expired => "expired",
            Self::LostLease => "lost-lease",
            Self::Edit => "edit",
            Self::Restart => "restart",
        }
    }

    /// Whether it can be injected at a call of the external system.
    pub(crate) const fn befalls_calls(self) -> bool {
        !matches!(self, Self::Conflict)
    }

    /// Whether it can be injected at a write of a Lease or an Event.
    pub(crate) const fn befalls_auxiliary(self) -> bool {
        matches!(self, Self::CrashBefore | Self::CrashAfter)
    }

    /// The next simpler fault.
    const fn simpler(self) -> Option<Self> {
        match self {
            Self::Stale(events) if events > 1 => Some(Self::Stale(events - 1)),
            Self::StaleWatch { watch, events } if events > 1 => {
                Some(Self::StaleWatch { watch, events: events - 1 })
            }
            Self::StaleList(events) if events > 1 => Some(Self::StaleList(events - 1)),
            Self::StaleList(_) => Some(Self::CrashAfter),
            _ => None,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stale(events) | Self::StaleList(events) => write!(f, "{}({events})", self.name()),
            Self::StaleWatch { watch, events } => write!(f, "{}({watch},{events})", self.name()),
            other => f.write_str(other.name()),
        }
    }
}

impl FromStr for Fault {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let unknown = || ScheduleError(text.to_owned());
        if let Some((name, numbers)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
            let number = |text: &str| text.parse::<u32>().map_err(|_| unknown());
            return match (name, numbers.split_once(',')) {
                ("stale", None) => Ok(Self::Stale(number(numbers)?)),
                ("stale-list", None) => Ok(Self::StaleList(number(numbers)?)),
                ("stale-watch", Some((watch, events))) => match number(watch)? {
                    // It stands for several faults.
                    0 => Err(unknown()),
                    watch => Ok(Self::StaleWatch { watch, events: number(events)? }),
                },
                _ => Err(unknown()),
            };
        }
        let has_numbers =
            |fault: &Self| matches!(fault, Self::Stale(_) | Self::StaleWatch { .. } | Self::StaleList(_));
        let plain = |fault: &Self| !has_numbers(fault) && fault.name() == text;
        Self::ALL.into_iter().chain([Self::Restart]).find(plain).ok_or_else(unknown)
    }
}

/// A write of a run. Its text is `3`, or `3.2` for the second write of a Lease or an Event after write 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Number of the write, from 1, including calls of the external system; 0 before the first one.
    pub write: usize,
    /// Number of the write of a Lease or an Event since then, from 1; 0 for the write itself.
    pub auxiliary: usize,
}

impl Place {
    /// A write that is neither of a Lease nor of an Event.
    #[must_use]
    pub const fn of_write(write: usize) -> Self {
        Self { write, auxiliary: 0 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.write)?;
        if self.auxiliary > 0 { write!(f, ".{}", self.auxiliary) } else { Ok(()) }
    }
}

impl FromStr for Place {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let number = |text: &str| text.parse::<usize>().map_err(|_| ScheduleError(text.to_owned()));
        match text.split_once('.') {
            None => Ok(Self::of_write(number(text)?)),
            Some((write, auxiliary)) => Ok(Self { write: number(write)?, auxiliary: number(auxiliary)? }),
        }
    }
}

/// A fault at a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Injection {
    /// The write.
    pub place: Place,
    /// The fault.
    pub fault: Fault,
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.fault, self.place)
    }
}

/// When the edits of a scenario are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Edits {
    /// Each once the controller is idle after the previous one.
    #[default]
    Apart,
    /// A range of edits (counted from 1) at once, while the controller runs.
    Together {
        /// The first.
        first: usize,
        /// The last.
        last: usize,
    },
    /// A range of edits while the controller is stopped: it observes the last state only.
    Unobserved {
        /// The first.
        first: usize,
        /// The last.
        last: usize,
    },
}

impl Edits {
    /// Edits that are made at once, if any.
    pub(crate) const fn range(self) -> Option<(usize, usize)> {
        match self {
            Self::Apart => None,
            Self::Together { first, last } | Self::Unobserved { first, last } => Some((first, last)),
        }
    }
}

impl fmt::Display for Edits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Apart => f.write_str("apart"),
            Self::Together { first, last } => write!(f, "together({first}-{last})"),
            Self::Unobserved { first, last } => write!(f, "unobserved({first}-{last})"),
        }
    }
}

impl FromStr for Edits {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let unknown = || ScheduleError(text.to_owned());
        if text == "apart" {
            return Ok(Self::Apart);
        }
        let (name, range) =
            text.strip_suffix(')').and_then(|text| text.split_once('(')).ok_or_else(unknown)?;
        let (first, last) = range.split_once('-').ok_or_else(unknown)?;
        let (Ok(first), Ok(last)) = (first.parse(), last.parse()) else { return Err(unknown()) };
        match name {
            "together" => Ok(Self::Together { first, last }),
            "unobserved" => Ok(Self::Unobserved { first, last }),
            _ => Err(unknown()),
        }
    }
}

/// Faults and edits of a run. Failures print it as text, which [`replay`](crate::replay) accepts.
///
/// ```
/// use settled_faults::{Fault, Schedule};
///
/// let schedule: Schedule = "crash-after@3 stale(2)@5".parse()?;
/// assert_eq!(schedule.injections[1].fault, Fault::Stale(2));
/// assert_eq!(schedule.to_string(), "crash-after@3 stale(2)@5");
/// # Ok::<(), settled_faults::ScheduleError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Schedule {
    /// When the edits of the scenario are made.
    pub edits: Edits,
    /// The faults, by write.
    pub injections: Vec<Injection>,
}

/// Parse error of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a fault of a schedule: {0:?}")]
pub struct ScheduleError(String);

impl Schedule {
    /// A schedule with one fault.
    #[must_use]
    pub fn single(write: usize, fault: Fault) -> Self {
        Self::default().and(write, fault)
    }

    /// Adds a fault.
    #[must_use]
    pub fn and(self, write: usize, fault: Fault) -> Self {
        self.with(Injection { place: Place::of_write(write), fault })
    }

    /// Adds a fault at any write.
    #[must_use]
    pub fn with(mut self, injection: Injection) -> Self {
        self.injections.push(injection);
        self.injections.sort();
        self
    }

    /// Whether it has no faults, and all edits are made one after the other.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.edits == Edits::Apart && self.injections.is_empty()
    }

    /// Faults at a write.
    pub(crate) fn at(&self, place: Place) -> impl Iterator<Item = Fault> {
        self.injections
            .iter()
            .filter(move |injection| injection.place == place)
            .map(|injection| injection.fault)
    }

    /// Simpler schedules, each with one element removed or simplified.
    pub(crate) fn simpler(&self) -> Vec<Self> {
        let mut simpler = Vec::new();
        if self.edits != Edits::Apart {
            simpler.push(Self { edits: Edits::Apart, ..self.clone() });
        }
        for index in 0..self.injections.len() {
            let mut without = self.clone();
            without.injections.remove(index);
            simpler.push(without);
        }
        for (index, injection) in self.injections.iter().enumerate() {
            if let Some(fault) = injection.fault.simpler() {
                let mut less = self.clone();
                if let Some(injection) = less.injections.get_mut(index) {
                    injection.fault = fault;
                }
                simpler.push(less);
            }
        }
        simpler
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edits = (self.edits != Edits::Apart).then(|| format!("edits={}", self.edits));
        let words: Vec<String> =
            edits.into_iter().chain(self.injections.iter().map(Injection::to_string)).collect();
        f.write_str(&words.join(" "))
    }
}

impl FromStr for Schedule {
    type Err = ScheduleError;

    fn from_str(text: &str) -> Result<Self, ScheduleError> {
        let mut schedule = Self::default();
        for word in text.split_whitespace() {
            if let Some(edits) = word.strip_prefix("edits=") {
                schedule.edits = edits.parse()?;
                continue;
            }
            let (fault, write) = word.rsplit_once('@').ok_or_else(|| ScheduleError(word.to_owned()))?;
            schedule = schedule.with(Injection { place: write.parse()?, fault: fault.parse()? });
        }
        Ok(schedule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_they_are_written() {
        for text in [
            "",
            "crash-before@1",
            "lost-response@2 stale(3)@4 expired@7",
            "edits=together(1-3) conflict@2",
            "edits=unobserved(2-3)",
            "restart@12",
            "crash-before@0.1 crash-after@3.2 conflict@4",
            "stale-watch(2,1)@3 stale-list(3)@4",
        ] {
            assert_eq!(text.parse::<Schedule>().unwrap().to_string(), text);
        }
        for text in [
            "crash",
            "crash-before@x",
            "crash-before@1.x",
            "stale(x)@1",
            "stale-watch(1)@1",
            "stale-watch(0,1)@1",
            "stale-list@1",
            "edits=never",
            "edits=together(1)",
        ] {
            assert!(text.parse::<Schedule>().is_err(), "{text}");
        }
    }

    #[test]
    fn simpler_schedules_have_one_thing_less() {
        let schedule: Schedule = "edits=together(1-2) crash-after@1 stale(2)@3".parse().unwrap();
        let simpler: Vec<String> = schedule.simpler().iter().map(Schedule::to_string).collect();
        assert_eq!(
            simpler,
            [
                "crash-after@1 stale(2)@3",
                "edits=together(1-2) stale(2)@3",
                "edits=together(1-2) crash-after@1",
                "edits=together(1-2) crash-after@1 stale(1)@3",
            ]
        );
        let simpler = |text: &str| {
            let schedules = text.parse::<Schedule>().unwrap().simpler();
            schedules.iter().map(Schedule::to_string).collect::<Vec<_>>()
        };
        assert_eq!(simpler("stale-watch(2,3)@1"), ["", "stale-watch(2,2)@1"]);
        assert_eq!(simpler("stale-list(2)@1"), ["", "stale-list(1)@1"]);
        assert_eq!(simpler("stale-list(1)@1"), ["", "crash-after@1"]);
    }
}

//! Evaluation options.

use std::fmt;
use std::str::FromStr;

use jiff::{SignedDuration, Timestamp};

crate::verdict::wire_enum! {
    /// Evaluation profile.
    pub enum Profile ("profile") {
        /// The same vocabulary without upstream's known defects: never Current by mistake.
        Settled = "settled",
        /// Upstream kstatus to the letter, defects included.
        Kstatus = "kstatus",
    }
}

/// Evaluation options.
///
/// ```
/// use kstatus::{Options, Profile};
/// let now = "2026-11-21T12:00:00Z".parse().unwrap();
/// let options = Options { profile: Profile::Kstatus, ..Options::new(now) };
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Evaluation profile.
    pub profile: Profile,
    /// The present time: how long a deletion lasts, since when a Pod is unschedulable. The library has no clock.
    pub now: Timestamp,
    /// Call an object that says nothing about its state Current instead of Unknown (profile `settled` only;
    /// upstream always does).
    pub assume_current: bool,
    /// Whether an Ingress or a Gateway is only Current once it has an address. Some controllers never set one: turn
    /// it off for them (profile `settled` only).
    pub require_address: bool,
    /// How long a Pod may be unschedulable before that is a failure, counted from the transition of its
    /// `PodScheduled` condition (profile `settled` only; upstream counts 15 s from the creation).
    pub schedule_grace: SignedDuration,
    /// Whether messages say for how long something is so (profile `settled` only). Turn it off to keep a verdict: the age in it
    /// would not go on.
    pub ages: bool,
}

impl Options {
    /// The defaults, at a given time: profile `settled`, nothing assumed, addresses required, 15 s to be scheduled.
    #[must_use]
    pub const fn new(now: Timestamp) -> Self {
        Self {
            profile: Profile::Settled,
            now,
            assume_current: false,
            require_address: true,
            schedule_grace: SignedDuration::from_secs(15),
            ages: true,
        }
    }
}

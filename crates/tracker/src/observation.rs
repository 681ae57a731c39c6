//! Observations, from which the policy decides: the observed state of a target at a moment, and the least version that counts.

use std::time::Duration;

use jiff::Timestamp;
use kstatus::{FailureClass, Text, Verdict};

use crate::condition::ConditionResult;
use crate::id::Uid;
use crate::record::Record;

/// The least version of a target that counts: the one that was applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MinVersion {
    /// `metadata.uid` after it was applied.
    pub uid: Option<Uid>,
    /// `metadata.generation` after it was applied.
    pub generation: Option<i64>,
    /// `metadata.resourceVersion` after it was applied.
    pub resource_version: Option<u64>,
    /// Its specification was changed by that: a status that does not say of which generation it is may be of the one before.
    pub changed: bool,
}

/// The present moment: for how long the wait lasts, and the time of day by the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Since the wait began.
    pub elapsed: Duration,
    /// The time of day.
    pub wall: Timestamp,
}

/// A failure of a target, or of one of its dependents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedFailure {
    /// Its class, which decides how long it is tolerated.
    pub class: FailureClass,
    /// The reason of the object that has it.
    pub reason: Text,
    /// Whether nothing but a change of the target can help.
    pub terminal: bool,
    /// Since when, by the object's own times.
    pub since: Option<Timestamp>,
}

/// What is known of whether a kind has a status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Evidence {
    /// Not known yet.
    #[default]
    Unknown,
    /// Its definition declares no status.
    NoStatusDeclared,
    /// Other objects of the kind have one.
    OthersReport,
    /// It is declared, or the definition cannot be seen, and no other object has one.
    NobodyReports,
    /// The same, but other objects cannot be seen.
    Unseen,
}

/// The observed state of a target.
#[derive(Clone, Copy, Debug)]
pub enum Observation<'a> {
    /// Its initial list is not complete.
    NotYet,
    /// The server does not have its kind.
    NoKind {
        /// Whether absence is what is waited for, one condition after another.
        results: &'a [ConditionResult],
    },
    /// It is not there; how it was when it was deleted, if that was seen.
    Absent {
        /// Whether absence is what is waited for, one condition after another.
        results: &'a [ConditionResult],
        /// How it was when it was deleted.
        last: Option<&'a Record>,
    },
    /// It is there.
    Present {
        /// The object.
        record: &'a Record,
        /// Its failures, and those of its dependents: one of each class.
        failures: &'a [ObservedFailure],
        /// Whether all its dependents were seen once: before, there may be failures that were not observed yet.
        whole: bool,
        /// Why nothing more will happen by itself, although it isn't Current: a claim that waits for its first consumer.
        excuse: Option<&'static str>,
        /// What is known of its kind.
        evidence: Evidence,
        /// The status that another object has of it.
        reported: Reported<'a>,
    },
}

/// The status of an object that stands in another object.
#[derive(Clone, Copy, Debug)]
pub enum Reported<'a> {
    /// There is no such object.
    Nothing,
    /// These objects were not read yet.
    NotRead,
    /// The verdict by that object.
    Verdict(&'a Verdict),
}

//! Wait limits: timeouts, grace periods, which failures end a wait early.

use std::collections::BTreeMap;
use std::time::Duration;

use kstatus::FailureClass;

/// What to do about a target that doesn't exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// Wait for one that was never there; one that was deleted during the wait counts as failed after a grace.
    #[default]
    Auto,
    /// Wait for it.
    Wait,
    /// It counts as failed.
    Fail,
    /// It counts as done.
    Done,
}

/// When a wait ends, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The wait ends then at the latest. Zero: once all is seen. None: never.
    pub timeout: Option<Duration>,
    /// A target that isn't done by then counts as failed.
    pub target_timeout: Option<Duration>,
    /// For how long all targets must be what is waited for, without a break.
    pub stable: Duration,
    /// Which classes of failure end the wait early. A failed target of any other class counts as failed, too, and the wait goes on
    /// for the others.
    pub fail_fast: Vec<FailureClass>,
    /// How long a failure of a class is tolerated, where that is another time than [`grace`].
    pub grace: BTreeMap<FailureClass, Duration>,
    /// What to do about targets that don't exist.
    pub missing: Missing,
    /// How long a target that was deleted during the wait may take to come back.
    pub deleted_grace: Duration,
    /// How long an object may have no status where no object of its kind has one, before that counts as done.
    pub silent_grace: Duration,
    /// How long a status without observedGeneration may be from before the apply, if the object is not written to.
    pub untouched_grace: Duration,
    /// Whether failures count for conditions that were named explicitly, too.
    pub fail_fast_always: bool,
}

impl Default for Limits {
    /// Five minutes; fail fast for all classes, each with its [`grace`].
    fn default() -> Self {
        Self {
            timeout: Some(Duration::from_secs(300)),
            target_timeout: None,
            stable: Duration::ZERO,
            fail_fast: FailureClass::ALL.to_vec(),
            grace: BTreeMap::new(),
            missing: Missing::Auto,
            deleted_grace: Duration::from_secs(15),
            silent_grace: Duration::from_secs(30),
            untouched_grace: Duration::from_secs(10),
            fail_fast_always: false,
        }
    }
}

/// How long a failure of a class is tolerated, unless the limits say otherwise. None: as long as the wait.
///
/// | class | grace | why |
/// |---|---|---|
/// | image | 30 s | two more pulls; registries hiccup |
/// | crash | 60 s | three restarts; the first may come before a database is up |
/// | configuration | 20 s | what it refers to may be applied next |
/// | quota | 30 s | a surge ends when old Pods are gone |
/// | scheduling | 5 min | an autoscaler adds a node within minutes |
/// | storage | 2 min | volumes take their time to be made |
/// | deadline, job | 0 s | the controller itself has given up |
/// | probe, network, deletion | the whole wait | starting, getting an address and finalizing are slow, not broken |
/// | other | 30 s | a controller that says Failed may be about to try again |
#[must_use]
pub fn grace(class: FailureClass) -> Option<Duration> {
    let seconds = match class {
        FailureClass::Image | FailureClass::Quota | FailureClass::Other => 30,
        FailureClass::Crash => 60,
        FailureClass::Configuration => 20,
        FailureClass::Scheduling => 300,
        FailureClass::Storage => 120,
        FailureClass::Deadline | FailureClass::Job => 0,
        FailureClass::Probe | FailureClass::Network | FailureClass::Deletion => return None,
    };
    Some(Duration::from_secs(seconds))
}

//! Checks: what must hold after each write, and once a run has come to rest. Each is a function of what was observed.

mod claims;
mod conditions;
pub(crate) mod fencing;
mod generation;

use std::fmt;

use serde_json::Value;

use crate::cluster::{Cluster, View};
use crate::scenario::Scenario;
use crate::world::World;

pub(crate) use claims::leaks;
pub(crate) use generation::Delivered;

/// What a controller was found to violate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Check {
    /// It ends in the same state as without faults, but for UIDs, times, versions and generated names.
    Convergence,
    /// Edits that come at once, or while it is down, end in the same state as when it sees each of them.
    LevelBased,
    /// Status never claims what does not exist.
    FalseClaim,
    /// Effects follow the writes that permit them.
    Order,
    /// Nothing is granted twice.
    DoubleGrant,
    /// Nothing outside of the cluster outlives the object that it was made for.
    Leak,
    /// It comes to rest, and stays so when it is started again.
    Quiescence,
    /// `observedGeneration` grows, is never ahead of `metadata.generation`, and is of a spec that was read.
    ObservedGeneration,
    /// `lastTransitionTime` changes when the status of the condition does, and only then.
    TransitionTime,
    /// What other clients write to an object survives.
    LostUpdate,
    /// It does not act while another instance holds its Lease.
    Fencing,
    /// An invariant of the scenario.
    Invariant,
    /// It does not panic.
    Panic,
    /// The same schedule gives the same writes.
    Determinism,
    /// The server understands the edits of the scenario: otherwise it is the scenario that is wrong, not the controller.
    Edit,
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Convergence => "convergence",
            Self::LevelBased => "level-based",
            Self::FalseClaim => "false claim",
            Self::Order => "order",
            Self::DoubleGrant => "double grant",
            Self::Leak => "leak",
            Self::Quiescence => "quiescence",
            Self::ObservedGeneration => "observedGeneration",
            Self::TransitionTime => "lastTransitionTime",
            Self::LostUpdate => "lost update",
            Self::Fencing => "fencing",
            Self::Invariant => "invariant",
            Self::Panic => "panic",
            Self::Determinism => "determinism",
            Self::Edit => "edit",
        })
    }
}

/// A check that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub check: Check,
    /// What was found.
    pub message: String,
}

impl Violation {
    pub(crate) fn new(check: Check, message: impl Into<String>) -> Self {
        Self { check, message: message.into() }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.message)
    }
}

/// What is wrong with a write of the controller.
pub(crate) fn of_write(
    old: Option<&Value>,
    new: &Value,
    delivered: &Delivered,
    now: jiff::Timestamp,
) -> impl Iterator<Item = Violation> {
    let generation = generation::check(old, new, delivered)
        .map(|message| Violation::new(Check::ObservedGeneration, message));
    let times =
        conditions::check(old, new, now).map(|message| Violation::new(Check::TransitionTime, message));
    generation.into_iter().chain(times)
}

/// Violations by a change of the external system.
pub(crate) fn of_call<W: World>(
    scenario: &Scenario<W>,
    before: &W,
    cluster: &Cluster,
    world: &W,
) -> Vec<Violation> {
    let view = View { cluster, world };
    let found = scenario.orders.iter().filter_map(|(name, holds)| {
        let message = holds(before, &view).err()?;
        Some(Violation::new(Check::Order, format!("{name}: {message}")))
    });
    found.collect()
}

/// What is wrong with the state after a write.
pub(crate) fn of_state<W: World>(scenario: &Scenario<W>, cluster: &Cluster, world: &W) -> Vec<Violation> {
    let view = View { cluster, world };
    let mut found = Vec::new();
    let mut add = |check, result: Result<(), String>| {
        found.extend(result.err().map(|message| Violation::new(check, message)));
    };
    add(Check::FalseClaim, claims::promised(scenario, &view));
    add(Check::FalseClaim, claims::claimed(scenario, &view));
    add(Check::DoubleGrant, claims::granted_once(scenario, &view));
    for (name, holds) in &scenario.invariants {
        add(Check::Invariant, holds(&view).map_err(|message| format!("{name}: {message}")));
    }
    found
}

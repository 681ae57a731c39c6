//! `k8s.io/apimachinery/pkg/api/meta`: `SetStatusCondition` and its relatives, with upstream's results.
//!
//! For controllers that are ported from Go and must store what they stored before. Upstream's surprises are kept:
//!
//! - A new reason, message or observed generation leaves the transition time as it is, and the change is reported.
//! - A transition time that comes with an unchanged status is dropped. One that comes with a new status is taken as it is: it may lie before the
//!   old one.
//! - An absent observed generation overwrites a known one, and reports a change. A controller that forgets it in one of two places writes in a
//!   loop.
//! - Nothing is validated, and a stale condition stays until it is removed.
//! - An absent condition is neither true nor false: `!is_status_condition_true(..)` is not `is_status_condition_false(..)`.
//!
//! What upstream's pointers allow and a `&mut Vec` does not, a nil list, has no counterpart.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Go's zero time, 0001-01-01T00:00:00Z, in seconds since 1970: the type of k8s-openapi has no absence of its own.
const ZERO_TIME: i64 = -62_135_596_800;

/// `Time.IsZero`: Go's zero time.
#[must_use]
pub fn is_zero(time: &Time) -> bool {
    time.0.as_second() == ZERO_TIME && time.0.subsec_nanosecond() == 0
}

/// Go's zero time, for a condition whose transition time [`set_status_condition`] is to set.
#[must_use]
pub fn zero_time() -> Time {
    Time(Timestamp::from_second(ZERO_TIME).unwrap_or(Timestamp::MIN))
}

/// `SetStatusCondition`: sets the condition of its type and returns whether anything changed. A transition time of zero counts as not given: then
/// `now` is taken.
pub fn set_status_condition(conditions: &mut Vec<Condition>, new: Condition, now: Timestamp) -> bool {
    let given = Some(&new.last_transition_time).filter(|time| !is_zero(time));
    let transition = given.cloned().unwrap_or(Time(now));
    let Some(existing) = conditions.iter_mut().find(|condition| condition.type_ == new.type_) else {
        conditions.push(Condition { last_transition_time: transition, ..new });
        return true;
    };
    // Go has no other absence than 0.
    let generation = |condition: &Condition| condition.observed_generation.unwrap_or_default();
    let mut changed = false;
    if generation(existing) != generation(&new) {
        existing.observed_generation = new.observed_generation;
        changed = true;
    }
    if existing.status != new.status {
        existing.status = new.status;
        existing.last_transition_time = transition;
        changed = true;
    }
    if existing.reason != new.reason {
        existing.reason = new.reason;
        changed = true;
    }
    if existing.message != new.message {
        existing.message = new.message;
        changed = true;
    }
    changed
}

/// `RemoveStatusCondition`: removes all conditions of the type and returns whether there was one.
pub fn remove_status_condition(conditions: &mut Vec<Condition>, condition_type: &str) -> bool {
    let count = conditions.len();
    conditions.retain(|condition| condition.type_ != condition_type);
    conditions.len() != count
}

/// `FindStatusCondition`: the first condition of the type.
#[must_use]
pub fn find_status_condition<'c>(conditions: &'c [Condition], condition_type: &str) -> Option<&'c Condition> {
    conditions.iter().find(|condition| condition.type_ == condition_type)
}

/// `IsStatusConditionTrue`: an absent condition is not true.
#[must_use]
pub fn is_status_condition_true(conditions: &[Condition], condition_type: &str) -> bool {
    is_status_condition_present_and_equal(conditions, condition_type, "True")
}

/// `IsStatusConditionFalse`: an absent condition is not false, either.
#[must_use]
pub fn is_status_condition_false(conditions: &[Condition], condition_type: &str) -> bool {
    is_status_condition_present_and_equal(conditions, condition_type, "False")
}

/// `IsStatusConditionPresentAndEqual`: the first condition of the type has this status.
#[must_use]
pub fn is_status_condition_present_and_equal(
    conditions: &[Condition],
    condition_type: &str,
    status: &str,
) -> bool {
    find_status_condition(conditions, condition_type).is_some_and(|condition| condition.status == status)
}

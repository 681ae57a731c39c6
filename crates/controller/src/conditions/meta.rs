//! Port of `k8s.io/apimachinery/pkg/api/meta` conditions: `SetStatusCondition` and related functions, with upstream's
//! results.
//!
//! For controllers ported from Go that must store identical conditions. Upstream's quirks are kept:
//!
//! - A new reason, message or observed generation keeps the transition time, and is reported as a change.
//! - A given transition time is ignored if the status is unchanged. With a new status it is used as is, even if it is
//!   before the old one.
//! - An absent observed generation overwrites a known one, and is reported as a change. A controller that omits it in
//!   one of two places writes in a loop.
//! - Nothing is validated, and a stale condition remains until it is removed.
//! - An absent condition is neither true nor false: `!is_status_condition_true(..)` does not imply
//!   `is_status_condition_false(..)`.
//!
//! A nil list, which upstream accepts, has no counterpart.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// Go's zero time, 0001-01-01T00:00:00Z, in seconds since 1970: k8s-openapi's type is not optional.
const ZERO_TIME: i64 = -62_135_596_800;

/// `Time.IsZero`: Go's zero time.
#[must_use]
pub fn is_zero(time: &Time) -> bool {
    time.0.as_second() == ZERO_TIME && time.0.subsec_nanosecond() == 0
}

/// Go's zero time, for a condition whose transition time should be set by [`set_status_condition`].
#[must_use]
pub fn zero_time() -> Time {
    Time(Timestamp::from_second(ZERO_TIME).unwrap_or(Timestamp::MIN))
}

/// `SetStatusCondition`: sets the condition of its type and returns whether anything changed. A zero transition time
/// means `now`.
pub fn set_status_condition(conditions: &mut Vec<Condition>, new: Condition, now: Timestamp) -> bool {
    let given = Some(&new.last_transition_time).filter(|time| !is_zero(time));
    let transition = given.cloned().unwrap_or(Time(now));
    let Some(existing) = conditions.iter_mut().find(|condition| condition.type_ == new.type_) else {
        conditions.push(Condition { last_transition_time: transition, ..new });
        return true;
    };
    // Go represents absence by 0.
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

//! Requests in spec, answers in status (KEP-2527): decisions bound to a generation, write policies, allocation from pools.
//!
//! Users make requests in `spec`; a controller trusted by the consumers answers in `status`. Three rules make such an
//! answer usable:
//!
//! 1. It is explicit. A missing value ("no address yet") cannot be distinguished from a controller that has not answered yet. A
//!    [`Decision`] is [`Granted`](Decision::Granted), [`Deferred`](Decision::Deferred) (may change by itself) or
//!    [`Refused`](Decision::Refused) (final until the request or the pool changes).
//! 2. It has the generation of the spec that it answers: an [`Answer`]. The last granted value is kept beside a newer
//!    refusal ([`Allocation`]), so that consumers continue with the last good generation.
//! 3. It is written in an order that survives a crash between any two steps. The [`policy`] module has the orders that
//!    Kubernetes' APIs use, as types: an effect needs a [`Permit`], which only the preceding step returns.
//!
//! Consumers read answers through [`Trusted`], which gives access to the status, but not to the spec.

mod allocation;
mod companion;
mod key;
pub mod policy;
pub mod pool;
mod repair;
mod replace;
mod trusted;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::conditions::{Finding, Status};

pub use allocation::{Allocation, Grant, Outcome};
pub use companion::{Companion, CompanionLink, OWNER_GENERATION};
pub use key::{IdempotencyKey, Permit};
pub use repair::RepairScan;
pub use replace::{Order, Step, next_step};
pub use trusted::Trusted;

/// A controller's decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision<T> {
    /// Granted with this value, which may differ from the requested one.
    Granted(T),
    /// Not now: may change without a change of the request.
    Deferred(Denial),
    /// Final, until the request or its constraints change.
    Refused(Denial),
}

/// Reason why a request is not granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// CamelCase reason, as in a condition.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// When to retry, if no watch wakes the controller up.
    pub retry_after: Option<Duration>,
}

impl Denial {
    /// A denial without a retry.
    #[must_use]
    pub fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), retry_after: None }
    }

    /// A denial with a retry after some time.
    #[must_use]
    pub fn retry_after(mut self, delay: Duration) -> Self {
        self.retry_after = Some(delay);
        self
    }
}

impl<T> Decision<T> {
    /// The granted value, if any.
    #[must_use]
    pub fn granted(&self) -> Option<&T> {
        match self {
            Self::Granted(value) => Some(value),
            Self::Deferred(_) | Self::Refused(_) => None,
        }
    }

    /// The reason of a denial, if any.
    #[must_use]
    pub fn denial(&self) -> Option<&Denial> {
        match self {
            Self::Granted(_) => None,
            Self::Deferred(denial) | Self::Refused(denial) => Some(denial),
        }
    }

    /// Converts the granted value.
    #[must_use]
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Decision<U> {
        match self {
            Self::Granted(value) => Decision::Granted(convert(value)),
            Self::Deferred(denial) => Decision::Deferred(denial),
            Self::Refused(denial) => Decision::Refused(denial),
        }
    }

    /// Binds the decision to the generation of its request.
    #[must_use]
    pub fn at(self, generation: i64) -> Answer<T> {
        Answer { generation, decision: self }
    }
}

/// A [`Decision`] with the `metadata.generation` of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer<T> {
    /// The generation of the decided spec.
    pub generation: i64,
    /// The decision.
    pub decision: Decision<T>,
}

impl<T> Answer<T> {
    /// Whether it answers the current request rather than an older one.
    #[must_use]
    pub fn is_current(&self, generation: i64) -> bool {
        self.generation == generation
    }

    /// The answer as a finding for [`Conditions::report`](crate::conditions::Conditions::report).
    #[must_use]
    pub fn finding(&self) -> Finding {
        let denied =
            |status, denial: &Denial| Finding::new(status, denial.reason.as_str(), denial.message.as_str());
        match &self.decision {
            Decision::Granted(_) => Finding::new(Status::True, "Granted", ""),
            Decision::Deferred(denial) => denied(Status::Unknown, denial),
            Decision::Refused(denial) => denied(Status::False, denial),
        }
    }

    /// The answer as a condition: `True` when granted, `Unknown` when deferred (not final), `False` when refused. The
    /// transition time is that of `previous` while the status is the same.
    ///
    /// ```
    /// use settled_controller::decision::{Decision, Denial};
    ///
    /// let now = "2026-01-01T00:00:00Z".parse().unwrap();
    /// let refused = Decision::<()>::Refused(Denial::new("OutOfRange", "10.0.0.9 is not in the pool 192.0.2.0/28")).at(4);
    /// let condition = refused.condition("AddressAllocated", None, now);
    /// assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "OutOfRange"));
    /// assert_eq!(condition.observed_generation, Some(4));
    /// ```
    #[must_use]
    pub fn condition(&self, condition_type: &str, previous: Option<&Condition>, now: Timestamp) -> Condition {
        let Finding { status, reason, message } = self.finding();
        let status = status.as_str();
        let unchanged =
            previous.filter(|previous| previous.type_ == condition_type && previous.status == status);
        Condition {
            type_: condition_type.to_owned(),
            status: status.to_owned(),
            reason,
            message,
            observed_generation: Some(self.generation),
            last_transition_time: unchanged
                .map_or(Time(now), |previous| previous.last_transition_time.clone()),
        }
    }
}

//! Recorded decisions: the last decision in status, and the last granted value beside it.

use serde::{Deserialize, Serialize};

use super::{Answer, Decision, Denial};

/// A request's answer in status.
///
/// ```
/// use settled_controller::decision::{Allocation, Decision, Denial};
///
/// let mut allocation = Allocation::default();
/// allocation.record(Decision::Granted("192.0.2.1".to_owned()).at(1));
/// allocation.record(Decision::Refused(Denial::new("OutOfRange", "")).at(2));
///
/// // Generation 2 is refused; the address of generation 1 is still the object's.
/// assert_eq!(allocation.current(2), None);
/// assert_eq!(allocation.last_good().map(|grant| grant.value.as_str()), Some("192.0.2.1"));
/// assert!(allocation.is_answered(2) && !allocation.is_answered(3));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Allocation<T> {
    /// The generation of the last decision; 0 if there is none.
    #[serde(default)]
    pub observed_generation: i64,
    /// The last decision, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Reason of a denial: a CamelCase word.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Message of a denial: a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The last granted value, which is still held.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub granted: Option<Grant<T>>,
}

/// Kind of a recorded decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// [`Decision::Granted`]
    Granted,
    /// [`Decision::Deferred`]
    Deferred,
    /// [`Decision::Refused`]
    Refused,
}

/// A granted value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant<T> {
    /// The value.
    pub value: T,
    /// The generation of the request that it was granted to.
    pub generation: i64,
}

// A derived implementation would require `T: Default`.
impl<T> Default for Allocation<T> {
    fn default() -> Self {
        Self {
            observed_generation: 0,
            outcome: None,
            reason: String::new(),
            message: String::new(),
            granted: None,
        }
    }
}

impl<T> Allocation<T> {
    /// Records a decision. An earlier granted value is kept until another one is granted: see
    /// [`release`](Self::release).
    pub fn record(&mut self, answer: Answer<T>) {
        let Answer { generation, decision } = answer;
        self.observed_generation = generation;
        (self.reason, self.message) = (String::new(), String::new());
        let denied = |this: &mut Self, outcome, denial: Denial| {
            this.outcome = Some(outcome);
            (this.reason, this.message) = (denial.reason, denial.message);
        };
        match decision {
            Decision::Granted(value) => {
                self.outcome = Some(Outcome::Granted);
                self.granted = Some(Grant { value, generation });
            }
            Decision::Deferred(denial) => denied(self, Outcome::Deferred, denial),
            Decision::Refused(denial) => denied(self, Outcome::Refused, denial),
        }
    }

    /// Removes and returns the granted value, which is then no longer held.
    pub fn release(&mut self) -> Option<Grant<T>> {
        self.granted.take()
    }

    /// Whether the decision for this generation is final: granted or refused. A deferred one is decided again.
    #[must_use]
    pub fn is_answered(&self, generation: i64) -> bool {
        self.observed_generation == generation
            && matches!(self.outcome, Some(Outcome::Granted | Outcome::Refused))
    }

    /// The value granted for this generation.
    #[must_use]
    pub fn current(&self, generation: i64) -> Option<&T> {
        let granted = self.observed_generation == generation && self.outcome == Some(Outcome::Granted);
        self.granted.as_ref().filter(|_| granted).map(|grant| &grant.value)
    }

    /// The last granted value, whatever the decisions on later requests.
    #[must_use]
    pub fn last_good(&self) -> Option<&Grant<T>> {
        self.granted.as_ref()
    }

    /// The recorded decision.
    #[must_use]
    pub fn answer(&self) -> Option<Answer<&T>> {
        let denial = || Denial::new(self.reason.clone(), self.message.clone());
        let decision = match self.outcome? {
            Outcome::Granted => Decision::Granted(&self.granted.as_ref()?.value),
            Outcome::Deferred => Decision::Deferred(denial()),
            Outcome::Refused => Decision::Refused(denial()),
        };
        Some(decision.at(self.observed_generation))
    }
}

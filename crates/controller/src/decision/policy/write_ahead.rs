//! The intent in status before the effect; the result and the end of the intent in one write after it.
//!
//! The intent outlives changes of the spec: the controller works towards it until it is done or has failed for good, and only then takes up
//! the present request. Expansion of volumes works so: `status.allocatedResources` is written before the volume grows.
//!
//! ```compile_fail
//! use settled_controller::decision::policy::write_ahead;
//! # async fn order(planned: write_ahead::Planned<u64>) {
//! planned.act(async |permit, size| Ok::<_, ()>(write_ahead::Attempt::Done)).await; // no method `act`: the intent is not recorded
//! # }
//! ```

use serde::{Deserialize, Serialize};

use crate::decision::{Denial, Grant, IdempotencyKey, Permit};

/// Status of a write-ahead request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Journal<T> {
    /// The intent in progress. Its effect may already exist.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub intent: Option<Grant<T>>,
    /// The last completed intent.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub done: Option<Grant<T>>,
    /// The last failed request, if none was completed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Failure>,
}

// A derived implementation would demand a default of the values.
impl<T> Default for Journal<T> {
    fn default() -> Self {
        Self { intent: None, done: None, failed: None }
    }
}

/// A request that failed permanently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The generation of the request.
    pub generation: i64,
    /// Reason: a CamelCase word.
    pub reason: String,
    /// Message: a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// State of an object.
#[derive(Debug)]
pub enum State<T> {
    /// No intent is in progress, and the current request is not completed.
    Idle(Idle<T>),
    /// An intent is in progress, possibly of an older request.
    Intended(Intended<T>),
    /// The current request is completed.
    Done,
    /// The current request has failed permanently.
    Failed,
}

/// Determines the state of a request of this generation from status. A request for the last completed value needs nothing.
pub fn resume<T: Clone + PartialEq>(
    key: &IdempotencyKey,
    generation: i64,
    requested: &T,
    journal: &Journal<T>,
) -> State<T> {
    if let Some(intent) = &journal.intent {
        return State::Intended(Intended::new(key, intent.clone(), journal.done.clone()));
    }
    if journal.done.as_ref().is_some_and(|done| done.value == *requested) {
        return State::Done;
    }
    if journal.failed.as_ref().is_some_and(|failed| failed.generation == generation) {
        return State::Failed;
    }
    State::Idle(Idle { key: key.clone(), generation, done: journal.done.clone() })
}

/// Nothing is being done.
#[derive(Debug)]
pub struct Idle<T> {
    key: IdempotencyKey,
    generation: i64,
    done: Option<Grant<T>>,
}

impl<T> Idle<T> {
    /// What to do for the present request.
    pub fn plan(self, value: T) -> Planned<T> {
        Planned { intent: Grant { value, generation: self.generation }, key: self.key, done: self.done }
    }
}

/// An intent that is not recorded.
#[derive(Debug)]
#[must_use = "the intent has to be recorded"]
pub struct Planned<T> {
    key: IdempotencyKey,
    intent: Grant<T>,
    done: Option<Grant<T>>,
}

impl<T: Clone> Planned<T> {
    /// Writes the intent into status.
    ///
    /// # Errors
    /// `write` failed.
    pub async fn record<F, E>(self, write: impl FnOnce(Journal<T>) -> F) -> Result<Intended<T>, E>
    where
        F: Future<Output = Result<(), E>>,
    {
        let Self { key, intent, done } = self;
        write(Journal { intent: Some(intent.clone()), done: done.clone(), failed: None }).await?;
        Ok(Intended::new(&key, intent, done))
    }
}

/// A recorded intent: the effect is permitted.
#[derive(Debug)]
#[must_use = "the effect must be performed"]
pub struct Intended<T> {
    permit: Permit,
    intent: Grant<T>,
    done: Option<Grant<T>>,
}

/// Result of an attempt. An error means that it is retried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The effect exists.
    Done,
    /// It cannot exist. Only a permanent error of the external system is a failure; a timeout is not.
    Failed(Denial),
}

impl<T: Clone> Intended<T> {
    fn new(key: &IdempotencyKey, intent: Grant<T>, done: Option<Grant<T>>) -> Self {
        Self { permit: Permit::new(key.intent(intent.generation), intent.generation), intent, done }
    }

    /// The intent in progress, which may differ from the current spec.
    #[must_use]
    pub fn value(&self) -> &T {
        &self.intent.value
    }

    /// Performs the effect, or finds it by the permit's key.
    ///
    /// # Errors
    /// `effect` failed with an error that may be temporary. The intent remains.
    pub async fn act<F, E>(self, effect: impl FnOnce(Permit, T) -> F) -> Result<Attempted<T>, E>
    where
        F: Future<Output = Result<Attempt, E>>,
    {
        let attempt = effect(self.permit, self.intent.value.clone()).await?;
        Ok(Attempted { intent: self.intent, done: self.done, attempt })
    }
}

/// The effect exists, or has failed permanently.
#[derive(Debug)]
#[must_use = "the result has to be recorded"]
pub struct Attempted<T> {
    intent: Grant<T>,
    done: Option<Grant<T>>,
    attempt: Attempt,
}

impl<T> Attempted<T> {
    /// Writes the result and the end of the intent into status, in one write.
    ///
    /// # Errors
    /// `write` failed.
    pub async fn record<F, E>(self, write: impl FnOnce(Journal<T>) -> F) -> Result<(), E>
    where
        F: Future<Output = Result<(), E>>,
    {
        let journal = match self.attempt {
            Attempt::Done => Journal { intent: None, done: Some(self.intent), failed: None },
            Attempt::Failed(Denial { reason, message, .. }) => Journal {
                intent: None,
                done: self.done,
                failed: Some(Failure { generation: self.intent.generation, reason, message }),
            },
        };
        write(journal).await
    }
}

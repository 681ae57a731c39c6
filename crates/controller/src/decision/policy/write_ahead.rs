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

/// What status keeps of a write-ahead request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Journal<T> {
    /// What is being done. Its effect may be there already.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub intent: Option<Grant<T>>,
    /// What was done last.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    pub done: Option<Grant<T>>,
    /// The request that failed last, if none was done since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Failure>,
}

// A derived implementation would demand a default of the values.
impl<T> Default for Journal<T> {
    fn default() -> Self {
        Self { intent: None, done: None, failed: None }
    }
}

/// A request that failed for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The generation of the request.
    pub generation: i64,
    /// Why: a CamelCase word.
    pub reason: String,
    /// Why: a sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Where an object stands.
#[derive(Debug)]
pub enum State<T> {
    /// Nothing is being done, and the present request is not done.
    Idle(Idle<T>),
    /// Something is being done: perhaps for an older request.
    Intended(Intended<T>),
    /// The present request is done.
    Done,
    /// The present request has failed for good.
    Failed,
}

/// The state of the request of this generation, by what status has. A request for the value that was done last needs nothing.
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
#[must_use = "the effect has to be brought about"]
pub struct Intended<T> {
    permit: Permit,
    intent: Grant<T>,
    done: Option<Grant<T>>,
}

/// How an attempt went. An error of the attempt itself means "try again".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The effect is there.
    Done,
    /// It will never be. Only what the other side calls impossible is a failure: a timeout is not.
    Failed(Denial),
}

impl<T: Clone> Intended<T> {
    fn new(key: &IdempotencyKey, intent: Grant<T>, done: Option<Grant<T>>) -> Self {
        Self { permit: Permit::new(key.intent(intent.generation), intent.generation), intent, done }
    }

    /// What is being done, which may not be what the spec asks for by now.
    #[must_use]
    pub fn value(&self) -> &T {
        &self.intent.value
    }

    /// Brings the effect about, or finds it by the permit's key.
    ///
    /// # Errors
    /// `effect` failed in a way that another attempt may mend. The intent stays.
    pub async fn act<F, E>(self, effect: impl FnOnce(Permit, T) -> F) -> Result<Attempted<T>, E>
    where
        F: Future<Output = Result<Attempt, E>>,
    {
        let attempt = effect(self.permit, self.intent.value.clone()).await?;
        Ok(Attempted { intent: self.intent, done: self.done, attempt })
    }
}

/// The effect is there, or never will be.
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

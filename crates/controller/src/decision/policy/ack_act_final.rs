//! Accepted status, then the effect, then the final status: users see that a long effect has begun.
//!
//! In-place resize of Pods is an example: the kubelet reports allocated resources, resizes the containers, and then reports their resources.

use super::Undecided;
use crate::decision::{Allocation, Answer, Decision, IdempotencyKey, Permit};

/// State of a request.
#[derive(Debug)]
pub enum State<T> {
    /// There is no valid answer for this generation.
    Undecided(Undecided<T, Granted<T>>),
    /// It is accepted in status; the effect may exist or not.
    Accepted(Accepted<T>),
    /// The final status is written.
    Final,
    /// It is refused in status.
    Refused,
}

/// The state of the request of this generation: by the accepted answer, and by the value that the final status shows; none as long as
/// status shows the effect as unfinished.
pub fn resume<T: Clone + PartialEq>(
    key: IdempotencyKey,
    generation: i64,
    accepted: &Allocation<T>,
    shown: Option<&T>,
) -> State<T> {
    let granted = |permit, value| Granted(Accepted { permit, value });
    match super::resume(key, generation, accepted, granted, |permit, value| Accepted { permit, value }) {
        super::State::Acknowledged(accepted) if shown == Some(accepted.value()) => State::Final,
        super::State::Acknowledged(accepted) => State::Accepted(accepted),
        super::State::Undecided(request) => State::Undecided(request),
        super::State::Refused => State::Refused,
    }
}

/// Granted, not written yet.
#[derive(Debug)]
#[must_use = "the answer must be written"]
pub struct Granted<T>(Accepted<T>);

impl<T: Clone> Granted<T> {
    /// Writes into status that the request is accepted.
    ///
    /// # Errors
    /// `write` failed.
    pub async fn accept<F, E>(self, write: impl FnOnce(Answer<T>) -> F) -> Result<Accepted<T>, E>
    where
        F: Future<Output = Result<(), E>>,
    {
        let Self(accepted) = self;
        write(Decision::Granted(accepted.value.clone()).at(accepted.permit.generation())).await?;
        Ok(accepted)
    }
}

/// Accepted: the effect is permitted.
#[derive(Debug)]
#[must_use = "the effect must be performed"]
pub struct Accepted<T> {
    permit: Permit,
    value: T,
}

impl<T: Clone> Accepted<T> {
    /// The accepted value.
    #[must_use]
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Performs the effect, or finds it by the permit's key.
    ///
    /// # Errors
    /// `effect` failed.
    pub async fn act<F, E>(self, effect: impl FnOnce(Permit, T) -> F) -> Result<Acted<T>, E>
    where
        F: Future<Output = Result<(), E>>,
    {
        effect(self.permit, self.value.clone()).await?;
        Ok(Acted { value: self.value })
    }
}

/// The effect exists.
#[derive(Debug)]
#[must_use = "the final status must be written"]
pub struct Acted<T> {
    value: T,
}

impl<T> Acted<T> {
    /// Writes the final status.
    ///
    /// # Errors
    /// `write` failed.
    pub async fn finish<F, E>(self, write: impl FnOnce(T) -> F) -> Result<(), E>
    where
        F: Future<Output = Result<(), E>>,
    {
        write(self.value).await
    }
}

//! The effect, then status: consumers act on status, so it must be true when it is written.
//!
//! Writing status first does not compile:
//!
//! ```compile_fail
//! use settled_controller::decision::policy::act_first;
//! # async fn order(granted: act_first::Granted<String>) {
//! granted.acknowledge(async |answer| Ok::<_, ()>(())).await; // no method `acknowledge`: the effect is not there yet
//! # }
//! ```

use crate::decision::{Allocation, Answer, Decision, IdempotencyKey, Permit};

/// State of a request. An effect that is granted in status is repeated if it is lost.
pub type State<T> = super::State<T, Granted<T>, Granted<T>>;

/// Determines the state of a request of this generation from status.
pub fn resume<T: Clone>(key: IdempotencyKey, generation: i64, recorded: &Allocation<T>) -> State<T> {
    let granted = |permit, value| Granted { permit, value };
    super::resume(key, generation, recorded, granted, granted)
}

/// Granted: the effect is permitted, and must exist before the answer is written.
#[derive(Debug)]
#[must_use = "the effect must be performed"]
pub struct Granted<T> {
    permit: Permit,
    value: T,
}

impl<T: Clone> Granted<T> {
    /// The granted value.
    #[must_use]
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Performs the effect, or finds it by the permit's key.
    ///
    /// # Errors
    /// `effect` failed. Nothing is written then.
    pub async fn act<F, E>(self, effect: impl FnOnce(Permit, T) -> F) -> Result<Acted<T>, E>
    where
        F: Future<Output = Result<(), E>>,
    {
        let renewed = Permit::new(self.permit.key().clone(), self.permit.generation());
        effect(self.permit, self.value.clone()).await?;
        Ok(Acted { permit: renewed, value: self.value })
    }
}

/// The effect exists.
#[derive(Debug)]
#[must_use = "the answer must be written"]
pub struct Acted<T> {
    permit: Permit,
    value: T,
}

impl<T> Acted<T> {
    /// Writes the answer into status, and returns the permit to release what the answer has replaced.
    ///
    /// # Errors
    /// `write` failed.
    pub async fn acknowledge<F, E>(self, write: impl FnOnce(Answer<T>) -> F) -> Result<Permit, E>
    where
        F: Future<Output = Result<(), E>>,
    {
        write(Decision::Granted(self.value).at(self.permit.generation())).await?;
        Ok(self.permit)
    }
}

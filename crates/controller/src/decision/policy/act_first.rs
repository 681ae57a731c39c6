//! The effect first, then status: consumers act on what status says, so it must be true by then.
//!
//! Status does not come first:
//!
//! ```compile_fail
//! use settled_controller::decision::policy::act_first;
//! # async fn order(granted: act_first::Granted<String>) {
//! granted.acknowledge(async |answer| Ok::<_, ()>(())).await; // no method `acknowledge`: the effect is not there yet
//! # }
//! ```

use crate::decision::{Allocation, Answer, Decision, IdempotencyKey, Permit};

/// Where a request stands. What is granted in status is brought about again if it is lost.
pub type State<T> = super::State<T, Granted<T>, Granted<T>>;

/// The state of the request of this generation, by what status has.
pub fn resume<T: Clone>(key: IdempotencyKey, generation: i64, recorded: &Allocation<T>) -> State<T> {
    let granted = |permit, value| Granted { permit, value };
    super::resume(key, generation, recorded, granted, granted)
}

/// Granted: the effect is permitted, and has to be there before the answer is written.
#[derive(Debug)]
#[must_use = "the effect has to be brought about"]
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

    /// Brings the effect about, or finds it by the permit's key.
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

/// The effect is there.
#[derive(Debug)]
#[must_use = "the answer has to be written"]
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

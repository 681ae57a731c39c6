//! Status first, then the effect: the answer in status is the acknowledgement.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), std::convert::Infallible> {
//! use settled_controller::decision::policy::{Decided, ack_first};
//! use settled_controller::decision::{Allocation, Decision, IdempotencyKey};
//!
//! let key = IdempotencyKey::new("bucket", "5c9d");
//! let mut status = Allocation::default();
//! let ack_first::State::Undecided(request) = ack_first::resume(key, 1, &status) else { unreachable!() };
//! if let Decided::Granted(granted) = request.decide(Decision::Granted("artifacts-prod")) {
//!     let acknowledged = granted.acknowledge(async |answer| Ok::<_, std::convert::Infallible>(status.record(answer))).await?;
//!     acknowledged.act(async |permit, name| Ok::<_, std::convert::Infallible>(println!("{name} as {}", permit.key()))).await?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Performing the effect first does not compile:
//!
//! ```compile_fail
//! use settled_controller::decision::policy::{Decided, ack_first};
//! # async fn order(granted: ack_first::Granted<String>) {
//! granted.act(async |permit, name| Ok::<_, ()>(())).await; // no method `act`: not acknowledged yet
//! # }
//! ```

use crate::decision::{Allocation, Answer, Decision, IdempotencyKey, Permit};

/// State of a request.
pub type State<T> = super::State<T, Granted<T>, Acknowledged<T>>;

/// Determines the state of a request of this generation from status.
pub fn resume<T: Clone>(key: IdempotencyKey, generation: i64, recorded: &Allocation<T>) -> State<T> {
    let acknowledged = |permit, value| Acknowledged { permit, value };
    super::resume(
        key,
        generation,
        recorded,
        |permit, value| Granted(Acknowledged { permit, value }),
        acknowledged,
    )
}

/// Granted, not written yet.
#[derive(Debug)]
#[must_use = "the answer must be written"]
pub struct Granted<T>(Acknowledged<T>);

impl<T: Clone> Granted<T> {
    /// Writes the answer into status.
    ///
    /// # Errors
    /// `write` failed. It may have been performed: the next reconcile reads the stored status.
    pub async fn acknowledge<F, E>(self, write: impl FnOnce(Answer<T>) -> F) -> Result<Acknowledged<T>, E>
    where
        F: Future<Output = Result<(), E>>,
    {
        let Self(acknowledged) = self;
        write(Decision::Granted(acknowledged.value.clone()).at(acknowledged.permit.generation())).await?;
        Ok(acknowledged)
    }
}

/// Granted and written: the effect is permitted.
#[derive(Debug)]
pub struct Acknowledged<T> {
    permit: Permit,
    value: T,
}

impl<T> Acknowledged<T> {
    /// The granted value.
    #[must_use]
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Performs the effect. It is called in every reconcile: an existing effect is found by the permit's key.
    ///
    /// # Errors
    /// `effect` failed.
    pub async fn act<F, R, E>(self, effect: impl FnOnce(Permit, T) -> F) -> Result<R, E>
    where
        F: Future<Output = Result<R, E>>,
    {
        effect(self.permit, self.value).await
    }
}

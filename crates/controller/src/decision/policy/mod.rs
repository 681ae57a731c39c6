//! Write policies: the order of writes of status, effects and finalizers, as types.
//!
//! Each policy is a small state machine. `resume` finds the state from what is stored, so a reconcile after a crash goes on where the one
//! before stopped; it decides nothing twice. Each step takes the state by value and returns the next one, and an effect needs the
//! [`Permit`] of the right state: a wrong order does not compile.
//!
//! | policy | order | when |
//! |---|---|---|
//! | [`ack_first`] | status, then effect | the answer *is* the acknowledgement; the effect may be late |
//! | [`act_first`] | effect, then status | consumers act at once on what status says |
//! | [`ack_act_final`] | accepted, effect, final status | users should see that a long effect has begun |
//! | [`write_ahead`] | intent, effect, result and end of the intent in one write | the effect must be finished or known to have failed before another request is taken up |
//! | [`finalizer_first`] | finalizer, then anything; release, then no finalizer | the effect outlives the object unless it is released |
//! | [`name_lock`] | an object named after the value, then status | several writers allocate from one pool |
//!
//! What a crash leaves, and what the next reconcile does about it:
//!
//! | policy | before the first write | between | after the effect | lost response |
//! |---|---|---|---|---|
//! | `ack_first` | decides again, with the same result | drives the effect from status | nothing to do | reads its own answer, goes on |
//! | `act_first` | decides again | finds the effect by its key | writes status | reads its own answer |
//! | `ack_act_final` | decides again | goes on from the accepted answer | writes the final status | goes on |
//! | `write_ahead` | decides again | drives to the recorded intent, even if the spec is another by now | records the result | compares the intent |
//! | `finalizer_first` | adds it again | a finalizer without an effect means "maybe": release finds nothing | same | same |
//! | `name_lock` | claims again | the object has its own UID: the claim succeeded | writes status | `AlreadyExists` with its own UID is success |

pub mod ack_act_final;
pub mod ack_first;
pub mod act_first;
pub mod finalizer_first;
pub mod name_lock;
pub mod write_ahead;

use super::{Allocation, Answer, Decision, IdempotencyKey, Permit};

/// State of a request, with the next step of its policy.
#[derive(Debug)]
pub enum State<T, G, A> {
    /// There is no valid answer for this generation. The effect of an earlier attempt may exist: it is found by its key.
    Undecided(Undecided<T, G>),
    /// It is granted in status. The effect is driven from the recorded value, not decided again: it may be missing, or lost.
    Acknowledged(A),
    /// It is refused in status.
    Refused,
}

/// Determines the state of a request of this generation from status.
fn resume<T: Clone, G, A>(
    key: IdempotencyKey,
    generation: i64,
    recorded: &Allocation<T>,
    grant: fn(Permit, T) -> G,
    acknowledged: fn(Permit, T) -> A,
) -> State<T, G, A> {
    let permit = Permit::new(key, generation);
    match recorded.current(generation) {
        Some(value) => State::Acknowledged(acknowledged(permit, value.clone())),
        None if recorded.is_answered(generation) => State::Refused,
        None => State::Undecided(Undecided { permit, grant }),
    }
}

/// A request without an answer; a grant leads to `G`.
#[derive(Debug)]
pub struct Undecided<T, G> {
    permit: Permit,
    grant: fn(Permit, T) -> G,
}

impl<T, G> Undecided<T, G> {
    /// Decides the request.
    pub fn decide(self, decision: Decision<T>) -> Decided<G, T> {
        match decision {
            Decision::Granted(value) => Decided::Granted((self.grant)(self.permit, value)),
            denied => {
                let answer = denied.at(self.permit.generation());
                Decided::Denied(Denied { answer, permit: self.permit })
            }
        }
    }
}

/// A decision, as a step of a policy: granted with the next state, or denied.
#[derive(Debug)]
#[must_use = "a decision must be written"]
pub enum Decided<G, T> {
    /// Granted: the policy goes on.
    Granted(G),
    /// Deferred or refused: it only has to be written.
    Denied(Denied<T>),
}

/// A denial that is not written yet.
#[derive(Debug)]
pub struct Denied<T> {
    answer: Answer<T>,
    permit: Permit,
}

impl<T> Denied<T> {
    /// The answer.
    #[must_use]
    pub fn answer(&self) -> &Answer<T> {
        &self.answer
    }

    /// Writes the denial into status, with its reason and generation, and returns the permit to release effects that status no longer reports.
    ///
    /// # Errors
    /// `write` failed.
    pub async fn acknowledge<F, E>(self, write: impl FnOnce(Answer<T>) -> F) -> Result<Permit, E>
    where
        F: Future<Output = Result<(), E>>,
    {
        write(self.answer).await?;
        Ok(self.permit)
    }
}

//! A finalizer before the first effect, and no effect left before the finalizer goes.
//!
//! Another policy decides about the effect: [`Protected`] is what it begins with.
//!
//! ```compile_fail
//! use settled_controller::decision::policy::finalizer_first;
//! # async fn order(releasing: finalizer_first::Releasing) {
//! releasing.unprotect(async || Ok::<_, ()>(())).await; // no method `unprotect`: not released yet
//! # }
//! ```

use kube::ResourceExt;

use crate::decision::{IdempotencyKey, Permit};

/// Where an object stands.
#[derive(Debug)]
pub enum State {
    /// It has no finalizer: nothing may be done for it yet.
    Unprotected(Unprotected),
    /// It has the finalizer.
    Protected(Protected),
    /// It is being deleted, and has the finalizer: the effect may be there.
    Releasing(Releasing),
    /// It is being deleted, and does not have the finalizer: nothing is left to do. If a user removed the finalizer, the effect may be
    /// there all the same: the [repair scan](crate::decision::RepairScan) finds it.
    Gone,
}

/// The state of an object, by its metadata.
pub fn resume<K: ResourceExt>(key: IdempotencyKey, object: &K, finalizer: &str) -> State {
    let generation = object.meta().generation.unwrap_or_default();
    let is_protected = object.finalizers().iter().any(|name| name == finalizer);
    match (is_protected, object.meta().deletion_timestamp.is_some()) {
        (false, false) => State::Unprotected(Unprotected(Protected { key, generation })),
        (true, false) => State::Protected(Protected { key, generation }),
        (true, true) => State::Releasing(Releasing(Permit::new(key, generation))),
        (false, true) => State::Gone,
    }
}

/// An object without the finalizer.
#[derive(Debug)]
pub struct Unprotected(Protected);

impl Unprotected {
    /// Adds the finalizer.
    ///
    /// # Errors
    /// `write` failed.
    pub async fn protect<F, E>(self, write: impl FnOnce() -> F) -> Result<Protected, E>
    where
        F: Future<Output = Result<(), E>>,
    {
        write().await?;
        Ok(self.0)
    }
}

/// An object with the finalizer.
#[derive(Debug)]
pub struct Protected {
    key: IdempotencyKey,
    generation: i64,
}

impl Protected {
    /// What the policy for the effect begins with: the key and the generation of the request.
    #[must_use]
    pub fn request(self) -> (IdempotencyKey, i64) {
        (self.key, self.generation)
    }

    /// The permit for an effect that is not announced in status.
    #[must_use]
    pub fn permit(self) -> Permit {
        Permit::new(self.key, self.generation)
    }

    /// The request was withdrawn without deleting the object. What status says of it has to be withdrawn by now.
    pub fn abandon(self) -> Releasing {
        Releasing(self.permit())
    }
}

/// An object that is being deleted.
#[derive(Debug)]
pub struct Releasing(Permit);

impl Releasing {
    /// Releases the effect. An effect that is not there, because it never was or is released already, is a success.
    ///
    /// # Errors
    /// `release` failed: the finalizer stays.
    pub async fn release<F, E>(self, release: impl FnOnce(Permit) -> F) -> Result<Released, E>
    where
        F: Future<Output = Result<(), E>>,
    {
        release(self.0).await?;
        Ok(Released(()))
    }
}

/// The effect is released.
#[derive(Debug)]
#[must_use = "the finalizer has to be removed"]
pub struct Released(());

impl Released {
    /// Removes the finalizer.
    ///
    /// # Errors
    /// `write` failed.
    pub async fn unprotect<F, E>(self, write: impl FnOnce() -> F) -> Result<(), E>
    where
        F: Future<Output = Result<(), E>>,
    {
        write().await
    }
}

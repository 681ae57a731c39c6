//! The finalizer is added before the first effect, and removed after the last effect is released.
//!
//! Another policy decides about the effect; it begins with [`Protected`].
//!
//! ```compile_fail
//! use settled_controller::decision::policy::finalizer_first;
//! # async fn order(releasing: finalizer_first::Releasing) {
//! releasing.unprotect(async || Ok::<_, ()>(())).await; // no method `unprotect`: not released yet
//! # }
//! ```

use kube::ResourceExt;

use crate::decision::{IdempotencyKey, Permit};

/// State of an object.
#[derive(Debug)]
pub enum State {
    /// It has no finalizer: no effect is permitted yet.
    Unprotected(Unprotected),
    /// It has the finalizer.
    Protected(Protected),
    /// It is being deleted, and has the finalizer: the effect may exist.
    Releasing(Releasing),
    /// It is being deleted, and does not have the finalizer: nothing is left to do. If a user removed the finalizer, the effect may be
    /// there all the same: the [repair scan](crate::decision::RepairScan) finds it.
    Gone,
}

/// Determines the state of an object from its metadata.
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
    /// Key and generation of the request, with which the policy for the effect begins.
    #[must_use]
    pub fn request(self) -> (IdempotencyKey, i64) {
        (self.key, self.generation)
    }

    /// Permit for an effect that status does not report.
    #[must_use]
    pub fn permit(self) -> Permit {
        Permit::new(self.key, self.generation)
    }

    /// Releases the effect of a request that was withdrawn without deleting the object. Status must not report it anymore.
    pub fn abandon(self) -> Releasing {
        Releasing(self.permit())
    }
}

/// An object that is being deleted.
#[derive(Debug)]
pub struct Releasing(Permit);

impl Releasing {
    /// Releases the effect. It is a success if there is none, because it never existed or is already released.
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
#[must_use = "the finalizer must be removed"]
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

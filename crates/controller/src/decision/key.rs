//! Idempotency keys, and the permits that carry them to side effects.

use std::fmt;

use kube::ResourceExt;

/// The name of one side effect, the same in every attempt: an external system that has it has the effect.
///
/// It is made of the UID, never of the name: an object that was deleted and recreated is another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The key of what an object has once, whatever its generation: `purpose-UID`.
    ///
    /// None if the object has no UID: the server has not stored it.
    pub fn of<K: ResourceExt>(purpose: &str, object: &K) -> Option<Self> {
        Some(Self::new(purpose, &object.uid()?))
    }

    /// The key of what an object has once, by its UID.
    #[must_use]
    pub fn new(purpose: &str, uid: &str) -> Self {
        Self(format!("{purpose}-{uid}"))
    }

    /// The key of one intent of several that an object has over time: the same with the generation that the intent was recorded at.
    #[must_use]
    pub fn intent(&self, generation: i64) -> Self {
        Self(format!("{}-{generation}", self.0))
    }

    /// The key as text. It is a valid DNS label if the purpose begins like one and has at most 20 characters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl AsRef<str> for IdempotencyKey {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// The right to cause a side effect now. Only the steps of a [policy](super::policy) make one, after what has to be written before.
///
/// The functions that change the world outside take it as an argument. Then no effect can come too early:
///
/// ```
/// use settled_controller::decision::Permit;
///
/// struct LoadBalancer;
/// impl LoadBalancer {
///     async fn announce(&self, permit: &Permit, address: &str) -> Result<(), std::io::Error> {
///         println!("announcing {address} as {}", permit.key());
///         Ok(())
///     }
/// }
/// ```
///
/// ```compile_fail
/// // Nobody else makes a permit.
/// let permit = settled_controller::decision::Permit { key: todo!(), generation: 1 };
/// ```
#[derive(Debug)]
pub struct Permit {
    key: IdempotencyKey,
    generation: i64,
}

impl Permit {
    pub(super) fn new(key: IdempotencyKey, generation: i64) -> Self {
        Self { key, generation }
    }

    /// What to call the effect: a repeated attempt finds it by this key.
    #[must_use]
    pub fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    /// The generation of the request that the effect serves.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.generation
    }
}

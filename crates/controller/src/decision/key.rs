//! Idempotency keys, and permits that pass them to side effects.

use std::fmt;

use kube::ResourceExt;

/// Identifies one side effect, with the same value in every attempt.
///
/// Derived from the UID, not from the name: a recreated object is another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// Key of a side effect that occurs once per object, whatever its generation: `purpose-UID`.
    ///
    /// `None` if the object has no UID, since it is not stored.
    pub fn of<K: ResourceExt>(purpose: &str, object: &K) -> Option<Self> {
        Some(Self::new(purpose, &object.uid()?))
    }

    /// Key of a side effect that occurs once per object, by its UID.
    #[must_use]
    pub fn new(purpose: &str, uid: &str) -> Self {
        Self(format!("{purpose}-{uid}"))
    }

    /// Key of one of several intents over the object's lifetime: includes the generation at which the intent was
    /// recorded.
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

/// Permission for a side effect now. Only the steps of a [policy](super::policy) create one, after the required writes.
///
/// Functions with external side effects take it as a parameter. Then no effect can occur too early:
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

    /// Idempotency key of the effect: a repeated attempt finds the effect by it.
    #[must_use]
    pub fn key(&self) -> &IdempotencyKey {
        &self.key
    }

    /// The generation of the request that causes the effect.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.generation
    }
}

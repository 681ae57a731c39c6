//! Claims by name: creating an object named after a value claims it, atomically, among concurrent allocations from the same pool.
//!
//! The API server refuses a second object of the same name, so several writers need no other lock. Service IPs work so: the object
//! `IPAddress/10.96.0.10` is the claim.

use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::decision::{Answer, Decision, Denial, IdempotencyKey, Permit};

/// Result of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The value is claimed for the request, by this attempt or by one whose response was lost.
    Ours,
    /// Another object has claimed it.
    Taken,
}

/// A request whose value is not claimed.
#[derive(Debug)]
pub struct Unclaimed {
    key: IdempotencyKey,
    generation: i64,
}

/// Starts a request.
#[must_use]
pub fn begin(key: IdempotencyKey, generation: i64) -> Unclaimed {
    Unclaimed { key, generation }
}

impl Unclaimed {
    /// Claims the first of the candidates that is free. They should come in the same order each time: then an attempt after a crash finds its
    /// own claim first.
    ///
    /// # Errors
    /// `claim` failed.
    pub async fn claim<V, F, E>(
        self,
        candidates: impl IntoIterator<Item = V>,
        mut claim: impl FnMut(V) -> F,
    ) -> Result<Result<Claimed<V>, Answer<V>>, E>
    where
        V: Clone,
        F: Future<Output = Result<Claim, E>>,
    {
        for value in candidates {
            if claim(value.clone()).await? == Claim::Ours {
                return Ok(Ok(Claimed { permit: Permit::new(self.key, self.generation), value }));
            }
        }
        let exhausted = Denial::new("PoolExhausted", "all values of the pool are in use");
        Ok(Err(Decision::Deferred(exhausted).at(self.generation)))
    }
}

/// A claimed value.
#[derive(Debug)]
#[must_use = "the answer must be written"]
pub struct Claimed<V> {
    permit: Permit,
    value: V,
}

impl<V: Clone> Claimed<V> {
    /// The value.
    #[must_use]
    pub fn value(&self) -> &V {
        &self.value
    }

    /// The permit for effects: the value is claimed, whether status reports it or not.
    #[must_use]
    pub fn permit(&self) -> &Permit {
        &self.permit
    }

    /// Writes the answer into status.
    ///
    /// # Errors
    /// `write` failed. The claim remains, and the next attempt finds it.
    pub async fn acknowledge<F, E>(self, write: impl FnOnce(Answer<V>) -> F) -> Result<(), E>
    where
        F: Future<Output = Result<(), E>>,
    {
        write(Decision::Granted(self.value).at(self.permit.generation())).await
    }
}

/// Claims a name by creating `object`, whose owner references name the holder. An object of this name that has the same controller is the
/// claim of an attempt before.
///
/// # Errors
/// The server refused the request for another reason than a name in use.
pub async fn claim_by_creating<K>(api: &Api<K>, object: &K) -> Result<Claim, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let holder = controller_uid(object);
    match api.create(&PostParams::default(), object).await {
        Ok(_) => Ok(Claim::Ours),
        Err(kube::Error::Api(status)) if status.code == 409 => {
            let existing = api.get_opt(&object.name_any()).await?;
            let ours =
                existing.is_some_and(|existing| holder.is_some() && controller_uid(&existing) == holder);
            Ok(if ours { Claim::Ours } else { Claim::Taken })
        }
        Err(error) => Err(error),
    }
}

fn controller_uid<K: Resource>(object: &K) -> Option<String> {
    let references = object.owner_references();
    references
        .iter()
        .find(|reference| reference.controller == Some(true))
        .map(|reference| reference.uid.clone())
}

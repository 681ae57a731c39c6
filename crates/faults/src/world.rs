//! External system: state that a controller changes outside of the cluster.

/// External system in memory: in production, a cloud, a database or DNS.
///
/// It is changed by [`External::call`](crate::External::call), which injects faults. Copies are independent.
pub trait World: Clone + PartialEq + Send + Sync + 'static {
    /// Effects that exist for objects of the cluster.
    fn effects(&self) -> Vec<Effect> {
        Vec::new()
    }
}

impl World for () {}

/// An effect of an object in the external system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Effect {
    /// Its name in the external system, which may differ between runs: an address, an assigned id.
    pub id: String,
    /// The UID of its object.
    pub owner: String,
    /// Purpose. At most one effect exists for an owner and a purpose.
    pub purpose: String,
}

impl Effect {
    /// Creates an effect of an object.
    pub fn new(id: impl Into<String>, owner: impl Into<String>, purpose: impl Into<String>) -> Self {
        Self { id: id.into(), owner: owner.into(), purpose: purpose.into() }
    }
}

//! World: what a controller changes outside of the cluster.

/// A system outside of the cluster, in memory: what the controller's cloud, database or DNS is in production.
///
/// It is changed by [`External::call`](crate::External::call), which injects faults. Copies are independent.
pub trait World: Clone + PartialEq + Send + Sync + 'static {
    /// What exists there for objects of the cluster.
    fn effects(&self) -> Vec<Effect> {
        Vec::new()
    }
}

impl World for () {}

/// Something that exists outside of the cluster because of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Effect {
    /// Its name there, which may be another in each run: an address, an id that was assigned.
    pub id: String,
    /// The UID of the object that it exists for.
    pub owner: String,
    /// What of the object it is. There is never more than one for an owner and a purpose.
    pub purpose: String,
}

impl Effect {
    /// An effect of an object.
    pub fn new(id: impl Into<String>, owner: impl Into<String>, purpose: impl Into<String>) -> Self {
        Self { id: id.into(), owner: owner.into(), purpose: purpose.into() }
    }
}

//! Kinds of the group `apps`.

pub(crate) mod controller_revision;
pub(crate) mod daemon_set;
pub(crate) mod deployment;
pub(crate) mod replica_set;
pub(crate) mod stateful_set;
pub(crate) mod workload;

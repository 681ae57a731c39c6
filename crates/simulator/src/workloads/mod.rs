//! Workloads: the controllers of kinds that create Pods.

pub(crate) mod deployment;
pub(crate) mod hash;
pub(crate) mod replica_set;

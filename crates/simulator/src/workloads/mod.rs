//! Workloads: the controllers of kinds that create Pods.

pub(crate) mod deployment;
pub(crate) mod hash;
pub(crate) mod int_or_percent;
pub(crate) mod replica_set;

//! Workloads: the controllers of kinds that create Pods.

mod claim;
pub(crate) mod cron_job;
pub(crate) mod daemon_set;
pub(crate) mod deployment;
pub(crate) mod hash;
mod history;
pub(crate) mod int_or_percent;
pub(crate) mod job;
mod pod_control;
mod pods_to_delete;
pub(crate) mod replica_set;
pub(crate) mod stateful_set;

//! Planners: pure functions from what was observed to what is done next. No client, no clock, no async.

mod cluster;
mod draft;
mod drain;
mod health;
mod machine;
mod node;
mod patch;
mod replicas;
mod rollout;
mod unreachable;

pub(crate) use cluster::{ClusterFacts, ClusterPlan, plan_cluster};
pub(crate) use draft::{Action, ClusterState, Decision, Facts, Progress};
pub(crate) use health::{HealthPlan, Target, plan_health};
pub(crate) use machine::decide;
pub(crate) use patch::merge_patch;
pub use replicas::{MachineView, ReplicasPlan, plan_replicas};
pub(crate) use replicas::{is_available, plan_deletions};
pub(crate) use rollout::template_hash;
pub use rollout::{Rollout, RolloutAction, SetView, UpdateView, plan_machine_updates, plan_rollout};

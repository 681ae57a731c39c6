//! Role-based access control with the kinds of `rbac.authorization.k8s.io`.

mod authorizer;
mod binding;
mod comparator;
mod escalation;
mod kind;
mod rule;

#[cfg(test)]
mod tests;

pub(crate) use authorizer::aggregate_error;
pub use authorizer::{Decision, Granted, Missing, Rbac, forbidden};
pub use escalation::{PolicyWrite, check_escalation};
pub use kind::{GROUP, PolicyKind};
pub use rule::{Attributes, PolicyRule};

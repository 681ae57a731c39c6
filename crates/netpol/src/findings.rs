//! Semantic findings: what is probably not meant as it is written, for any provider.
//!
//! What was not looked for, since there is no snapshot of the cluster or a part of it was not read, is named in
//! [`Findings::missing`]: no findings do not mean a clean policy then.

mod blocks;
mod duplicates;
mod finding;
mod ports;
mod rejected;
mod selectors;

use crate::index::ClusterIndex;
use crate::model::Policy;

pub use finding::{Finding, FindingKind, Findings, Level, MissingFindings};
pub use rejected::default_deny_findings;

/// The findings of a policy, with those that need a snapshot if there is one.
///
/// ```
/// use serde_json::json;
/// use settled_netpol::findings::findings;
/// use settled_netpol::parse::parse_policy;
///
/// let parsed = parse_policy(
///     &json!({
///         "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "web"},
///         "spec": {"podSelector": {"matchExpressions": [
///             {"key": "app", "operator": "In", "values": ["web"]},
///             {"key": "app", "operator": "NotIn", "values": ["web", "db"]},
///         ]}},
///     }),
///     "shop",
/// )?;
/// let policy = parsed.policy.expect("it is valid");
/// assert_eq!(
///     findings(&policy, None).list[0].to_string(),
///     "spec.podSelector: the selector contradicts itself on label app: it matches nothing [selector-contradictory]",
/// );
/// # Ok::<(), settled_netpol::parse::ParseError>(())
/// ```
#[must_use]
pub fn findings(policy: &Policy, index: Option<&ClusterIndex<'_>>) -> Findings {
    let mut findings = Findings::default();
    selectors::check(policy, index, &mut findings);
    ports::check(policy, index, &mut findings);
    blocks::check(policy, index, &mut findings);
    duplicates::check(policy, &mut findings);
    findings
}

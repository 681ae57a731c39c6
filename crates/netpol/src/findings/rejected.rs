//! Findings about default deny that rests on a policy which is not carried out.

use super::finding::{Finding, FindingKind};
use crate::extract::rules;
use crate::model::{Kind, Place};
use crate::parse::Parsed;
use crate::profile::Direction;
use crate::verdict::{ErrorDirection, Evaluator, Extent, PolicyVerdict, Reason};

/// Pods that only this policy isolates, if the API server refuses it or the provider ignores it.
#[must_use]
pub fn default_deny_findings(
    evaluator: &Evaluator<'_>,
    parsed: &Parsed,
    verdict: &PolicyVerdict,
) -> Vec<Finding> {
    let Some(policy) = parsed.policy.as_ref().filter(|policy| policy.id.kind == Kind::NetworkPolicy) else {
        return Vec::new();
    };
    let is_refused = verdict.reason == Reason::InvalidPolicy;
    let mut findings = Vec::new();
    for direction in [Direction::Ingress, Direction::Egress] {
        if rules(policy, direction).is_none() {
            continue;
        }
        let is_ignored = verdict.deviations.iter().any(|deviation| {
            deviation.error != ErrorDirection::Less
                && (deviation.extent == Extent::Policy
                    || deviation.extent == Extent::Direction && deviation.direction == Some(direction))
        });
        if !is_refused && !is_ignored {
            continue;
        }
        let certainty = match evaluator.error_without(policy, direction) {
            ErrorDirection::More => "",
            ErrorDirection::Either => "probably ",
            ErrorDirection::Less | ErrorDirection::Same => continue,
        };
        let who = if is_refused { "the API server" } else { &verdict.provider };
        let does = if is_refused { "refuses" } else { "ignores" };
        findings.push(Finding {
            kind: FindingKind::DefaultDenyRejected,
            place: Place(format!("spec.{direction}").into()),
            message: format!(
                "{direction} of pods is {certainty}isolated by this policy alone, which {who} {does}: all traffic is allowed"
            ),
        });
    }
    findings
}

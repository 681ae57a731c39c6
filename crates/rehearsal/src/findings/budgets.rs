//! PodDisruptionBudgets that never allow a disruption.

use serde_json::Value;

use super::state::State;
use super::{Check, Finding, Manifest, Severity};

/// Checks a budget at the end, when its Pods are as healthy as they get.
pub(super) fn check(index: usize, manifest: &Manifest, state: &State, findings: &mut Vec<Finding>) {
    if manifest.kind != "PodDisruptionBudget" {
        return;
    }
    let key = ("PodDisruptionBudget", manifest.namespace.clone(), manifest.name.clone());
    let Some(budget) = state.objects.get(&key) else { return };
    let number = |field: &str| budget.pointer(&format!("/status/{field}")).and_then(Value::as_i64);
    let (Some(expected), Some(desired)) = (number("expectedPods"), number("desiredHealthy")) else { return };
    if expected == 0 || desired < expected {
        return;
    }
    let object = manifest.object();
    let spec = &object["spec"];
    let field =
        if spec.get("maxUnavailable").is_some() { "spec.maxUnavailable" } else { "spec.minAvailable" };
    let message =
        format!("all {expected} Pods have to stay available: no Node with one of them can be drained");
    let finding = Finding::new(Severity::Warning, Check::BlockedDrain, Some(index), field, message);
    findings.push(finding.remedy("allow one Pod less, or add a replica"));
}

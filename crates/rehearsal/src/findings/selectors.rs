//! Selectors that match nothing, and Services without endpoints.

use serde_json::Value;

use super::fields::{each, text};
use super::state::{PodState, State};
use super::{Check, Finding, Manifest, Severity};

/// Checks the selectors of a manifest against the Pods at the end.
pub(super) fn check(index: usize, manifest: &Manifest, state: &State, findings: &mut Vec<Finding>) {
    match &*manifest.kind {
        "Service" if manifest.group().is_empty() => service(index, manifest, state, findings),
        "PodDisruptionBudget" => labels(index, manifest, "spec.selector.matchLabels", state, findings),
        "NetworkPolicy" => labels(index, manifest, "spec.podSelector.matchLabels", state, findings),
        _ => {}
    }
}

fn service(index: usize, manifest: &Manifest, state: &State, findings: &mut Vec<Finding>) {
    let object = manifest.object();
    let spec = &object["spec"];
    let Some(selector) = spec.get("selector").and_then(Value::as_object).filter(|labels| !labels.is_empty())
    else {
        return;
    };
    if text(spec, "type") == Some("ExternalName") {
        return;
    }
    let pods: Vec<&PodState> = state.pods_with(&manifest.namespace, selector).collect();
    if pods.is_empty() {
        let message = format!("no Pod has the labels {}", describe(selector));
        let mut finding =
            Finding::new(Severity::Error, Check::EmptySelector, Some(index), "spec.selector", message);
        if let Some(near) = nearest(&manifest.namespace, selector, state) {
            finding = finding.remedy(near);
        }
        findings.push(finding);
        return;
    }
    if !pods.iter().any(|pod| pod.is_ready) {
        let message = format!("none of the {} selected Pods is ready", pods.len());
        findings.push(Finding::new(
            Severity::Error,
            Check::NoEndpoints,
            Some(index),
            "spec.selector",
            message,
        ));
    }
    each(spec, "ports[]", |path, port| {
        let Some(name) =
            port.get("targetPort").and_then(Value::as_str).filter(|name| name.parse::<u16>().is_err())
        else {
            return;
        };
        if !pods.iter().any(|pod| pod.has_port(name)) {
            let message = format!("no container of the selected Pods has a port named {name:?}");
            let field = format!("spec.{path}.targetPort");
            findings.push(Finding::new(Severity::Error, Check::MissingPort, Some(index), &field, message));
        }
    });
}

/// Labels that select Pods of the namespace.
fn labels(index: usize, manifest: &Manifest, pattern: &str, state: &State, findings: &mut Vec<Finding>) {
    each(&manifest.object(), pattern, |path, selector| {
        let Some(selector) = selector.as_object().filter(|labels| !labels.is_empty()) else { return };
        if state.pods_with(&manifest.namespace, selector).next().is_none() {
            let message = format!("no Pod has the labels {}", describe(selector));
            let mut finding =
                Finding::new(Severity::Warning, Check::EmptySelector, Some(index), path, message);
            if let Some(near) = nearest(&manifest.namespace, selector, state) {
                finding = finding.remedy(near);
            }
            findings.push(finding);
        }
    });
}

/// The Pods that have all labels but one.
fn nearest(namespace: &str, selector: &serde_json::Map<String, Value>, state: &State) -> Option<String> {
    for (key, value) in selector {
        let mut others = selector.clone();
        others.remove(key);
        let found = state.pods_with(namespace, &others).find_map(|pod| pod.label(key));
        if let Some(found) = found {
            return Some(format!(
                "there are Pods with {key}={found}, not {}",
                value.as_str().unwrap_or_default()
            ));
        }
    }
    None
}

fn describe(labels: &serde_json::Map<String, Value>) -> String {
    let pairs = labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    pairs.collect::<Vec<_>>().join(",")
}

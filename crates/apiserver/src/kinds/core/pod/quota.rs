//! What Pods count for in ResourceQuotas (`pkg/quota/v1/evaluator/core/pods.go` upstream).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;
use settled_apimachinery::quantity::Quantity;
use settled_apimachinery::unstructured::{items_at, string_at};

use crate::kinds::names::Part;
use crate::kinds::quota::{Amounts, Evaluator, add, amounts, larger};
use crate::object::{meta, text};

pub(super) static EVALUATOR: Evaluator = Evaluator {
    usage,
    matches_resource,
    matches_scope: |scope, pod| match scope.name {
        "Terminating" => is_bounded(pod),
        "NotTerminating" => !is_bounded(pod),
        "BestEffort" => is_best_effort(pod),
        "NotBestEffort" => !is_best_effort(pod),
        "PriorityClass" => scope.selects(string_at(pod, "/spec/priorityClassName")),
        "CrossNamespacePodAffinity" => reaches_out(pod),
        _ => false,
    },
    handles_update: |part, new, old| match part {
        Part::Resize => true,
        Part::Main => is_bounded(old) != is_bounded(new),
        _ => false,
    },
    constraints: missing_amounts,
};

/// Pods must request the resources that the quota limits.
const REQUIRED: [&str; 6] =
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

fn usage(pod: &Value, now: Timestamp) -> Amounts {
    if !is_running(pod, now) {
        return Amounts::new();
    }
    let mut used = Amounts::from([("pods".to_owned(), Quantity::from(1))]);
    used.extend(compute(&pod_amounts(pod, "requests", true), &pod_amounts(pod, "limits", true)));
    used
}

/// What a pod asks for as a whole: `requests` or `limits`.
pub(crate) fn pod_amounts(pod: &Value, what: &str, overhead: bool) -> Amounts {
    let of = |container: &Value| amounts(container.pointer(&format!("/resources/{what}")));
    let mut total = Amounts::new();
    for container in items_at(pod, "/spec/containers") {
        add(&mut total, &of(container));
    }
    let (mut sidecars, mut before) = (Amounts::new(), Amounts::new());
    for container in items_at(pod, "/spec/initContainers") {
        let mut needs = of(container);
        if text(container, "restartPolicy") == "Always" {
            add(&mut total, &needs);
            add(&mut sidecars, &needs);
            needs.clone_from(&sidecars);
        } else {
            add(&mut needs, &sidecars);
        }
        larger(&mut before, &needs);
    }
    larger(&mut total, &before);
    for (name, quantity) in amounts(pod.pointer(&format!("/spec/resources/{what}"))) {
        if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
            total.insert(name, quantity);
        }
    }
    if overhead {
        for (name, quantity) in amounts(pod.pointer("/spec/overhead")) {
            // Without a limit there is none to raise.
            if what == "requests" || total.contains_key(&name) {
                add(&mut total, &Amounts::from([(name, quantity)]));
            }
        }
    }
    total
}

/// Does the pod still use what it asked for?
fn is_running(pod: &Value, now: Timestamp) -> bool {
    if matches!(string_at(pod, "/status/phase"), "Failed" | "Succeeded") {
        return false;
    }
    let grace = pod.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64);
    let due: Option<Timestamp> = meta(pod, "deletionTimestamp").parse().ok();
    match (due, grace) {
        (Some(due), Some(grace)) => {
            due.checked_add(jiff::SignedDuration::from_secs(grace)).is_ok_and(|end| now <= end)
        }
        _ => true,
    }
}

/// What requests and limits are called in quotas.
fn compute(requests: &Amounts, limits: &Amounts) -> Amounts {
    let mut used = Amounts::new();
    for (name, quantity) in requests {
        match name.as_str() {
            "cpu" | "memory" | "ephemeral-storage" => {
                used.insert(name.clone(), quantity.clone());
                used.insert(format!("requests.{name}"), quantity.clone());
            }
            _ if name.starts_with("hugepages-") => {
                used.insert(name.clone(), quantity.clone());
                used.insert(format!("requests.{name}"), quantity.clone());
            }
            // Others are limited under this name only.
            _ if name.contains('/') => {
                used.insert(format!("requests.{name}"), quantity.clone());
            }
            _ => {}
        }
    }
    for (name, quantity) in limits {
        if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
            used.insert(format!("limits.{name}"), quantity.clone());
        }
    }
    used
}

fn matches_resource(name: &str) -> bool {
    let extended = name.strip_prefix("requests.").is_some_and(|rest| rest.contains('/'));
    let plain = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
    matches!(plain, "cpu" | "memory" | "ephemeral-storage")
        || name == "pods"
        || name.starts_with("hugepages-")
        || name.starts_with("requests.hugepages-")
        || (extended && !name.contains(".storageclass.storage.k8s.io/"))
}

/// Does the pod end by itself?
fn is_bounded(pod: &Value) -> bool {
    pod.pointer("/spec/activeDeadlineSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds >= 0)
}

/// Does the pod ask for no CPU and no memory at all?
fn is_best_effort(pod: &Value) -> bool {
    let lists = [items_at(pod, "/spec/containers"), items_at(pod, "/spec/initContainers")];
    let resources = lists.into_iter().flatten().filter_map(|container| container.get("resources"));
    let mut resources = resources.chain(pod.pointer("/spec/resources"));
    !resources.any(|resources| {
        ["requests", "limits"].iter().any(|what| {
            let asked = amounts(resources.get(what));
            asked
                .iter()
                .any(|(name, quantity)| matches!(name.as_str(), "cpu" | "memory") && !quantity.is_zero())
        })
    })
}

/// Does the pod want to be near those of other namespaces, or far from them?
fn reaches_out(pod: &Value) -> bool {
    let elsewhere =
        |term: &Value| !items_at(term, "/namespaces").is_empty() || term.get("namespaceSelector").is_some();
    ["podAffinity", "podAntiAffinity"].iter().any(|affinity| {
        let place = |list: &str| format!("/spec/affinity/{affinity}/{list}");
        items_at(pod, &place("requiredDuringSchedulingIgnoredDuringExecution")).iter().any(elsewhere)
            || items_at(pod, &place("preferredDuringSchedulingIgnoredDuringExecution"))
                .iter()
                .filter_map(|weighted| weighted.get("podAffinityTerm"))
                .any(elsewhere)
    })
}

/// What containers don't say although a quota wants to know.
fn missing_amounts(pod: &Value, limited: &[&str]) -> Option<String> {
    if pod
        .pointer("/spec/resources")
        .and_then(Value::as_object)
        .is_some_and(|resources| !resources.is_empty())
    {
        return None;
    }
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for container in
        [items_at(pod, "/spec/containers"), items_at(pod, "/spec/initContainers")].into_iter().flatten()
    {
        let of = |what: &str| amounts(container.pointer(&format!("/resources/{what}")));
        let said = compute(&of("requests"), &of("limits"));
        for name in limited.iter().filter(|name| REQUIRED.contains(*name) && !said.contains_key(**name)) {
            missing.entry(name).or_default().insert(text(container, "name"));
        }
    }
    if missing.is_empty() {
        return None;
    }
    let texts: Vec<String> = missing
        .iter()
        .map(|(name, containers)| {
            format!("{name} for: {}", containers.iter().copied().collect::<Vec<_>>().join(","))
        })
        .collect();
    Some(format!("must specify {}", texts.join("; ")))
}

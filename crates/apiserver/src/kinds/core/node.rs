//! Nodes.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use settled_apimachinery::unstructured::{entries, field, items, string};
use settled_apimachinery::{net, validation};

use crate::human;
use crate::kinds::behavior::Behavior;
use crate::kinds::check::{Check, join};
use crate::kinds::core::resource_names::validate_resource_quantity;
use crate::kinds::fields::{Fields, set_absent};
use crate::kinds::printers::{NONE, Read as _, Row, cells};
use crate::kinds::strategy::Strategy;
use crate::selector::{FieldSelectors, Source};

pub(crate) static STRATEGY: Strategy = Strategy {
    // It comes with what its kubelet knows.
    behavior: Behavior { status_on_create: true, ..Behavior::BUILTIN },
    field_selectors: FieldSelectors::of(&[("spec.unschedulable", Source::Flag("/spec/unschedulable"))])
        .of_cluster(),
    validate: validate_node,
    validate_update: Some(|check, new, old| {
        validate_node(check, new);
        validate_node_update(check, new, old);
    }),
    validate_status_update: validate_node_update,
    print: Some(print_node),
    ..Strategy::DEFAULT
};

pub(crate) fn set_allocatable(status: &mut Fields) {
    if let Some(capacity) = status.get("capacity").filter(|capacity| capacity.is_object()).cloned() {
        set_absent(status, "allocatable", &capacity);
    }
}

/// `podCIDR` is the first of `podCIDRs`, whichever a client writes, and it counts where they differ.
pub(crate) fn set_pod_cidrs(spec: &mut Fields) {
    let one = spec.get("podCIDR").and_then(Value::as_str).filter(|range| !range.is_empty());
    let first = spec.get("podCIDRs").and_then(|ranges| ranges.get(0)).and_then(Value::as_str);
    match (one, first) {
        (Some(one), first) if first != Some(one) => {
            let ranges = json!([one]);
            spec.insert("podCIDRs".into(), ranges);
        }
        (None, Some(first)) => {
            let first = json!(first);
            spec.insert("podCIDR".into(), first);
        }
        _ => {}
    }
}

fn validate_node(check: &mut Check, new: &Value) {
    let spec = field(new, "spec");
    validate_node_taints(check, spec);
    validate_capacities(check, new);
    let ranges = items(spec, "podCIDRs");
    for (index, range) in ranges.iter().enumerate() {
        let range = range.as_str().unwrap_or_default();
        check.form(&format!("spec.podCIDRs[{index}]"), range, net::is_valid_cidr_for_legacy_field);
    }
    let sixes = ranges.iter().filter(|range| range.as_str().is_some_and(|range| range.contains(':'))).count();
    if ranges.len() > 1 && (ranges.len() > 2 || sixes != 1) {
        let detail = "may specify no more than one CIDR for each IP family";
        check.invalid("spec.podCIDRs", &ranges.to_vec().into(), detail);
    }
}

/// What may not change of a Node, whichever part of it is written.
fn validate_node_update(check: &mut Check, new: &Value, old: &Value) {
    validate_capacities(check, new);
    let (spec, before) = (field(new, "spec"), field(old, "spec"));
    let mut addresses = BTreeSet::new();
    for (index, address) in items(field(new, "status"), "addresses").iter().enumerate() {
        let [kind, text] = ["type", "address"].map(|name| string(address, name));
        if !addresses.insert((kind, text)) {
            let shown = format!("{{\"Type\":{},\"Address\":{}}}", Value::from(kind), Value::from(text));
            let message = format!("Duplicate value: {shown}");
            check.push("FieldValueDuplicate", format!("status.addresses[{index}]"), message);
        }
    }
    let (ranges, known) = (items(spec, "podCIDRs"), items(before, "podCIDRs"));
    if !known.is_empty() {
        let changed = match ranges.len() == known.len() {
            true => ranges.iter().zip(known).filter(|(range, known)| range != known).count(),
            false => 1,
        };
        for _ in 0..changed {
            let detail = "node updates may not change podCIDR except from \"\" to valid";
            check.forbidden("spec.podCIDRs", detail);
        }
    }
    let provider = string(before, "providerID");
    if !provider.is_empty() && provider != string(spec, "providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        check.forbidden("spec.providerID", detail);
    }
    validate_node_taints(check, spec);
    if string(spec, "externalID") != string(before, "externalID") {
        check.forbidden("spec.externalID", "may not be updated");
    }
}

fn validate_capacities(check: &mut Check, node: &Value) {
    for list in ["capacity", "allocatable"] {
        for (name, value) in entries(field(node, "status"), list) {
            validate_resource_quantity(check, &format!("status.{list}.{name}"), name, value);
        }
    }
}

fn validate_node_taints(check: &mut Check, spec: &Value) {
    const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let mut seen = BTreeSet::new();
    for (index, taint) in items(spec, "taints").iter().enumerate() {
        let at = format!("metadata.taints[{index}]");
        let [key, value, effect] = ["key", "value", "effect"].map(|name| string(taint, name));
        check.form(&join(&at, "key"), key, validation::is_qualified_name);
        let wrong = validation::is_valid_label_value(value);
        if !wrong.is_empty() {
            check.invalid(join(&at, "value"), &value.into(), &wrong.join(";"));
        }
        if effect.is_empty() {
            check.required(join(&at, "effect"), "");
        } else if !EFFECTS.contains(&effect) {
            check.not_supported(join(&at, "effect"), &effect.into(), &EFFECTS);
        }
        if !seen.insert((key, effect)) {
            let [key, value, effect] = [key, value, effect].map(Value::from);
            let shown = format!("{{\"Key\":{key},\"Value\":{value},\"Effect\":{effect},\"TimeAdded\":null}}");
            let message = format!("Duplicate value: {shown}: taints must be unique by key and effect pair");
            check.push("FieldValueDuplicate", at, message);
        }
    }
}

fn print_node(row: Row<'_>) -> Vec<Value> {
    let ready = row.list("/status/conditions").iter().rfind(|condition| condition.text("/type") == "Ready");
    let ready = match ready.map(|condition| condition.text("/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let status =
        format!("{ready}{}", if row.flag("/spec/unschedulable") { ",SchedulingDisabled" } else { "" });
    let labels = row.at("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    let roles = if roles.is_empty() { NONE.to_owned() } else { roles.join(",") };
    let address = |kind: &str| {
        let found = row.list("/status/addresses").iter().find(|address| address.text("/type") == kind);
        found.map_or(NONE, |address| address.text("/address")).to_owned()
    };
    let info = |field: &str| row.filled_or(&format!("/status/nodeInfo/{field}"), human::UNKNOWN).to_owned();
    let kernel = match row.text("/status/nodeInfo/architecture") {
        "" => info("kernelVersion"),
        architecture => format!("{} ({architecture})", info("kernelVersion")),
    };
    cells![
        row.name(),
        status,
        roles,
        row.age(),
        row.text("/status/nodeInfo/kubeletVersion"),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage"),
        kernel,
        info("containerRuntimeVersion"),
    ]
}

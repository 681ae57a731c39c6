//! Validation of ResourceQuotas, LimitRanges and Nodes.

use std::collections::BTreeSet;

use serde_json::Value;
use settled_apimachinery::quantity::{MAX_MILLI_VALUE, Quantity};
use settled_apimachinery::unstructured::{array, entries, field, given, items, string};
use settled_apimachinery::{net, validation};

use super::check::{Check, join};
use crate::metadata::shown;

/// What containers ask for.
const OF_CONTAINERS: [&str; 3] = ["cpu", "ephemeral-storage", "memory"];
/// What is counted.
const COUNTED: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
/// What a quota may name besides.
const MEASURED: [&str; 10] = [
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
];

const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

fn is_of_quotas(name: &str) -> bool {
    COUNTED.contains(&name)
        || MEASURED.contains(&name)
        || ["hugepages-", "requests.hugepages-"].iter().any(|prefix| name.starts_with(prefix))
}

/// One of Kubernetes' own.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// One that somebody else has added.
fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && validation::is_qualified_name(&format!("requests.{name}")).is_empty()
}

fn resource(check: &mut Check, at: &str, name: &str) {
    let wrong = validation::is_qualified_name(name);
    for message in &wrong {
        check.invalid(at, &name.into(), message);
    }
    let standard = is_of_quotas(name) || name == "storage";
    if wrong.is_empty() && !name.contains('/') && !standard {
        check.invalid(at, &name.into(), "must be a standard resource type or fully qualified");
    }
}

fn resource_of_containers(check: &mut Check, at: &str, name: &str) {
    resource(check, at, name);
    if !name.contains('/') {
        if !OF_CONTAINERS.contains(&name) && !name.starts_with("hugepages-") {
            check.invalid(at, &name.into(), "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        check.invalid(at, &name.into(), "doesn't follow extended resource name standard");
    }
}

/// An amount of a resource. What is counted is whole.
fn amount(check: &mut Check, at: &str, name: &str, value: &Value) {
    let Some(quantity) = Quantity::from_value(value) else { return };
    if quantity.is_negative() {
        check.invalid(at, value, NOT_NEGATIVE);
    }
    if (COUNTED.contains(&name) || is_extended(name)) && quantity.milli_value() % 1000 != 0 {
        check.invalid(at, value, "must be an integer");
    }
}

fn amounts(check: &mut Check, object: &Value, at: &str, list: &str) {
    for (name, value) in entries(object, list) {
        let at = format!("{at}.{list}[{name}]");
        resource(check, &at, name);
        if !name.contains('/') && !is_of_quotas(name) {
            check.invalid(at.as_str(), &name.as_str().into(), "must be a standard resource for quota");
        }
        amount(check, &at, name, value);
    }
}

const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

/// Whether a scope says anything of a resource.
fn concerns(scope: &str, resource: &str) -> bool {
    const OF_PODS: [&str; 6] =
        ["cpu", "limits.cpu", "limits.memory", "memory", "requests.cpu", "requests.memory"];
    match scope {
        "BestEffort" => resource == "pods",
        "CrossNamespacePodAffinity"
        | "NotBestEffort"
        | "NotTerminating"
        | "PriorityClass"
        | "Terminating" => resource == "pods" || OF_PODS.contains(&resource),
        "VolumeAttributesClass" => ["persistentvolumeclaims", "requests.storage"].contains(&resource),
        _ => true,
    }
}

const OPPOSITES: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

pub(super) fn quota(check: &mut Check, new: &Value, old: Option<&Value>) {
    let spec = field(new, "spec");
    amounts(check, spec, "spec", "hard");
    let hard: Vec<&str> =
        entries(spec, "hard").map(|(name, _)| name.as_str()).filter(|name| is_of_quotas(name)).collect();
    let scopes = field(spec, "scopes");
    let names = |list: &'_ Value| -> BTreeSet<String> {
        let texts = array(list).iter().filter_map(Value::as_str);
        texts.map(str::to_owned).collect()
    };
    for scope in items(spec, "scopes").iter().filter_map(Value::as_str) {
        if !SCOPES.contains(&scope) {
            check.invalid("spec.scopes", scopes, "unsupported scope");
        }
        for _ in hard.iter().filter(|name| !concerns(scope, name)) {
            check.invalid("spec.scopes", scopes, "unsupported scope applied to resource");
        }
    }
    let set = names(scopes);
    for _ in OPPOSITES.iter().filter(|pair| pair.iter().all(|scope| set.contains(*scope))) {
        check.invalid("spec.scopes", scopes, "conflicting scopes");
    }
    if let Some(selector) = given(spec, "scopeSelector") {
        scope_selector(check, selector, &hard, scopes);
    }
    match old {
        None => {
            for list in ["hard", "used"] {
                amounts(check, field(new, "status"), "status", list);
            }
        }
        Some(old) => {
            if names(field(field(old, "spec"), "scopes")) != set {
                let shown = given(spec, "scopes").map_or_else(|| "null".to_owned(), shown);
                check.invalid_shown("spec.scopes", &shown, "field is immutable");
            }
        }
    }
}

fn scope_selector(check: &mut Check, selector: &Value, hard: &[&str], scopes: &Value) {
    let at = "spec.scopeSelector.matchExpressions";
    let mut set = BTreeSet::new();
    for expression in items(selector, "matchExpressions") {
        let [scope, operator] = ["scopeName", "operator"].map(|name| string(expression, name));
        set.insert(scope);
        if !SCOPES.contains(&scope) {
            check.invalid(join(at, "scopeName"), &scope.into(), "unsupported scope");
        }
        for _ in hard.iter().filter(|name| !concerns(scope, name)) {
            check.invalid(at, selector, "unsupported scope applied to resource");
        }
        let plain = SCOPES.contains(&scope) && !["PriorityClass", "VolumeAttributesClass"].contains(&scope);
        if plain && operator != "Exists" {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            check.invalid(join(at, "operator"), &operator.into(), detail);
        }
        let values = field(expression, "values");
        let none = array(values).is_empty();
        match operator {
            "In" | "NotIn" if none => check.required(
                join(at, "values"),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            ),
            "Exists" | "DoesNotExist" if !none => check.invalid(
                join(at, "values"),
                values,
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            ),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => check.invalid(join(at, "operator"), &other.into(), "not a valid selector operator"),
        }
    }
    for _ in OPPOSITES.iter().filter(|pair| pair.iter().all(|scope| set.contains(*scope))) {
        check.invalid(at, scopes, "conflicting scopes");
    }
}

/// What a quota says of itself.
pub(super) fn quota_status(check: &mut Check, new: &Value) {
    for list in ["hard", "used"] {
        amounts(check, field(new, "status"), "status", list);
    }
}

pub(super) fn limit_range(check: &mut Check, new: &Value) {
    let mut kinds = BTreeSet::new();
    for (index, limit) in items(field(new, "spec"), "limits").iter().enumerate() {
        let at = format!("spec.limits[{index}]");
        let kind = string(limit, "type");
        let place = join(&at, "type");
        let wrong = validation::is_qualified_name(kind);
        for message in &wrong {
            check.invalid(place.as_str(), &kind.into(), message);
        }
        let known = ["Container", "PersistentVolumeClaim", "Pod"].contains(&kind);
        if wrong.is_empty() && !kind.contains('/') && !known {
            check.invalid(place.as_str(), &kind.into(), "must be a standard limit type or fully qualified");
        }
        if !kinds.insert(kind) {
            check.duplicate(place, &kind.into());
        }
        let mut names = BTreeSet::new();
        for list in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            if kind == "Pod" && list.starts_with("default") {
                if entries(limit, list).next().is_some() {
                    check.forbidden(join(&at, list), "may not be specified when `type` is 'Pod'");
                }
                continue;
            }
            for (name, _) in entries(limit, list) {
                let at = format!("{at}.{list}[{name}]");
                match kind {
                    "Pod" | "Container" => resource_of_containers(check, &at, name),
                    _ => resource(check, &at, name),
                }
                names.insert(name.as_str());
            }
        }
        if kind == "PersistentVolumeClaim"
            && ["min", "max"].iter().all(|list| field(field(limit, list), "storage").is_null())
        {
            let detail = "either minimum or maximum storage value is required, but neither was provided";
            check.required(join(&at, "limits"), detail);
        }
        for name in names {
            limit_of(check, limit, &at, name);
        }
    }
}

/// A bound for the ratio of limit to request, and the ratio that the largest and the smallest amount have. Precise where amounts are small.
#[expect(clippy::cast_precision_loss, reason = "as upstream")]
fn ratio_limit(ratio: &Quantity, least: &Quantity, most: &Quantity) -> (f64, f64) {
    let all = [ratio, least, most];
    if all.iter().all(|quantity| quantity.value() < MAX_MILLI_VALUE) {
        let [ratio, least, most] = all.map(|quantity| quantity.milli_value() as f64);
        return (ratio / 1000.0, most / least);
    }
    let [ratio, least, most] = all.map(|quantity| quantity.value() as f64);
    (ratio, most / least)
}

/// The bounds and defaults of one resource.
fn limit_of(check: &mut Check, limit: &Value, at: &str, name: &str) {
    // Those of Pods have no defaults.
    let is_pod = string(limit, "type") == "Pod";
    let of = |list: &str| {
        let ignored = is_pod && list.starts_with("default");
        let value = field(field(limit, list), name);
        if ignored { None } else { Quantity::from_value(value) }
    };
    let [least, most, default, request, ratio] =
        ["min", "max", "default", "defaultRequest", "maxLimitRequestRatio"].map(of);
    // The two that are compared, what they are called, whose field it is, and whose value is shown.
    let pairs = [
        (&least, "min value", &most, "max value", "min", &least),
        (&least, "min value", &request, "default request value", "defaultRequest", &request),
        (&request, "default request value", &most, "max value", "defaultRequest", &request),
        (&request, "default request value", &default, "default limit value", "defaultRequest", &request),
        (&least, "min value", &default, "default value", "default", &least),
        (&default, "default value", &most, "max value", "default", &most),
    ];
    for (low, low_name, high, high_name, list, shown) in pairs {
        if let (Some(low), Some(high), Some(shown)) = (low, high, shown)
            && low > high
        {
            let detail = format!("{low_name} {low} is greater than {high_name} {high}");
            check.invalid(format!("{at}.{list}[{name}]"), &shown.to_string().into(), &detail);
        }
    }
    if let Some(ratio) = ratio {
        let (place, shown) = (format!("{at}.maxLimitRequestRatio[{name}]"), ratio.to_string());
        if ratio < Quantity::from(1) {
            check.invalid(place.as_str(), &shown.as_str().into(), &format!("ratio {shown} is less than 1"));
        }
        if let (Some(least), Some(most)) = (&least, &most) {
            let (ratio, highest) = ratio_limit(&ratio, least, most);
            if ratio > highest {
                let detail = format!("ratio {shown} is greater than max/min = {highest:.6}");
                check.invalid(place, &shown.as_str().into(), &detail);
            }
        }
    }
    let overcommits = is_native(name) && !name.starts_with("hugepages-");
    if let (false, Some(default), Some(request)) = (overcommits, default, request)
        && default != request
    {
        let (default, shown) = (default.to_string(), request.to_string());
        let detail = format!("default value {default} must equal to defaultRequest value {shown} in {name}");
        check.invalid(format!("{at}.defaultRequest[{name}]"), &shown.as_str().into(), &detail);
    }
}

/// A new Node, and a changed one.
pub(super) fn node(check: &mut Check, new: &Value, old: Option<&Value>) {
    let spec = field(new, "spec");
    taints(check, spec);
    capacities(check, new);
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
    if let Some(old) = old {
        node_change(check, new, old);
    }
}

/// What may not change of a Node, whichever part of it is written.
pub(super) fn node_change(check: &mut Check, new: &Value, old: &Value) {
    capacities(check, new);
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
    taints(check, spec);
    if string(spec, "externalID") != string(before, "externalID") {
        check.forbidden("spec.externalID", "may not be updated");
    }
}

fn capacities(check: &mut Check, node: &Value) {
    for list in ["capacity", "allocatable"] {
        for (name, value) in entries(field(node, "status"), list) {
            amount(check, &format!("status.{list}.{name}"), name, value);
        }
    }
}

fn taints(check: &mut Check, spec: &Value) {
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

//! ResourceQuotas. What objects count for is in `kinds::quota`, the charging in `admission::quota`.

use std::collections::BTreeSet;

use serde_json::Value;
use settled_apimachinery::unstructured::{array, entries, field, given, items, string};

use crate::kinds::behavior::Behavior;
use crate::kinds::check::{Check, join};
use crate::kinds::core::resource_names::{
    is_quota_resource_name, validate_resource_name, validate_resource_quantity,
};
use crate::kinds::printers::{Read as _, Row, cells};
use crate::kinds::quota::Quota;
use crate::kinds::strategy::Strategy;
use crate::metadata::shown;

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior { returns_deleted: true, ..Behavior::BUILTIN },
    validate: |check, quota| {
        validate_quota_spec(check, quota);
        validate_resource_quota_status(check, quota);
    },
    validate_update: Some(validate_resource_quota_update),
    validate_status_update: |check, new, _old| validate_resource_quota_status(check, new),
    print: Some(print_resource_quota),
    quota: Quota::Named("resourcequotas"),
    ..Strategy::DEFAULT
};

fn validate_resource_list(check: &mut Check, object: &Value, at: &str, list: &str) {
    for (name, value) in entries(object, list) {
        let at = format!("{at}.{list}[{name}]");
        validate_resource_name(check, &at, name);
        if !name.contains('/') && !is_quota_resource_name(name) {
            check.invalid(at.as_str(), &name.as_str().into(), "must be a standard resource for quota");
        }
        validate_resource_quantity(check, &at, name, value);
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

fn validate_quota_spec(check: &mut Check, new: &Value) {
    let spec = field(new, "spec");
    validate_resource_list(check, spec, "spec", "hard");
    let hard: Vec<&str> = entries(spec, "hard")
        .map(|(name, _)| name.as_str())
        .filter(|name| is_quota_resource_name(name))
        .collect();
    let scopes = field(spec, "scopes");
    for scope in items(spec, "scopes").iter().filter_map(Value::as_str) {
        if !SCOPES.contains(&scope) {
            check.invalid("spec.scopes", scopes, "unsupported scope");
        }
        for _ in hard.iter().filter(|name| !concerns(scope, name)) {
            check.invalid("spec.scopes", scopes, "unsupported scope applied to resource");
        }
    }
    let set = scope_names(spec);
    for _ in OPPOSITES.iter().filter(|pair| pair.iter().all(|scope| set.contains(*scope))) {
        check.invalid("spec.scopes", scopes, "conflicting scopes");
    }
    if let Some(selector) = given(spec, "scopeSelector") {
        validate_scope_selector(check, selector, &hard, scopes);
    }
}

fn scope_names(spec: &Value) -> BTreeSet<&str> {
    items(spec, "scopes").iter().filter_map(Value::as_str).collect()
}

fn validate_resource_quota_update(check: &mut Check, new: &Value, old: &Value) {
    validate_quota_spec(check, new);
    let spec = field(new, "spec");
    if scope_names(field(old, "spec")) != scope_names(spec) {
        let shown = given(spec, "scopes").map_or_else(|| "null".to_owned(), shown);
        check.invalid_shown("spec.scopes", &shown, "field is immutable");
    }
}

fn validate_scope_selector(check: &mut Check, selector: &Value, hard: &[&str], scopes: &Value) {
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
fn validate_resource_quota_status(check: &mut Check, new: &Value) {
    for list in ["hard", "used"] {
        validate_resource_list(check, field(new, "status"), "status", list);
    }
}

fn print_resource_quota(row: Row<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in row.at("/status/hard").and_then(Value::as_object).into_iter().flatten() {
        let used = row.at("/status/used").and_then(|used| used.get(resource));
        let used = used.map_or_else(|| "0".to_owned(), |used| used.scalar("", "0"));
        let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        column.push(format!("{resource}: {used}/{}", hard.scalar("", "0")));
    }
    cells![row.name(), requests.join(", "), limits.join(", "), row.age()]
}

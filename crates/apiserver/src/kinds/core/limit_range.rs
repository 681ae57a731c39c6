//! LimitRanges. What they do to Pods and PVCs is in `admission::limits`.

use std::collections::BTreeSet;

use serde_json::Value;
use settled_apimachinery::quantity::{MAX_MILLI_VALUE, Quantity};
use settled_apimachinery::unstructured::{entries, field, items, string};
use settled_apimachinery::validation;

use crate::kinds::behavior::Behavior;
use crate::kinds::check::{Check, join};
use crate::kinds::core::resource_names::{
    is_native_resource, validate_container_resource_name, validate_resource_name,
};
use crate::kinds::fields::{Fields, copy_absent};
use crate::kinds::strategy::Strategy;

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior { create_on_update: true, whole_metadata: true, ..Behavior::BUILTIN },
    validate: validate_limit_range,
    ..Strategy::DEFAULT
};

/// The limits of containers are defaults of each other (`SetDefaults_LimitRangeItem`).
pub(crate) fn set_item_defaults(item: &mut Fields) {
    if item.get("type").and_then(Value::as_str) != Some("Container") {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        copy_absent(item, from, to);
    }
}

fn validate_limit_range(check: &mut Check, new: &Value) {
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
                    "Pod" | "Container" => validate_container_resource_name(check, &at, name),
                    _ => validate_resource_name(check, &at, name),
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
            validate_limit(check, limit, &at, name);
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
fn validate_limit(check: &mut Check, limit: &Value, at: &str, name: &str) {
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
    let overcommits = is_native_resource(name) && !name.starts_with("hugepages-");
    if let (false, Some(default), Some(request)) = (overcommits, default, request)
        && default != request
    {
        let (default, shown) = (default.to_string(), request.to_string());
        let detail = format!("default value {default} must equal to defaultRequest value {shown} in {name}");
        check.invalid(format!("{at}.defaultRequest[{name}]"), &shown.as_str().into(), &detail);
    }
}

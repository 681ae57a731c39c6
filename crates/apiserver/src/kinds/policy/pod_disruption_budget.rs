//! PodDisruptionBudgets. What they allow is asked by evictions, in `verbs::pods`.

use serde_json::Value;
use settled_apimachinery::unstructured::{field, given};

use crate::kinds::behavior::Behavior;
use crate::kinds::check::{
    Check, join, validate_at_most_100_percent, validate_label_selector, validate_positive_int_or_percent,
};
use crate::kinds::printers::{Read as _, Row, cells};
use crate::kinds::strategy::Strategy;

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior { generation: true, unconditional_update: false, ..Behavior::BUILTIN },
    validate: validate_pod_disruption_budget,
    print: Some(print_pod_disruption_budget),
    ..Strategy::DEFAULT
};

fn validate_pod_disruption_budget(check: &mut Check, new: &Value) {
    let spec = field(new, "spec");
    let both = ["minAvailable", "maxUnavailable"].map(|name| given(spec, name));
    if let [Some(_), Some(_)] = both {
        let part = |name: &str| field(spec, name).to_string();
        let shown = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\"UnhealthyPodEvictionPolicy\":{}}}",
            part("minAvailable"),
            part("selector"),
            part("maxUnavailable"),
            part("unhealthyPodEvictionPolicy")
        );
        check.invalid_shown("spec", &shown, "minAvailable and maxUnavailable cannot be both set");
    }
    for (name, value) in ["minAvailable", "maxUnavailable"].into_iter().zip(both) {
        if let Some(value) = value {
            validate_positive_int_or_percent(check, &join("spec", name), value);
            validate_at_most_100_percent(check, &join("spec", name), value);
        }
    }
    validate_label_selector(check, "spec.selector", field(spec, "selector"));
    if let Some(policy) = given(spec, "unhealthyPodEvictionPolicy")
        && !["AlwaysAllow", "IfHealthyBudget"].contains(&policy.as_str().unwrap_or_default())
    {
        check.not_supported("spec.unhealthyPodEvictionPolicy", policy, &["AlwaysAllow", "IfHealthyBudget"]);
    }
}

fn print_pod_disruption_budget(row: Row<'_>) -> Vec<Value> {
    cells![
        row.name(),
        row.scalar("/spec/minAvailable", "N/A"),
        row.scalar("/spec/maxUnavailable", "N/A"),
        row.int("/status/disruptionsAllowed"),
        row.age(),
    ]
}

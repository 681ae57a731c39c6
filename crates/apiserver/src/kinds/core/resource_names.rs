//! Names and amounts of resources in quotas, limit ranges and nodes (`pkg/apis/core/validation`, `pkg/apis/core/helper` upstream).

use serde_json::Value;
use settled_apimachinery::quantity::Quantity;
use settled_apimachinery::validation;

use crate::kinds::check::Check;

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

pub(crate) fn is_quota_resource_name(name: &str) -> bool {
    COUNTED.contains(&name)
        || MEASURED.contains(&name)
        || ["hugepages-", "requests.hugepages-"].iter().any(|prefix| name.starts_with(prefix))
}

/// One of Kubernetes' own.
pub(crate) fn is_native_resource(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// One that another component added.
fn is_extended_resource_name(name: &str) -> bool {
    !is_native_resource(name)
        && !name.starts_with("requests.")
        && validation::is_qualified_name(&format!("requests.{name}")).is_empty()
}

pub(crate) fn validate_resource_name(check: &mut Check, at: &str, name: &str) {
    let wrong = validation::is_qualified_name(name);
    for message in &wrong {
        check.invalid(at, &name.into(), message);
    }
    let standard = is_quota_resource_name(name) || name == "storage";
    if wrong.is_empty() && !name.contains('/') && !standard {
        check.invalid(at, &name.into(), "must be a standard resource type or fully qualified");
    }
}

pub(crate) fn validate_container_resource_name(check: &mut Check, at: &str, name: &str) {
    validate_resource_name(check, at, name);
    if !name.contains('/') {
        if !OF_CONTAINERS.contains(&name) && !name.starts_with("hugepages-") {
            check.invalid(at, &name.into(), "must be a standard resource for containers");
        }
    } else if !is_native_resource(name) && !is_extended_resource_name(name) {
        check.invalid(at, &name.into(), "doesn't follow extended resource name standard");
    }
}

/// An amount of a resource. What is counted is whole.
pub(crate) fn validate_resource_quantity(check: &mut Check, at: &str, name: &str, value: &Value) {
    let Some(quantity) = Quantity::from_value(value) else { return };
    if quantity.is_negative() {
        check.invalid(at, value, NOT_NEGATIVE);
    }
    if (COUNTED.contains(&name) || is_extended_resource_name(name)) && quantity.milli_value() % 1000 != 0 {
        check.invalid(at, value, "must be an integer");
    }
}

//! ComponentStatuses (`pkg/registry/core/componentstatus` upstream).
//!
//! Upstream asks the health endpoints of the scheduler and the controller manager on its own machine. Here they may run
//! anywhere or nowhere, so their leader election answers: a component whose Lease is held and renewed is healthy.

use serde_json::{Value, json};

use crate::error::{ApiError, GroupResource};
use crate::object;
use crate::state::State;
use crate::state::call::Target;

/// Names of components, and the Leases of their leaders. The store stands for etcd.
const COMPONENTS: [(&str, Option<&str>); 3] = [
    ("scheduler", Some("kube-scheduler")),
    ("controller-manager", Some("kube-controller-manager")),
    ("etcd-0", None),
];

/// Healthy or not, or unknown, and why.
struct Condition {
    status: &'static str,
    error: String,
}

impl Condition {
    const HEALTHY: Self = Self { status: "True", error: String::new() };
}

/// All ComponentStatuses.
pub(crate) fn statuses(state: &State, now: jiff::Timestamp) -> Vec<Value> {
    let status = |(name, lease): (&str, Option<&str>)| {
        let found = match lease {
            Some(lease) => leader_condition(state, lease, now),
            None if state.store_health.is_healthy(&state.store) => Condition::HEALTHY,
            None => Condition { status: "False", error: "the last write could not be stored".to_owned() },
        };
        let mut condition = json!({"type": "Healthy", "status": found.status});
        match found.error.as_str() {
            "" => condition["message"] = "ok".into(),
            error => condition["error"] = error.into(),
        }
        json!({
            "apiVersion": "v1", "kind": "ComponentStatus", "metadata": {"name": name},
            "conditions": [condition],
        })
    };
    COMPONENTS.map(status).into()
}

/// One ComponentStatus.
pub(crate) fn status(state: &State, name: &str, now: jiff::Timestamp) -> Result<Value, ApiError> {
    let all = statuses(state, now);
    let found = all.into_iter().find(|status| object::meta(status, "name") == name);
    found.ok_or_else(|| ApiError::not_found(GroupResource { group: "", resource: "componentstatus" }, name))
}

fn leader_condition(state: &State, name: &str, now: jiff::Timestamp) -> Condition {
    let unknown = |why: String| Condition { status: "Unknown", error: why };
    let catalog = state.catalog();
    let found = catalog.find("coordination.k8s.io", "v1", "leases").and_then(|definition| {
        let target = Target { definition, namespace: "kube-system", name };
        Some(definition.read(&*state.get(&target).ok()?))
    });
    let Some(lease) = found else {
        return unknown(format!("there is no Lease kube-system/{name}"));
    };
    let spec = lease.get("spec").unwrap_or(&Value::Null);
    let renewed: Option<jiff::Timestamp> = object::text(spec, "renewTime").parse().ok();
    let seconds = spec.get("leaseDurationSeconds").and_then(Value::as_i64).unwrap_or_default();
    let held = !object::text(spec, "holderIdentity").is_empty()
        && renewed.is_some_and(|renewed| now.duration_since(renewed).as_secs() < seconds);
    if held {
        return Condition::HEALTHY;
    }
    unknown(format!("nobody renews the Lease kube-system/{name}"))
}

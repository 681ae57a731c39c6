//! Pods: their strategies (`pkg/registry/core/pod/strategy.go` upstream). `spec` validates what templates have as well.

pub(crate) mod containers;
pub(crate) mod defaults;
mod printer;
pub(crate) mod quota;
pub(crate) mod spec;
pub(crate) mod subresources;
mod validation;
mod volumes;

use serde_json::{Map, Value, json};
use settled_apimachinery::unstructured::value_at;

use crate::kinds::behavior::{Behavior, StatusUpdatePreserves};
use crate::kinds::core::pod::subresources::{quality_of_service, update_part};
use crate::kinds::core::pod::validation::{validate_pod, validate_pod_update, validate_subresource_update};
use crate::kinds::names::Part;
use crate::kinds::quota::Quota;
use crate::kinds::strategy::{Requester, Strategy, UpdateContext};
use crate::object::member_mut;
use crate::selector::{FieldSelectors, Source};

pub(crate) static STRATEGY: Strategy = Strategy {
    behavior: Behavior {
        generation: true,
        returns_deleted: true,
        status_update_preserves: StatusUpdatePreserves::Owners,
        ..Behavior::BUILTIN
    },
    field_selectors: FieldSelectors::of(&[
        ("spec.nodeName", Source::Text(&["/spec/nodeName"])),
        ("spec.restartPolicy", Source::Text(&["/spec/restartPolicy"])),
        ("spec.schedulerName", Source::Text(&["/spec/schedulerName"])),
        ("spec.serviceAccountName", Source::Text(&["/spec/serviceAccountName"])),
        ("spec.hostNetwork", Source::Flag("/spec/hostNetwork")),
        ("status.phase", Source::Text(&["/status/phase"])),
        ("status.podIP", Source::Text(&["/status/podIPs/0/ip", "/status/podIP"])),
        ("status.nominatedNodeName", Source::Text(&["/status/nominatedNodeName"])),
        ("status.podIPs", Source::Nothing),
    ]),
    prepare_for_create,
    prepare_for_update,
    validate: validate_pod,
    validate_update: Some(validate_pod_update),
    validate_subresource_update,
    grace_period: Some(grace_period),
    print: Some(printer::print_pod),
    row_conditions: printer::row_conditions,
    quota: Quota::Evaluator(&quota::EVALUATOR),
    ..Strategy::DEFAULT
};

fn prepare_for_create(pod: &mut Value, _requester: &Requester<'_>) {
    let quality = quality_of_service(pod);
    if let Some(fields) = pod.as_object_mut() {
        let mut status = json!({"phase": "Pending", "qosClass": quality});
        let gates = fields.get("spec").and_then(|spec| spec.get("schedulingGates")).and_then(Value::as_array);
        if gates.is_some_and(|gates| !gates.is_empty()) {
            // applySchedulingGatedCondition
            status["conditions"] = json!([{
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }]);
        }
        fields.insert("status".to_owned(), status);
    }
}

fn prepare_for_update(new: &mut Value, old: &Value, context: &UpdateContext<'_>) {
    match context.part {
        Part::Status => {
            pair_addresses(new);
            keep_status(new, old);
        }
        part @ (Part::Ephemeral | Part::Resize) => update_part(part, new, old),
        _ => {}
    }
}

/// What a write to a Pod's status can't take away: how it is treated when a node runs short, and which generation was seen.
fn keep_status(pod: &mut Value, old: &Value) {
    const SEEN: &str = "observedGeneration";
    let is_zero =
        |value: Option<&Value>| value.is_none_or(|value| value.is_null() || *value == 0 || *value == "");
    let keep = |fields: &mut Map<String, Value>, name: &str, before: Option<&Value>| {
        if let Some(before) = before.filter(|_| is_zero(fields.get(name))) {
            fields.insert(name.to_owned(), before.clone());
        }
    };
    let before = |pointer: &str| value_at(old, pointer);
    let status = member_mut(pod, "status");
    for name in ["qosClass", SEEN] {
        keep(status, name, before(&format!("/status/{name}")));
    }
    // There may be several of a type: each has the place of the one before.
    let mut known: Vec<&Value> =
        before("/status/conditions").and_then(Value::as_array).into_iter().flatten().collect();
    for condition in status.get_mut("conditions").and_then(Value::as_array_mut).into_iter().flatten() {
        let Some(at) = known.iter().position(|other| other.get("type") == condition.get("type")) else {
            continue;
        };
        let seen = known.remove(at).get(SEEN).filter(|seen| !is_zero(Some(seen)));
        if let Some(fields) = condition.as_object_mut() {
            keep(fields, SEEN, seen);
        }
    }
}

/// `podIP` is the first of `podIPs`, whichever a client writes, and it counts where they differ
/// (`pkg/apis/core/v1/conversion.go`).
fn pair_addresses(pod: &mut Value) {
    let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) else { return };
    let first = status.get("podIPs").and_then(|list| list.pointer("/0/ip")).cloned();
    let one =
        status.get("podIP").filter(|address| address.as_str().is_some_and(|text| !text.is_empty())).cloned();
    match (one, first) {
        (Some(one), first) if first.as_ref() != Some(&one) => {
            status.insert("podIPs".to_owned(), json!([{"ip": one}]));
        }
        (None, Some(first)) => {
            status.insert("podIP".to_owned(), first);
        }
        _ => {}
    }
}

/// The grace period of a deletion: nobody has to stop what was never placed or has ended (`CheckGracefulDelete`).
fn grace_period(pod: &Value, requested: Option<i64>) -> i64 {
    let own = || pod.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    let unplaced = pod.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default().is_empty();
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    if unplaced || matches!(phase, "Failed" | "Succeeded") {
        return 0;
    }
    requested.or_else(own).unwrap_or(30).max(0)
}

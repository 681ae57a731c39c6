//! Rules for cluster resources: Namespace, Node, APIService, CustomResourceDefinition and others.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use settled_apimachinery::quantity::Amount;

use super::context::{Condition, Context, Truth, current, in_progress, recoverable, terminal, whole_number};
use super::member;
use crate::duration::human;
use crate::fields::Field;
use crate::node::Node;
use crate::text::text;
use crate::verdict::{Basis, FailureClass, Status, Verdict};

pub(super) fn namespace(context: &Context<'_, '_>) -> Verdict {
    match &*context.text(Field::Phase).unwrap_or_default() {
        "Active" => current("Active", "Namespace is active"),
        "Terminating" => Verdict::new(Status::Terminating, Basis::KindRule, "Deleting", "being deleted"),
        "" => in_progress("NotObserved", "Namespace phase not available"),
        phase => in_progress("NotActive", text!("Namespace is {phase}")),
    }
}

pub(super) fn node(context: &Context<'_, '_>) -> Verdict {
    let mut ready = None;
    let mut pressure = String::new();
    for condition in context.conditions().iter() {
        if condition.is_type("Ready") {
            ready = Some(condition);
        } else if condition.is("NetworkUnavailable", Truth::True) {
            let verdict = in_progress(condition.reason_or("NetworkUnavailable"), condition.describe())
                .failure(FailureClass::Network, false);
            return context.decided_by(&condition, || verdict);
        } else if condition.is_true() && condition.type_text().ends_with("Pressure") {
            let _ = write!(pressure, ", {}", condition.type_text());
        }
    }
    let Some(ready) = ready else {
        return in_progress("NotObserved", "the kubelet has not reported yet");
    };
    let verdict = match ready.truth {
        Truth::True => {
            let cordoned = context.boolean(Field::NodeUnschedulable) == Some(true);
            let (reason, note) = if cordoned { ("Cordoned", ", cordoned") } else { ("Ready", "") };
            current(reason, text!("Node is ready{note}{pressure}"))
        }
        Truth::False => in_progress(ready.reason_or("NotReady"), ready.describe()),
        // The node controller's word for a kubelet that has stopped reporting.
        Truth::Unknown => {
            recoverable(FailureClass::Other, ready.reason_or("NodeStatusUnknown"), ready.describe())
        }
    };
    context.decided_by(&ready, || verdict)
}

/// Current once the controller has taken over what the spec asks for.
pub(super) fn resource_quota(context: &Context<'_, '_>) -> Verdict {
    let (spec, status) = (context.map(Field::SpecHard), context.map(Field::StatusHard));
    let Some(status) = status else {
        if spec.is_none_or(|spec| spec.members().next().is_none()) {
            return current("NoLimits", "the quota has no limits");
        }
        return in_progress("NotObserved", "the quota's usage has not been computed yet");
    };
    // As maps: in order of the names, whatever their order in the object, and quick to look into however many there are.
    let limits: BTreeMap<_, _> = status.members().collect();
    let wanted: BTreeMap<_, _> = spec.into_iter().flat_map(Node::members).collect();
    for (resource, wanted) in wanted {
        let observed = limits.get(&resource).copied();
        if !observed.is_some_and(|observed| same_quantity(observed, wanted)) {
            return in_progress("NotObserved", text!("the limit of {resource} has not been taken over yet"));
        }
    }
    let mut used_up = String::new();
    if let Some(used) = context.map(Field::StatusUsed) {
        let used: BTreeMap<_, _> = used.members().collect();
        for (resource, hard) in limits {
            if used.get(&resource).copied().and_then(quantity) >= quantity(hard) {
                let separator = if used_up.is_empty() { "" } else { ", " };
                let _ = write!(used_up, "{separator}{resource}");
            }
        }
    }
    if used_up.is_empty() {
        current("Observed", "the quota is in force")
    } else {
        current("UsedUp", text!("the quota is in force; used up: {used_up}"))
    }
}

fn quantity(node: Node<'_>) -> Option<Amount> {
    match node.as_str() {
        Some(text) => Amount::parse(&text).ok(),
        None => node.as_int().map(Amount::from),
    }
}

fn same_quantity(a: Node<'_>, b: Node<'_>) -> bool {
    match (quantity(a), quantity(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a.as_str() == b.as_str(),
    }
}

pub(super) fn api_service(context: &Context<'_, '_>) -> Verdict {
    match context.conditions().find("Available") {
        Some(condition) => {
            let (reason, message) = (condition.reason_or("Available"), condition.describe());
            let verdict = if condition.is_true() {
                current(reason, message)
            } else {
                in_progress(reason, message).failure(FailureClass::Network, false)
            };
            context.decided_by(&condition, || verdict)
        }
        None => in_progress("NotObserved", "the API server has not checked the service yet"),
    }
}

/// A refused name wins wherever it stands: such a definition is never served, whatever else it says.
pub(super) fn custom_resource_definition(context: &Context<'_, '_>) -> Verdict {
    let conditions = context.conditions();
    if let Some(refused) = conditions.find("NamesAccepted").filter(Condition::is_false) {
        let verdict = recoverable(
            FailureClass::Configuration,
            refused.reason_or("NamesNotAccepted"),
            refused.describe(),
        );
        return context.decided_by(&refused, || verdict);
    }
    match conditions.find("Established") {
        Some(condition) if condition.is_true() => {
            let unstructural = conditions.find("NonStructuralSchema").filter(Condition::is_true);
            let message = match unstructural {
                Some(condition) => text!("CRD is established; {}", condition.describe()),
                None => "CRD is established".to_owned(),
            };
            context.decided_by(&condition, || current("Established", message))
        }
        Some(condition) if condition.is_false() && !condition.is_reason("Installing") => {
            let verdict = recoverable(
                FailureClass::Configuration,
                condition.reason_or("NotEstablished"),
                condition.describe(),
            );
            context.decided_by(&condition, || verdict)
        }
        _ => in_progress("Installing", "Install in progress"),
    }
}

pub(super) fn certificate_signing_request(context: &Context<'_, '_>) -> Verdict {
    let mut approved = false;
    for condition in context.conditions().iter().filter(Condition::is_true) {
        let (reason, message) = (condition.reason_or("Denied"), condition.describe());
        if condition.is_type("Denied") {
            return terminal(
                FailureClass::Configuration,
                "Denied",
                text!("the request was denied ({reason}): {message}"),
            );
        }
        if condition.is_type("Failed") {
            return terminal(
                FailureClass::Other,
                "SigningFailed",
                text!("signing failed ({reason}): {message}"),
            );
        }
        approved |= condition.is_type("Approved");
    }
    let issued = context.text(Field::Certificate).is_some_and(|certificate| !certificate.is_empty());
    let signer = context.text(Field::SignerName).unwrap_or_else(|| "the signer".into());
    match (approved, issued) {
        (_, true) => current("Issued", "the certificate has been issued"),
        (true, false) => {
            in_progress("Approved", text!("approved; waiting for {signer} to issue the certificate"))
        }
        (false, false) => in_progress("PendingApproval", "waiting for approval or denial of the request"),
    }
}

pub(super) fn validating_admission_policy(context: &Context<'_, '_>) -> Verdict {
    let Some(checking) = context.map(Field::TypeChecking) else {
        if context.observed.is_some() {
            return current("Observed", "the policy is in force");
        }
        return in_progress("NotObserved", "the policy's types have not been checked yet");
    };
    let warnings: Vec<String> = checking
        .get("expressionWarnings")
        .into_iter()
        .flat_map(Node::elements)
        .map(|warning| {
            let field = member(warning, "fieldRef").unwrap_or_default();
            let warning = member(warning, "warning").unwrap_or_default();
            text!("{field}: {}", warning.trim())
        })
        .collect();
    match warnings.first() {
        None => current("TypesChecked", "the policy is in force; its expressions fit the types they read"),
        Some(first) => {
            let many = if warnings.len() == 1 { "warning" } else { "warnings" };
            let message = text!("the policy is in force, with {} type {many}: {first}", warnings.len());
            current("TypeWarnings", message)
        }
    }
}

/// A claim for devices is allocated when a Pod that uses it is scheduled.
pub(super) fn resource_claim(context: &Context<'_, '_>) -> Verdict {
    if context.map(Field::Allocation).is_none() {
        let message = "not allocated yet: waiting for a Pod that uses the ResourceClaim to be scheduled";
        return in_progress("NotAllocated", message).failure(FailureClass::Scheduling, false);
    }
    for device in context.list(Field::Devices) {
        let name = member(device, "device").unwrap_or_default();
        for condition in device.get("conditions").into_iter().flat_map(Node::elements) {
            let is = |key: &str, word: &str| condition.get(key).is_some_and(|value| value.is(word));
            if is("type", "Ready") && !is("status", "True") {
                let detail =
                    member(condition, "message").or_else(|| member(condition, "reason")).unwrap_or_default();
                return in_progress("DeviceNotReady", text!("device {name} is not ready: {detail}"));
            }
        }
    }
    let users = context.list(Field::ReservedFor).count();
    let message = match users {
        0 => "devices are allocated and not in use".to_owned(),
        1 => "devices are allocated and reserved for 1 user".to_owned(),
        n => text!("devices are allocated and reserved for {n} users"),
    };
    current("Allocated", message)
}

/// A Lease is its holder's business: it is done once stored. Its message says whether it is held.
pub(super) fn lease(context: &Context<'_, '_>) -> Verdict {
    let holder = context.text(Field::HolderIdentity).filter(|holder| !holder.is_empty());
    let Some(holder) = holder else { return current("NotHeld", "the lease has no holder") };
    let renewed = context.text(Field::RenewTime).and_then(|time| context.since(&time));
    let seconds = context.get(Field::LeaseDuration).and_then(whole_number);
    match (renewed, seconds) {
        (Some(renewed), Some(seconds)) if renewed.as_secs() > seconds => {
            current("Expired", text!("the lease of {holder} was last renewed {} ago", human(renewed)))
        }
        _ => current("Held", text!("held by {holder}")),
    }
}

pub(super) fn flow_schema(context: &Context<'_, '_>) -> Verdict {
    match context.conditions().find("Dangling") {
        Some(condition) if condition.is_true() => {
            let verdict = recoverable(
                FailureClass::Configuration,
                condition.reason_or("Dangling"),
                condition.describe(),
            );
            context.decided_by(&condition, || verdict)
        }
        Some(condition) if condition.is_false() => {
            let verdict = current("Found", condition.message_or(|| "the priority level exists".to_owned()));
            context.decided_by(&condition, || verdict)
        }
        _ => in_progress("NotObserved", "the priority level has not been looked up yet"),
    }
}

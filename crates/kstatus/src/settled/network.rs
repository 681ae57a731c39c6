//! Rules for network resources: Service, Ingress, Gateway, EndpointSlice, NetworkPolicy.

use super::context::{Condition, Context, Truth, current, in_progress, recoverable};
use super::meanings::is_pending;
use super::{member, statusless};
use crate::fields::Field;
use crate::node::{Kind, Node};
use crate::reason;
use crate::text::text;
use crate::verdict::{FailureClass, Text, Verdict};

/// The first address in `status.loadBalancer.ingress`.
fn load_balancer_address(context: &Context<'_, '_>) -> Option<String> {
    let balancer = context.map(Field::LoadBalancer)?;
    let ingress = balancer.get("ingress").filter(|list| !list.is_null())?;
    if ingress.kind() != Kind::List {
        context.wrong_type(".status.loadBalancer.ingress", "a list", ingress);
        return None;
    }
    ingress
        .elements()
        .find_map(|entry| member(entry, "ip").or_else(|| member(entry, "hostname")).map(|a| a.into_owned()))
}

pub(super) fn service(context: &Context<'_, '_>) -> Verdict {
    let kind = context.text(Field::SpecType).unwrap_or_default();
    match &*kind {
        "LoadBalancer" => match load_balancer_address(context) {
            Some(address) => current("AddressAssigned", text!("load balancer address {address}")),
            None => in_progress(reason::NO_ADDRESS, "waiting for the load balancer to get an address")
                .failure(FailureClass::Network, false),
        },
        "ExternalName" => current("ExternalName", "Service is an external name: nothing to wait for"),
        _ => current("Ready", "Service is ready"),
    }
}

pub(super) fn ingress(context: &Context<'_, '_>) -> Verdict {
    match load_balancer_address(context) {
        Some(address) => current("AddressAssigned", text!("address {address}")),
        None if !context.options.require_address => {
            current("AddressNotRequired", "Ingress has no address, and none is required")
        }
        None => in_progress(reason::NO_ADDRESS, "waiting for the ingress controller to set an address")
            .failure(FailureClass::Network, false),
    }
}

/// `gateway.networking.k8s.io` Gateway: accepted, programmed, and reachable at an address.
pub(super) fn gateway(context: &Context<'_, '_>) -> Verdict {
    let conditions = context.conditions();
    if let Some(accepted) = conditions.find("Accepted").filter(Condition::is_false) {
        let reason = accepted.reason_or("NotAccepted");
        return context.decided_by(&accepted, || {
            if accepted.is_reason("Pending") {
                in_progress(reason, accepted.describe())
            } else {
                recoverable(FailureClass::Configuration, reason, accepted.describe())
            }
        });
    }
    let Some(programmed) = conditions.find("Programmed") else {
        return in_progress("NotProgrammed", "waiting for a controller to program the Gateway");
    };
    if !programmed.is_true() {
        return context.decided_by(&programmed, || {
            let (reason, message) = (programmed.reason_or("NotProgrammed"), programmed.describe());
            if programmed.is_reason("Invalid") {
                recoverable(FailureClass::Configuration, reason, message)
            } else {
                in_progress(reason, message).failure(FailureClass::Network, false)
            }
        });
    }
    let address = context.list(Field::Addresses).find_map(|address| member(address, "value"));
    context.decided_by(&programmed, || match address {
        Some(address) => current("Programmed", text!("Gateway is programmed at address {address}")),
        None if !context.options.require_address => {
            current("Programmed", "Gateway is programmed; it has no address, and none is required")
        }
        None => in_progress(reason::NO_ADDRESS, "Gateway is programmed; waiting for an address")
            .failure(FailureClass::Network, false),
    })
}

/// Current when it is empty (nothing is selected) or some endpoint that is not ending is ready. A condition that is
/// absent counts as ready, as the API asks of its readers.
pub(super) fn endpoint_slice(context: &Context<'_, '_>) -> Verdict {
    let flag = |endpoint: Node<'_>, name: &str| {
        endpoint.get("conditions").and_then(|conditions| conditions.get(name)).and_then(Node::as_bool)
    };
    let (mut all, mut ready) = (0usize, 0usize);
    for endpoint in context.list(Field::Endpoints) {
        if flag(endpoint, "terminating") == Some(true) {
            continue;
        }
        all += 1;
        if flag(endpoint, "ready") != Some(false) {
            ready += 1;
        }
    }
    if all > 0 && ready == 0 {
        return in_progress("NoReadyEndpoints", text!("Ready endpoints: 0/{all}"))
            .failure(FailureClass::Network, false);
    }
    current("EndpointsReady", text!("Ready endpoints: {ready}/{all}"))
}

/// What the conditions of KEP-2943 report of the latest generation, from any provider.
#[derive(Default)]
struct Acceptance<'o> {
    failure: Option<Condition<'o>>,
    partial_failure: Option<Condition<'o>>,
    rejected: Option<Condition<'o>>,
    pending: Option<Condition<'o>>,
    accepted: Option<Condition<'o>>,
    /// Whether there is any, such as `Failure` with the status False.
    is_reported: bool,
    other_generation: Option<Condition<'o>>,
}

/// The conditions `Accepted`, `PartialFailure` and `Failure` of a NetworkPolicy (KEP-2943). Of several providers, each prefixes the
/// types with its domain, and the worst report decides. Most clusters have nobody who writes them: then there is nothing to wait for.
pub(super) fn network_policy(context: &Context<'_, '_>) -> Verdict {
    let mut found = Acceptance::default();
    for condition in context.conditions().iter() {
        let type_ = condition.type_text();
        let word = type_.rsplit('/').next().unwrap_or_default();
        if !matches!(word, "Accepted" | "PartialFailure" | "Failure") {
            continue;
        }
        if context.is_of_other_generation(&condition) {
            found.other_generation.get_or_insert(condition);
            continue;
        }
        found.is_reported = true;
        let slot = match (word, condition.truth) {
            ("Failure", Truth::True) => &mut found.failure,
            ("PartialFailure", Truth::True) => &mut found.partial_failure,
            ("Accepted", Truth::True) => &mut found.accepted,
            ("Accepted", Truth::False) if !is_pending(&condition) => &mut found.rejected,
            ("Accepted", _) => &mut found.pending,
            _ => continue,
        };
        slot.get_or_insert(condition);
    }
    let class = FailureClass::Configuration;
    if let Some(failure) = found.failure {
        return recoverable(class, failure.reason_or("Failure"), reported(&failure));
    }
    if let Some(partial) = found.partial_failure {
        // The reason of the condition is also that of a whole failure, so it is a part of the message.
        let message = match partial.reason_or("") {
            reason if !reason.is_empty() && partial.has_message() => {
                text!("{reason}: {}", reported(&partial))
            }
            _ => reported(&partial).into_owned(),
        };
        return recoverable(class, "PartialFailure", message);
    }
    if let Some(rejected) = found.rejected {
        return recoverable(class, rejected.reason_or("NotAccepted"), reported(&rejected));
    }
    if let Some(pending) = found.pending {
        return in_progress(pending.reason_or("Pending"), reported(&pending));
    }
    if let Some(accepted) = found.accepted {
        return current("Accepted", reported(&accepted));
    }
    if let Some(verdict) = found.other_generation.and_then(|condition| context.other_generation(&condition)) {
        return verdict;
    }
    match found.is_reported {
        true => in_progress("Pending", "waiting for the network policy provider to accept the policy"),
        false => statusless::verdict(context),
    }
}

/// A condition's message, with the provider where its type names one.
fn reported(condition: &Condition<'_>) -> Text {
    match condition.type_text().rsplit_once('/') {
        Some((provider, _)) if condition.has_message() => {
            text!("{provider}: {}", condition.describe()).into()
        }
        _ => condition.describe().into(),
    }
}

//! Rules for network resources: Service, Ingress, Gateway, EndpointSlice.

use super::context::{Condition, Context, current, in_progress, recoverable};
use super::member;
use crate::fields::Field;
use crate::node::{Kind, Node};
use crate::reason;
use crate::text::text;
use crate::verdict::{FailureClass, Verdict};

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
        return context.decided_by(
            &accepted,
            if accepted.is_reason("Pending") {
                in_progress(reason, accepted.describe())
            } else {
                recoverable(FailureClass::Configuration, reason, accepted.describe())
            },
        );
    }
    let Some(programmed) = conditions.find("Programmed") else {
        return in_progress("NotProgrammed", "waiting for a controller to program the Gateway");
    };
    if !programmed.is_true() {
        let (reason, message) = (programmed.reason_or("NotProgrammed"), programmed.describe());
        let verdict = if programmed.is_reason("Invalid") {
            recoverable(FailureClass::Configuration, reason, message)
        } else {
            in_progress(reason, message).failure(FailureClass::Network, false)
        };
        return context.decided_by(&programmed, verdict);
    }
    let address =
        context.list(Field::Addresses).find_map(|address| member(address, "value").map(|a| a.into_owned()));
    let verdict = match address {
        Some(address) => current("Programmed", text!("Gateway is programmed at address {address}")),
        None if !context.options.require_address => {
            current("Programmed", "Gateway is programmed; it has no address, and none is required")
        }
        None => in_progress(reason::NO_ADDRESS, "Gateway is programmed; waiting for an address")
            .failure(FailureClass::Network, false),
    };
    context.decided_by(&programmed, verdict)
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

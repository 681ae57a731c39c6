//! Gateway API: what an implementation reports of classes, Gateways and routes. All classes are its own.

use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use serde_json::{Value, json};
use settled_controller::ObjectKey;

use super::CustomStep;
use super::kinds::Kinds;
use crate::addresses;
use crate::controller::Shared;
use crate::meta;

/// The group.
pub(super) const GROUP: &str = "gateway.networking.k8s.io";
/// The name of this implementation.
const CONTROLLER: &str = "simulator.settled.dev/gateway";
/// Kinds of routes, with the protocols of the listeners that take them.
const ROUTES: [(&str, &[&str]); 5] = [
    ("HTTPRoute", &["HTTP", "HTTPS"]),
    ("GRPCRoute", &["HTTP", "HTTPS"]),
    ("TLSRoute", &["TLS"]),
    ("TCPRoute", &["TCP", "TLS"]),
    ("UDPRoute", &["UDP"]),
];

fn condition(type_: &str, is_true: bool, reason: &str, message: &str) -> Value {
    let status = if is_true { "True" } else { "False" };
    json!({"type": type_, "status": status, "reason": reason, "message": message, "observedGeneration": 0})
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'v>(value: &'v Value, pointer: &str) -> &'v [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// The statuses of an object of the group; none for kinds that nothing is known of.
pub(super) fn steps(
    kind: &str,
    object: &DynamicObject,
    kinds: &Kinds,
    shared: &Shared,
) -> Option<Vec<CustomStep>> {
    let now = |status: Value| Some(vec![CustomStep::new(Duration::ZERO, status)]);
    match kind {
        "GatewayClass" => now(json!({"conditions": [condition("Accepted", true, "Accepted", "")]})),
        "Gateway" => {
            let (namespace, name) = (meta::namespace(object), meta::name(object));
            let routes = routes(kinds);
            let status = |address: Option<&str>| gateway(object, &routes, address);
            let mut steps = vec![CustomStep::new(Duration::ZERO, status(None))];
            let takes = addresses::delay(&shared.scenario, "Gateway", namespace, name);
            if let Some(takes) = takes {
                let address = addresses::address(&format!("gateway/{namespace}/{name}"));
                steps.push(CustomStep::new(takes, status(Some(&address))));
            }
            Some(steps)
        }
        _ if ROUTES.iter().any(|(route, _)| *route == kind) => {
            let gateway = |key: &ObjectKey| kinds.get(GROUP, "Gateway").and_then(|kind| kind.cache.get(key));
            let has_service = |key: &ObjectKey| shared.informers.services.get(key).is_some();
            now(route(kind, object, gateway, has_service))
        }
        _ => None,
    }
}

fn routes(kinds: &Kinds) -> Vec<(&'static str, Arc<DynamicObject>)> {
    let all = ROUTES.iter().filter_map(|(kind, _)| Some((*kind, kinds.get(GROUP, kind)?)));
    all.flat_map(|(name, kind)| kind.cache.state().into_iter().map(move |route| (name, route))).collect()
}

/// The key of the Gateway that a reference of a route names.
fn parent(reference: &Value, route: &DynamicObject) -> Option<ObjectKey> {
    let is_gateway =
        matches!(text(reference, "/kind"), "" | "Gateway") && matches!(text(reference, "/group"), "" | GROUP);
    let namespace = Some(text(reference, "/namespace")).filter(|namespace| !namespace.is_empty());
    is_gateway.then(|| {
        ObjectKey::new(namespace.unwrap_or_else(|| meta::namespace(route)), text(reference, "/name"))
    })
}

/// Does a listener take the routes that refer to it so?
fn takes(
    listener: &Value,
    gateway: &DynamicObject,
    kind: &str,
    route: &DynamicObject,
    reference: &Value,
) -> bool {
    let section = text(reference, "/sectionName");
    let port = reference.get("port").and_then(Value::as_i64);
    let protocols = ROUTES.iter().find(|(route, _)| *route == kind).map(|(_, protocols)| *protocols);
    let from = text(listener, "/allowedRoutes/namespaces/from");
    let kinds = list(listener, "/allowedRoutes/kinds");
    (section.is_empty() || section == text(listener, "/name"))
        && port.is_none_or(|port| listener.get("port").and_then(Value::as_i64) == Some(port))
        && protocols.is_some_and(|protocols| protocols.contains(&text(listener, "/protocol")))
        && (kinds.is_empty() || kinds.iter().any(|allowed| text(allowed, "/kind") == kind))
        // A selector of namespaces is taken to match: the labels of namespaces are not looked at.
        && (matches!(from, "All" | "Selector") || meta::namespace(gateway) == meta::namespace(route))
}

fn gateway(
    gateway: &DynamicObject,
    routes: &[(&'static str, Arc<DynamicObject>)],
    address: Option<&str>,
) -> Value {
    let key = meta::key(gateway);
    let listeners = list(&gateway.data, "/spec/listeners").iter().map(|listener| {
        let is_attached = |(kind, route): &&(&'static str, Arc<DynamicObject>)| {
            list(&route.data, "/spec/parentRefs").iter().any(|reference| {
                parent(reference, route).as_ref() == Some(&key)
                    && takes(listener, gateway, kind, route, reference)
            })
        };
        let protocol = text(listener, "/protocol");
        let supported = ROUTES.iter().filter(|(_, protocols)| protocols.contains(&protocol));
        let supported: Vec<Value> =
            supported.map(|(kind, _)| json!({"group": GROUP, "kind": kind})).collect();
        let programmed = match address {
            Some(_) => condition("Programmed", true, "Programmed", ""),
            None => condition("Programmed", false, "Pending", "waiting for an address"),
        };
        json!({
            "name": text(listener, "/name"),
            "attachedRoutes": routes.iter().filter(is_attached).count(),
            "supportedKinds": supported,
            "conditions": [
                condition("Accepted", true, "Accepted", ""),
                programmed,
                condition("ResolvedRefs", true, "ResolvedRefs", ""),
                condition("Conflicted", false, "NoConflicts", ""),
            ],
        })
    });
    let listeners: Vec<Value> = listeners.collect();
    let accepted = condition("Accepted", true, "Accepted", "");
    match address {
        Some(address) => json!({
            "addresses": [{"type": "IPAddress", "value": address}],
            "conditions": [accepted, condition("Programmed", true, "Programmed", "")],
            "listeners": listeners,
        }),
        None => json!({
            "conditions": [accepted, condition("Programmed", false, "AddressNotAssigned", "waiting for an address")],
            "listeners": listeners,
        }),
    }
}

fn route(
    kind: &str,
    route: &DynamicObject,
    gateway: impl Fn(&ObjectKey) -> Option<Arc<DynamicObject>>,
    has_service: impl Fn(&ObjectKey) -> bool,
) -> Value {
    let backends = list(&route.data, "/spec/rules").iter().flat_map(|rule| list(rule, "/backendRefs"));
    let missing = backends.filter_map(|backend| {
        let is_service =
            matches!(text(backend, "/kind"), "" | "Service") && text(backend, "/group").is_empty();
        let namespace = Some(text(backend, "/namespace")).filter(|namespace| !namespace.is_empty());
        let key = ObjectKey::new(namespace.unwrap_or_else(|| meta::namespace(route)), text(backend, "/name"));
        (is_service && !has_service(&key)).then_some(key)
    });
    let missing: Vec<ObjectKey> = missing.collect();
    let resolved = match missing.first() {
        None => condition("ResolvedRefs", true, "ResolvedRefs", ""),
        Some(key) => condition("ResolvedRefs", false, "BackendNotFound", &format!("Service {key} not found")),
    };
    let parents = list(&route.data, "/spec/parentRefs").iter().filter_map(|reference| {
        // Nobody reports on a Gateway that is not there.
        let gateway = gateway(&parent(reference, route)?)?;
        let mut listeners = list(&gateway.data, "/spec/listeners").iter();
        let accepted = match listeners.any(|listener| takes(listener, &gateway, kind, route, reference)) {
            true => condition("Accepted", true, "Accepted", ""),
            false => {
                condition("Accepted", false, "NoMatchingParent", "no listener of the Gateway takes the route")
            }
        };
        Some(
            json!({"parentRef": reference, "controllerName": CONTROLLER, "conditions": [accepted, resolved]}),
        )
    });
    json!({"parents": parents.collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Arc<DynamicObject> {
        Arc::new(serde_json::from_value(value).expect("an object"))
    }

    fn edge() -> Arc<DynamicObject> {
        object(json!({
            "metadata": {"name": "edge", "namespace": "shop"},
            "spec": {"listeners": [{"name": "http", "port": 80, "protocol": "HTTP"}, {"name": "dns", "port": 53, "protocol": "UDP"}]},
        }))
    }

    fn web(parent: Value) -> Arc<DynamicObject> {
        object(json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"parentRefs": [parent], "rules": [{"backendRefs": [{"name": "web", "port": 80}]}]},
        }))
    }

    #[test]
    fn routes_are_accepted_by_listeners_and_need_their_services() {
        let status = |parent: Value, service: bool| {
            let gateway = |key: &ObjectKey| (&*key.name == "edge").then(edge);
            let status = route("HTTPRoute", &web(parent), gateway, |_| service);
            let conditions = list(&status, "/parents/0/conditions").iter();
            conditions.map(|one| text(one, "/reason").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(status(json!({"name": "edge"}), true), ["Accepted", "ResolvedRefs"]);
        assert_eq!(status(json!({"name": "edge"}), false), ["Accepted", "BackendNotFound"]);
        assert_eq!(
            status(json!({"name": "edge", "sectionName": "dns"}), true),
            ["NoMatchingParent", "ResolvedRefs"]
        );
        assert!(status(json!({"name": "other"}), true).is_empty());
    }

    #[test]
    fn gateways_count_their_routes() {
        let routes = [("HTTPRoute", web(json!({"name": "edge"})))];
        let status = gateway(&edge(), &routes, Some("198.18.0.1"));
        assert_eq!(status["listeners"][0]["attachedRoutes"], 1);
        assert_eq!(status["listeners"][1]["attachedRoutes"], 0);
        assert_eq!(status["addresses"][0]["value"], "198.18.0.1");
        assert_eq!(text(&gateway(&edge(), &routes, None), "/conditions/1/reason"), "AddressNotAssigned");
    }
}

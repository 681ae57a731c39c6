//! What the EndpointSlices of a Service should be: which to create, update and delete, with as few changes as possible.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Pod, Service, ServicePort};
use k8s_openapi::api::discovery::v1::{
    Endpoint, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, ForNode, ForZone,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::meta;
use crate::pod as pods;
use crate::selector::Labels;

/// Endpoints in a slice at most: `--max-endpoints-per-slice`.
const MAX: usize = 100;
/// The name of the Service.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Who manages a slice.
pub(crate) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// This controller.
pub(crate) const MANAGER: &str = "endpointslice-controller.k8s.io";
/// Slices of Services without an address.
pub(super) const HEADLESS: &str = "service.kubernetes.io/headless";
/// The change that a slice follows.
pub(super) const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// What is known about the Node of a Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It is in this zone, or in none.
    Zone(Option<String>),
    /// There is no such Node.
    Missing,
}

/// The changes.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) create: Vec<EndpointSlice>,
    /// New versions of those that exist.
    pub(crate) update: Vec<EndpointSlice>,
    pub(crate) delete: Vec<Arc<EndpointSlice>>,
    /// Pods that are left out, because their Nodes are not there.
    pub(crate) skipped: Vec<String>,
}

/// Does a Service have an address?
pub(super) fn has_address(service: &Service) -> bool {
    let address = service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()).unwrap_or_default();
    !matches!(address, "" | "None")
}

/// The address types of a Service.
fn address_types(service: &Service) -> Vec<&'static str> {
    let families = service.spec.as_ref().and_then(|spec| spec.ip_families.as_ref());
    let types = families.into_iter().flatten().filter_map(|family| match family.as_str() {
        "IPv4" => Some("IPv4"),
        "IPv6" => Some("IPv6"),
        _ => None,
    });
    let types: Vec<_> = types.collect();
    if types.is_empty() { vec!["IPv4"] } else { types }
}

/// Is a Pod one that traffic may go to, now or, where that is included, until it is gone? `ShouldPodBeInEndpoints`.
pub(super) fn is_endpoint(pod: &Pod, includes_terminating: bool) -> bool {
    !matches!(pods::phase(pod), "Succeeded" | "Failed")
        && !addresses(pod).is_empty()
        && (includes_terminating || !meta::is_deleting(pod))
}

/// The addresses of a Pod.
pub(crate) fn addresses(pod: &Pod) -> Vec<&str> {
    let Some(status) = &pod.status else { return Vec::new() };
    let all: Vec<&str> = status.pod_ips.iter().flatten().map(|address| address.ip.as_str()).collect();
    match (all.is_empty(), status.pod_ip.as_deref().filter(|address| !address.is_empty())) {
        (true, Some(address)) => vec![address],
        _ => all,
    }
}

/// The number of a Service's port on a Pod: `FindPort`.
pub(crate) fn find_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    match port.target_port.as_ref() {
        None => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) => {
            let spec = pod.spec.as_ref()?;
            let sidecars = spec.init_containers.iter().flatten();
            let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
            let containers = spec.containers.iter().chain(sidecars);
            let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let found = ports.find(|candidate| {
                candidate.name.as_deref() == Some(name.as_str())
                    && candidate.protocol.as_deref().unwrap_or("TCP") == protocol
            });
            found.map(|found| found.container_port)
        }
    }
}

fn ports(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let all = service.spec.as_ref().and_then(|spec| spec.ports.as_ref());
    let found = all.into_iter().flatten().filter_map(|port| {
        Some(EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(find_port(pod, port)?),
            protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
            app_protocol: port.app_protocol.clone(),
        })
    });
    found.collect()
}

fn endpoint(pod: &Pod, service: &Service, type_: &str, place: &Place) -> Endpoint {
    let spec = service.spec.as_ref();
    let serving = pods::is_ready(pod);
    let terminating = meta::is_deleting(pod);
    let publishes = spec.and_then(|spec| spec.publish_not_ready_addresses) == Some(true);
    let ready = publishes || serving && !terminating;
    let of_type = addresses(pod).into_iter().filter(|address| address.contains(':') == (type_ == "IPv6"));
    let pod_spec = pod.spec.as_ref();
    let hostname = pod_spec.and_then(|spec| spec.hostname.clone()).filter(|name| !name.is_empty());
    let is_named = pod_spec.and_then(|spec| spec.subdomain.as_deref()) == service.metadata.name.as_deref();
    let zone = match place {
        Place::Zone(zone) => zone.clone(),
        Place::Missing => None,
    };
    let node = pod_spec.and_then(|spec| spec.node_name.clone());
    let zones = || zone.iter().map(|zone| ForZone { name: zone.clone() }).collect::<Vec<_>>();
    let nodes = || node.iter().map(|node| ForNode { name: node.clone() }).collect::<Vec<_>>();
    let hints = match spec.and_then(|spec| spec.traffic_distribution.as_deref()).filter(|_| ready) {
        Some("PreferClose" | "PreferSameZone") if zone.is_some() => {
            Some(EndpointHints { for_zones: Some(zones()), for_nodes: None })
        }
        Some("PreferSameNode") if zone.is_some() => {
            Some(EndpointHints { for_zones: Some(zones()), for_nodes: Some(nodes()) })
        }
        _ => None,
    };
    Endpoint {
        addresses: of_type.map(str::to_owned).collect(),
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            ..ObjectReference::default()
        }),
        hostname: hostname.filter(|_| is_named),
        hints,
        node_name: node,
        zone,
        ..Endpoint::default()
    }
}

/// The labels of a Service's slices.
fn labels(service: &Service) -> Labels {
    let own = service.metadata.labels.iter().flatten();
    let own = own.filter(|(key, _)| !matches!(key.as_str(), SERVICE_NAME | MANAGED_BY | HEADLESS));
    let mut labels: Labels = own.map(|(key, value)| (key.clone(), value.clone())).collect();
    if !has_address(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(SERVICE_NAME.to_owned(), meta::name(service).to_owned());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}

fn new_slice(service: &Service, type_: &str, ports: Vec<EndpointPort>) -> EndpointSlice {
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", meta::name(service))),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels(service)),
            owner_references: Some(vec![meta::controller_reference(service)]),
            ..ObjectMeta::default()
        },
        address_type: type_.to_owned(),
        endpoints: Some(Vec::new()),
        ports: Some(ports),
    }
}

type Key = (Vec<String>, Option<String>);

fn key(endpoint: &Endpoint) -> Key {
    let mut addresses = endpoint.addresses.clone();
    addresses.sort();
    (addresses, endpoint.target_ref.as_ref().and_then(|target| target.name.clone()))
}

/// Ports as a key, in any order.
fn port_key(ports: Option<&Vec<EndpointPort>>) -> Vec<String> {
    let mut keys: Vec<String> = ports.into_iter().flatten().map(|port| format!("{port:?}")).collect();
    keys.sort();
    keys
}

/// What is to be done for a Service with a selector. `existing` are the slices that this controller manages, `trigger` is the change
/// that they follow.
pub(crate) fn plan(
    service: &Service,
    pods: &[Arc<Pod>],
    existing: &[Arc<EndpointSlice>],
    trigger: Option<Timestamp>,
    place: impl Fn(&str) -> Place,
) -> Plan {
    let mut plan = Plan::default();
    let types = address_types(service);
    let is_known = |slice: &&Arc<EndpointSlice>| types.contains(&slice.address_type.as_str());
    plan.delete.extend(existing.iter().filter(|slice| !is_known(slice)).cloned());
    for type_ in &types {
        let of_type: Vec<_> = existing.iter().filter(|slice| slice.address_type == *type_).cloned().collect();
        plan_type(&mut plan, service, pods, &of_type, type_, &place);
    }
    for slice in plan.create.iter_mut().chain(&mut plan.update) {
        let annotations = slice.metadata.annotations.get_or_insert_default();
        match trigger {
            Some(time) => drop(annotations.insert(TRIGGER.to_owned(), time.to_string())),
            None => drop(annotations.remove(TRIGGER)),
        }
    }
    if meta::is_deleting(service) {
        plan.create.clear();
    }
    plan
}

fn plan_type(
    plan: &mut Plan,
    service: &Service,
    pods: &[Arc<Pod>],
    existing: &[Arc<EndpointSlice>],
    type_: &str,
    place: &impl Fn(&str) -> Place,
) {
    let publishes = service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses) == Some(true);
    // Endpoints by the numbers of their ports.
    let mut desired: BTreeMap<Vec<String>, (Vec<EndpointPort>, Vec<Endpoint>)> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| is_endpoint(pod, true)) {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
        let place = place(node);
        let ports = ports(service, pod);
        let group = desired.entry(port_key(Some(&ports))).or_insert_with(|| (ports, Vec::new()));
        if place == Place::Missing && !publishes {
            plan.skipped.push(meta::name(&**pod).to_owned());
            continue;
        }
        let endpoint = endpoint(pod, service, type_, &place);
        if !endpoint.addresses.is_empty() {
            group.1.push(endpoint);
        }
    }
    let (owned, foreign): (Vec<_>, Vec<_>) = existing.iter().cloned().partition(|slice| {
        let owners = slice.metadata.owner_references.iter().flatten();
        owners.into_iter().any(|owner| owner.uid == meta::uid(service))
    });
    let mut delete = foreign;
    let mut create = Vec::new();
    let mut update = Vec::new();
    let mut by_ports: BTreeMap<Vec<String>, Vec<Arc<EndpointSlice>>> = BTreeMap::new();
    for slice in owned {
        by_ports.entry(port_key(slice.ports.as_ref())).or_default().push(slice);
    }
    for (key, (ports, endpoints)) in desired {
        let slices = by_ports.remove(&key).unwrap_or_default();
        let group = fill(service, type_, &ports, endpoints, slices);
        create.extend(group.create);
        update.extend(group.update);
        delete.extend(group.delete);
    }
    delete.extend(by_ports.into_values().flatten());
    // Without any endpoint, an empty slice says so.
    if existing.len() == delete.len() && create.is_empty() {
        let placeholder = new_slice(service, type_, Vec::new());
        let is_same = |slice: &EndpointSlice| {
            slice.metadata.labels == placeholder.metadata.labels
                && slice.metadata.owner_references == placeholder.metadata.owner_references
                && slice.ports.as_ref().is_none_or(Vec::is_empty)
                && slice.endpoints.as_ref().is_none_or(Vec::is_empty)
        };
        match delete.as_slice() {
            [only] if is_same(only) => delete.clear(),
            _ => create.push(placeholder),
        }
    }
    // Slices that would go take over what would be new.
    let mut gone = Vec::new();
    for slice in delete {
        let owners = slice.metadata.owner_references.iter().flatten();
        let is_owned = owners.into_iter().any(|owner| owner.uid == meta::uid(service));
        match create.pop_if(|_| is_owned) {
            Some(mut new) => {
                new.metadata.name.clone_from(&slice.metadata.name);
                new.metadata.resource_version.clone_from(&slice.metadata.resource_version);
                new.metadata.generate_name.clone_from(&slice.metadata.generate_name);
                update.push(new);
            }
            None => gone.push(slice),
        }
    }
    plan.create.extend(create);
    plan.update.extend(update);
    plan.delete.extend(gone);
}

/// Distributes endpoints over slices: `reconcileByPortMapping`.
fn fill(
    service: &Service,
    type_: &str,
    ports: &[EndpointPort],
    endpoints: Vec<Endpoint>,
    slices: Vec<Arc<EndpointSlice>>,
) -> Plan {
    let mut plan = Plan::default();
    let mut desired: BTreeMap<Key, Endpoint> =
        endpoints.into_iter().map(|endpoint| (key(&endpoint), endpoint)).collect();
    let wanted_labels = labels(service);
    let mut unchanged = Vec::new();
    for slice in slices {
        let before = slice.endpoints.as_deref().unwrap_or_default();
        let kept: Vec<Endpoint> =
            before.iter().filter_map(|endpoint| desired.remove(&key(endpoint))).collect();
        if kept != before && kept.is_empty() {
            plan.delete.push(slice);
        } else if kept != before || slice.metadata.labels.as_ref() != Some(&wanted_labels) {
            let mut new = EndpointSlice::clone(&slice);
            new.endpoints = Some(kept);
            new.metadata.labels = Some(wanted_labels.clone());
            plan.update.push(new);
        } else {
            unchanged.push(slice);
        }
    }
    let take = |slice: &mut EndpointSlice, desired: &mut BTreeMap<Key, Endpoint>| {
        let endpoints = slice.endpoints.get_or_insert_default();
        while endpoints.len() < MAX
            && let Some((_, endpoint)) = desired.pop_first()
        {
            endpoints.push(endpoint);
        }
    };
    let length = |slice: &EndpointSlice| slice.endpoints.as_ref().map_or(0, Vec::len);
    plan.update.sort_by_key(|slice| std::cmp::Reverse(length(slice)));
    for slice in &mut plan.update {
        take(slice, &mut desired);
    }
    while !desired.is_empty() {
        // The one that is fullest afterwards.
        let fits = unchanged.iter().enumerate().filter(|(_, slice)| length(slice) + desired.len() <= MAX);
        let best = fits.max_by_key(|(_, slice)| length(slice)).map(|(place, _)| place);
        match best.filter(|_| desired.len() < MAX) {
            Some(place) => {
                let mut slice = EndpointSlice::clone(&unchanged.remove(place));
                take(&mut slice, &mut desired);
                plan.update.push(slice);
            }
            None => {
                let mut slice = new_slice(service, type_, ports.to_vec());
                take(&mut slice, &mut desired);
                plan.create.push(slice);
            }
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(more: Value) -> Service {
        let mut service = json!({
            "metadata": {"name": "web", "namespace": "shop", "uid": "s", "labels": {"team": "a"}},
            "spec": {
                "clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
                "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}],
            },
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            service["spec"][key] = value.clone();
        }
        serde_json::from_value(service).expect("a Service")
    }

    fn pod(number: usize, ready: &str) -> Arc<Pod> {
        let pod = json!({
            "metadata": {"name": format!("web-{number:03}"), "namespace": "shop", "uid": format!("{number}")},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]}]},
            "status": {"phase": "Running", "podIPs": [{"ip": format!("10.1.0.{number}")}], "conditions": [{"type": "Ready", "status": ready}]},
        });
        Arc::new(serde_json::from_value(pod).expect("a Pod"))
    }

    fn there(_: &str) -> Place {
        Place::Zone(Some("a".to_owned()))
    }

    fn stored(slices: Vec<EndpointSlice>) -> Vec<Arc<EndpointSlice>> {
        let named = slices.into_iter().enumerate().map(|(number, mut slice)| {
            slice.metadata.name.get_or_insert_with(|| format!("web-{number}"));
            Arc::new(slice)
        });
        named.collect()
    }

    #[test]
    fn endpoints_have_ports_zone_and_conditions() {
        let plan = plan(&service(json!({})), &[pod(1, "True"), pod(2, "False")], &[], None, there);
        let [slice] = plan.create.as_slice() else { panic!("{plan:?}") };
        let slice = serde_json::to_value(slice).expect("JSON");
        assert_eq!(slice["ports"], json!([{"name": "http", "port": 8080, "protocol": "TCP"}]));
        let conditions = |at: usize| slice["endpoints"][at]["conditions"].clone();
        assert_eq!(conditions(0), json!({"ready": true, "serving": true, "terminating": false}));
        assert_eq!(conditions(1), json!({"ready": false, "serving": false, "terminating": false}));
        assert_eq!(slice["endpoints"][0]["zone"], "a");
        let labels = json!({"team": "a", SERVICE_NAME: "web", MANAGED_BY: MANAGER});
        assert_eq!(slice["metadata"]["labels"], labels);
        assert_eq!(slice["metadata"]["generateName"], "web-");
    }

    #[test]
    fn the_second_plan_is_empty() {
        let service = service(json!({}));
        let pods: Vec<_> = (1..=250).map(|number| pod(number, "True")).collect();
        let first = plan(&service, &pods, &[], None, there);
        let sizes: Vec<_> =
            first.create.iter().map(|slice| slice.endpoints.as_ref().map_or(0, Vec::len)).collect();
        assert_eq!(sizes, [100, 100, 50]);
        let slices = stored(first.create);
        let again = plan(&service, &pods, &slices, None, there);
        assert!(again.create.is_empty() && again.update.is_empty() && again.delete.is_empty(), "{again:?}");
        // One Pod more goes into the slice that has room, one Pod less takes it out of its own.
        let more: Vec<_> = (1..=251).map(|number| pod(number, "True")).collect();
        let added = plan(&service, &more, &slices, None, there);
        assert_eq!((added.create.len(), added.update.len(), added.delete.len()), (0, 1, 0));
        let removed = plan(&service, &pods[1..], &slices, None, there);
        assert_eq!((removed.create.len(), removed.update.len(), removed.delete.len()), (0, 1, 0));
    }

    #[test]
    fn a_service_without_pods_has_an_empty_slice_that_is_used_later() {
        let service = service(json!({"clusterIP": "None"}));
        let empty = plan(&service, &[], &[], None, there);
        assert_eq!(empty.create.len(), 1);
        assert_eq!(
            empty.create[0].metadata.labels.as_ref().and_then(|labels| labels.get(HEADLESS)),
            Some(&String::new())
        );
        let slices = stored(empty.create);
        let again = plan(&service, &[], &slices, None, there);
        assert!(again.create.is_empty() && again.update.is_empty() && again.delete.is_empty(), "{again:?}");
        let filled = plan(&service, &[pod(1, "True")], &slices, None, there);
        assert_eq!((filled.create.len(), filled.update.len(), filled.delete.len()), (0, 1, 0));
    }

    #[test]
    fn pods_of_missing_nodes_are_left_out_unless_all_are_published() {
        let left_out = plan(&service(json!({})), &[pod(1, "True")], &[], None, |_| Place::Missing);
        assert_eq!(left_out.skipped, ["web-001"]);
        let publishing = service(json!({"publishNotReadyAddresses": true}));
        let published = plan(&publishing, &[pod(1, "False")], &[], None, |_| Place::Missing);
        let endpoints = published.create[0].endpoints.clone().unwrap_or_default();
        assert_eq!(endpoints[0].conditions.as_ref().and_then(|conditions| conditions.ready), Some(true));
    }
}

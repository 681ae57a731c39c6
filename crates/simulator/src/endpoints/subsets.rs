//! Subsets of Endpoints: the addresses behind a Service, grouped by the ports that they have (`RepackSubsets` upstream).

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    EndpointAddress, EndpointPort, EndpointSubset, ObjectReference, Pod, Service, ServicePort,
};

use super::plan::{addresses, find_port, is_endpoint};
use crate::pod as pods;

/// `maxCapacity`: addresses that Endpoints have at most.
const MAX: usize = 1000;

/// Address and UID: what makes an address the same.
type Identity = (String, String);

fn identity(address: &EndpointAddress) -> Identity {
    let uid = address.target_ref.as_ref().and_then(|target| target.uid.clone());
    (address.ip.clone(), uid.unwrap_or_default())
}

/// `podToEndpointAddressForService`: none if the Pod has no address of the Service's family.
fn address(service: &Service, pod: &Pod) -> Option<EndpointAddress> {
    let spec = service.spec.as_ref();
    let family = spec.and_then(|spec| spec.ip_families.as_ref()?.first());
    let is_v6 = family.is_some_and(|family| family == "IPv6");
    let ip = addresses(pod).into_iter().find(|address| address.contains(':') == is_v6)?.to_owned();
    let pod_spec = pod.spec.as_ref();
    let hostname = pod_spec.and_then(|spec| spec.hostname.clone()).filter(|name| !name.is_empty());
    let is_named = pod_spec.and_then(|spec| spec.subdomain.as_deref()) == service.metadata.name.as_deref();
    Some(EndpointAddress {
        ip,
        hostname: hostname.filter(|_| is_named),
        node_name: pod_spec.and_then(|spec| spec.node_name.clone()),
        target_ref: Some(ObjectReference {
            kind: Some("Pod".to_owned()),
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.clone(),
            uid: pod.metadata.uid.clone(),
            ..ObjectReference::default()
        }),
    })
}

fn port(service_port: &ServicePort, number: i32) -> EndpointPort {
    EndpointPort {
        name: service_port.name.clone().filter(|name| !name.is_empty()),
        port: number,
        protocol: Some(service_port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
        app_protocol: service_port.app_protocol.clone(),
    }
}

/// Order of ports. Upstream's is that of a hash.
fn port_key(port: &EndpointPort) -> (String, i32, String, String) {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    (text(&port.name), port.port, text(&port.protocol), text(&port.app_protocol))
}

/// An address with a port, or without one where the Service has none.
struct Offer {
    port: Option<EndpointPort>,
    address: EndpointAddress,
    is_ready: bool,
}

/// The subsets of a Service with a selector.
pub(super) fn subsets(service: &Service, selected: &[Arc<Pod>]) -> Vec<EndpointSubset> {
    let spec = service.spec.as_ref();
    let publishes = spec.and_then(|spec| spec.publish_not_ready_addresses) == Some(true);
    let is_headless = spec.and_then(|spec| spec.cluster_ip.as_deref()) == Some("None");
    let service_ports = spec.and_then(|spec| spec.ports.as_deref()).unwrap_or_default();
    let mut offers = Vec::new();
    for pod in selected.iter().filter(|pod| is_endpoint(pod, publishes)) {
        let Some(address) = address(service, pod) else { continue };
        let is_ready = publishes || pods::is_ready(pod);
        if service_ports.is_empty() && is_headless {
            offers.push(Offer { port: None, address, is_ready });
            continue;
        }
        for service_port in service_ports {
            let Some(number) = find_port(pod, service_port) else { continue };
            let port = Some(port(service_port, number));
            offers.push(Offer { port, address: address.clone(), is_ready });
        }
    }
    pack(offers)
}

/// Puts addresses with the same ports together.
fn pack(offers: Vec<Offer>) -> Vec<EndpointSubset> {
    let mut known: BTreeMap<Identity, EndpointAddress> = BTreeMap::new();
    // What is not ready once is not.
    let mut by_port: BTreeMap<_, (Option<EndpointPort>, BTreeMap<Identity, bool>)> = BTreeMap::new();
    for Offer { port, address, is_ready } in offers {
        let who = identity(&address);
        let (_, hosts) =
            by_port.entry(port.as_ref().map(port_key)).or_insert_with(|| (port.clone(), BTreeMap::new()));
        *hosts.entry(who.clone()).or_insert(true) &= is_ready;
        known.entry(who).or_insert(address);
    }
    let mut by_hosts: BTreeMap<Vec<(Identity, bool)>, Vec<EndpointPort>> = BTreeMap::new();
    for (port, hosts) in by_port.into_values() {
        by_hosts.entry(hosts.into_iter().collect()).or_default().extend(port);
    }
    let subset = |(hosts, ports): (Vec<(Identity, bool)>, Vec<EndpointPort>)| {
        let of = |wanted: bool| {
            let hosts = hosts.iter().filter(|(_, is_ready)| *is_ready == wanted);
            let found: Vec<_> = hosts.filter_map(|(who, _)| known.get(who).cloned()).collect();
            Some(found).filter(|found| !found.is_empty())
        };
        let ports = Some(ports).filter(|ports| !ports.is_empty());
        EndpointSubset { addresses: of(true), not_ready_addresses: of(false), ports }
    };
    by_hosts.into_iter().map(subset).collect()
}

/// The same addresses and ports, in the form that [`subsets`] has.
pub(super) fn repack(subsets: &[EndpointSubset]) -> Vec<EndpointSubset> {
    let mut offers = Vec::new();
    for subset in subsets {
        let of = |list: &Option<Vec<EndpointAddress>>| list.clone().unwrap_or_default();
        let ready = of(&subset.addresses).into_iter().map(|address| (address, true));
        let not_ready = of(&subset.not_ready_addresses).into_iter().map(|address| (address, false));
        for (address, is_ready) in ready.chain(not_ready) {
            let ports = subset.ports.as_deref().unwrap_or_default();
            if ports.is_empty() {
                offers.push(Offer { port: None, address: address.clone(), is_ready });
            }
            let with =
                |port: &EndpointPort| Offer { port: Some(port.clone()), address: address.clone(), is_ready };
            offers.extend(ports.iter().map(with));
        }
    }
    pack(offers)
}

/// Are they the same, in any order? The order upstream is that of a hash, which other writers do not know.
pub(super) fn is_same(one: &[EndpointSubset], other: &[EndpointSubset]) -> bool {
    let sorted = |subsets: &[EndpointSubset]| {
        let mut subsets = subsets.to_vec();
        for subset in &mut subsets {
            for list in [&mut subset.addresses, &mut subset.not_ready_addresses] {
                *list = list.take().filter(|list| !list.is_empty());
                list.iter_mut().for_each(|list| list.sort_by_key(identity));
                for target in list.iter_mut().flatten().filter_map(|address| address.target_ref.as_mut()) {
                    target.resource_version = None;
                }
            }
            subset.ports.iter_mut().for_each(|ports| ports.sort_by_key(port_key));
        }
        let first = |subset: &EndpointSubset| {
            let ports = subset.ports.iter().flatten().map(port_key).collect::<Vec<_>>();
            let hosts = subset.addresses.iter().chain(&subset.not_ready_addresses).flatten();
            (ports, hosts.map(identity).collect::<Vec<_>>())
        };
        subsets.sort_by_key(first);
        subsets
    };
    one == other || sorted(one) == sorted(other)
}

/// `capacityAnnotationSetCorrectly`, of Endpoints as they are stored.
pub(super) fn is_over_capacity(subsets: &[EndpointSubset]) -> bool {
    count(subsets, true) + count(subsets, false) > MAX
}

fn list(subset: &mut EndpointSubset, ready: bool) -> &mut Option<Vec<EndpointAddress>> {
    if ready { &mut subset.addresses } else { &mut subset.not_ready_addresses }
}

fn count(subsets: &[EndpointSubset], ready: bool) -> usize {
    let of = |subset: &EndpointSubset| {
        let list = if ready { &subset.addresses } else { &subset.not_ready_addresses };
        list.as_ref().map_or(0, Vec::len)
    };
    subsets.iter().map(of).sum()
}

/// `truncateEndpoints`: keeps as many addresses as there may be, ready ones first, from each subset its share. Whether any went.
pub(super) fn truncate(subsets: &mut [EndpointSubset]) -> bool {
    let (ready, not_ready) = (count(subsets, true), count(subsets, false));
    if ready + not_ready <= MAX {
        return false;
    }
    let cuts_ready = ready.cmp(&MAX) == Ordering::Greater;
    let (room, total) = if cuts_ready { (MAX, ready) } else { (MAX - ready, not_ready) };
    let mut left = room;
    for subset in subsets {
        let cut = list(subset, cuts_ready);
        let here = cut.as_ref().map_or(0, Vec::len);
        // Rounded up, so that the last one gets less.
        let share = (here * room).div_ceil(total).min(left).min(here);
        if let Some(addresses) = cut {
            addresses.truncate(share);
        }
        *cut = cut.take().filter(|addresses| !addresses.is_empty());
        left -= share;
        if cuts_ready {
            subset.not_ready_addresses = None;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(ports: Value) -> Service {
        let spec = json!({"clusterIP": "10.0.0.1", "selector": {"app": "web"}, "ports": ports});
        serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec}))
            .expect("a Service")
    }

    fn pod(name: &str, ip: &str, ready: &str, port: i32) -> Arc<Pod> {
        let container =
            json!({"name": "c", "ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}]});
        let pod = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": {"nodeName": "n", "containers": [container]},
            "status": {"phase": "Running", "podIPs": [{"ip": ip}], "conditions": [{"type": "Ready", "status": ready}]},
        });
        Arc::new(serde_json::from_value(pod).expect("a Pod"))
    }

    /// `READY/NOT READY:PORTS` of each subset.
    fn text(subsets: &[EndpointSubset]) -> Vec<String> {
        let ips = |list: &Option<Vec<EndpointAddress>>| {
            list.iter().flatten().map(|address| address.ip.clone()).collect::<Vec<_>>().join(",")
        };
        let ports = |subset: &EndpointSubset| {
            subset.ports.iter().flatten().map(|port| port.port.to_string()).collect::<Vec<_>>().join(",")
        };
        subsets
            .iter()
            .map(|subset| {
                format!("{}/{}:{}", ips(&subset.addresses), ips(&subset.not_ready_addresses), ports(subset))
            })
            .collect()
    }

    #[test]
    fn addresses_with_the_same_ports_are_one_subset() {
        let two = service(
            json!([{"name": "http", "port": 80, "targetPort": "http"}, {"name": "metrics", "port": 9090}]),
        );
        let pods = [pod("b", "10.1.0.2", "False", 8080), pod("a", "10.1.0.1", "True", 8080)];
        assert_eq!(text(&subsets(&two, &pods)), ["10.1.0.1/10.1.0.2:8080,9090"]);
        // A port of another number makes another subset; the other port has all.
        let pods = [pod("a", "10.1.0.1", "True", 8080), pod("c", "10.1.0.3", "True", 8081)];
        let found = subsets(&two, &pods);
        assert_eq!(text(&found), ["10.1.0.1/:8080", "10.1.0.1,10.1.0.3/:9090", "10.1.0.3/:8081"]);
        let reversed: Vec<_> = found.iter().rev().cloned().collect();
        assert!(is_same(&found, &reversed) && !is_same(&found, &found[1..]));
        assert_eq!(text(&subsets(&two, &[])), Vec::<String>::new());
    }

    #[test]
    fn too_many_addresses_are_cut_ready_ones_last() {
        let one = service(json!([{"port": 80}]));
        let pods: Vec<_> = (0..1200)
            .map(|number| {
                let ready = if number < 900 { "True" } else { "False" };
                pod(&format!("p{number:04}"), &format!("10.{}.0.{}", number / 250, number % 250), ready, 80)
            })
            .collect();
        let mut found = subsets(&one, &pods);
        assert!(is_over_capacity(&found) && truncate(&mut found));
        assert_eq!((count(&found, true), count(&found, false)), (900, 100));
        assert!(!is_over_capacity(&found) && !truncate(&mut found));
    }
}

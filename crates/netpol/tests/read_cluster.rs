//! Reading of a cluster's objects.

use settled_netpol::cluster::TargetPort;
use settled_netpol::model::Protocol;
use settled_netpol::read_cluster::{namespace, node, pod, service};

use crate::support::yaml;

#[test]
fn a_pod_is_read() {
    let read = pod(&yaml(
        "metadata: {namespace: shop, name: web, labels: {app: web}, ownerReferences: [{uid: '1'}]}\n\
         spec:\n  nodeName: node-1\n  containers:\n  - ports: [{containerPort: 80, name: http}, {containerPort: 53, protocol: UDP}, {containerPort: 0}]\n\
         \x20 initContainers:\n  - ports: [{containerPort: 7}]\n  - {restartPolicy: Always, ports: [{containerPort: 9, name: mesh}]}\n\
         status: {phase: Running, podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}, {ip: 'fd00::1'}]}",
    ))
    .unwrap();
    assert_eq!((&*read.namespace, &*read.name, read.node.as_deref()), ("shop", "web", Some("node-1")));
    assert!(read.owned && !read.host_network && !read.finished);
    assert_eq!(read.addresses.len(), 2);
    let ports: Vec<_> =
        read.ports.iter().map(|port| (port.name.as_deref(), port.number, port.protocol, port.init)).collect();
    assert_eq!(
        ports,
        [
            (Some("http"), 80, Protocol::Tcp, false),
            (None, 53, Protocol::Udp, false),
            (Some("mesh"), 9, Protocol::Tcp, true),
        ]
    );
    let bare = pod(&yaml(
        "metadata: {name: a}\nspec: {hostNetwork: true}\nstatus: {phase: Failed, podIP: 10.0.0.2}",
    ))
    .unwrap();
    assert!(bare.host_network && bare.finished && !bare.owned);
    assert_eq!((&*bare.namespace, bare.addresses.len()), ("default", 1));
    assert!(pod(&yaml("spec: {}")).is_none());
}

#[test]
fn a_namespace_has_its_name_as_a_label() {
    let read = namespace(&yaml("metadata: {name: shop, labels: {team: a}}")).unwrap();
    assert_eq!(read.labels.get("kubernetes.io/metadata.name").map(|name| &**name), Some("shop"));
}

#[test]
fn a_node_has_addresses_and_ranges_of_pods() {
    let read = node(&yaml(
        "metadata: {name: node-1}\nspec: {podCIDR: 10.1.0.0/24, podCIDRs: [10.1.0.0/24, 'fd00:1::/64']}\n\
         status: {addresses: [{type: InternalIP, address: 192.168.0.1}, {type: Hostname, address: node-1}]}",
    ))
    .unwrap();
    assert_eq!((read.addresses.len(), read.pod_cidrs.len()), (1, 2));
    assert_eq!(
        node(&yaml("metadata: {name: node-1}\nspec: {podCIDR: 10.1.0.0/24}")).unwrap().pod_cidrs.len(),
        1
    );
}

#[test]
fn a_service_has_target_ports() {
    let read = service(&yaml(
        "metadata: {namespace: shop, name: web}\n\
         spec: {type: NodePort, externalTrafficPolicy: Local, clusterIP: 10.96.0.1, selector: {app: web}, ports: [{port: 80, targetPort: \
         http}, {port: 81}, {port: 82, targetPort: 8082, protocol: UDP}]}",
    ))
    .unwrap();
    let targets: Vec<_> =
        read.ports.iter().map(|port| (port.port, port.protocol, port.target.clone())).collect();
    assert_eq!(
        targets,
        [
            (80, Protocol::Tcp, TargetPort::Named("http".into())),
            (81, Protocol::Tcp, TargetPort::Number(81)),
            (82, Protocol::Udp, TargetPort::Number(8082)),
        ]
    );
    assert!(read.external && read.keeps_source && read.selector.is_some());
    let headless = service(&yaml("metadata: {name: a}\nspec: {clusterIP: None}")).unwrap();
    assert!(headless.cluster_ips.is_empty() && headless.selector.is_none() && !headless.external);
}

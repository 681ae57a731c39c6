//! Questions about connectivity by name or address, and the ends that they mean.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use settled_apimachinery::validation::is_valid_port_name;
use thiserror::Error;

use super::outcome::UnknownReason;
use super::workload::Workload;
use crate::cluster::{Cluster, Known, Pod, Service, TargetPort};
use crate::model::{Cidr, Family, Protocol};

/// Who connects, or who is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A pod, or all pods of a workload of this name.
    Pods {
        /// The namespace.
        namespace: Arc<str>,
        /// The name of the pod or workload.
        name: Arc<str>,
    },
    /// The pods behind a Service (destination only).
    Service {
        /// The namespace.
        namespace: Arc<str>,
        /// The name.
        name: Arc<str>,
    },
    /// A node.
    Node(Arc<str>),
    /// An address: of a pod, a node or a Service, or outside of the cluster.
    Address(IpAddr),
    /// Addresses outside of the cluster.
    Range(Cidr),
    /// All globally reachable addresses.
    Internet,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pods { namespace, name } => write!(f, "{namespace}/{name}"),
            Self::Service { namespace, name } => write!(f, "service/{namespace}/{name}"),
            Self::Node(name) => write!(f, "node/{name}"),
            Self::Address(address) => address.fmt(f),
            Self::Range(cidr) => cidr.fmt(f),
            Self::Internet => f.write_str("internet"),
        }
    }
}

/// An endpoint that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "invalid endpoint {0:?}: expected NAMESPACE/NAME of a pod or workload, service/NAMESPACE/NAME, node/NAME, an IP \
     address, a CIDR or \"internet\""
)]
pub struct InvalidEndpoint(String);

impl FromStr for Endpoint {
    type Err = InvalidEndpoint;

    fn from_str(text: &str) -> Result<Self, InvalidEndpoint> {
        let invalid = || InvalidEndpoint(text.to_owned());
        if text == "internet" {
            return Ok(Self::Internet);
        }
        if let Ok(address) = text.parse() {
            return Ok(Self::Address(address));
        }
        if let Some(cidr) = Cidr::parse(text) {
            return Ok(Self::Range(cidr));
        }
        let parts: Vec<&str> = text.split('/').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Err(invalid());
        }
        match parts.as_slice() {
            ["node" | "nodes" | "no", name] => Ok(Self::Node((*name).into())),
            ["service" | "services" | "svc", namespace, name] => {
                Ok(Self::Service { namespace: (*namespace).into(), name: (*name).into() })
            }
            ["pod" | "pods" | "po", namespace, name] | [namespace, name] => {
                Ok(Self::Pods { namespace: (*namespace).into(), name: (*name).into() })
            }
            _ => Err(invalid()),
        }
    }
}

/// Which traffic is asked about.
///
/// ```
/// use settled_netpol::model::Protocol;
/// use settled_netpol::reach::Ask;
///
/// assert_eq!("443".parse(), Ok(Ask::Port(Protocol::Tcp, 443)));
/// assert_eq!("53/udp".parse(), Ok(Ask::Port(Protocol::Udp, 53)));
/// assert_eq!("http".parse(), Ok(Ask::Named { protocol: None, name: "http".into() }));
/// assert_eq!("dns/UDP".parse(), Ok(Ask::Named { protocol: Some(Protocol::Udp), name: "dns".into() }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// One port; of a Service, its own port.
    Port(Protocol, u16),
    /// The container ports of this name, whatever their numbers are; of a Service, its own port.
    Named {
        /// The protocol; None is any.
        protocol: Option<Protocol>,
        /// The name.
        name: Arc<str>,
    },
    /// All ports of TCP, UDP and SCTP, in ranges with the same outcome.
    AllPorts,
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(protocol, port) => write!(f, "{port}/{protocol}"),
            Self::Named { protocol: Some(protocol), name } => write!(f, "{name}/{protocol}"),
            Self::Named { protocol: None, name } => f.write_str(name),
            Self::AllPorts => f.write_str("all ports"),
        }
    }
}

/// A port that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidPort {
    /// It is no number and no name.
    #[error("expected a port number or name, and a protocol, such as 443, 53/UDP or http")]
    Malformed,
    /// A number without such a port.
    #[error("{0} is no port: expected 1 to 65535")]
    Number(String),
    /// A protocol without ports, or none.
    #[error("{0} is no protocol with ports: expected TCP, UDP or SCTP")]
    Protocol(String),
}

impl FromStr for Ask {
    type Err = InvalidPort;

    fn from_str(text: &str) -> Result<Self, InvalidPort> {
        let known = |word: &str| {
            let protocols = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
            protocols.into_iter().find(|known| known.as_str().eq_ignore_ascii_case(word))
        };
        let (port, protocol) = match text.split_once('/') {
            None => (text, None),
            // Firewalls write it the other way round.
            Some((first, port)) if known(first).is_some() && known(port).is_none() => (port, Some(first)),
            Some((port, last)) => (port, Some(last)),
        };
        let protocol = match protocol {
            None => None,
            Some(word) => Some(known(word).ok_or_else(|| InvalidPort::Protocol(word.to_owned()))?),
        };
        if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) {
            let number = port.parse::<u16>().ok().filter(|number| *number > 0);
            let number = number.ok_or_else(|| InvalidPort::Number(port.to_owned()))?;
            return Ok(Self::Port(protocol.unwrap_or(Protocol::Tcp), number));
        }
        if !is_valid_port_name(port).is_empty() {
            return Err(InvalidPort::Malformed);
        }
        Ok(Self::Named { protocol, name: port.into() })
    }
}

/// A question: who may connect to whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The source.
    pub from: Endpoint,
    /// The destination.
    pub to: Endpoint,
    /// The traffic.
    pub traffic: Ask,
}

/// A question without an answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QuestionError {
    /// What is asked about does not exist.
    #[error("{0} not found")]
    NotFound(Endpoint),
    /// The pods have finished.
    #[error("{0} has finished: it has no traffic")]
    Finished(Endpoint),
    /// A Service is asked about as a source.
    #[error("{0} is a Service: a Service does not open connections")]
    ServiceAsSource(Endpoint),
    /// The Service does not have the port.
    #[error("{service} has no {protocol} port {port}")]
    NoServicePort {
        /// The Service.
        service: Endpoint,
        /// The protocol that is asked about.
        protocol: Protocol,
        /// The port that is asked about.
        port: u16,
    },
    /// The destination has no port of this name.
    #[error("{to} has no port {port}{}", others(.known))]
    NoPortOfName {
        /// The destination.
        to: Endpoint,
        /// What is asked about.
        port: Ask,
        /// The ports that it has.
        known: Vec<String>,
    },
    /// Only pods and Services have names of ports.
    #[error("{to} has no port {name}: only pods and Services have names of ports")]
    NameWithoutPods {
        /// The destination.
        to: Endpoint,
        /// The name.
        name: Arc<str>,
    },
    /// The Service has no pods.
    #[error("{0} selects no pods")]
    NoPods(Endpoint),
    /// The ends have no family in common.
    #[error("{from} and {to} have no IP family in common")]
    NoCommonFamily {
        /// The source.
        from: Endpoint,
        /// The destination.
        to: Endpoint,
    },
}

fn others(known: &[String]) -> String {
    if known.is_empty() { "; it declares none".to_owned() } else { format!("; it has {}", known.join(", ")) }
}

/// What an endpoint means.
pub(crate) enum Resolved<'a> {
    /// Pods.
    Pods(Vec<&'a Pod>),
    /// A node.
    Node(&'a crate::cluster::Node),
    /// A Service and its pods.
    Service(&'a Service, Vec<&'a Pod>),
    /// An address of nothing that is known.
    Address(IpAddr),
    /// Addresses outside of the cluster.
    Ranges(Vec<(Family, Vec<(u128, u128)>)>),
    /// It could not be read.
    Unknown(UnknownReason),
}

/// Finds what an endpoint means.
pub(crate) fn resolve<'a>(cluster: &'a Cluster, endpoint: &Endpoint) -> Result<Resolved<'a>, QuestionError> {
    match endpoint {
        Endpoint::Pods { namespace, name } => pods(cluster, endpoint, namespace, name),
        Endpoint::Service { namespace, name } => {
            let services = match &cluster.services {
                Known::Read(services) => services,
                Known::Unread(reason) => {
                    return Ok(Resolved::Unknown(UnknownReason::Services(Arc::clone(reason))));
                }
            };
            let found =
                services.iter().find(|service| service.namespace == *namespace && service.name == *name);
            let service = found.ok_or_else(|| QuestionError::NotFound(endpoint.clone()))?;
            behind(cluster, endpoint, service)
        }
        Endpoint::Node(name) => match &cluster.nodes {
            Known::Read(nodes) => nodes
                .iter()
                .find(|node| node.name == *name)
                .map(Resolved::Node)
                .ok_or_else(|| QuestionError::NotFound(endpoint.clone())),
            Known::Unread(reason) => Ok(Resolved::Unknown(UnknownReason::Nodes(Arc::clone(reason)))),
        },
        Endpoint::Address(address) => by_address(cluster, endpoint, *address),
        Endpoint::Range(cidr) => {
            let family = Family::of(cidr.network);
            Ok(Resolved::Ranges(vec![(family, vec![super::classes::to_range(cidr)])]))
        }
        Endpoint::Internet => Ok(Resolved::Ranges(
            Family::ALL.map(|family| (family, super::classes::internet(family))).to_vec(),
        )),
    }
}

fn pods<'a>(
    cluster: &'a Cluster,
    endpoint: &Endpoint,
    namespace: &str,
    name: &str,
) -> Result<Resolved<'a>, QuestionError> {
    let all = match &cluster.pods {
        Known::Read(pods) => pods,
        Known::Unread(reason) => return Ok(Resolved::Unknown(UnknownReason::Pods(Arc::clone(reason)))),
    };
    let in_namespace = || all.iter().filter(|pod| &*pod.namespace == namespace);
    let mut found: Vec<&Pod> = in_namespace().filter(|pod| &*pod.name == name).collect();
    if found.is_empty() {
        found = in_namespace().filter(|pod| &*Workload::of(pod).name == name).collect();
    }
    if found.is_empty() {
        return Err(QuestionError::NotFound(endpoint.clone()));
    }
    found.retain(|pod| !pod.finished);
    if found.is_empty() { Err(QuestionError::Finished(endpoint.clone())) } else { Ok(Resolved::Pods(found)) }
}

fn by_address<'a>(
    cluster: &'a Cluster,
    endpoint: &Endpoint,
    address: IpAddr,
) -> Result<Resolved<'a>, QuestionError> {
    let services = cluster.services.read().unwrap_or_default();
    if let Some(service) = services.iter().find(|service| service.cluster_ips.contains(&address)) {
        return behind(cluster, endpoint, service);
    }
    let nodes = cluster.nodes.read().unwrap_or_default();
    if let Some(node) = nodes.iter().find(|node| node.addresses.contains(&address)) {
        return Ok(Resolved::Node(node));
    }
    // Addresses of finished pods are used again; that of a pod on its node's network is the node's.
    let pods = cluster.pods.read().unwrap_or_default();
    let pod = pods.iter().find(|pod| !pod.finished && pod.addresses.contains(&address));
    Ok(pod.map_or(Resolved::Address(address), |pod| Resolved::Pods(vec![pod])))
}

/// The pods behind a Service.
fn behind<'a>(
    cluster: &'a Cluster,
    endpoint: &Endpoint,
    service: &'a Service,
) -> Result<Resolved<'a>, QuestionError> {
    let Some(selector) = &service.selector else {
        let service = format!("{}/{}", service.namespace, service.name).into();
        return Ok(Resolved::Unknown(UnknownReason::Endpoints { service }));
    };
    let pods = match &cluster.pods {
        Known::Read(pods) => pods,
        Known::Unread(reason) => return Ok(Resolved::Unknown(UnknownReason::Pods(Arc::clone(reason)))),
    };
    let selected = pods.iter().filter(|pod| {
        pod.namespace == service.namespace
            && !pod.finished
            && selector.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
    });
    let selected: Vec<&Pod> = selected.collect();
    if selected.is_empty() {
        return Err(QuestionError::NoPods(endpoint.clone()));
    }
    Ok(Resolved::Service(service, selected))
}

/// The port of a pod behind a port of a Service: its target port, by number or name.
pub(crate) fn target_port(service: &Service, protocol: Protocol, port: u16, pod: &Pod) -> Option<u16> {
    let found = service.ports.iter().find(|entry| entry.protocol == protocol && entry.port == port)?;
    match &found.target {
        TargetPort::Number(number) => Some(*number),
        TargetPort::Named(name) => pod
            .ports
            .iter()
            .find(|declared| declared.name.as_ref() == Some(name) && declared.protocol == protocol)
            .map(|declared| declared.number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_and_printed() {
        for text in
            ["internet", "10.0.0.1", "fd00::1", "10.0.0.0/8", "node/worker-1", "service/shop/web", "shop/web"]
        {
            assert_eq!(text.parse::<Endpoint>().unwrap().to_string(), text);
        }
        assert_eq!("svc/shop/web".parse::<Endpoint>(), "service/shop/web".parse());
        assert_eq!("pod/shop/web-0".parse::<Endpoint>(), "shop/web-0".parse());
        for text in ["", "web", "a/b/c", "shop/", "/web", "node/"] {
            assert!(text.parse::<Endpoint>().is_err(), "{text}");
        }
    }
}

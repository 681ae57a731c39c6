//! Snapshot of a cluster: what policies select, as far as it could be read.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::model::{Cidr, Protocol};

/// Labels of an object.
pub type Labels = BTreeMap<Arc<str>, Arc<str>>;

/// Objects of one kind, or why they could not be read.
#[derive(Clone, Debug)]
pub enum Known<T> {
    /// They were read.
    Read(Vec<T>),
    /// They were not, for this reason: what depends on them is Unknown.
    Unread(Arc<str>),
}

impl<T> Known<T> {
    /// The objects, if they were read.
    #[must_use]
    pub fn read(&self) -> Option<&[T]> {
        match self {
            Self::Read(objects) => Some(objects),
            Self::Unread(_) => None,
        }
    }
}

/// What policies select.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Namespaces.
    pub namespaces: Known<Namespace>,
    /// Pods.
    pub pods: Known<Pod>,
    /// Nodes.
    pub nodes: Known<Node>,
    /// Services.
    pub services: Known<Service>,
}

/// A namespace.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// Its name.
    pub name: Arc<str>,
    /// Its labels, `kubernetes.io/metadata.name` included.
    pub labels: Labels,
}

/// A pod.
#[derive(Clone, Debug)]
pub struct Pod {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its labels.
    pub labels: Labels,
    /// Its addresses, one for each family.
    pub addresses: Vec<IpAddr>,
    /// The declared ports of its containers, restartable init containers included.
    pub ports: Vec<ContainerPort>,
    /// Whether it uses its node's network, where policies do not reach it.
    pub host_network: bool,
    /// Whether it has an owner reference.
    pub owned: bool,
    /// Its node.
    pub node: Option<Arc<str>>,
    /// Whether it has succeeded or failed: it has no traffic any more.
    pub finished: bool,
}

/// A declared port of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerPort {
    /// Its name.
    pub name: Option<Arc<str>>,
    /// Its number.
    pub number: u16,
    /// Its protocol.
    pub protocol: Protocol,
    /// Whether a (restartable) init container declares it.
    pub init: bool,
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name.
    pub name: Arc<str>,
    /// Its labels.
    pub labels: Labels,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// The ranges of its pods (`spec.podCIDRs`).
    pub pod_cidrs: Vec<Cidr>,
}

/// A Service.
#[derive(Clone, Debug)]
pub struct Service {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its cluster IPs.
    pub cluster_ips: Vec<IpAddr>,
    /// Labels of its pods; None if its endpoints are managed otherwise.
    pub selector: Option<Labels>,
    /// Its ports.
    pub ports: Vec<ServicePort>,
    /// Whether external traffic keeps its source address (`externalTrafficPolicy: Local`).
    pub keeps_source: bool,
    /// Whether traffic from outside reaches it (NodePort, LoadBalancer, external IPs).
    pub external: bool,
}

/// A port of a Service.
#[derive(Clone, Debug)]
pub struct ServicePort {
    /// Its name.
    pub name: Option<Arc<str>>,
    /// Its protocol.
    pub protocol: Protocol,
    /// Its number.
    pub port: u16,
    /// The number or name of the pods' port.
    pub target: TargetPort,
}

/// The port of the pods behind a Service's port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetPort {
    /// By number.
    Number(u16),
    /// By name.
    Named(Arc<str>),
}

//! Outcomes of connections: allowed, denied or unknown, with the policies and rules that decide.

use std::fmt;
use std::sync::Arc;

use crate::model::{Family, Kind, Place, PolicyId, Protocol, Tier};
use crate::profile::Direction;

/// How many pods a remark names.
const PODS_MAX: usize = 3;

/// What happens to a new connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// It is allowed.
    Allowed,
    /// It is denied.
    Denied,
    /// What was read does not decide it, or the API leaves it open.
    Unknown,
}

impl Outcome {
    /// The outcome if these are possible.
    pub(crate) const fn from_possible(allow: bool, deny: bool) -> Self {
        match (allow, deny) {
            (true, false) => Self::Allowed,
            (false, true) => Self::Denied,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Unknown => "unknown",
        })
    }
}

/// One direction of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether policies of the source or of the destination decide.
    pub direction: Direction,
    /// What they decide.
    pub outcome: Outcome,
    /// The policies and rules that led there, in the order of their evaluation. Empty if no policy applies.
    pub causes: Vec<Cause>,
    /// Why the outcome is unknown; empty if it is not.
    pub unknown: Vec<UnknownReason>,
}

/// A policy that contributes to a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The policy.
    pub policy: PolicyId,
    /// Its tier.
    pub tier: Tier,
    /// What it does.
    pub effect: Effect,
    /// The rule that matches; None if the policy isolates the pod and none does.
    pub rule: Option<Place>,
    /// The first entry of `from` or `to` that matches; None if the rule has none.
    pub peer: Option<Place>,
    /// The first entry of `ports` that matches; None if the rule has none.
    pub port: Option<Place>,
}

/// What a policy does with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Its rule allows the connection.
    Allows,
    /// Its rule denies the connection.
    Denies,
    /// Its rule leaves the connection to the next tier.
    Passes,
    /// It isolates the pod and no rule of it allows the connection.
    Isolates,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Allows => "allows it",
            Self::Denies => "denies it",
            Self::Passes => "passes it to the next tier",
            Self::Isolates => "isolates the pod and no rule allows it",
        })
    }
}

/// Why an outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UnknownReason {
    /// Labels of a namespace are not known.
    Namespace {
        /// Its name.
        name: Arc<str>,
        /// Why.
        reason: Arc<str>,
    },
    /// Pods could not be read.
    Pods(Arc<str>),
    /// Nodes could not be read.
    Nodes(Arc<str>),
    /// Services could not be read.
    Services(Arc<str>),
    /// A pod or node has no address of this family, and a rule is about addresses.
    Address {
        /// The pod or node.
        object: Arc<str>,
        /// The family.
        family: Family,
    },
    /// A node has several addresses, of which a rule matches some.
    SeveralAddresses {
        /// The node.
        node: Arc<str>,
        /// Where the rule's entry stands.
        place: Place,
    },
    /// A peer of a kind that is not known here.
    Peer {
        /// Where it stands.
        place: Place,
        /// What it is.
        what: Arc<str>,
    },
    /// A peer selects domain names, whose addresses are not known.
    Domains {
        /// Where it stands.
        place: Place,
    },
    /// Policies of one priority disagree: the API lets the provider apply any of them.
    SamePriority {
        /// The priority.
        priority: i64,
        /// The policies.
        policies: Vec<PolicyId>,
    },
    /// Policies could not be read.
    Policies {
        /// Their kind.
        kind: Kind,
        /// Their namespace; None if all are meant.
        namespace: Option<Arc<str>>,
        /// Why.
        reason: Arc<str>,
    },
    /// Endpoints of a Service are not managed by a selector.
    Endpoints {
        /// Its namespace and name.
        service: Arc<str>,
    },
    /// What the provider does with this part of a policy is undefined or unknown.
    Provider {
        /// The policy.
        policy: PolicyId,
        /// The part; None if it is the whole policy.
        place: Option<Place>,
        /// What is undefined.
        reason: Arc<str>,
    },
}

impl fmt::Display for UnknownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace { name, reason } => {
                write!(f, "labels of namespace {name:?} are not known: {reason}")
            }
            Self::Pods(reason) => write!(f, "pods are not known: {reason}"),
            Self::Nodes(reason) => write!(f, "nodes are not known: {reason}"),
            Self::Services(reason) => write!(f, "Services are not known: {reason}"),
            Self::Address { object, family } => write!(f, "{object} has no {family} address yet"),
            Self::SeveralAddresses { node, place } => {
                write!(f, "{place} matches only some of the addresses of node {node:?}")
            }
            Self::Peer { place, what } => write!(f, "{place}: peer {what:?} is not known"),
            Self::Domains { place } => {
                write!(f, "{place}: the addresses of its domain names are not known")
            }
            Self::SamePriority { priority, policies } => {
                write!(
                    f,
                    "policies of priority {priority} disagree, and the API does not define which applies:"
                )?;
                for (index, policy) in policies.iter().enumerate() {
                    write!(f, "{} {policy}", if index > 0 { "," } else { "" })?;
                }
                Ok(())
            }
            Self::Policies { kind, namespace: Some(namespace), reason } => {
                write!(f, "policies of kind {kind} in namespace {namespace:?} are not known: {reason}")
            }
            Self::Policies { kind, namespace: None, reason } => {
                write!(f, "policies of kind {kind} are not known: {reason}")
            }
            Self::Endpoints { service } => {
                write!(f, "Service {service} has no selector: its endpoints are not known")
            }
            Self::Provider { policy, place: Some(place), reason } => write!(f, "{policy} {place}: {reason}"),
            Self::Provider { policy, place: None, reason } => write!(f, "{policy}: {reason}"),
        }
    }
}

/// What is to be known about an outcome beside the policies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Remark {
    /// Both ends are the same pod.
    SamePod,
    /// A pod uses its node's network.
    HostNetwork {
        /// Its namespace and name.
        pod: Arc<str>,
    },
    /// The other end is the pod's own node.
    OwnNode {
        /// The direction that would be denied otherwise.
        direction: Direction,
    },
    /// No end of the connection is a pod that policies apply to.
    NoPod,
    /// The destination is a Service: its address is rewritten.
    ServiceAddress {
        /// Its namespace and name.
        service: Arc<str>,
    },
    /// Traffic from outside reaches the pods through a Service that may replace the source address.
    SourceAddress {
        /// Its namespace and name.
        service: Arc<str>,
    },
    /// A name of a port is not the same port in all pods.
    NamedPort {
        /// The name.
        name: Arc<str>,
        /// What it stands for in which pods.
        numbers: Vec<NamedPorts>,
    },
}

/// What a name of a port stands for in some pods.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamedPorts {
    /// The ports; none if the pods do not have the name.
    pub ports: Vec<(Protocol, u16)>,
    /// The pods, by namespace and name.
    pub pods: Vec<Arc<str>>,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SamePod => f.write_str(
                "a pod cannot block access to itself; through its Service, this depends on the provider",
            ),
            Self::HostNetwork { pod } => write!(
                f,
                "pod {pod} uses the network of its node: it is evaluated as its node, as most providers do; the API \
                 leaves policies for such pods undefined"
            ),
            Self::OwnNode { direction: Direction::Ingress } => {
                f.write_str("traffic from the pod's own node is always allowed by NetworkPolicies")
            }
            Self::OwnNode { direction: Direction::Egress } => f.write_str(
                "traffic to the pod's own node is always allowed by NetworkPolicies, as their documentation says; \
                 the API reference says so for ingress only, and providers differ",
            ),
            Self::NamedPort { name, numbers } => {
                write!(f, "port {name} is not the same in all pods: ")?;
                for (index, NamedPorts { ports, pods }) in numbers.iter().enumerate() {
                    f.write_str(if index > 0 { "; " } else { "" })?;
                    for (index, (protocol, number)) in ports.iter().enumerate() {
                        write!(f, "{}{number}/{protocol}", if index > 0 { ", " } else { "" })?;
                    }
                    if ports.is_empty() {
                        f.write_str("missing")?;
                    }
                    let shown: Vec<&str> = pods.iter().take(PODS_MAX).map(|pod| &**pod).collect();
                    write!(f, " in {}", shown.join(", "))?;
                    if let more @ 1.. = pods.len() - shown.len() {
                        write!(f, " and {more} more")?;
                    }
                }
                Ok(())
            }
            Self::NoPod => f.write_str("no policy applies: neither end is a pod with a network of its own"),
            Self::ServiceAddress { service } => write!(
                f,
                "evaluated at the pods and target port of Service {service}; whether policies are evaluated before or \
                 after its address is rewritten is undefined"
            ),
            Self::SourceAddress { service } => write!(
                f,
                "Service {service} may replace the source address by that of a node (externalTrafficPolicy: \
                 Cluster): rules with ipBlock may see the node instead"
            ),
        }
    }
}

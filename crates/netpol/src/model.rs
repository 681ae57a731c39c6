//! Model of network policies: one form for NetworkPolicy, AdminNetworkPolicy, BaselineAdminNetworkPolicy and ClusterNetworkPolicy.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use settled_apimachinery::labels::LabelSelector;

/// A policy, with the place of each part in its object.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Which object it is.
    pub id: PolicyId,
    /// `metadata.generation`, as far as there is one.
    pub generation: Option<i64>,
    /// `metadata.uid`, as far as there is one.
    pub uid: Option<Arc<str>>,
    /// When it is evaluated.
    pub tier: Tier,
    /// The pods that it applies to.
    pub subject: Subject,
    /// What it says about traffic to its subject. None if the policy is not about it; without rules, a NetworkPolicy isolates.
    pub ingress: Option<Vec<Rule>>,
    /// What it says about traffic from its subject.
    pub egress: Option<Vec<Rule>>,
    /// Whether `policyTypes` was absent, so that the directions follow from the rules.
    pub types_defaulted: bool,
}

/// Which object a policy is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PolicyId {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace; empty for cluster-scoped kinds.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl fmt::Display for PolicyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{}/{}", self.kind, self.name)
        } else {
            write!(f, "{}/{}/{}", self.kind, self.namespace, self.name)
        }
    }
}

/// Kinds of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `networking.k8s.io/v1`.
    NetworkPolicy,
    /// `policy.networking.k8s.io/v1alpha1`.
    AdminNetworkPolicy,
    /// `policy.networking.k8s.io/v1alpha1`.
    BaselineAdminNetworkPolicy,
    /// `policy.networking.k8s.io/v1alpha2`, successor of both.
    ClusterNetworkPolicy,
}

impl Kind {
    /// The name in `kind`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NetworkPolicy => "NetworkPolicy",
            Self::AdminNetworkPolicy => "AdminNetworkPolicy",
            Self::BaselineAdminNetworkPolicy => "BaselineAdminNetworkPolicy",
            Self::ClusterNetworkPolicy => "ClusterNetworkPolicy",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// When a policy is evaluated: admin tier by priority, then NetworkPolicies, then the baseline tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Before NetworkPolicies; the lowest number first.
    Admin {
        /// `spec.priority`.
        priority: i64,
    },
    /// NetworkPolicies: all together, by what they allow.
    Namespace,
    /// For pods that no NetworkPolicy isolates; the lowest number first.
    Baseline {
        /// `spec.priority`; 0 for a BaselineAdminNetworkPolicy, of which there is one.
        priority: i64,
    },
}

/// The pods that a policy applies to.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Their namespaces.
    pub namespaces: Namespaces,
    /// Their labels.
    pub pods: LabelSelector,
    /// Where the selector of pods stands.
    pub place: Place,
}

/// Which namespaces are meant.
#[derive(Clone, Debug)]
pub enum Namespaces {
    /// The policy's own.
    Own,
    /// Those that match.
    Selected(LabelSelector),
}

/// A rule of a policy.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name, where the kind has one.
    pub name: Option<Arc<str>>,
    /// What happens to traffic that matches.
    pub action: Action,
    /// The other ends of the traffic.
    pub peers: Peers,
    /// Its protocols and ports.
    pub ports: Ports,
    /// Where it stands.
    pub place: Place,
}

/// What a rule does with traffic that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Allowed (`Allow`, `Accept`; every rule of a NetworkPolicy).
    Allow,
    /// Denied.
    Deny,
    /// Left to the next tier.
    Pass,
}

/// The other ends of traffic that a rule is about.
#[derive(Clone, Debug)]
pub enum Peers {
    /// Absent or empty `from` or `to` of a NetworkPolicy: everything, also outside of the cluster.
    Any,
    /// Those that match one of these.
    Of(Vec<Peer>),
}

/// A peer of a rule.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Who is meant.
    pub kind: PeerKind,
    /// Where it stands.
    pub place: Place,
}

/// Who is meant by a peer.
#[derive(Clone, Debug)]
pub enum PeerKind {
    /// Pods by namespace and labels.
    Pods {
        /// Their namespaces.
        namespaces: Namespaces,
        /// Their labels; None if only namespaces are selected.
        pods: Option<LabelSelector>,
    },
    /// Addresses: `ipBlock`, or one entry of `networks`.
    Block(IpBlock),
    /// Nodes by labels (egress of cluster-scoped kinds).
    Nodes(LabelSelector),
    /// Domain names (egress of cluster-scoped kinds), with `*` as their first label at most.
    Domains(Vec<Arc<str>>),
    /// A peer that this version does not know: it matches nothing that is known, and what the policy does is Unknown.
    Unknown(Arc<str>),
}

/// Addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpBlock {
    /// The range.
    pub cidr: Cidr,
    /// Ranges within it that are not meant.
    pub except: Vec<Cidr>,
}

impl IpBlock {
    /// Whether an address is meant.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.cidr.contains(address) && !self.except.iter().any(|cidr| cidr.contains(address))
    }
}

/// IP family of addresses and connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both families.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// The word in profiles of providers.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        }
    }

    /// The family of an address.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// Its first address.
    pub network: IpAddr,
    /// How many leading bits are the network's.
    pub bits: u8,
}

impl Cidr {
    /// Parses a range as Kubernetes does.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = settled_apimachinery::net::parse_cidr_sloppy(text)?;
        Some(Self { network: settled_apimachinery::net::masked(address, bits), bits })
    }

    /// Whether an address lies in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.network.is_ipv4() == address.is_ipv4()
            && settled_apimachinery::net::masked(address, self.bits) == self.network
    }

    /// Whether the other range has addresses of this one.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        if self.bits <= other.bits { self.contains(other.network) } else { other.contains(self.network) }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.bits)
    }
}

/// Protocols and ports that a rule is about.
#[derive(Clone, Debug)]
pub enum Ports {
    /// Absent or empty `ports`: everything, also protocols without ports.
    Any,
    /// Those that match one of these.
    Of(Vec<Port>),
}

/// An entry of a rule's ports.
#[derive(Clone, Debug)]
pub struct Port {
    /// The protocol; absent is TCP.
    pub protocol: Protocol,
    /// Whether the protocol was absent.
    pub protocol_defaulted: bool,
    /// The ports of the destination.
    pub numbers: PortNumbers,
    /// Where it stands.
    pub place: Place,
}

/// Protocols with ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// The name in `protocol`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Ports of a destination.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PortNumbers {
    /// Every port of the protocol.
    Any,
    /// From the first to the last, both included; a single port is a range of one.
    Range {
        /// The first.
        first: u16,
        /// The last.
        last: u16,
    },
    /// The container port of this name, whatever its number is in the destination's pod.
    Named(Arc<str>),
}

/// Where something stands in its object, as error messages of the API server name it: `spec.ingress[0].ports[1].endPort`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place(pub Arc<str>);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

//! Features: what a policy may ask for, by stable text ids. Profiles say for each which providers carry it out.

use std::fmt;
use std::str::FromStr;

/// An id that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown feature `{id}`{}", suggestion(.near))]
pub struct UnknownFeature {
    /// The text.
    pub id: String,
    /// A known id that is much like it.
    pub near: Option<&'static str>,
}

fn suggestion(near: &Option<&'static str>) -> String {
    near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

macro_rules! features {
    ($($(#[$cluster:ident])? $name:ident $id:literal $title:literal)*) => {
        /// What a policy may ask for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Feature {
            $(#[doc = $title] $name,)*
        }

        impl Feature {
            /// All of them, in the order of documentation.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The text id.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $id,)*
                }
            }

            /// What it is, as a noun phrase.
            #[must_use]
            pub const fn title(self) -> &'static str {
                match self {
                    $(Self::$name => $title,)*
                }
            }

            /// Whether only a snapshot of the cluster says that a policy asks for it.
            #[must_use]
            pub const fn needs_cluster(self) -> bool {
                match self {
                    $(Self::$name => features!(@cluster $($cluster)?),)*
                }
            }
        }
    };
    (@cluster cluster) => { true };
    (@cluster) => { false };
}

features! {
    PortNamed "port.named" "a port by the name of a container port"
    PortNamedWithBlock "port.named-with-block" "a port by name for an ipBlock, whose addresses have no named ports"
    PortNamedAnyPeer "port.named-any-peer" "a port by name towards all peers"
    #[cluster] PortNamedAmbiguous "port.named-ambiguous" "a port by name that is a different number in different pods"
    #[cluster] PortNamedInitContainer "port.named-init-container" "a port by the name of an init container's port alone"
    PortEnd "port.end" "a range of ports"
    PortAny "port.any" "every port of a protocol"
    PortProtocolDefaulted "port.protocol-defaulted" "a port without a protocol, which is TCP"
    ProtoSctp "proto.sctp" "the protocol SCTP"
    ProtoOther "proto.other" "protocols other than TCP, UDP and SCTP"
    PortsAny "ports.any" "a rule for all ports and protocols"
    PeersAny "peers.any" "a rule for all peers"
    PeerPods "peer.pods" "pods of the policy's namespace by labels"
    PeerNamespaces "peer.namespaces" "all pods of namespaces by labels"
    PeerAllNamespaces "peer.all-namespaces" "all pods of all namespaces"
    PeerCombined "peer.combined" "pods by labels of namespaces by labels"
    PeerEmptySelector "peer.empty-selector" "an empty selector in a peer, which selects everything"
    PeerNodes "peer.nodes" "nodes by labels"
    PeerDomains "peer.domains" "domain names"
    IpBlock "ipblock" "an ipBlock"
    IpBlockExcept "ipblock.except" "exceptions of an ipBlock"
    IpBlockV4 "ipblock.v4" "an ipBlock of IPv4 addresses"
    IpBlockV6 "ipblock.v6" "an ipBlock of IPv6 addresses"
    IpBlockZero "ipblock.zero" "an ipBlock of all addresses of a family"
    IpBlockIngress "ipblock.ingress" "an ipBlock as a source"
    IpBlockEgress "ipblock.egress" "an ipBlock as a destination"
    #[cluster] IpBlockPodAddress "ipblock.pod-address" "an ipBlock with addresses of pods"
    #[cluster] IpBlockNodeAddress "ipblock.node-address" "an ipBlock with addresses of nodes"
    #[cluster] IpBlockServiceAddress "ipblock.service-address" "an ipBlock with cluster IPs of Services"
    SelectorNegative "selector.negative" "a selector with NotIn or DoesNotExist"
    TypesEgress "types.egress" "rules or isolation for egress"
    TypesDefaulted "types.defaulted" "policyTypes that follow from the rules"
    IsolationIngress "isolation.ingress" "default deny of ingress: isolation without rules"
    IsolationEgress "isolation.egress" "default deny of egress: isolation without rules"
    ActionPass "action.pass" "the action Pass"
    #[cluster] PodsHostNetwork "pods.host-network" "pods that use their node's network"
    #[cluster] PodsUnowned "pods.unowned" "pods without an owner reference"
    #[cluster] ServicePortDiffers "service.port-differs" "a Service whose port is another than its pods' port"
    KindNetworkPolicy "kind.NetworkPolicy" "the kind NetworkPolicy"
    KindAdminNetworkPolicy "kind.AdminNetworkPolicy" "the kind AdminNetworkPolicy"
    KindBaselineAdminNetworkPolicy "kind.BaselineAdminNetworkPolicy" "the kind BaselineAdminNetworkPolicy"
    KindClusterNetworkPolicy "kind.ClusterNetworkPolicy" "the kind ClusterNetworkPolicy"
}

impl Feature {
    /// Whether it is a kind of policies, which each policy of the kind asks for.
    #[must_use]
    pub const fn is_kind(self) -> bool {
        matches!(
            self,
            Self::KindNetworkPolicy
                | Self::KindAdminNetworkPolicy
                | Self::KindBaselineAdminNetworkPolicy
                | Self::KindClusterNetworkPolicy
        )
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Feature {
    type Err = UnknownFeature;

    fn from_str(id: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.iter().find(|feature| feature.as_str() == id);
        found.copied().ok_or_else(|| UnknownFeature {
            id: id.to_owned(),
            near: nearest(id, Self::ALL.iter().map(|feature| feature.as_str())),
        })
    }
}

/// What a provider limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Count {
    /// Entries of one list of ports.
    PortsPerList,
    /// Peers of one rule.
    PeersPerRule,
    /// Distinct ports and protocols for one range of addresses, over all policies for the same pods.
    PortsPerCidrAllPolicies,
    /// ipBlocks of one policy.
    IpBlocksPerPolicy,
    /// Rules of one policy.
    RulesPerPolicy,
}

impl Count {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::PortsPerList,
        Self::PeersPerRule,
        Self::PortsPerCidrAllPolicies,
        Self::IpBlocksPerPolicy,
        Self::RulesPerPolicy,
    ];

    /// The text id.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PortsPerList => "ports.per-list",
            Self::PeersPerRule => "peers.per-rule",
            Self::PortsPerCidrAllPolicies => "ports.per-cidr-all-policies",
            Self::IpBlocksPerPolicy => "ipblocks.per-policy",
            Self::RulesPerPolicy => "rules.per-policy",
        }
    }

    /// What is counted.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::PortsPerList => "entries in a list of ports",
            Self::PeersPerRule => "peers of a rule",
            Self::PortsPerCidrAllPolicies => "ports for one range of addresses over all policies",
            Self::IpBlocksPerPolicy => "ipBlocks of a policy",
            Self::RulesPerPolicy => "rules of a policy",
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The known word that is nearest to another, if it is near enough for a suggestion.
pub(crate) fn nearest(word: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    // Words are short; a long one is no typing error.
    if word.len() > 64 {
        return None;
    }
    let near = known.map(|known| (distance(known, word), known)).min()?;
    (near.0 <= 2 || near.0 * 4 <= word.len()).then_some(near.1)
}

/// Levenshtein distance in bytes.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (index, left) in a.bytes().enumerate() {
        let mut diagonal = index;
        if let Some(first) = row.first_mut() {
            *first = index + 1;
        }
        for (column, right) in b.bytes().enumerate() {
            let (Some(&above), Some(&before)) = (row.get(column + 1), row.get(column)) else { break };
            let changed = diagonal + usize::from(left != right);
            diagonal = above;
            if let Some(cell) = row.get_mut(column + 1) {
                *cell = changed.min(above + 1).min(before + 1);
            }
        }
    }
    row.last().copied().unwrap_or_default()
}

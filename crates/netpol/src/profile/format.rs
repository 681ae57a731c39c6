//! Profile of a provider: what it carries out of policies, by version.

use std::collections::BTreeMap;
use std::fmt;

use super::version::{Version, VersionRange};
use crate::feature::{Count, Feature};
use crate::model::Family;

/// A set of words in profile files, each with its enumerator.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word in profile files.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// How far a provider carries out a feature.
    Support {
        /// As the API says.
        Supported = "supported",
        /// More is meant than is written.
        Widened = "widened",
        /// Less is meant than is written.
        Narrowed = "narrowed",
        /// A part of the policy, or all of it, is left out.
        Dropped = "dropped",
        /// Nobody knows: it may be more or less.
        Undefined = "undefined",
    }
}

words! {
    /// What the data plane does instead of what is written.
    CarriedOut {
        /// A range of ports is its first port.
        FirstPort = "first-port",
        /// A named port or a range is every port of the protocol.
        AllPorts = "all-ports",
        /// The rule's ports are ignored: all traffic is meant.
        AllTraffic = "all-traffic",
        /// The entry of the ports matches nothing.
        PortIgnored = "port-ignored",
        /// The peer matches nothing.
        PeerIgnored = "peer-ignored",
        /// The whole range is meant.
        ExceptIgnored = "except-ignored",
        /// The ipBlock matches nothing.
        BlockIgnored = "block-ignored",
        /// The rule does not exist.
        RuleIgnored = "rule-ignored",
        /// The direction does not isolate, and its rules do not exist.
        DirectionIgnored = "direction-ignored",
        /// The policy does not exist.
        PolicyIgnored = "policy-ignored",
        /// The policy isolates and allows nothing.
        DenyAll = "deny-all",
        /// The peer matches everything.
        PeerAny = "peer-any",
        /// A named port is every number that it has in any pod, for every pod.
        AnyPod = "any-pod",
        /// The ipBlock does not match addresses of pods.
        NeverMatchesPods = "never-matches-pods",
        /// The ipBlock does not match addresses of nodes.
        NeverMatchesNodes = "never-matches-nodes",
        /// Addresses of the other family match nothing.
        IgnoredFamily = "ignored-family",
        /// Pods without an owner reference are not isolated.
        UnownedPodsIgnored = "unowned-pods-ignored",
        /// Pods that use their node's network are not isolated.
        HostNetworkPodsIgnored = "host-network-pods-ignored",
    }
}

words! {
    /// What is left out with a dropped feature.
    Scope {
        /// The entry of the ports.
        Port = "port",
        /// The peer.
        Peer = "peer",
        /// The rule.
        Rule = "rule",
        /// The direction.
        Direction = "direction",
        /// The policy.
        Policy = "policy",
    }
}

words! {
    /// How a statement was checked.
    Checked {
        /// In the provider's source.
        Source = "source",
        /// In its documentation.
        Docs = "docs",
        /// In an issue or pull request.
        Issue = "issue",
        /// Not at all.
        Unverified = "unverified",
    }
}

words! {
    /// What holds for features that a profile does not list.
    Unlisted {
        /// They are supported.
        Supported = "supported",
        /// Nobody has looked.
        Unknown = "unknown",
    }
}

words! {
    /// Direction of traffic, from the pods that a policy is for.
    Direction {
        /// To them.
        Ingress = "ingress",
        /// From them.
        Egress = "egress",
    }
}

/// Profile of a provider.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The name by which it is chosen: `cilium`.
    pub name: String,
    /// The name in sentences: `Cilium`.
    pub title: String,
    /// Other names by which it is chosen.
    pub aliases: Vec<String>,
    /// The prefix of its conditions: `cilium.io`.
    pub domain: String,
    /// Which versions were looked at.
    pub versions: CheckedVersions,
    /// Builds and modes that differ: `windows`.
    pub variants: Vec<String>,
    /// Settings that change what is carried out, all off by default.
    pub options: BTreeMap<String, SettingOption>,
    /// A note on platforms.
    pub requires: Option<String>,
    /// CRDs of the provider's own kinds of policies, which restrict traffic as well.
    pub own_kinds: Vec<String>,
    /// Facts that no row can say.
    pub notes: Vec<String>,
    /// How it is found in a cluster.
    pub detect: Vec<Detect>,
    /// Rows by feature, in the order of the file: the first that fits counts.
    pub features: BTreeMap<Feature, Vec<Row>>,
    /// What holds for other features.
    pub unlisted: Unlisted,
    /// Limits, in the order of the file.
    pub limits: Vec<Limit>,
    /// The file it was read from.
    pub file: String,
}

/// Setting of a provider that changes what it carries out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingOption {
    /// What it is, as a noun phrase.
    pub title: String,
    /// Evidence that it is on, any of which suffices; empty if only a user knows.
    pub detect: Vec<DetectOption>,
}

/// Evidence in a cluster that an option is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DetectOption {
    /// A value in a ConfigMap.
    ConfigMap {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// The key.
        key: String,
        /// The value.
        value: String,
    },
    /// An argument of a container of the provider's workload.
    Argument {
        /// The container; None for any.
        container: Option<String>,
        /// The argument, whole: `--enable-network-policy=true`.
        value: String,
    },
}

/// The versions that a profile was made from; what it says holds for them alone.
#[derive(Clone, Debug)]
pub struct CheckedVersions {
    /// The first.
    pub from: Version,
    /// The last, its patch releases included.
    pub through: Version,
}

/// Evidence for a provider in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Detect {
    /// A workload, with the version in its image's tag.
    Workload {
        /// Its kind: `DaemonSet`.
        kind: String,
        /// Its namespaces; empty for any.
        namespaces: Vec<String>,
        /// Its names; empty for any.
        names: Vec<String>,
        /// The end of an image's repository, at a `/`: `cilium/cilium`.
        image: Option<String>,
        /// Where the version is.
        version: VersionFrom,
        /// The variant that this is evidence for.
        variant: Option<String>,
    },
    /// A CustomResourceDefinition, without a version.
    Crd {
        /// Its name: `ciliumnetworkpolicies.cilium.io`.
        name: String,
    },
}

/// Where a workload has its provider's version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionFrom {
    /// In the image's tag.
    Tag,
    /// In a label of the workload.
    Label(String),
    /// In an annotation of the workload.
    Annotation(String),
    /// In the kubelet version of the nodes.
    Kubelet,
    /// In a field of another object.
    Object {
        /// Its `apiVersion`.
        api_version: String,
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
        /// The field, with dots: `status.desired.version`.
        field: String,
    },
    /// Nowhere.
    None,
}

/// How a feature is carried out in some versions.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// In which.
    pub versions: VersionRange,
    /// How far.
    pub support: Support,
    /// What is done instead.
    pub carried_out: Option<CarriedOut>,
    /// What is left out.
    pub scope: Option<Scope>,
    /// In which circumstances.
    pub when: When,
    /// A sentence for users.
    pub note: Option<String>,
    /// Where it says so.
    pub source: Option<String>,
    /// How this was checked.
    pub checked: Checked,
    /// The line of the file, counted from 1.
    pub line: usize,
}

/// Circumstances of a row; what is None or empty does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct When {
    /// The direction.
    pub direction: Option<Direction>,
    /// The family of addresses.
    pub family: Option<Family>,
    /// One of these variants.
    pub variants: Vec<String>,
    /// With this option on.
    pub option: Option<String>,
}

/// Limit of a provider.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// What is counted.
    pub of: Count,
    /// How many are carried out.
    pub max: usize,
    /// In which versions.
    pub versions: VersionRange,
    /// In which circumstances.
    pub when: When,
    /// What happens with more.
    pub beyond: Support,
    /// What is done instead.
    pub carried_out: Option<CarriedOut>,
    /// What is left out.
    pub scope: Option<Scope>,
    /// A sentence for users.
    pub note: Option<String>,
    /// Where it says so.
    pub source: Option<String>,
    /// How this was checked.
    pub checked: Checked,
    /// The line of the file, counted from 1.
    pub line: usize,
}

//! Findings: what is probably not meant as it is written, for any provider.

use std::fmt;

use crate::index::Unread;
use crate::model::Place;

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident = $id:literal $level:ident,)*) => {
        /// Kind of a finding.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum FindingKind {
            $($(#[$doc])* $variant,)*
        }

        impl FindingKind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The text id.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $id,)*
                }
            }

            /// How bad it is.
            #[must_use]
            pub const fn level(self) -> Level {
                match self {
                    $(Self::$variant => Level::$level,)*
                }
            }
        }
    };
}

kinds! {
    /// The policy's namespace does not exist.
    NamespaceMissing = "namespace-missing" Warning,
    /// The policy is for no pod.
    SubjectEmpty = "subject-empty" Warning,
    /// A peer is no pod or node.
    PeerEmpty = "peer-empty" Warning,
    /// A peer's namespaces do not exist.
    PeerWithoutNamespace = "peer-without-namespace" Warning,
    /// A selector contradicts itself.
    SelectorContradictory = "selector-contradictory" Warning,
    /// No pod that the traffic goes to has the named port.
    NamedPortMissing = "named-port-missing" Warning,
    /// The named port is another number in different pods.
    NamedPortAmbiguous = "named-port-ambiguous" Warning,
    /// Pods have the named port with another protocol.
    NamedPortOtherProtocol = "named-port-other-protocol" Warning,
    /// A port has no protocol, which is TCP.
    PortWithoutProtocol = "port-without-protocol" Info,
    /// An exception is not within its block.
    ExceptNotSubset = "except-not-subset" Warning,
    /// Exceptions overlap.
    ExceptOverlapping = "except-overlapping" Info,
    /// Exceptions leave nothing of their block.
    ExceptCoversBlock = "except-covers-block" Warning,
    /// A block has addresses of pods.
    BlockOverPods = "block-over-pods" Info,
    /// A block has addresses of nodes.
    BlockOverNodes = "block-over-nodes" Info,
    /// A block has cluster IPs of Services.
    BlockOverServices = "block-over-services" Warning,
    /// The policy is for pods that use their node's network.
    HostNetworkPods = "host-network-pods" Warning,
    /// The policy is for pods without an owner reference.
    UnownedPods = "unowned-pods" Info,
    /// A rule, peer or port is there twice.
    Duplicate = "duplicate" Info,
    /// Pods are isolated by this policy alone, and it is not carried out.
    DefaultDenyRejected = "default-deny-rejected" Warning,
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Worth knowing.
    Info,
    /// Probably a mistake.
    Warning,
}

/// What is probably not meant as it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its kind.
    pub kind: FindingKind,
    /// The field.
    pub place: Place,
    /// A sentence.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} [{}]", self.place, self.message, self.kind)
    }
}

/// Findings that are missing, since objects of the cluster were not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingFindings {
    /// The kind of objects, in the plural: `pods`; `cluster` if there is no snapshot at all.
    pub objects: &'static str,
    /// Why they were not read.
    pub reason: String,
    /// What was not looked for.
    pub kinds: Vec<FindingKind>,
}

/// Maximum number of listed findings of a policy.
const MAX_FINDINGS: usize = 1000;

/// Findings of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// What was found, by kind of check.
    pub list: Vec<Finding>,
    /// How many more were found than are listed.
    pub more: usize,
    /// What was not looked for. Without an entry, a policy without findings is clean.
    pub missing: Vec<MissingFindings>,
}

impl Findings {
    pub(super) fn push(&mut self, kind: FindingKind, place: &Place, message: impl Into<String>) {
        if self.list.len() < MAX_FINDINGS {
            self.list.push(Finding { kind, place: place.clone(), message: message.into() });
        } else {
            self.more += 1;
        }
    }

    pub(super) fn miss(&mut self, kinds: &[FindingKind], unread: &Unread) {
        self.miss_for(kinds, unread.objects, &unread.reason);
    }

    pub(super) fn miss_for(&mut self, kinds: &[FindingKind], objects: &'static str, reason: &str) {
        let position = self.missing.iter().position(|missing| missing.objects == objects);
        let missing = match position.and_then(|position| self.missing.get_mut(position)) {
            Some(missing) => missing,
            None => {
                self.missing.push(MissingFindings { objects, reason: reason.to_owned(), kinds: Vec::new() });
                let Some(last) = self.missing.last_mut() else { return };
                last
            }
        };
        for kind in kinds {
            if !missing.kinds.contains(kind) {
                missing.kinds.push(*kind);
            }
        }
    }
}

//! Set of policies to evaluate: as they are written, or as a provider carries them out.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::outcome::UnknownReason;
use crate::model::{Kind, Place, Policy};

/// Policies to evaluate.
#[derive(Clone, Debug, Default)]
pub struct View<'a> {
    pub(crate) entries: Vec<Entry<'a>>,
    pub(crate) unread: Vec<UnreadPolicies>,
}

/// A policy with what the data plane does differently and the model cannot express.
#[derive(Clone, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) policy: Cow<'a, Policy>,
    pub(crate) exceptions: Exceptions,
}

/// Deviations of a data plane from a policy.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exceptions {
    /// Peers by address that never match pods.
    pub(crate) never_pods: BTreeSet<Place>,
    /// Peers by address that never match nodes.
    pub(crate) never_nodes: BTreeSet<Place>,
    /// Named ports that are, for every pod, each number that the name has in any pod.
    pub(crate) named_in_any_pod: BTreeSet<Place>,
    /// Pods without an owner reference are not subjects.
    pub(crate) skips_unowned: bool,
    /// Places of rules, peers and ports whose effect is undefined, with the reason. Undefined is whether they match.
    pub(crate) undefined: Vec<(Place, Arc<str>)>,
    /// The effect of the whole policy is undefined, with the reason.
    pub(crate) undefined_policy: Option<Arc<str>>,
}

impl Exceptions {
    /// Why the effect of what stands at this place is undefined.
    pub(crate) fn undefined_at(&self, place: &Place) -> Option<&Arc<str>> {
        self.undefined.iter().find(|(undefined, _)| undefined == place).map(|(_, reason)| reason)
    }
}

/// Policies that exist or may exist, and whose content is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadPolicies {
    /// Their kind.
    pub kind: Kind,
    /// Their namespace; None if all are meant, and for cluster-scoped kinds.
    pub namespace: Option<Arc<str>>,
    /// Why, for example "forbidden" or "invalid: spec.podSelector: …".
    pub reason: Arc<str>,
}

impl<'a> View<'a> {
    /// Policies as they are written.
    #[must_use]
    pub fn as_written(policies: &'a [Policy]) -> Self {
        Self::from_policies(policies.iter())
    }

    /// Policies as they are written, from any collection of them.
    #[must_use]
    pub fn from_policies(policies: impl IntoIterator<Item = &'a Policy>) -> Self {
        let entries = policies
            .into_iter()
            .map(|policy| Entry { policy: Cow::Borrowed(policy), exceptions: Exceptions::default() })
            .collect();
        Self { entries, unread: Vec::new() }
    }

    /// Adds policies whose content is not known: what they could change is Unknown.
    #[must_use]
    pub fn with_unread(mut self, unread: impl IntoIterator<Item = UnreadPolicies>) -> Self {
        self.unread.extend(unread);
        self
    }
}

impl UnreadPolicies {
    pub(super) fn reason(&self) -> UnknownReason {
        UnknownReason::Policies {
            kind: self.kind,
            namespace: self.namespace.clone(),
            reason: Arc::clone(&self.reason),
        }
    }
}

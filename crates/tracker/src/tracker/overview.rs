//! The overview of a namespace or cluster: which kinds it lists, and which objects stand for others in it.

use std::sync::Arc;

use settled_watch::{Resource, Resources};

use super::Tracker;
use crate::ids::{StreamId, TargetId};
use crate::record::Record;
use crate::report::{Counts, Outcome, State};

/// How many custom kinds an overview lists.
const CUSTOM_KINDS_MAX: usize = 50;
/// What is deployed besides the category `all`.
const MORE_KINDS: [(&str, &str); 2] = [("", "persistentvolumeclaims"), ("networking.k8s.io", "ingresses")];
/// API groups of Kubernetes whose names do not end with `.k8s.io`.
const BUILT_IN_GROUPS: [&str; 6] = ["", "apps", "autoscaling", "batch", "extensions", "policy"];
/// API groups of Kubernetes and of its aggregated servers; others in `k8s.io` are those of CRDs.
const BUILT_IN_K8S_GROUPS: [&str; 19] = [
    "admissionregistration",
    "apiextensions",
    "apiregistration",
    "authentication",
    "authorization",
    "certificates",
    "coordination",
    "custom.metrics",
    "discovery",
    "events",
    "external.metrics",
    "flowcontrol.apiserver",
    "internal.apiserver",
    "metrics",
    "networking",
    "node",
    "rbac.authorization",
    "scheduling",
    "storage",
];

/// Which kinds an overview is made of; see [`KindName::Overview`](crate::request::KindName::Overview).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overview {
    /// How many kinds are listed, or were tried.
    pub kinds: usize,
    /// Kinds that may not be listed, such as `deployments.apps`; once for each namespace.
    pub forbidden: Vec<String>,
    /// How many custom kinds are left out because there are too many.
    pub left_out: usize,
}

impl Overview {
    /// Whether nothing at all may be listed.
    #[must_use]
    pub fn is_forbidden(&self) -> bool {
        self.kinds > 0 && self.forbidden.len() >= self.kinds
    }
}

/// Whether a group is of custom resources.
fn is_custom(group: &str) -> bool {
    match group.strip_suffix(".k8s.io") {
        // `resource.k8s.io` and `storagemigration.k8s.io` hold nothing that is deployed.
        Some(name) => {
            !BUILT_IN_K8S_GROUPS.contains(&name) && !matches!(name, "resource" | "storagemigration")
        }
        None => !BUILT_IN_GROUPS.contains(&group),
    }
}

/// The kinds of an overview, and how many custom ones are left out.
fn kinds(resources: &Resources) -> (Vec<Arc<Resource>>, usize) {
    let mut kinds = resources.category("all");
    let listable = |r: &&Arc<Resource>| r.namespaced && r.list && r.watch;
    let is_new = |r: &&Arc<Resource>, kinds: &[Arc<Resource>]| {
        !kinds.iter().any(|known| (&known.group, &known.plural) == (&r.group, &r.plural))
    };
    let more = resources
        .preferred()
        .filter(|r| MORE_KINDS.contains(&(&*r.group, &*r.plural)) && is_new(r, &kinds))
        .cloned()
        .collect::<Vec<_>>();
    kinds.extend(more);
    let custom: Vec<_> =
        resources.preferred().filter(listable).filter(|r| is_custom(&r.group) && is_new(r, &kinds)).collect();
    let left_out = custom.len().saturating_sub(CUSTOM_KINDS_MAX);
    kinds.extend(custom.into_iter().take(CUSTOM_KINDS_MAX).cloned());
    kinds.retain(|kind| kind.list);
    (kinds, left_out)
}

impl Tracker {
    /// Which kinds the overview is made of, if one was asked for.
    #[must_use]
    pub fn overview(&self) -> Option<&Overview> {
        self.overview.as_ref()
    }

    /// The kinds of an overview, which is noted as one.
    pub(super) fn overview_kinds(&mut self) -> Vec<Arc<Resource>> {
        let (kinds, left_out) = kinds(&self.resources);
        let overview = self.overview.get_or_insert_default();
        overview.kinds += kinds.len();
        overview.left_out = left_out;
        kinds
    }

    /// A kind of an overview that may not be listed is left out. False: the stream is not one of an overview.
    pub(super) fn leave_out(&mut self, number: StreamId) -> bool {
        let (Some(overview), Some(stream)) = (&mut self.overview, self.streams.get_mut(number)) else {
            return false;
        };
        if !stream.of_category {
            return false;
        }
        overview.forbidden.push(stream.spec.scope.resource.qualified());
        (stream.ended, stream.synced, stream.seen) = (true, true, true);
        stream.task.abort();
        true
    }

    /// Whether the overview shows the owner of this object instead.
    pub(super) fn is_folded(&self, number: TargetId) -> bool {
        let record = || self.graph.get(&self.targets.get(number)?.id);
        let is_target = |owner: &Record| self.target_id(&owner.id).is_some();
        self.overview.is_some()
            && record().is_some_and(|record| {
                record.owners.iter().any(|owner| self.graph.by_uid(owner).is_some_and(is_target))
            })
    }

    /// How many targets are in which state; of an overview, without those whose owner is one.
    pub(super) fn shown_counts(&self) -> Counts {
        if self.overview.is_none() {
            return self.policy.counts();
        }
        let mut counts = Counts::default();
        let states = self.targets.ids().filter(|number| !self.is_folded(*number));
        for state in states.filter_map(|number| self.policy.state(number)) {
            counts.total += 1;
            match state {
                State::Done => counts.done += 1,
                State::Waiting => counts.waiting += 1,
                State::Failed => counts.failed += 1,
                State::Skipped => counts.skipped += 1,
            }
        }
        counts
    }

    /// How an overview ends: by the objects that it shows.
    pub(super) fn overview_outcome(&self, outcome: Outcome) -> Outcome {
        let decided = matches!(outcome, Outcome::Settled | Outcome::Failed | Outcome::TimedOut);
        match &self.overview {
            Some(overview) if overview.is_forbidden() => Outcome::Unreachable,
            Some(_) if decided => match self.shown_counts() {
                Counts { failed: 1.., .. } => Outcome::Failed,
                Counts { waiting: 1.., .. } => Outcome::TimedOut,
                _ => Outcome::Settled,
            },
            _ => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_kubernetes_are_no_custom_ones() {
        for group in ["", "apps", "batch", "networking.k8s.io", "metrics.k8s.io", "resource.k8s.io"] {
            assert!(!is_custom(group), "{group}");
        }
        for group in ["gateway.networking.k8s.io", "snapshot.storage.k8s.io", "cert-manager.io", "x-k8s.io"] {
            assert!(is_custom(group), "{group}");
        }
    }

    fn resource(group: &str, plural: &str, category: &str) -> Resource {
        Resource {
            group: group.into(),
            version: "v1".into(),
            kind: plural.into(),
            plural: plural.into(),
            singular: plural.into(),
            short_names: Box::default(),
            categories: [category.into()].into(),
            namespaced: true,
            list: true,
            watch: true,
        }
    }

    #[test]
    fn kinds_that_are_deployed_are_listed_and_not_too_many() {
        let cluster_scoped = Resource { namespaced: false, ..resource("cert-manager.io", "issuers", "") };
        let read_only = Resource { watch: false, ..resource("example.com", "metrics", "") };
        let built_in = [
            resource("", "pods", "all"),
            resource("", "configmaps", ""),
            resource("", "persistentvolumeclaims", ""),
            resource("networking.k8s.io", "ingresses", ""),
            resource("networking.k8s.io", "networkpolicies", ""),
            resource("example.com", "widgets", "all"),
            resource("cert-manager.io", "certificates", ""),
            cluster_scoped,
            read_only,
        ];
        let names =
            |kinds: &[Arc<Resource>]| kinds.iter().map(|kind| kind.plural.to_string()).collect::<Vec<_>>();
        let (listed, left_out) = kinds(&Resources::new(built_in.to_vec()));
        let expected = ["pods", "widgets", "persistentvolumeclaims", "ingresses", "certificates"];
        assert_eq!((names(&listed), left_out), (expected.map(str::to_owned).to_vec(), 0));
        let many = (0..60).map(|number| resource("example.com", &format!("kind{number}"), ""));
        let (listed, left_out) = kinds(&Resources::new(many.collect()));
        assert_eq!((listed.len(), left_out), (50, 10));
    }
}

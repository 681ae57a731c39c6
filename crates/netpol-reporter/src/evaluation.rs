//! Evaluation of the policies of whole namespaces: the conditions and rules to report for each.
//!
//! A verdict depends on the provider and on the other policies of the namespace, which may isolate the same pods or count towards the
//! same limit. It depends on no other namespace, so that a change costs as much as its namespace has policies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use settled_controller::ObjectKey;
use settled_netpol::cluster::{Cluster, Known};
use settled_netpol::conditions::{self, Condition};
use settled_netpol::index::ClusterIndex;
use settled_netpol::parse::Parsed;
use settled_netpol::profile::{Profiles, ProviderRef};
use settled_netpol::verdict::{Deviation, ErrorDirection, Evaluator, Outcome, PolicyVerdict};

use crate::detection::Providers;

/// Maximum number of rules in a report.
const MAX_RULES: usize = 100;
/// Why pods and the like are not known.
const NOT_READ: &str = "the reporter does not read them";

/// A policy as it was read.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    pub(crate) uid: String,
    pub(crate) parsed: Arc<Parsed>,
}

/// What is to be reported for a policy.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Desired {
    /// The incarnation that was evaluated.
    pub(crate) uid: String,
    /// Its generation.
    pub(crate) generation: i64,
    pub(crate) conditions: Vec<Condition>,
    /// What is not carried out as written, for a report.
    pub(crate) rules: Vec<Value>,
}

/// Policies by namespace.
pub(crate) type Policies = BTreeMap<Arc<str>, BTreeMap<ObjectKey, Observed>>;

/// The number of policies by provider and outcome.
pub(crate) type Totals = BTreeMap<(String, &'static str), i64>;

/// What is to be reported in one namespace.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    desired: BTreeMap<ObjectKey, Arc<Desired>>,
    totals: Totals,
}

impl Part {
    fn new(policies: &BTreeMap<ObjectKey, Observed>) -> Self {
        let desired = policies.iter().map(|(key, observed)| {
            let desired = Desired {
                uid: observed.uid.clone(),
                generation: observed.parsed.generation.unwrap_or_default(),
                conditions: Vec::new(),
                rules: Vec::new(),
            };
            (key.clone(), Arc::new(desired))
        });
        Self { desired: desired.collect(), totals: Totals::new() }
    }

    fn add(
        &mut self,
        key: &ObjectKey,
        (provider, outcome): (&str, Outcome),
        conditions: [Condition; 3],
        rules: Vec<Value>,
    ) {
        *self.totals.entry((provider.to_owned(), word(outcome))).or_default() += 1;
        let Some(desired) = self.desired.get_mut(key) else { return };
        let desired = Arc::make_mut(desired);
        desired.conditions.extend(conditions);
        let room = MAX_RULES.saturating_sub(desired.rules.len());
        desired.rules.extend(rules.into_iter().take(room));
    }
}

/// What is to be reported for all policies.
#[derive(Debug, Default)]
pub(crate) struct Evaluation {
    parts: BTreeMap<Arc<str>, Part>,
    totals: Totals,
}

impl Evaluation {
    /// What is to be reported for a policy.
    pub(crate) fn desired(&self, key: &ObjectKey) -> Option<Arc<Desired>> {
        self.parts.get(&key.namespace)?.desired.get(key).cloned()
    }

    /// A policy that was evaluated.
    pub(crate) fn first(&self) -> Option<ObjectKey> {
        self.parts.values().find_map(|part| part.desired.keys().next()).cloned()
    }

    pub(crate) const fn totals(&self) -> &Totals {
        &self.totals
    }

    /// Takes new evaluations of whole namespaces. Returns the policies whose verdict changed.
    pub(crate) fn take(&mut self, parts: BTreeMap<Arc<str>, Part>) -> Vec<ObjectKey> {
        let mut changed = Vec::new();
        for (namespace, new) in parts {
            for (label, count) in &new.totals {
                *self.totals.entry(label.clone()).or_default() += count;
            }
            let old = if new.desired.is_empty() {
                self.parts.remove(&namespace)
            } else {
                self.parts.insert(namespace.clone(), new)
            };
            let old = old.unwrap_or_default();
            for (label, count) in &old.totals {
                *self.totals.entry(label.clone()).or_default() -= count;
            }
            let Some(new) = self.parts.get(&namespace) else { continue };
            let is_new =
                |(key, desired): &(&ObjectKey, &Arc<Desired>)| old.desired.get(*key) != Some(*desired);
            changed.extend(new.desired.iter().filter(is_new).map(|(key, _)| key.clone()));
        }
        changed
    }
}

/// Evaluates the policies of these namespaces by all providers of the cluster. No snapshot of pods is taken: what depends on pods, nodes
/// or Services is left to `settled netpol check`.
pub(crate) fn evaluate(
    profiles: &Profiles,
    providers: &Providers,
    policies: &Policies,
) -> BTreeMap<Arc<str>, Part> {
    let mut parts: BTreeMap<Arc<str>, Part> =
        policies.iter().map(|(namespace, policies)| (namespace.clone(), Part::new(policies))).collect();
    let mut add = |key: &ObjectKey, outcome, conditions, rules| {
        if let Some(part) = parts.get_mut(&key.namespace) {
            part.add(key, outcome, conditions, rules);
        }
    };
    let all = || policies.values().flatten();
    if let Some(reason) = &providers.unknown {
        for (key, observed) in all() {
            let unknown = conditions::unknown_provider(observed.parsed.generation, reason);
            add(key, ("", Outcome::Unknown), unknown, Vec::new());
        }
        return parts;
    }
    let cluster = unread();
    let index = ClusterIndex::new(&cluster);
    for reference in &providers.found {
        let prefix = prefix(profiles, &providers.found, reference);
        match profiles.provider(reference) {
            Ok(provider) => {
                let parsed = all().map(|(_, observed)| &*observed.parsed);
                let evaluator = Evaluator::new(&provider, parsed, Some(&index));
                for (key, observed) in all() {
                    let verdict = evaluator.check(&observed.parsed);
                    let conditions = conditions::conditions(&verdict, prefix.as_deref());
                    let rules = rules(reference, &verdict);
                    add(key, (&reference.name, verdict.outcome), conditions, rules);
                }
            }
            Err(error) => {
                let reason = error.to_string();
                for (key, observed) in all() {
                    let unknown = conditions::unknown_provider(observed.parsed.generation, &reason);
                    let unknown = unknown.map(|condition| prefixed(condition, prefix.as_deref()));
                    add(key, (&reference.name, Outcome::Unknown), unknown, Vec::new());
                }
            }
        }
    }
    parts
}

/// A cluster of which nothing is known.
fn unread() -> Cluster {
    Cluster {
        namespaces: Known::Unread(NOT_READ.into()),
        pods: Known::Unread(NOT_READ.into()),
        nodes: Known::Unread(NOT_READ.into()),
        services: Known::Unread(NOT_READ.into()),
    }
}

fn prefixed(mut condition: Condition, prefix: Option<&str>) -> Condition {
    if let Some(prefix) = prefix {
        condition.condition_type = format!("{prefix}/{}", condition.condition_type);
    }
    condition
}

/// The prefix of a provider's conditions: none if it is the only one, else its domain, with version, variant or name in front where
/// that alone is not unique.
fn prefix(profiles: &Profiles, found: &[ProviderRef], reference: &ProviderRef) -> Option<String> {
    if found.len() < 2 {
        return None;
    }
    let domain = profiles.get(&reference.name).map_or_else(
        || format!("{}.netpol.settled.dev", label(&reference.name)),
        |profile| profile.domain.clone(),
    );
    let same = || found.iter().filter(|other| other.name == reference.name);
    let variants: BTreeSet<_> = same().map(|other| &other.variant).collect();
    let versions: BTreeSet<_> =
        same().filter(|other| other.variant == reference.variant).map(|other| &other.version).collect();
    let domain_of = |other: &ProviderRef| profiles.get(&other.name).map(|profile| &profile.domain);
    let is_shared = found
        .iter()
        .any(|other| other.name != reference.name && domain_of(other).is_some_and(|other| *other == domain));
    let mut labels = Vec::new();
    if versions.len() > 1 {
        labels.extend(reference.version.as_deref().map(label));
    }
    if variants.len() > 1 {
        labels.extend(reference.variant.as_deref().map(label));
    }
    // Distributions of one provider may have its domain.
    labels.extend(is_shared.then(|| label(&reference.name)));
    labels.push(domain);
    Some(labels.join("."))
}

/// A text as a label of a domain name: lowercase letters, digits, and dashes within.
fn label(text: &str) -> String {
    let text = text.to_lowercase().replace(|c: char| !c.is_ascii_lowercase() && !c.is_ascii_digit(), "-");
    let text: String = text.trim_matches('-').chars().take(63).collect();
    text.trim_end_matches('-').to_owned()
}

const fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Accepted => "Accepted",
        Outcome::PartialFailure => "PartialFailure",
        Outcome::Failure => "Failure",
        Outcome::Unknown => "Unknown",
    }
}

const fn effect(error: ErrorDirection) -> &'static str {
    match error {
        ErrorDirection::More => "AllowsMore",
        ErrorDirection::Less => "AllowsLess",
        ErrorDirection::Either => "AllowsMoreOrLess",
        ErrorDirection::Same => "None",
    }
}

fn rules(reference: &ProviderRef, verdict: &PolicyVerdict) -> Vec<Value> {
    let rule = |deviation: &Deviation| {
        let mut rule = json!({
            "provider": reference.to_string(),
            "field": deviation.place.to_string(),
            "feature": deviation.subject.as_str(),
            "effect": effect(deviation.error),
            "message": deviation.message,
        });
        if let Some(direction) = deviation.direction {
            rule["direction"] = direction.as_str().into();
        }
        if let Some(since) = &deviation.supported_since {
            rule["supportedSince"] = since.as_str().into();
        }
        if let Some(source) = &deviation.source {
            rule["source"] = source.as_str().into();
        }
        rule
    };
    verdict.deviations.iter().take(MAX_RULES).map(rule).collect()
}

#[cfg(test)]
mod tests {
    use settled_netpol::parse::parse_policy;

    use super::*;

    fn providers(names: &[&str]) -> Providers {
        Providers { found: names.iter().map(|name| name.parse().unwrap()).collect(), unknown: None }
    }

    fn policy(namespace: &str, name: &str, generation: i64, spec: &Value) -> (ObjectKey, Observed) {
        let object = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": name, "namespace": namespace, "uid": "1", "generation": generation},
            "spec": spec,
        });
        let parsed = Arc::new(parse_policy(&object, namespace).unwrap());
        (ObjectKey::new(namespace, name), Observed { uid: "1".to_owned(), parsed })
    }

    fn by_namespace(list: impl IntoIterator<Item = (ObjectKey, Observed)>) -> Policies {
        let mut policies = Policies::new();
        for (key, observed) in list {
            policies.entry(key.namespace.clone()).or_default().insert(key, observed);
        }
        policies
    }

    fn policies() -> Policies {
        let spec = json!({
            "podSelector": {}, "policyTypes": ["Egress"], "egress": [{"ports": [{"port": 30000, "endPort": 32000}]}],
        });
        by_namespace([policy("default", "a", 3, &spec)])
    }

    /// Type and status of each condition.
    fn found(providers: &Providers) -> Vec<(String, String)> {
        let mut evaluation = Evaluation::default();
        let changed = evaluation.take(evaluate(&Profiles::embedded().0, providers, &policies()));
        let desired = evaluation.desired(&changed[0]).unwrap();
        assert!(desired.conditions.iter().all(|condition| condition.observed_generation == 3));
        let text = |condition: &Condition| (condition.condition_type.clone(), condition.status.to_string());
        desired.conditions.iter().map(text).collect()
    }

    fn expected(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, status)| ((*name).to_owned(), (*status).to_owned())).collect()
    }

    #[test]
    fn one_provider_has_no_prefix_and_several_have_their_domains() {
        let one = expected(&[("Accepted", "False"), ("PartialFailure", "True"), ("Failure", "False")]);
        assert_eq!(found(&providers(&["cilium@1.15.0"])), one);
        let two = [
            ("cilium.io/Accepted", "False"),
            ("cilium.io/PartialFailure", "True"),
            ("cilium.io/Failure", "False"),
            ("antrea.io/Accepted", "True"),
            ("antrea.io/PartialFailure", "False"),
            ("antrea.io/Failure", "False"),
        ];
        assert_eq!(found(&providers(&["cilium@1.15.0", "antrea@2.0.0"])), expected(&two));
    }

    #[test]
    fn versions_of_one_provider_do_not_share_conditions() {
        let list = found(&providers(&["cilium@v1.15.0", "cilium@v1.16.0"]));
        let of = |name: &str| list.iter().find(|(found, _)| found == name).map(|(_, status)| status.as_str());
        assert_eq!(of("v1-15-0.cilium.io/Accepted"), Some("False"), "{list:?}");
        assert_eq!(of("v1-16-0.cilium.io/Accepted"), Some("True"), "{list:?}");
    }

    #[test]
    fn what_is_unknown_is_not_accepted() {
        let unknown =
            expected(&[("Accepted", "Unknown"), ("PartialFailure", "Unknown"), ("Failure", "Unknown")]);
        for names in [&["nobody@1.0"][..], &["cilium"], &["cilium@99.0"]] {
            assert_eq!(found(&providers(names)), unknown, "{names:?}");
        }
        let none = Providers { found: Vec::new(), unknown: Some("not readable".to_owned()) };
        assert_eq!(found(&none), unknown);
    }

    /// Namespace by namespace, the verdicts are those of all policies at once, and a change is that of its namespace.
    #[test]
    fn namespaces_do_not_depend_on_each_other() {
        let deny = json!({"podSelector": {}, "policyTypes": ["Egress"]});
        let web = json!({
            "podSelector": {"matchLabels": {"app": "web"}}, "policyTypes": ["Egress"],
            "egress": [{"ports": [{"port": 30000, "endPort": 32000}]}],
        });
        // Each provider loses another part: a range, a direction, a policy, and a limit over all policies.
        for name in [
            "cilium@1.15.0",
            "openshift-sdn@4.10.0",
            "flannel@0.25.0",
            "aws-vpc-cni@1.18.0",
            "kube-router@1.5.0",
        ] {
            let providers = providers(&[name]);
            let profiles = Profiles::embedded().0;
            let list = || {
                ["one", "two", "three"].into_iter().flat_map(|namespace| {
                    let web = policy(namespace, "web", 1, &web);
                    let deny = (namespace != "two").then(|| policy(namespace, "deny", 1, &deny));
                    std::iter::once(web).chain(deny)
                })
            };
            let mut whole = Evaluation::default();
            assert_eq!(whole.take(evaluate(&profiles, &providers, &by_namespace(list()))).len(), 5, "{name}");
            let mut single = Evaluation::default();
            for (namespace, policies) in by_namespace(list()) {
                let policies = Policies::from([(namespace, policies)]);
                single.take(evaluate(&profiles, &providers, &policies));
            }
            for (key, _) in list() {
                assert_eq!(whole.desired(&key), single.desired(&key), "{name} {key}");
            }
            assert_eq!(whole.totals(), single.totals(), "{name}");
            assert_eq!(whole.totals().values().sum::<i64>(), 5, "{name}");

            // A new generation is a change of that policy only; what is the same is not written again.
            let changed = by_namespace([policy("two", "web", 2, &web)]);
            let changed = whole.take(evaluate(&profiles, &providers, &changed));
            assert_eq!(changed, [ObjectKey::new("two", "web")], "{name}");
            // The last policy of a namespace goes.
            let gone = Policies::from([("two".into(), BTreeMap::new())]);
            assert_eq!(whole.take(evaluate(&profiles, &providers, &gone)), [], "{name}");
            assert_eq!(whole.desired(&ObjectKey::new("two", "web")), None, "{name}");
            assert_eq!(whole.totals().values().sum::<i64>(), 4, "{name}");
        }
    }
}

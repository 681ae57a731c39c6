//! Evaluation of all policies at once: the conditions and rules to report for each.

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

/// The number of policies by provider and outcome.
pub(crate) type Totals = BTreeMap<(String, &'static str), i64>;

/// Result of an evaluation.
#[derive(Debug, Default)]
pub(crate) struct Evaluation {
    pub(crate) desired: BTreeMap<ObjectKey, Arc<Desired>>,
    pub(crate) totals: Totals,
}

impl Evaluation {
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

/// Evaluates all policies by all providers of the cluster. No snapshot of pods is taken: what depends on pods, nodes or Services is left
/// to `settled netpol check`.
pub(crate) fn evaluate(
    profiles: &Profiles,
    providers: &Providers,
    policies: &BTreeMap<ObjectKey, Observed>,
) -> Evaluation {
    let mut evaluation = Evaluation::new(policies);
    if let Some(reason) = &providers.unknown {
        for (key, observed) in policies {
            let unknown = conditions::unknown_provider(observed.parsed.generation, reason);
            evaluation.add(key, ("", Outcome::Unknown), unknown, Vec::new());
        }
        return evaluation;
    }
    let cluster = unread();
    let index = ClusterIndex::new(&cluster);
    for reference in &providers.found {
        let prefix = prefix(profiles, &providers.found, reference);
        match profiles.provider(reference) {
            Ok(provider) => {
                let all = policies.values().map(|observed| &*observed.parsed);
                let evaluator = Evaluator::new(&provider, all, Some(&index));
                for (key, observed) in policies {
                    let verdict = evaluator.check(&observed.parsed);
                    let conditions = conditions::conditions(&verdict, prefix.as_deref());
                    let rules = rules(reference, &verdict);
                    evaluation.add(key, (&reference.name, verdict.outcome), conditions, rules);
                }
            }
            Err(error) => {
                let reason = error.to_string();
                for (key, observed) in policies {
                    let unknown = conditions::unknown_provider(observed.parsed.generation, &reason);
                    let unknown = unknown.map(|condition| prefixed(condition, prefix.as_deref()));
                    evaluation.add(key, (&reference.name, Outcome::Unknown), unknown, Vec::new());
                }
            }
        }
    }
    evaluation
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

    fn policies() -> BTreeMap<ObjectKey, Observed> {
        let object = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": "a", "namespace": "default", "uid": "1", "generation": 3},
            "spec": {"podSelector": {}, "policyTypes": ["Egress"], "egress": [{"ports": [{"port": 30000, "endPort": 32000}]}]},
        });
        let parsed = Arc::new(parse_policy(&object, "default").unwrap());
        BTreeMap::from([(ObjectKey::new("default", "a"), Observed { uid: "1".to_owned(), parsed })])
    }

    /// Type and status of each condition.
    fn found(providers: &Providers) -> Vec<(String, String)> {
        let evaluation = evaluate(&Profiles::embedded().0, providers, &policies());
        let desired = evaluation.desired.values().next().unwrap();
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
}

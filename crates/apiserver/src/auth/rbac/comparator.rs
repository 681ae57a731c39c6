//! Comparison of rules for escalation checks: upstream's `policy_comparator.go` and `policy_compact.go`.

use std::collections::BTreeMap;

use super::rule::{PolicyRule, has, has_or_star, url_owns};
use crate::auth::quote_all;

/// Maximum number of comparisons of an escalation check. A role of 1 MB can have more combinations of verbs, groups and
/// resources than can be compared; realistic roles need less than a thousandth of this.
const MAX_COMPARISONS: usize = 20_000_000;
/// Maximum number of missing permissions, after which the check stops.
const MAX_MISSING: usize = 5_000;

/// `Covers`: the parts of the wanted rules that no owned rule covers, and whether the comparison is complete.
pub(super) fn not_covered(owned: &[&PolicyRule], wanted: &[PolicyRule]) -> (Vec<PolicyRule>, bool) {
    let star = |texts: &[String]| has(texts, "*");
    let everything = |rule: &&&PolicyRule| {
        star(&rule.verbs) && star(&rule.api_groups) && star(&rule.resources) && rule.resource_names.is_empty()
    };
    let all_resources = owned.iter().find(everything).is_some();
    let mut work = 0_usize;
    let mut missing = Vec::new();
    for rule in wanted {
        if all_resources && rule.non_resource_urls.is_empty() {
            continue;
        }
        for part in breakdown_rule(rule) {
            let mut covered = false;
            for own in owned {
                work = work.saturating_add(weight(own));
                if rule_covers(own, &part) {
                    covered = true;
                    break;
                }
            }
            work = work.saturating_add(1);
            if !covered {
                missing.push(part);
            }
            if work > MAX_COMPARISONS || missing.len() > MAX_MISSING {
                return (missing, false);
            }
        }
    }
    (missing, true)
}

/// `CompactRules`: merges the verbs of rules for the same resource. The rules must be results of [`breakdown_rule`].
pub(super) fn compact(parts: Vec<PolicyRule>) -> Vec<PolicyRule> {
    let mut out = Vec::new();
    let mut by_resource: BTreeMap<[Vec<String>; 3], Vec<String>> = BTreeMap::new();
    for part in parts {
        if part.non_resource_urls.is_empty() {
            let key = [part.api_groups, part.resources, part.resource_names];
            by_resource.entry(key).or_default().extend(part.verbs);
        } else {
            out.push(part);
        }
    }
    out.extend(by_resource.into_iter().map(|([api_groups, resources, resource_names], verbs)| PolicyRule {
        verbs,
        api_groups,
        resources,
        resource_names,
        non_resource_urls: Vec::new(),
    }));
    out
}

/// `PolicyRule.String`: the rule in upstream's messages.
pub(super) fn describe(rule: &PolicyRule) -> String {
    let fields = [
        ("APIGroups", &rule.api_groups),
        ("Resources", &rule.resources),
        ("NonResourceURLs", &rule.non_resource_urls),
        ("ResourceNames", &rule.resource_names),
        ("Verbs", &rule.verbs),
    ];
    let fields = fields.into_iter().filter(|(_, texts)| !texts.is_empty());
    let fields: Vec<String> = fields.map(|(name, texts)| format!("{name}:{}", quote_all(texts))).collect();
    format!("{{{}}}", fields.join(", "))
}

/// `ruleCovers`: whether a rule covers a part, which has at most one item in each list.
fn rule_covers(rule: &PolicyRule, part: &PolicyRule) -> bool {
    let verb = part.verbs.iter().all(|verb| has_or_star(&rule.verbs, verb));
    let group = part.api_groups.iter().all(|group| has_or_star(&rule.api_groups, group));
    let resource = part.resources.iter().all(|wanted| {
        has_or_star(&rule.resources, wanted)
            || wanted
                .split_once('/')
                .is_some_and(|(_, sub)| rule.resources.iter().any(|own| own.strip_prefix("*/") == Some(sub)))
    });
    let names = &rule.resource_names;
    let name = match part.resource_names.as_slice() {
        [] => names.is_empty(),
        wanted => names.is_empty() || wanted.iter().all(|name| has(names, name)),
    };
    let owned = &rule.non_resource_urls;
    let url = part.non_resource_urls.iter().all(|url| owned.iter().any(|own| url_owns(own, url)));
    verb && group && resource && name && url
}

/// Cost of a comparison with the rule.
fn weight(rule: &PolicyRule) -> usize {
    rule.key().iter().map(|texts| texts.len()).sum::<usize>() + 1
}

/// `BreakdownRule`: splits a rule into rules with one item in each list.
fn breakdown_rule(rule: &PolicyRule) -> impl Iterator<Item = PolicyRule> {
    let names: Vec<Option<&String>> = match rule.resource_names.as_slice() {
        [] => vec![None],
        names => names.iter().map(Some).collect(),
    };
    let resources = rule.api_groups.iter().flat_map(move |group| {
        let names = names.clone();
        rule.resources.iter().flat_map(move |resource| {
            let names = names.clone();
            rule.verbs.iter().flat_map(move |verb| {
                names.clone().into_iter().map(move |name| PolicyRule {
                    verbs: vec![verb.clone()],
                    api_groups: vec![group.clone()],
                    resources: vec![resource.clone()],
                    resource_names: name.into_iter().cloned().collect(),
                    non_resource_urls: Vec::new(),
                })
            })
        })
    });
    let urls = rule.non_resource_urls.iter().flat_map(move |url| {
        rule.verbs.iter().map(move |verb| PolicyRule {
            verbs: vec![verb.clone()],
            non_resource_urls: vec![url.clone()],
            ..PolicyRule::default()
        })
    });
    resources.chain(urls)
}

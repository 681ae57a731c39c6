//! Roles and ClusterRoles.

use serde_json::Value;
use settled_apimachinery::unstructured::{given, items};

use crate::kinds::behavior::Behavior;
use crate::kinds::check::{Check, join, validate_label_selector};
use crate::kinds::strategy::Strategy;
use crate::metadata::NameRule;

pub(crate) static ROLE: Strategy =
    Strategy { validate: |check, role| validate_role(check, true, role), ..COMMON };

pub(crate) static CLUSTER_ROLE: Strategy =
    Strategy { validate: |check, role| validate_role(check, false, role), ..COMMON };

const COMMON: Strategy = Strategy {
    behavior: Behavior { create_on_update: true, whole_metadata: true, ..Behavior::BUILTIN },
    name_rule: NameRule::Path,
    ..Strategy::DEFAULT
};

fn validate_role(check: &mut Check, namespaced: bool, new: &Value) {
    for (index, rule) in items(new, "rules").iter().enumerate() {
        let at = format!("rules[{index}]");
        if items(rule, "verbs").is_empty() {
            check.required(join(&at, "verbs"), "verbs must contain at least one value");
        }
        let [groups, resources, names, urls] =
            ["apiGroups", "resources", "resourceNames", "nonResourceURLs"].map(|name| items(rule, name));
        if !urls.is_empty() {
            let shown = Value::from(urls.to_vec());
            let at = join(&at, "nonResourceURLs");
            if namespaced {
                check.invalid(at.as_str(), &shown, "namespaced rules cannot apply to non-resource URLs");
            }
            if !groups.is_empty() || !resources.is_empty() || !names.is_empty() {
                check.invalid(
                    at,
                    &shown,
                    "rules cannot apply to both regular resources and non-resource URLs",
                );
            }
            continue;
        }
        if groups.is_empty() {
            check.required(join(&at, "apiGroups"), "resource rules must supply at least one api group");
        }
        if resources.is_empty() {
            check.required(join(&at, "resources"), "resource rules must supply at least one resource");
        }
    }
    if let Some(rule) = given(new, "aggregationRule") {
        let at = "aggregationRule.clusterRoleSelectors";
        let selectors = items(rule, "clusterRoleSelectors");
        if selectors.is_empty() {
            check.required(at, "at least one clusterRoleSelector required if aggregationRule is non-nil");
        }
        for (index, chosen) in selectors.iter().enumerate() {
            validate_label_selector(check, &format!("{at}[{index}]"), chosen);
        }
    }
}

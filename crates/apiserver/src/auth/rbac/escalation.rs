//! Escalation checks of writes to roles and bindings: upstream's `escalation_check.go` and the `policybased` storages.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use settled_go::strconv::quote;

use super::authorizer::{Missing, Rbac};
use super::comparator::{compact, describe, not_covered};
use super::kind::{GROUP, PolicyKind};
use super::rule::{Attributes, PolicyRule, rules_in, text};
use crate::ApiError;
use crate::auth::quote_all;
use crate::auth::user::User;

/// A write of a role or binding, for [`check_escalation`].
#[derive(Clone, Copy, Debug)]
pub struct PolicyWrite<'a> {
    /// The user.
    pub user: &'a User,
    /// The kind.
    pub kind: PolicyKind,
    /// The namespace of the request; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// The name in the request's path; empty for creates.
    pub name: &'a str,
    /// The object to store.
    pub new: &'a Value,
    /// The stored object; `None` for creates.
    pub old: Option<&'a Value>,
}

/// Prevents users from granting permissions that they do not have.
///
/// A role may be written by users who have all its permissions, or the verb `escalate`; a binding by users who have all
/// permissions of its role, or the verb `bind` on it. Changes for garbage collection are always allowed.
///
/// # Errors
///
/// 403 with upstream's list of missing permissions; 404 if the role of a binding does not exist.
pub fn check_escalation(rbac: &Rbac, write: &PolicyWrite<'_>) -> Result<(), ApiError> {
    if write.user.is_master() {
        return Ok(());
    }
    match write.kind {
        PolicyKind::Role | PolicyKind::ClusterRole => check_role(rbac, write),
        PolicyKind::RoleBinding | PolicyKind::ClusterRoleBinding => check_binding(rbac, write),
    }
}

fn check_role(rbac: &Rbac, write: &PolicyWrite<'_>) -> Result<(), ApiError> {
    let escalate = Attributes {
        verb: "escalate",
        api_group: GROUP,
        api_version: "*",
        resource: write.kind.resource(),
        namespace: write.namespace,
        name: write.name,
        ..Attributes::default()
    };
    if rbac.authorize(write.user, &escalate).allowed || write.is_for_garbage_collection() {
        return Ok(());
    }
    require_held(rbac, write, &rules_in(write.new))?;
    let aggregates = write.kind == PolicyKind::ClusterRole
        && [Some(write.new), write.old].into_iter().flatten().any(has_aggregation_rule);
    let everything = || [all_of(&["*"], &["*"], &["*"], &[]), all_of(&["*"], &[], &[], &["*"])];
    if aggregates && require_held(rbac, write, &everything()).is_err() {
        return Err(write.forbidden("must have cluster-admin privileges to use the aggregationRule"));
    }
    Ok(())
}

fn check_binding(rbac: &Rbac, write: &PolicyWrite<'_>) -> Result<(), ApiError> {
    if write.is_for_garbage_collection() {
        return Ok(());
    }
    let role = &write.new["roleRef"];
    let (kind, name) = (text(&role["kind"]), text(&role["name"]));
    let resource = match kind {
        "ClusterRole" => Some("clusterroles"),
        "Role" => Some("roles"),
        _ => None,
    };
    let bind = Attributes {
        verb: "bind",
        // The default.
        api_group: Some(text(&role["apiGroup"])).filter(|group| !group.is_empty()).unwrap_or(GROUP),
        api_version: "*",
        resource: resource.unwrap_or_default(),
        namespace: write.namespace,
        name,
        ..Attributes::default()
    };
    if resource.is_some() && rbac.authorize(write.user, &bind).allowed {
        return Ok(());
    }
    match rbac.rules(kind, name, write.namespace) {
        Ok(rules) => require_held(rbac, write, rules),
        Err(missing @ Missing::Unsupported(_)) => Err(ApiError::internal(missing)),
        // Upstream reports the written resource, not the role's.
        Err(_) => Err(ApiError::not_found(write.kind.group_resource(), name)),
    }
}

fn require_held(rbac: &Rbac, write: &PolicyWrite<'_>, rules: &[PolicyRule]) -> Result<(), ApiError> {
    let held = rbac.rules_of(write.user, write.namespace);
    let (missing, all) = not_covered(&held.rules, rules);
    if missing.is_empty() && all {
        return Ok(());
    }
    let missing: BTreeSet<String> = compact(missing).iter().map(describe).collect();
    let missing: Vec<String> = missing.into_iter().collect();
    let mut text = format!(
        "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        quote(&write.user.name),
        quote_all(&write.user.groups),
        missing.join("\n")
    );
    if !all {
        text.push_str("\nand more: there are too many rules to compare");
    }
    if !held.missing.is_empty() {
        let resource = write.kind.group_resource();
        let errors: Vec<String> = held
            .missing
            .iter()
            .map(|role| match role {
                Missing::ClusterRole(name) | Missing::Role(name) => {
                    format!("{resource} {} not found", quote(name))
                }
                Missing::Unsupported(_) => role.to_string(),
            })
            .collect();
        text.push_str(&match errors.as_slice() {
            [only] => format!("; resolution errors: [{only}]"),
            several => format!("; resolution errors: [[{}]]", several.join(", ")),
        });
    }
    Err(write.forbidden(&text))
}

fn all_of(verbs: &[&str], groups: &[&str], resources: &[&str], urls: &[&str]) -> PolicyRule {
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    PolicyRule {
        verbs: owned(verbs),
        api_groups: owned(groups),
        resources: owned(resources),
        resource_names: Vec::new(),
        non_resource_urls: owned(urls),
    }
}

impl PolicyWrite<'_> {
    fn forbidden(&self, why: &str) -> ApiError {
        ApiError::forbidden(self.kind.group_resource(), text(&self.new["metadata"]["name"]), why)
    }

    /// `IsOnlyMutatingGCFields`: whether only fields for garbage collection change.
    pub(super) fn is_for_garbage_collection(&self) -> bool {
        const FREE: [&str; 4] = ["ownerReferences", "finalizers", "selfLink", "managedFields"];
        let Some(old) = self.old else { return false };
        let (Some(new), Some(old)) = (self.new.as_object(), old.as_object()) else { return false };
        let rest = |object: &Map<String, Value>| -> Map<String, Value> {
            object
                .iter()
                .filter(|(key, _)| *key != "metadata")
                .map(|(key, v)| (key.clone(), v.clone()))
                .collect()
        };
        let metadata = |object: &Map<String, Value>| -> Value {
            let mut metadata = object.get("metadata").cloned().unwrap_or_default();
            if let Some(fields) = metadata.as_object_mut() {
                fields.retain(|key, _| !FREE.contains(&key.as_str()));
            }
            metadata
        };
        same(&rest(new).into(), &rest(old).into()) && same(&metadata(new), &metadata(old))
    }
}

fn has_aggregation_rule(role: &Value) -> bool {
    role["aggregationRule"]["clusterRoleSelectors"].as_array().is_some_and(|selectors| !selectors.is_empty())
}

/// `equality.Semantic.DeepEqual`: absent and empty values are equal.
fn same(a: &Value, b: &Value) -> bool {
    fn empty(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.values().all(empty),
            Value::Bool(_) | Value::Number(_) => false,
        }
    }
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let only_in_b = b.iter().filter(|(key, _)| !a.contains_key(*key)).all(|(_, value)| empty(value));
            only_in_b && a.iter().all(|(key, value)| same(value, b.get(key).unwrap_or(&Value::Null)))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (a, b) => a == b || empty(a) && empty(b),
    }
}

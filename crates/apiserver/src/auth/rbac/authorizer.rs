//! RBAC authorizer: evaluates the rules that bindings grant to a user.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Value, json};
use settled_go::strconv::quote;

use super::binding::{Binding, Bindings};
use super::kind::{GROUP, PolicyKind};
use super::rule::{Attributes, PolicyRule, rules_in};
use crate::auth::user::User;
use crate::{ApiError, GroupResource, LabelSelector};

/// Result of an authorization.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// The binding that allows it, or missing roles. Often empty.
    pub reason: String,
}

/// Rules granted to a user in a namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Granted<'a> {
    /// The rules, cluster-wide ones first.
    pub rules: Vec<&'a PolicyRule>,
    /// Missing roles of bindings.
    pub missing: Vec<Missing>,
}

/// Missing role of a binding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// A ClusterRole.
    ClusterRole(String),
    /// A Role.
    Role(String),
    /// Another kind, which cannot be bound.
    Unsupported(String),
}

/// RBAC authorizer with all roles and bindings. No I/O, no waiting.
///
/// ```
/// use serde_json::json;
/// use settled_apiserver::auth::{Attributes, PolicyKind, Rbac, User};
///
/// let mut rbac = Rbac::default();
/// let role = json!({"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]});
/// let binding = json!({
///     "roleRef": {"kind": "Role", "name": "reader"},
///     "subjects": [{"kind": "User", "name": "jane"}],
/// });
/// rbac.put(PolicyKind::Role, "team", "reader", &role);
/// rbac.put(PolicyKind::RoleBinding, "team", "jane-reads", &binding);
///
/// let jane = User::new("jane", ["dev"]).authenticated();
/// let get = Attributes { verb: "get", resource: "pods", namespace: "team", ..Attributes::default() };
/// assert!(rbac.authorize(&jane, &get).allowed);
/// assert!(!rbac.authorize(&jane, &Attributes { verb: "list", ..get }).allowed);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Rbac {
    pub(super) cluster_roles: BTreeMap<String, ClusterRole>,
    pub(super) roles: HashMap<String, HashMap<String, Arc<[PolicyRule]>>>,
    pub(super) cluster_bindings: Bindings,
    pub(super) bindings: HashMap<String, Bindings>,
}

#[derive(Clone, Debug)]
pub(super) struct ClusterRole {
    rules: Arc<[PolicyRule]>,
    /// An object with only the role's labels.
    labels: Value,
    /// Selectors of the aggregation rule.
    aggregates: Vec<LabelSelector>,
}

impl Rbac {
    /// Adds or replaces an object. `namespace` is ignored for cluster-scoped kinds.
    ///
    /// Invalid parts of an object grant nothing.
    pub fn put(&mut self, kind: PolicyKind, namespace: &str, name: &str, object: &Value) {
        match kind {
            PolicyKind::Role => {
                let roles = self.roles.entry(namespace.to_owned()).or_default();
                roles.insert(name.to_owned(), rules_in(object));
            }
            PolicyKind::ClusterRole => {
                let role = ClusterRole::read(object);
                self.cluster_roles.insert(name.to_owned(), role);
            }
            PolicyKind::RoleBinding => {
                let bindings = self.bindings.entry(namespace.to_owned()).or_default();
                bindings.put(Binding::read(namespace, name, object));
            }
            PolicyKind::ClusterRoleBinding => self.cluster_bindings.put(Binding::read("", name, object)),
        }
    }

    /// Removes an object.
    pub fn remove(&mut self, kind: PolicyKind, namespace: &str, name: &str) {
        match kind {
            PolicyKind::Role => {
                if let Some(roles) = self.roles.get_mut(namespace) {
                    roles.remove(name);
                    if roles.is_empty() {
                        self.roles.remove(namespace);
                    }
                }
            }
            PolicyKind::ClusterRole => {
                self.cluster_roles.remove(name);
            }
            PolicyKind::RoleBinding => {
                if let Some(bindings) = self.bindings.get_mut(namespace) {
                    bindings.remove(name);
                    if bindings.by_name.is_empty() {
                        self.bindings.remove(namespace);
                    }
                }
            }
            PolicyKind::ClusterRoleBinding => self.cluster_bindings.remove(name),
        }
    }

    /// Authorizes a request: denied unless a binding allows it, or the user is in `system:masters`.
    #[must_use]
    pub fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Decision {
        if user.is_master() {
            return Decision { allowed: true, reason: String::new() };
        }
        let mut missing = Vec::new();
        for (bindings, namespace) in self.scopes(attributes.namespace) {
            for binding in bindings.concerning(user) {
                match self.rules(&binding.role_kind, &binding.role, namespace) {
                    Ok(rules) if rules.iter().any(|rule| rule.allows(attributes)) => {
                        return Decision { allowed: true, reason: binding.reason(user, namespace) };
                    }
                    Ok(_) => {}
                    Err(role) if missing.contains(&role) => {}
                    Err(role) => missing.push(role),
                }
            }
        }
        let reason = aggregate_error(&missing).map(|text| format!("RBAC: {text}")).unwrap_or_default();
        Decision { allowed: false, reason }
    }

    /// Authorizes a request, with an API error if it is denied.
    ///
    /// # Errors
    ///
    /// 403 if the request is denied.
    pub fn require(&self, user: &User, attributes: &Attributes<'_>) -> Result<(), ApiError> {
        let decision = self.authorize(user, attributes);
        if decision.allowed { Ok(()) } else { Err(forbidden(user, attributes, &decision.reason)) }
    }

    /// `RulesFor`: all rules granted to a user in a namespace; cluster-wide ones if it is empty.
    #[must_use]
    pub fn rules_of(&self, user: &User, namespace: &str) -> Granted<'_> {
        let mut granted = Granted::default();
        for (bindings, namespace) in self.scopes(namespace) {
            let by_name: BTreeMap<&str, &Binding> =
                bindings.concerning(user).map(|binding| (binding.name.as_str(), binding)).collect();
            for binding in by_name.values() {
                match self.rules(&binding.role_kind, &binding.role, namespace) {
                    Ok(rules) => granted.rules.extend(rules),
                    Err(role) if granted.missing.contains(&role) => {}
                    Err(role) => granted.missing.push(role),
                }
            }
        }
        granted
    }

    /// ClusterRoles whose rules differ from those selected by their aggregation rule, with the expected rules.
    ///
    /// The result is a fixed point: aggregated roles that select each other are taken into account. Upstream, the
    /// `clusterrole-aggregation-controller` writes them.
    #[must_use]
    pub fn aggregate(&self) -> Vec<(String, Value)> {
        let gathering = || self.cluster_roles.iter().filter(|(_, role)| !role.aggregates.is_empty());
        let mut gathered: BTreeMap<&str, Vec<&PolicyRule>> =
            gathering().map(|(name, role)| (name.as_str(), role.rules.iter().collect())).collect();
        // Sequentially: two roles that select each other would swap their rules forever if evaluated together. Each pass
        // propagates rules to another role, so this terminates; the bound is a safeguard.
        for _ in 0..=gathered.len() {
            let mut changed = false;
            for (name, role) in gathering() {
                let rules = self.gather(name, role, &gathered);
                changed |= gathered.get(name.as_str()) != Some(&rules);
                gathered.insert(name, rules);
            }
            if !changed {
                break;
            }
        }
        let new = gathering().filter_map(|(name, role)| {
            let rules = gathered.get(name.as_str())?;
            let same = rules.iter().copied().eq(role.rules.iter());
            (!same).then(|| (name.clone(), rules.iter().map(|rule| rule.to_json()).collect()))
        });
        new.collect()
    }

    fn gather<'a>(
        &'a self,
        name: &str,
        role: &ClusterRole,
        gathered: &BTreeMap<&str, Vec<&'a PolicyRule>>,
    ) -> Vec<&'a PolicyRule> {
        let mut rules = Vec::new();
        let mut seen = BTreeSet::new();
        for selector in &role.aggregates {
            let others = self.cluster_roles.iter().filter(|(other, _)| *other != name);
            for (other, role) in others.filter(|(_, other)| selector.matches(&other.labels)) {
                let mut add = |rule: &'a PolicyRule| {
                    if seen.insert(rule.key()) {
                        rules.push(rule);
                    }
                };
                match gathered.get(other.as_str()) {
                    Some(rules) => rules.iter().copied().for_each(&mut add),
                    None => role.rules.iter().for_each(&mut add),
                }
            }
        }
        rules
    }

    /// Bindings effective in a namespace, with their own namespaces.
    pub(super) fn scopes<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a Bindings, &'a str)> {
        let local = if namespace.is_empty() { None } else { self.bindings.get(namespace) };
        [(&self.cluster_bindings, "")].into_iter().chain(local.map(|bindings| (bindings, namespace)))
    }

    pub(super) fn rules(&self, kind: &str, name: &str, namespace: &str) -> Result<&[PolicyRule], Missing> {
        match kind {
            "ClusterRole" => self
                .cluster_roles
                .get(name)
                .map(|role| role.rules.as_ref())
                .ok_or_else(|| Missing::ClusterRole(name.to_owned())),
            "Role" => self
                .roles
                .get(namespace)
                .and_then(|roles| roles.get(name))
                .map(AsRef::as_ref)
                .ok_or_else(|| Missing::Role(name.to_owned())),
            other => Err(Missing::Unsupported(other.to_owned())),
        }
    }
}

impl ClusterRole {
    fn read(object: &Value) -> Self {
        let selectors = object["aggregationRule"]["clusterRoleSelectors"].as_array();
        // An invalid selector selects nothing.
        let selectors =
            selectors.into_iter().flatten().filter_map(|selector| LabelSelector::from_object(selector).ok());
        Self {
            rules: rules_in(object),
            labels: json!({"metadata": {"labels": object["metadata"]["labels"]}}),
            aggregates: selectors.collect(),
        }
    }
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ClusterRole(name) => write!(f, "clusterrole.{GROUP} {} not found", quote(name)),
            Self::Role(name) => write!(f, "role.{GROUP} {} not found", quote(name)),
            Self::Unsupported(kind) => write!(f, "unsupported role reference kind: {}", quote(kind)),
        }
    }
}

/// The response to a denied request.
#[must_use]
pub fn forbidden(user: &User, attributes: &Attributes<'_>, reason: &str) -> ApiError {
    let (user, verb) = (quote(&user.name), attributes.verb);
    let text = match attributes.path {
        Some(path) => format!("User {user} cannot {verb} path {}", quote(path)),
        None => {
            let resource = match attributes.subresource {
                "" => quote(attributes.resource),
                subresource => quote(&format!("{}/{subresource}", attributes.resource)),
            };
            let place = match attributes.namespace {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {}", quote(namespace)),
            };
            let group = quote(attributes.api_group);
            format!("User {user} cannot {verb} resource {resource} in API group {group} {place}")
        }
    };
    // Escaped, so that browsers do not interpret it as HTML. The reason is trusted.
    let mut text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    if !reason.is_empty() {
        text = format!("{text}: {reason}");
    }
    let resource = match attributes.path {
        Some(_) => GroupResource { group: "", resource: "" },
        None => GroupResource { group: attributes.api_group, resource: attributes.resource },
    };
    let name = if attributes.path.is_some() { "" } else { attributes.name };
    let message = match (resource.resource, name) {
        ("", _) => format!("forbidden: {text}"),
        (_, "") => format!("{resource} is forbidden: {text}"),
        (_, name) => format!("{resource} {} is forbidden: {text}", quote(name)),
    };
    ApiError::new(403, "Forbidden", message).about(resource, name)
}

/// Message of `errors.NewAggregate`.
pub(crate) fn aggregate_error(missing: &[Missing]) -> Option<String> {
    match missing {
        [] => None,
        [only] => Some(only.to_string()),
        several => {
            let several: Vec<String> = several.iter().map(ToString::to_string).collect();
            Some(format!("[{}]", several.join(", ")))
        }
    }
}

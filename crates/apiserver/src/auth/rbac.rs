//! Role-based access control: what the four kinds of `rbac.authorization.k8s.io` say a user may do.
//!
//! Bindings are indexed by user and group, so a decision looks only at those that concern the user.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use settled_go::strconv::quote;

use super::quote_all;
use super::user::User;
use crate::{ApiError, GroupResource, LabelSelector};

/// The API group of the four kinds.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// How many comparisons a check of escalation may take. A role of 1 MB can name more combinations of verbs, groups and resources than
/// anybody can compare; nobody writes a role that needs a thousandth of this.
const MOST_COMPARISONS: usize = 20_000_000;
/// How many missing permissions a check of escalation counts before it stops.
const MOST_MISSING: usize = 5_000;

/// One of the four kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyKind {
    /// Rules in a namespace.
    Role,
    /// Rules anywhere.
    ClusterRole,
    /// Grants a Role or ClusterRole in a namespace.
    RoleBinding,
    /// Grants a ClusterRole everywhere.
    ClusterRoleBinding,
}

impl PolicyKind {
    /// All four.
    pub const ALL: [Self; 4] = [Self::Role, Self::ClusterRole, Self::RoleBinding, Self::ClusterRoleBinding];

    /// The kind's name.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Role => "Role",
            Self::ClusterRole => "ClusterRole",
            Self::RoleBinding => "RoleBinding",
            Self::ClusterRoleBinding => "ClusterRoleBinding",
        }
    }

    /// The name of its resource.
    #[must_use]
    pub fn resource(self) -> &'static str {
        match self {
            Self::Role => "roles",
            Self::ClusterRole => "clusterroles",
            Self::RoleBinding => "rolebindings",
            Self::ClusterRoleBinding => "clusterrolebindings",
        }
    }

    /// The kind of a resource in [`GROUP`].
    #[must_use]
    pub fn of_resource(resource: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.resource() == resource)
    }

    fn group_resource(self) -> GroupResource<'static> {
        GroupResource { group: GROUP, resource: self.resource() }
    }
}

/// What is asked for: upstream's `authorizer.Attributes`, without the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    /// `get`, `list`, `create` and so on; for other paths the HTTP method in lower case.
    pub verb: &'a str,
    /// The group of the resource, empty for the core group.
    pub api_group: &'a str,
    /// The version of the resource. Rules know none.
    pub api_version: &'a str,
    /// The plural name of the resource.
    pub resource: &'a str,
    /// `status` for instance, or empty.
    pub subresource: &'a str,
    /// The namespace, empty for all of them and for resources outside of namespaces.
    pub namespace: &'a str,
    /// The object's name, empty where the request names none.
    pub name: &'a str,
    /// A path that belongs to no resource. With it, only the verb counts of the others.
    pub path: Option<&'a str>,
}

/// Whether it is allowed, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// Whether it is.
    pub allowed: bool,
    /// Which binding allows it, or which roles that could are missing. Often empty.
    pub reason: String,
}

/// Some verbs on some resources or paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyRule {
    /// What may be done. `*` is everything.
    pub verbs: Vec<String>,
    /// The groups of the resources. `*` is all.
    pub api_groups: Vec<String>,
    /// The resources: `pods`, `pods/log`, `*/scale`, `*`.
    pub resources: Vec<String>,
    /// The names of the objects. None: all.
    pub resource_names: Vec<String>,
    /// The paths; a `*` at the end stands for any rest.
    pub non_resource_urls: Vec<String>,
}

/// What a user may do in a namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Granted<'a> {
    /// The rules, those of the whole cluster first.
    pub rules: Vec<&'a PolicyRule>,
    /// Roles that bindings name and that do not exist.
    pub missing: Vec<Missing>,
}

/// A role that a binding names and that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// A ClusterRole.
    ClusterRole(String),
    /// A Role.
    Role(String),
    /// Something else, which cannot be bound.
    Unsupported(String),
}

/// A write of one of the four kinds, for [`Rbac::check_escalation`].
#[derive(Clone, Copy, Debug)]
pub struct PolicyWrite<'a> {
    /// Who writes.
    pub user: &'a User,
    /// What is written.
    pub kind: PolicyKind,
    /// The namespace of the request, empty outside of namespaces.
    pub namespace: &'a str,
    /// The name in the request's path: empty when an object is posted to a collection.
    pub name: &'a str,
    /// The object as it would be stored.
    pub new: &'a Value,
    /// The object that is stored now. None: it is being created.
    pub old: Option<&'a Value>,
}

/// The roles and bindings, and what they allow. The heart of authorization: no I/O, no waiting.
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
    cluster_roles: BTreeMap<String, ClusterRole>,
    roles: HashMap<String, HashMap<String, Arc<[PolicyRule]>>>,
    cluster_bindings: Bindings,
    bindings: HashMap<String, Bindings>,
}

#[derive(Clone, Debug)]
struct ClusterRole {
    rules: Arc<[PolicyRule]>,
    /// An object with its labels and nothing else.
    labels: Value,
    /// The selectors of its aggregation rule.
    aggregates: Vec<LabelSelector>,
}

/// The bindings of the cluster, or of one namespace.
#[derive(Clone, Debug, Default)]
struct Bindings {
    by_name: HashMap<String, Arc<Binding>>,
    /// ServiceAccounts are here under their user names. By name within, so that the answer is always the same.
    by_user: HashMap<String, BTreeMap<String, Arc<Binding>>>,
    by_group: HashMap<String, BTreeMap<String, Arc<Binding>>>,
}

#[derive(Clone, Debug)]
struct Binding {
    name: String,
    role_kind: String,
    role: String,
    subjects: Vec<Subject>,
}

#[derive(Clone, Debug)]
struct Subject {
    who: Who,
    /// How a decision's reason names it.
    described: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Who {
    User(String),
    Group(String),
    /// It applies to nobody.
    Nobody,
}

impl Rbac {
    /// Takes in an object, in place of the one of that name. A namespace is needed only by Roles and RoleBindings.
    ///
    /// Anything in it that is not as it should be grants nothing.
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

    /// Forgets an object.
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

    /// Decides. What no binding allows is denied, but for members of `system:masters`.
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

    /// Decides, and says no as an answer to the request.
    ///
    /// # Errors
    ///
    /// 403, if the user may not.
    pub fn require(&self, user: &User, attributes: &Attributes<'_>) -> Result<(), ApiError> {
        let decision = self.authorize(user, attributes);
        if decision.allowed { Ok(()) } else { Err(forbidden(user, attributes, &decision.reason)) }
    }

    /// All that a user may do in a namespace; with an empty namespace, in the whole cluster.
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

    /// Makes sure that nobody grants what they do not hold.
    ///
    /// A role may be written by those who hold all that it grants, or may `escalate` it; a binding by those who hold all that its role
    /// grants, or may `bind` that role. Changes that only let the garbage collector do its work are free.
    ///
    /// # Errors
    ///
    /// 403 with upstream's list of what is missing; 404 if the role that a binding names does not exist.
    pub fn check_escalation(&self, write: &PolicyWrite<'_>) -> Result<(), ApiError> {
        if write.user.is_master() {
            return Ok(());
        }
        match write.kind {
            PolicyKind::Role | PolicyKind::ClusterRole => self.check_role(write),
            PolicyKind::RoleBinding | PolicyKind::ClusterRoleBinding => self.check_binding(write),
        }
    }

    /// The ClusterRoles whose rules are not what their aggregation rule gathers, with the rules they should have.
    ///
    /// Whoever writes them (upstream a controller, as `clusterrole-aggregation-controller`) need not ask again: what such roles gather
    /// from each other is in it.
    #[must_use]
    pub fn aggregate(&self) -> Vec<(String, Value)> {
        let gathering = || self.cluster_roles.iter().filter(|(_, role)| !role.aggregates.is_empty());
        let mut gathered: BTreeMap<&str, Vec<&PolicyRule>> =
            gathering().map(|(name, role)| (name.as_str(), role.rules.iter().collect())).collect();
        // One after the other: two that gather each other would swap their rules for ever, were they looked at together. Each pass takes
        // rules a role further, so there is an end; the bound is for what nobody has thought of.
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

    /// The bindings that count in a namespace, with the namespace of each.
    fn scopes<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a Bindings, &'a str)> {
        let local = if namespace.is_empty() { None } else { self.bindings.get(namespace) };
        [(&self.cluster_bindings, "")].into_iter().chain(local.map(|bindings| (bindings, namespace)))
    }

    fn rules(&self, kind: &str, name: &str, namespace: &str) -> Result<&[PolicyRule], Missing> {
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

    fn check_role(&self, write: &PolicyWrite<'_>) -> Result<(), ApiError> {
        let escalate = Attributes {
            verb: "escalate",
            api_group: GROUP,
            api_version: "*",
            resource: write.kind.resource(),
            namespace: write.namespace,
            name: write.name,
            ..Attributes::default()
        };
        if self.authorize(write.user, &escalate).allowed || write.is_for_garbage_collection() {
            return Ok(());
        }
        self.require_held(write, &rules_in(write.new))?;
        let aggregates = write.kind == PolicyKind::ClusterRole
            && [Some(write.new), write.old].into_iter().flatten().any(has_aggregation_rule);
        let everything =
            || [PolicyRule::of(&["*"], &["*"], &["*"], &[]), PolicyRule::of(&["*"], &[], &[], &["*"])];
        if aggregates && self.require_held(write, &everything()).is_err() {
            return Err(write.forbidden("must have cluster-admin privileges to use the aggregationRule"));
        }
        Ok(())
    }

    fn check_binding(&self, write: &PolicyWrite<'_>) -> Result<(), ApiError> {
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
            // As the defaults fill it in.
            api_group: Some(text(&role["apiGroup"])).filter(|group| !group.is_empty()).unwrap_or(GROUP),
            api_version: "*",
            resource: resource.unwrap_or_default(),
            namespace: write.namespace,
            name,
            ..Attributes::default()
        };
        if resource.is_some() && self.authorize(write.user, &bind).allowed {
            return Ok(());
        }
        match self.rules(kind, name, write.namespace) {
            Ok(rules) => self.require_held(write, rules),
            Err(missing @ Missing::Unsupported(_)) => Err(ApiError::internal(missing)),
            // Upstream names the resource that is being written, not the role's.
            Err(_) => Err(ApiError::not_found(write.kind.group_resource(), name)),
        }
    }

    fn require_held(&self, write: &PolicyWrite<'_>, rules: &[PolicyRule]) -> Result<(), ApiError> {
        let held = self.rules_of(write.user, write.namespace);
        let (missing, all) = not_covered(&held.rules, rules);
        if missing.is_empty() && all {
            return Ok(());
        }
        let missing: BTreeSet<String> = compact(missing).iter().map(PolicyRule::describe).collect();
        let missing: Vec<String> = missing.into_iter().collect();
        let mut text = format!(
            "user {} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
            quote(&write.user.name),
            quote_all(&write.user.groups),
            missing.join("\n")
        );
        if !all {
            text.push_str("\nand more: the rules are too many to be compared");
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
}

impl PolicyWrite<'_> {
    fn forbidden(&self, why: &str) -> ApiError {
        ApiError::forbidden(self.kind.group_resource(), text(&self.new["metadata"]["name"]), why)
    }

    /// Whether only that changes which lets the garbage collector delete the object.
    fn is_for_garbage_collection(&self) -> bool {
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

impl Bindings {
    fn put(&mut self, binding: Binding) {
        self.remove(&binding.name);
        let binding = Arc::new(binding);
        for subject in &binding.subjects {
            let (index, name) = match &subject.who {
                Who::User(name) => (&mut self.by_user, name),
                Who::Group(name) => (&mut self.by_group, name),
                Who::Nobody => continue,
            };
            let bindings = index.entry(name.clone()).or_default();
            bindings.insert(binding.name.clone(), Arc::clone(&binding));
        }
        self.by_name.insert(binding.name.clone(), binding);
    }

    fn remove(&mut self, name: &str) {
        let Some(binding) = self.by_name.remove(name) else { return };
        for subject in &binding.subjects {
            let (index, who) = match &subject.who {
                Who::User(name) => (&mut self.by_user, name),
                Who::Group(name) => (&mut self.by_group, name),
                Who::Nobody => continue,
            };
            if let Some(bindings) = index.get_mut(who) {
                bindings.remove(name);
                if bindings.is_empty() {
                    index.remove(who);
                }
            }
        }
    }

    /// The bindings of a user; one that names the user several times may come several times.
    fn concerning<'a>(&'a self, user: &'a User) -> impl Iterator<Item = &'a Binding> {
        let own = self.by_user.get(&user.name).into_iter();
        let groups = user.groups.iter().filter_map(|group| self.by_group.get(group));
        own.chain(groups).flat_map(|bindings| bindings.values().map(AsRef::as_ref))
    }
}

impl Binding {
    fn read(namespace: &str, name: &str, object: &Value) -> Self {
        let subjects = object["subjects"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            name: name.to_owned(),
            role_kind: text(&object["roleRef"]["kind"]).to_owned(),
            role: text(&object["roleRef"]["name"]).to_owned(),
            subjects: subjects.iter().map(|subject| Subject::read(namespace, subject)).collect(),
        }
    }

    /// Why this binding allows it: the first of its subjects that the user is.
    fn reason(&self, user: &User, namespace: &str) -> String {
        let applies = |subject: &&Subject| match &subject.who {
            Who::User(name) => *name == user.name,
            Who::Group(name) => user.in_group(name),
            Who::Nobody => false,
        };
        let subject = self.subjects.iter().find(applies).map(|s| s.described.as_str()).unwrap_or_default();
        let (kind, role, name) = (&self.role_kind, quote(&self.role), &self.name);
        match namespace {
            "" => {
                format!("RBAC: allowed by ClusterRoleBinding {} of {kind} {role} to {subject}", quote(name))
            }
            namespace => {
                let name = quote(&format!("{name}/{namespace}"));
                format!("RBAC: allowed by RoleBinding {name} of {kind} {role} to {subject}")
            }
        }
    }
}

impl Subject {
    /// The group of a subject does not matter, only its kind: so it is upstream.
    fn read(binding_namespace: &str, subject: &Value) -> Self {
        let (kind, name) = (text(&subject["kind"]), text(&subject["name"]));
        let namespace = match text(&subject["namespace"]) {
            "" => binding_namespace,
            namespace => namespace,
        };
        let who = match kind {
            "User" => Who::User(name.to_owned()),
            "Group" => Who::Group(name.to_owned()),
            "ServiceAccount" if !namespace.is_empty() => {
                Who::User(format!("system:serviceaccount:{namespace}:{name}"))
            }
            _ => Who::Nobody,
        };
        let described = match kind {
            "ServiceAccount" => format!("{kind} {}", quote(&format!("{name}/{namespace}"))),
            kind => format!("{kind} {}", quote(name)),
        };
        Self { who, described }
    }
}

impl ClusterRole {
    fn read(object: &Value) -> Self {
        let selectors = object["aggregationRule"]["clusterRoleSelectors"].as_array();
        // One that is no selector gathers nothing.
        let selectors =
            selectors.into_iter().flatten().filter_map(|one| LabelSelector::from_object(one).ok());
        Self {
            rules: rules_in(object),
            labels: json!({"metadata": {"labels": object["metadata"]["labels"]}}),
            aggregates: selectors.collect(),
        }
    }
}

impl PolicyRule {
    fn of(verbs: &[&str], groups: &[&str], resources: &[&str], urls: &[&str]) -> Self {
        let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        Self {
            verbs: owned(verbs),
            api_groups: owned(groups),
            resources: owned(resources),
            resource_names: Vec::new(),
            non_resource_urls: owned(urls),
        }
    }

    fn read(rule: &Value) -> Self {
        Self {
            verbs: texts(&rule["verbs"]),
            api_groups: texts(&rule["apiGroups"]),
            resources: texts(&rule["resources"]),
            resource_names: texts(&rule["resourceNames"]),
            non_resource_urls: texts(&rule["nonResourceURLs"]),
        }
    }

    /// The rule as in a role: what is empty is left out.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let fields = [
            ("verbs", &self.verbs),
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.non_resource_urls),
        ];
        let fields = fields.into_iter().filter(|(_, texts)| !texts.is_empty());
        fields.map(|(name, texts)| (name.to_owned(), texts.clone().into())).collect::<Map<_, _>>().into()
    }

    /// Whether the rule allows it, were it granted.
    #[must_use]
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !has_or_star(&self.verbs, attributes.verb) {
            return false;
        }
        match attributes.path {
            Some(path) => self.non_resource_urls.iter().any(|url| url_covers(url, path)),
            None => {
                has_or_star(&self.api_groups, attributes.api_group)
                    && self.resources.iter().any(|own| resource_matches(own, attributes))
                    && (self.resource_names.is_empty() || has(&self.resource_names, attributes.name))
            }
        }
    }

    fn key(&self) -> [&[String]; 5] {
        [&self.verbs, &self.api_groups, &self.resources, &self.resource_names, &self.non_resource_urls]
    }

    /// The rule as upstream's texts show it.
    fn describe(&self) -> String {
        let fields = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let fields = fields.into_iter().filter(|(_, texts)| !texts.is_empty());
        let fields: Vec<String> =
            fields.map(|(name, texts)| format!("{name}:{}", quote_all(texts))).collect();
        format!("{{{}}}", fields.join(", "))
    }

    /// Whether a holder of this rule may grant one that has at most one of everything.
    fn covers(&self, one: &Self) -> bool {
        let verb = one.verbs.iter().all(|verb| has_or_star(&self.verbs, verb));
        let group = one.api_groups.iter().all(|group| has_or_star(&self.api_groups, group));
        let resource = one.resources.iter().all(|wanted| {
            has_or_star(&self.resources, wanted)
                || wanted.split_once('/').is_some_and(|(_, sub)| {
                    self.resources.iter().any(|own| own.strip_prefix("*/") == Some(sub))
                })
        });
        let names = &self.resource_names;
        let name = match one.resource_names.as_slice() {
            [] => names.is_empty(),
            wanted => names.is_empty() || wanted.iter().all(|name| has(names, name)),
        };
        let owned = &self.non_resource_urls;
        let url = one.non_resource_urls.iter().all(|url| owned.iter().any(|own| url_owns(own, url)));
        verb && group && resource && name && url
    }

    /// How long the lists are: what a comparison with the rule costs.
    fn weight(&self) -> usize {
        self.key().iter().map(|texts| texts.len()).sum::<usize>() + 1
    }

    /// Breaks the rule into such that have one of everything.
    fn parts(&self) -> impl Iterator<Item = Self> + '_ {
        let names: Vec<Option<&String>> = match self.resource_names.as_slice() {
            [] => vec![None],
            names => names.iter().map(Some).collect(),
        };
        let resources = self.api_groups.iter().flat_map(move |group| {
            let names = names.clone();
            self.resources.iter().flat_map(move |resource| {
                let names = names.clone();
                self.verbs.iter().flat_map(move |verb| {
                    names.clone().into_iter().map(move |name| Self {
                        verbs: vec![verb.clone()],
                        api_groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        resource_names: name.into_iter().cloned().collect(),
                        non_resource_urls: Vec::new(),
                    })
                })
            })
        });
        let urls = self.non_resource_urls.iter().flat_map(move |url| {
            self.verbs.iter().map(move |verb| Self {
                verbs: vec![verb.clone()],
                non_resource_urls: vec![url.clone()],
                ..Self::default()
            })
        });
        resources.chain(urls)
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

/// The answer to a request that is not allowed.
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
    // A browser must not take the text for HTML. What comes from here needs no care.
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

/// Several errors as Go's aggregate shows them.
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

/// The parts of the wanted rules that no owned rule covers, and whether these are all.
fn not_covered(owned: &[&PolicyRule], wanted: &[PolicyRule]) -> (Vec<PolicyRule>, bool) {
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
        for part in rule.parts() {
            let mut covered = false;
            for own in owned {
                work = work.saturating_add(own.weight());
                if own.covers(&part) {
                    covered = true;
                    break;
                }
            }
            work = work.saturating_add(1);
            if !covered {
                missing.push(part);
            }
            if work > MOST_COMPARISONS || missing.len() > MOST_MISSING {
                return (missing, false);
            }
        }
    }
    (missing, true)
}

/// Puts rules for one resource into one. Only for such that have one of everything.
fn compact(parts: Vec<PolicyRule>) -> Vec<PolicyRule> {
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

fn has_aggregation_rule(role: &Value) -> bool {
    role["aggregationRule"]["clusterRoleSelectors"].as_array().is_some_and(|selectors| !selectors.is_empty())
}

fn rules_in(object: &Value) -> Arc<[PolicyRule]> {
    object["rules"].as_array().into_iter().flatten().map(PolicyRule::read).collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|value| text(value).to_owned()).collect()
}

fn has(texts: &[String], wanted: &str) -> bool {
    texts.iter().any(|text| text == wanted)
}

fn has_or_star(texts: &[String], wanted: &str) -> bool {
    texts.iter().any(|text| text == "*" || text == wanted)
}

fn resource_matches(own: &str, attributes: &Attributes<'_>) -> bool {
    let (resource, subresource) = (attributes.resource, attributes.subresource);
    if own == "*" {
        return true;
    }
    if subresource.is_empty() {
        return own == resource;
    }
    own.strip_suffix(subresource)
        .and_then(|rest| rest.strip_suffix('/'))
        .is_some_and(|rest| rest == "*" || rest == resource)
}

/// Whether a rule's path allows a path.
fn url_covers(own: &str, path: &str) -> bool {
    own == "*" || url_owns(own, path)
}

/// Whether a rule's path covers another rule's path. All stars at its end are taken off.
fn url_owns(own: &str, path: &str) -> bool {
    own == path || own.ends_with('*') && path.starts_with(own.trim_end_matches('*'))
}

/// Whether two values are the same to upstream, where nothing and an empty list are.
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

#[cfg(test)]
#[path = "rbac_tests.rs"]
mod tests;

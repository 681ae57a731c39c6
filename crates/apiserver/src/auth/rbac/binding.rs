//! Role bindings, indexed by user and group.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;
use settled_go::strconv::quote;

use super::rule::text;
use crate::auth::user::User;

/// The bindings of the cluster, or of one namespace.
#[derive(Clone, Debug, Default)]
pub(super) struct Bindings {
    pub(super) by_name: HashMap<String, Arc<Binding>>,
    /// ServiceAccounts have their user names. Sorted by name, so that decisions are deterministic.
    pub(super) by_user: HashMap<String, BTreeMap<String, Arc<Binding>>>,
    pub(super) by_group: HashMap<String, BTreeMap<String, Arc<Binding>>>,
}

#[derive(Clone, Debug)]
pub(super) struct Binding {
    pub(super) name: String,
    pub(super) role_kind: String,
    pub(super) role: String,
    pub(super) subjects: Vec<Subject>,
}

#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) who: Who,
    /// Description in the reason of a decision.
    described: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Who {
    User(String),
    Group(String),
    /// An invalid subject.
    Nobody,
}

impl Bindings {
    pub(super) fn put(&mut self, binding: Binding) {
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

    pub(super) fn remove(&mut self, name: &str) {
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

    /// Bindings that apply to a user, possibly with duplicates.
    pub(super) fn concerning<'a>(&'a self, user: &'a User) -> impl Iterator<Item = &'a Binding> {
        let own = self.by_user.get(&user.name).into_iter();
        let groups = user.groups.iter().filter_map(|group| self.by_group.get(group));
        own.chain(groups).flat_map(|bindings| bindings.values().map(AsRef::as_ref))
    }
}

impl Binding {
    pub(super) fn read(namespace: &str, name: &str, object: &Value) -> Self {
        let subjects = object["subjects"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            name: name.to_owned(),
            role_kind: text(&object["roleRef"]["kind"]).to_owned(),
            role: text(&object["roleRef"]["name"]).to_owned(),
            subjects: subjects.iter().map(|subject| Subject::read(namespace, subject)).collect(),
        }
    }

    /// Reason of a decision: names the first subject that applies to the user.
    pub(super) fn reason(&self, user: &User, namespace: &str) -> String {
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
    /// As upstream, the API group of a subject is ignored.
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

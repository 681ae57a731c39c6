//! User information: name, UID, groups and extra values (`user.Info` upstream).

use std::collections::BTreeMap;

use settled_apimachinery::validation;

/// The group whose members may do everything, whatever the roles say.
pub(crate) const MASTERS: &str = "system:masters";
/// The group of everybody who has shown credentials.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
/// The group of everybody else.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The name of those who have shown none.
pub(crate) const ANONYMOUS: &str = "system:anonymous";

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, unique among users.
    pub name: String,
    /// Tells users apart who have had the same name at different times. Often empty.
    pub uid: String,
    /// The groups that the user is in.
    pub groups: Vec<String>,
    /// What else the credentials said.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user in some groups, as credentials name them: without `system:authenticated`.
    pub fn new(name: impl Into<String>, groups: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { name: name.into(), groups: groups.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// The administrator, as in the certificate that [`Certificates`](super::Certificates) makes.
    ///
    /// The name is kubeadm's, which scripts know. The group is `system:masters`, not a group that a binding names: no change of roles
    /// locks the administrator of a server out of it.
    #[must_use]
    pub fn admin() -> Self {
        Self::new("kubernetes-admin", [MASTERS]).authenticated()
    }

    /// A request without credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        Self::new(ANONYMOUS, [UNAUTHENTICATED])
    }

    /// A ServiceAccount, with the groups of all such and of those in its namespace.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str) -> Self {
        let name = format!("system:serviceaccount:{namespace}:{name}");
        Self::new(name, service_account_groups(namespace)).authenticated()
    }

    /// Adds `system:authenticated`, unless the groups already say whether the user is.
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        let said = self.groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED);
        if self.name != ANONYMOUS && !said {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// Whether the user may do everything.
    #[must_use]
    pub fn is_master(&self) -> bool {
        self.in_group(MASTERS)
    }

    pub(crate) fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|name| name == group)
    }
}

pub(crate) fn service_account_groups(namespace: &str) -> [String; 2] {
    ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
}

/// The namespace and the name in a ServiceAccount's user name.
pub(crate) fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (is_dns_label(namespace) && is_dns_subdomain(name)).then_some((namespace, name))
}

/// The node in a kubelet's user name.
pub(crate) fn split_node(user: &str) -> Option<&str> {
    user.strip_prefix("system:node:").filter(|name| is_dns_subdomain(name))
}

fn is_dns_label(text: &str) -> bool {
    validation::is_dns1123_label(text).is_empty()
}

/// Its labels may be longer than 63 characters: so it is upstream.
pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    validation::is_dns1123_subdomain(text).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_accounts_and_nodes() {
        let long = format!("system:serviceaccount:{}:a", "n".repeat(64));
        let cases: &[(&str, Option<(&str, &str)>)] = &[
            ("system:serviceaccount:default:robot", Some(("default", "robot"))),
            ("system:serviceaccount:default:a.b-c", Some(("default", "a.b-c"))),
            ("system:serviceaccount:default", None),
            ("system:serviceaccount::robot", None),
            ("system:serviceaccount:default:", None),
            ("system:serviceaccount:default:a:b", None),
            ("system:serviceaccount:a.b:c", None),
            ("system:serviceaccount:Default:c", None),
            ("system:serviceaccounts:default:robot", None),
            (&long, None),
            ("jane", None),
        ];
        for (name, expected) in cases {
            assert_eq!(split_service_account(name), *expected, "{name}");
        }
        assert_eq!(split_node("system:node:a.b"), Some("a.b"));
        assert_eq!(split_node("system:node:"), None);
        assert_eq!(split_node("system:node:a_b"), None);
        assert_eq!(split_node("system:nodes"), None);
    }

    #[test]
    fn who_is_authenticated() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("jane", &[], &["system:authenticated"]),
            ("jane", &["a"], &["a", "system:authenticated"]),
            ("jane", &["system:authenticated", "a"], &["system:authenticated", "a"]),
            ("jane", &["system:unauthenticated"], &["system:unauthenticated"]),
            ("system:anonymous", &["a"], &["a"]),
        ];
        for (name, groups, expected) in cases {
            assert_eq!(User::new(*name, groups.iter().copied()).authenticated().groups, *expected);
        }
        assert!(User::admin().is_master() && !User::anonymous().is_master());
    }
}

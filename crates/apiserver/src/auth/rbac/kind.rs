//! Kinds of `rbac.authorization.k8s.io`.

use crate::GroupResource;

/// The API group of Roles and bindings.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// A kind of the group.
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
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Role, Self::ClusterRole, Self::RoleBinding, Self::ClusterRoleBinding];

    /// Name of the kind.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Role => "Role",
            Self::ClusterRole => "ClusterRole",
            Self::RoleBinding => "RoleBinding",
            Self::ClusterRoleBinding => "ClusterRoleBinding",
        }
    }

    /// Plural resource name.
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

    pub(super) fn group_resource(self) -> GroupResource<'static> {
        GroupResource { group: GROUP, resource: self.resource() }
    }
}

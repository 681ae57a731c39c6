//! Kinds of the group `rbac.authorization.k8s.io`. Escalation is checked by `auth::rbac`.

pub(crate) mod role;
pub(crate) mod role_binding;

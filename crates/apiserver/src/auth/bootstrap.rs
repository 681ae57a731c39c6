//! Bootstrap policy: the RBAC roles and bindings that every server starts with.
//!
//! They are those that kube-apiserver 1.36.3 makes, `system:` ones for the controllers included: data of the built-in kinds, which
//! `cargo xtask generate builtins` takes from Kubernetes' own module.

use serde_json::Value;

use super::PolicyKind;

/// The objects, each with its kind, `apiVersion` and metadata. Those that aggregate have no rules yet:
/// [`Rbac::aggregate`](super::Rbac::aggregate) fills them.
///
/// It unpacks and parses 60 KB: once, when a server starts for the first time.
#[must_use]
pub fn policy() -> Vec<(PolicyKind, Value)> {
    let objects = crate::kinds::builtin::bootstrap_rbac();
    let kind = |object: &Value| {
        PolicyKind::ALL.into_iter().find(|kind| object["kind"].as_str() == Some(kind.kind()))
    };
    objects.into_iter().filter_map(|object| Some((kind(&object)?, object))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_is_there() {
        let count = |wanted| policy().iter().filter(|(kind, _)| *kind == wanted).count();
        assert_eq!(PolicyKind::ALL.map(count), [7, 69, 7, 50]);
    }
}

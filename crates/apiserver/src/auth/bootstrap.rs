//! The roles and bindings that every server starts with.
//!
//! They are those that kube-apiserver 1.36.3 makes, `system:` ones for the controllers included. `bootstrap.json` is how it listed them
//! just after its first start, without what belongs to an object's life (uid, versions, times); it equals the files under
//! `plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata` of its module. To refresh it, list the four kinds of a new version.

use serde_json::Value;

use super::PolicyKind;

static POLICY: &str = include_str!("bootstrap.json");

/// The objects, each with its kind, `apiVersion` and metadata. Those that aggregate have no rules yet:
/// [`Rbac::aggregate`](super::Rbac::aggregate) fills them.
///
/// It parses 60 KB: once, when a server starts for the first time.
#[must_use]
pub fn policy() -> Vec<(PolicyKind, Value)> {
    // The text is part of the program, and a test reads it.
    let objects: Vec<Value> = serde_json::from_str(POLICY).unwrap_or_default();
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

//! RoleBindings and ClusterRoleBindings.

use serde_json::Value;
use settled_apimachinery::unstructured::{field, items, string};
use settled_apimachinery::validation;

use crate::kinds::behavior::Behavior;
use crate::kinds::check::{Check, join};
use crate::kinds::printers::{Read as _, Row, cells};
use crate::kinds::strategy::Strategy;
use crate::metadata::NameRule;

pub(crate) static ROLE_BINDING: Strategy = Strategy {
    validate: |check, binding| validate_role_binding(check, true, binding),
    validate_update: Some(|check, new, old| validate_role_binding_update(check, true, new, old)),
    ..COMMON
};

pub(crate) static CLUSTER_ROLE_BINDING: Strategy = Strategy {
    validate: |check, binding| validate_role_binding(check, false, binding),
    validate_update: Some(|check, new, old| validate_role_binding_update(check, false, new, old)),
    ..COMMON
};

const COMMON: Strategy = Strategy {
    behavior: Behavior { create_on_update: true, whole_metadata: true, ..Behavior::BUILTIN },
    name_rule: NameRule::Path,
    print: Some(print_role_binding),
    ..Strategy::DEFAULT
};

const RBAC: &str = "rbac.authorization.k8s.io";

fn validate_role_binding(check: &mut Check, namespaced: bool, new: &Value) {
    let role = field(new, "roleRef");
    let [group, kind, name] = ["apiGroup", "kind", "name"].map(|name| string(role, name));
    if group != RBAC {
        check.not_supported("roleRef.apiGroup", &group.into(), &[RBAC]);
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&kind) {
        check.not_supported("roleRef.kind", &kind.into(), kinds);
    }
    check.required_form("roleRef.name", name, validation::is_path_segment_name);
    for (index, subject) in items(new, "subjects").iter().enumerate() {
        let at = format!("subjects[{index}]");
        let [group, kind, name] = ["apiGroup", "kind", "name"].map(|name| string(subject, name));
        if name.is_empty() {
            check.required(join(&at, "name"), "");
        }
        match kind {
            "ServiceAccount" => {
                if !name.is_empty() {
                    check.form(&join(&at, "name"), name, validation::is_dns1123_subdomain);
                }
                if !group.is_empty() {
                    check.not_supported(join(&at, "apiGroup"), &group.into(), &[""]);
                }
                if !namespaced && string(subject, "namespace").is_empty() {
                    check.required(join(&at, "namespace"), "");
                }
            }
            "User" | "Group" => {
                if group != RBAC {
                    check.not_supported(join(&at, "apiGroup"), &group.into(), &[RBAC]);
                }
            }
            _ => check.not_supported(join(&at, "kind"), &kind.into(), &["ServiceAccount", "User", "Group"]),
        }
    }
}

fn validate_role_binding_update(check: &mut Check, namespaced: bool, new: &Value, old: &Value) {
    validate_role_binding(check, namespaced, new);
    let role = field(new, "roleRef");
    if field(old, "roleRef") != role {
        let [group, kind, name] = ["apiGroup", "kind", "name"].map(|name| Value::from(string(role, name)));
        let shown = format!("{{\"APIGroup\":{group},\"Kind\":{kind},\"Name\":{name}}}");
        check.invalid_shown("roleRef", &shown, "cannot change roleRef");
    }
}

fn print_role_binding(row: Row<'_>) -> Vec<Value> {
    let subjects = |kind: &str| -> String {
        let subjects = row.list("/subjects").iter().filter(|subject| subject.text("/kind") == kind);
        let names = subjects.map(|subject| match kind {
            "ServiceAccount" => format!("{}/{}", subject.text("/namespace"), subject.text("/name")),
            _ => subject.text("/name").to_owned(),
        });
        names.collect::<Vec<_>>().join(", ")
    };
    cells![
        row.name(),
        format!("{}/{}", row.text("/roleRef/kind"), row.text("/roleRef/name")),
        row.age(),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

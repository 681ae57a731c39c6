//! The tables of upstream's `rbac_test.go`, `rule_test.go`, `policy_comparator_test.go`, `policy_compact_test.go` and `helpers_test.go`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::binding::Who;
use super::comparator::{compact, describe, not_covered};
use super::rule::url_owns;
use super::*;
use crate::auth::User;

/// A rule in short: `verbs | groups | resources | names | urls`, each with commas between. `''` is the core group.
fn rule(short: &str) -> PolicyRule {
    let mut parts = short.split('|').map(|part| {
        let part = part.trim();
        let texts = part.split(',').filter(|_| !part.is_empty());
        texts.map(|text| text.replace("''", "")).collect::<Vec<_>>()
    });
    let mut next = || parts.next().unwrap_or_default();
    PolicyRule {
        verbs: next(),
        api_groups: next(),
        resources: next(),
        resource_names: next(),
        non_resource_urls: next(),
    }
}

fn role(rules: &[&str]) -> Value {
    json!({"rules": rules.iter().map(|short| rule(short).to_json()).collect::<Vec<_>>()})
}

/// A binding in short: the role's kind and name, then the subjects, `Kind:name` or `ServiceAccount:namespace/name`.
fn binding(short: &str) -> Value {
    let mut words = short.split(' ');
    let (kind, name) = words.next().unwrap().split_once(':').unwrap();
    let subjects = words.map(|subject| {
        let (kind, name) = subject.split_once(':').unwrap();
        match name.split_once('/') {
            Some((namespace, name)) => json!({"kind": kind, "namespace": namespace, "name": name}),
            None => json!({"kind": kind, "name": name}),
        }
    });
    json!({"roleRef": {"kind": kind, "name": name}, "subjects": subjects.collect::<Vec<_>>()})
}

fn user(name: &str, groups: &str) -> User {
    User::new(name, groups.split(',').filter(|group| !group.is_empty()))
}

/// `verb group/resource/subresource name`, or `verb url`.
fn asked(short: &str) -> Attributes<'_> {
    let mut words = short.split(' ');
    let (verb, what, name) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or_default());
    if what.starts_with('/') {
        return Attributes { verb, path: Some(what), ..Attributes::default() };
    }
    let mut parts = what.splitn(3, ':');
    let mut next = || parts.next().unwrap_or_default();
    let (api_group, resource, subresource) = (next(), next(), next());
    Attributes { verb, api_group, resource, subresource, name, ..Attributes::default() }
}

#[test]
fn what_rules_allow() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        (
            "* | group1 | resource1",
            &["verb1 group1:resource1", "verb2 group1:resource1", "verb1 group1:resource1 name"],
            &[
                "verb1 group2:resource1",
                "verb1 group1:resource2",
                "verb2 group2:resource2",
                "verb1 group1:resource1:sub",
            ],
        ),
        (
            "verb1 | * | resource1",
            &["verb1 group1:resource1", "verb1 group2:resource1", "verb1 :resource1"],
            &["verb1 group1:resource2", "verb2 group1:resource1", "verb2 group2:resource2"],
        ),
        (
            "verb1 | group1 | *",
            &["verb1 group1:resource1", "verb1 group1:resource2", "verb1 group1:resource1:sub"],
            &["verb1 group2:resource1", "verb2 group1:resource1", "verb1 /foo"],
        ),
        (
            "verb1,verb2 | group1,group2 | resource1,resource2",
            &["verb1 group1:resource1", "verb2 group2:resource2", "verb1 group2:resource1"],
            &["verb3 group1:resource1", "verb1 group3:resource1", "verb1 group1:resource3"],
        ),
        (
            "* | * | resource1/subresource1",
            &["verb1 group1:resource1:subresource1", "verb2 group2:resource1:subresource1"],
            &[
                "verb1 group1:resource1:subresource2",
                "verb1 group1:resource2:subresource1",
                "verb1 group1:resource1",
            ],
        ),
        (
            "get | '' | */scale,pods/log",
            &["get :pods:scale", "get :x:scale", "get :pods:log"],
            &["get :pods", "get :scale", "get :x:log", "get :x:ascale", "get :pods:scal", "get apps:x:scale"],
        ),
        ("get | '' | pods | a,b", &["get :pods a", "get :pods b"], &["get :pods c", "get :pods"]),
        ("verb1 ||||*", &["verb1 /foo", "verb1 /foo/bar"], &["verb2 /foo", "verb1 :foo"]),
        (
            "verb1 ||||/foo/*",
            &["verb1 /foo/bar", "verb1 /foo/bar/one", "verb1 /foo/"],
            &["verb1 /foo", "verb1 /notfoo/bar", "verb2 /foo/bar"],
        ),
        (
            "* ||||/foo,/foo/bar/one",
            &["verb1 /foo", "verb2 /foo/bar/one"],
            &["verb1 /foo/bar", "verb1 /fooo"],
        ),
        ("get ||||/a**", &["get /a", "get /abc"], &["get /"]),
        ("", &[], &["get :pods", "get /foo"]),
        ("* | * |", &[], &["get :pods", "get /foo"]),
        ("* || *", &[], &["get :pods"]),
    ];
    for (short, yes, no) in cases {
        for (asks, expected) in [(yes, true), (no, false)] {
            for ask in *asks {
                assert_eq!(rule(short).allows(&asked(ask)), expected, "{short}: {ask}");
            }
        }
    }
}

#[test]
fn roles_and_bindings() {
    let mut rbac = Rbac::default();
    use PolicyKind::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
    let objects: &[(PolicyKind, &str, &str, Value)] = &[
        (ClusterRole, "", "admin", role(&["* | * | *"])),
        (RoleBinding, "ns1", "admin", binding("ClusterRole:admin User:admin Group:admins")),
        (ClusterRole, "", "getter", role(&["get ||||/apis"])),
        (ClusterRoleBinding, "", "getter", binding("ClusterRole:getter User:foo Group:bar")),
        (Role, "ns1", "reader", role(&["get,watch | v1 | pods"])),
        (Role, "ns2", "reader", role(&["get | v1 | secrets"])),
        (
            RoleBinding,
            "ns2",
            "reader",
            binding("Role:reader User:jane ServiceAccount:robot ServiceAccount:ns3/other"),
        ),
        // A ClusterRoleBinding can't name a Role, and has no namespace for an account without one.
        (ClusterRoleBinding, "", "role", binding("Role:reader User:jane")),
        (
            ClusterRoleBinding,
            "",
            "account",
            binding("ClusterRole:admin ServiceAccount:robot Robot:jane User:*"),
        ),
    ];
    for (kind, namespace, name, object) in objects {
        rbac.put(*kind, namespace, name, object);
    }
    let ns2 = "system:serviceaccount:ns2:robot";
    let cases: &[(&str, &str, &str, &str, &str)] = &[
        (
            "admin",
            "",
            "ns1",
            "get :pods",
            r#"RoleBinding "admin/ns1" of ClusterRole "admin" to User "admin""#,
        ),
        (
            "admin",
            "admins",
            "ns1",
            "get :pods",
            r#"RoleBinding "admin/ns1" of ClusterRole "admin" to User "admin""#,
        ),
        (
            "joe",
            "a,admins",
            "ns1",
            "watch x:y",
            r#"RoleBinding "admin/ns1" of ClusterRole "admin" to Group "admins""#,
        ),
        ("admin", "admins", "ns2", "get :pods", ""),
        ("admin", "admins", "", "get :nodes", ""),
        ("admins", "admin", "ns1", "get :pods", ""),
        ("foo", "", "", "get /apis", r#"ClusterRoleBinding "getter" of ClusterRole "getter" to User "foo""#),
        (
            "x",
            "bar",
            "",
            "get /apis",
            r#"ClusterRoleBinding "getter" of ClusterRole "getter" to Group "bar""#,
        ),
        ("foo", "", "", "watch /apis", ""),
        ("foo", "", "", "get /api/v1", ""),
        ("jane", "", "ns2", "get v1:secrets", r#"RoleBinding "reader/ns2" of Role "reader" to User "jane""#),
        ("jane", "", "ns1", "get v1:pods", ""),
        (
            ns2,
            "",
            "ns2",
            "get v1:secrets",
            r#"RoleBinding "reader/ns2" of Role "reader" to ServiceAccount "robot/ns2""#,
        ),
        ("system:serviceaccount:ns1:robot", "", "ns2", "get v1:secrets", ""),
        (
            "system:serviceaccount:ns3:other",
            "",
            "ns2",
            "get v1:secrets",
            r#"RoleBinding "reader/ns2" of Role "reader" to ServiceAccount "other/ns3""#,
        ),
        (ns2, "", "", "get v1:secrets", ""),
        ("robot", "", "", "get :pods", ""),
        ("*", "", "", "get :pods", r#"ClusterRoleBinding "account" of ClusterRole "admin" to User "*""#),
        ("", "", "", "get :pods", ""),
        ("x", "system:masters", "", "anything x:y", "!"),
    ];
    for (name, groups, namespace, ask, expected) in cases {
        let decision = rbac.authorize(&user(name, groups), &Attributes { namespace, ..asked(ask) });
        let allowed = !expected.is_empty();
        let reason = match *expected {
            "" if *name == "jane" => "RBAC: role.rbac.authorization.k8s.io \"reader\" not found".to_owned(),
            "" | "!" => String::new(),
            by => format!("RBAC: allowed by {by}"),
        };
        assert_eq!(decision, Decision { allowed, reason }, "{name} {groups} {namespace} {ask}");
    }
    // What is put away is gone, and leaves nothing.
    for (kind, namespace, name, _) in objects {
        rbac.remove(*kind, namespace, name);
        rbac.remove(*kind, namespace, "never there");
    }
    for (name, groups, namespace, ask, expected) in cases {
        let decision = rbac.authorize(&user(name, groups), &Attributes { namespace, ..asked(ask) });
        assert_eq!(decision, Decision { allowed: *expected == "!", reason: String::new() });
    }
    let left = (rbac.roles.len(), rbac.cluster_roles.len(), rbac.bindings.len());
    assert_eq!(left, (0, 0, 0));
    assert!(rbac.cluster_bindings.by_user.is_empty() && rbac.cluster_bindings.by_group.is_empty());
}

#[test]
fn what_is_put_again_replaces() {
    let mut rbac = Rbac::default();
    let get = |name: &str, rbac: &Rbac| rbac.authorize(&user(name, ""), &asked("get :pods")).allowed;
    rbac.put(PolicyKind::ClusterRoleBinding, "", "b", &binding("ClusterRole:r User:a User:b"));
    assert!(!get("a", &rbac));
    rbac.put(PolicyKind::ClusterRole, "", "r", &role(&["get | '' | pods"]));
    assert!(get("a", &rbac) && get("b", &rbac));
    rbac.put(PolicyKind::ClusterRoleBinding, "", "b", &binding("ClusterRole:r User:b User:b"));
    assert!(!get("a", &rbac) && get("b", &rbac));
    rbac.put(PolicyKind::ClusterRole, "", "r", &role(&["get | '' | nodes"]));
    assert!(!get("b", &rbac));
}

#[test]
fn objects_that_are_not_as_they_should_be_grant_nothing() {
    let strange = [
        json!(null),
        json!([]),
        json!("x"),
        json!(1),
        json!({"rules": {}, "subjects": "x", "roleRef": []}),
        json!({"rules": [null, 1, [], {"verbs": "get"}, {"verbs": [1, null]}], "subjects": [null, 1, {}, {"kind": 1}]}),
        json!({"aggregationRule": {"clusterRoleSelectors": [null, {"matchLabels": 1, "matchExpressions": [{}, 1]}]}}),
    ];
    for object in &strange {
        let mut rbac = Rbac::default();
        for kind in PolicyKind::ALL {
            rbac.put(kind, "ns", "x", object);
            rbac.put(kind, "ns", "y", &binding("ClusterRole:x User:jane"));
        }
        let jane = user("jane", "dev");
        assert!(!rbac.authorize(&jane, &Attributes { namespace: "ns", ..asked("get :pods") }).allowed);
        drop(rbac.aggregate());
        for kind in PolicyKind::ALL {
            let write =
                PolicyWrite { user: &jane, kind, namespace: "ns", name: "x", new: object, old: Some(object) };
            drop(check_escalation(&rbac, &write));
        }
    }
}

/// What is owned, what is wanted, and what of that is not covered.
const COVERS: &[(&[&str], &[&str], &[&str])] = &[
    (&["get | v1 | builds"], &["get | v1 | builds"], &[]),
    (&["get | v1 | */scale"], &["get | v1 | foo/scale"], &[]),
    (&["get | v1 | foo/scale"], &["get | v1 | */scale"], &["get | v1 | */scale"]),
    (
        &["delete | v1 | deployments", "delete | v1 | builds", "update | v1 | builds,deployments"],
        &["delete,update | v1 | builds,deployments"],
        &[],
    ),
    (
        &[
            "delete | group1 | deployments",
            "delete | group1 | builds",
            "update | group1 | builds,deployments",
            "delete | group2 | deployments",
            "delete | group2 | builds",
            "update | group2 | builds,deployments",
        ],
        &["delete,update | group1,group2 | builds,deployments"],
        &[],
    ),
    (
        &["delete,update | group1,group2 | builds,deployments"],
        &[
            "delete | group1 | deployments",
            "delete | group1 | builds",
            "update | group2 | builds,deployments",
        ],
        &[],
    ),
    (
        &["delete,update | v1 | builds,deployments", "delete | v1 | pods"],
        &["delete,update | v1 | builds,deployments,pods"],
        &["update | v1 | pods"],
    ),
    (&["get | * | roles"], &["get | group1,group2 | roles"], &[]),
    (&["get | dummy-group | roles"], &["get | * | roles"], &["get | * | roles"]),
    (&["get | * | roles"], &["get | * | roles"], &[]),
    (&["* | v1 | roles"], &["watch,list | v1 | roles"], &[]),
    (&["get,list,watch,create,update,delete,exec | v1 | roles"], &["* | v1 | roles"], &["* | v1 | roles"]),
    (&["* | v1 | roles"], &["* | v1 | roles"], &[]),
    (&["get | v1 | *"], &["get | v1 | resourcegroup:deployments"], &[]),
    (&["get | v1 | roles,resourcegroup:deployments"], &["get | v1 | *"], &["get | v1 | *"]),
    (&["get | v1 | *"], &["get | v1 | *"], &[]),
    (&["get | v1 | pods"], &["get | v1 | pods | foo,bar"], &[]),
    (&["get | v1 | pods | foo,bar"], &["get | v1 | pods"], &["get | v1 | pods"]),
    (&["get | v1 | pods | foo"], &["get | v1 | pods | foo,bar"], &["get | v1 | pods | bar"]),
    (&["* ||||/apis"], &["* ||||/apis"], &[]),
    (&["* ||||*"], &["* ||||/apis,/apis/v1,/"], &[]),
    (&["* ||||/apis/*"], &["get ||||/apis,/apis/v1"], &["get ||||/apis"]),
    (&["* ||||/apis/*"], &["get ||||/apis/v1/foo,/apis/v1"], &[]),
    (&["get | v1 | builds || /apis"], &["get | v1 | builds || /apis"], &[]),
    (&["get | v1 | builds"], &["get | v1 | builds || /apis"], &["get ||||/apis"]),
    (&["* | * | *"], &["get | v1 | builds | a,b", "* | * | *"], &[]),
    (&["* | * | *"], &["get | v1 | builds || /apis"], &["get ||||/apis"]),
    (&["* | * | * | a"], &["get | v1 | builds"], &["get | v1 | builds"]),
    (&[], &["| v1 | builds", "get || builds", "get | v1 |"], &[]),
];

#[test]
fn what_owned_rules_cover() {
    for (owned, wanted, expected) in COVERS {
        let rules = |shorts: &[&str]| shorts.iter().map(|short| rule(short)).collect::<Vec<_>>();
        let (owned, wanted) = (rules(owned), rules(wanted));
        let (missing, all) = not_covered(&owned.iter().collect::<Vec<_>>(), &wanted);
        assert!(all);
        assert_eq!(missing, rules(expected), "{wanted:?}");
    }
}

#[test]
fn what_urls_cover() {
    let cases = [
        ("*", "", true),
        ("*", "/", true),
        ("*", "/api", true),
        ("/*", "", false),
        ("/*", "/", true),
        ("/*", "/foo", true),
        ("/api", "/api", true),
        ("/apis", "/api", false),
        ("/api/v1", "/api", false),
        ("/api/v1", "/api/v1", true),
        ("/api/*", "/api/v1", true),
        ("/api/*", "/api", false),
        ("/api/*/*", "/api/v1", false),
        ("/*/v1/*", "/api/v1", false),
    ];
    for (own, path, expected) in cases {
        assert_eq!(url_owns(own, path), expected, "{own} {path}");
    }
}

#[test]
fn rules_are_put_together() {
    let parts = [
        "get | '' | builds",
        "list | '' | builds",
        "update | '' | builds",
        "create | extensions | daemonsets",
        "patch | extensions | daemonsets | ''",
        "delete | extensions | daemonsets",
        "get | extensions | daemonsets | foo",
        "list | extensions | daemonsets | foo",
        "get ||||/",
        "get ||||/foo",
    ];
    let expected = [
        r#"{APIGroups:[""], Resources:["builds"], Verbs:["get" "list" "update"]}"#,
        r#"{APIGroups:["extensions"], Resources:["daemonsets"], ResourceNames:[""], Verbs:["patch"]}"#,
        r#"{APIGroups:["extensions"], Resources:["daemonsets"], ResourceNames:["foo"], Verbs:["get" "list"]}"#,
        r#"{APIGroups:["extensions"], Resources:["daemonsets"], Verbs:["create" "delete"]}"#,
        r#"{NonResourceURLs:["/"], Verbs:["get"]}"#,
        r#"{NonResourceURLs:["/foo"], Verbs:["get"]}"#,
    ];
    let mut got: Vec<String> =
        compact(parts.iter().map(|part| rule(part)).collect()).iter().map(describe).collect();
    got.sort();
    assert_eq!(got, expected);
}

#[test]
fn what_the_garbage_collector_may_change() {
    let old = json!({"metadata": {"name": "a", "finalizers": ["x"], "managedFields": [1], "labels": {}}, "rules": null});
    let cases = [
        (json!({"metadata": {"name": "a"}}), true),
        (json!({"metadata": {"name": "a", "ownerReferences": [{}], "selfLink": "x"}, "rules": []}), true),
        (json!({"metadata": {"name": "a", "finalizers": ["y"]}, "roleRef": {"name": ""}}), true),
        (json!({"metadata": {"name": "b"}}), false),
        (json!({"metadata": {"name": "a", "labels": {"a": "b"}}}), false),
        (json!({"metadata": {"name": "a"}, "rules": [{}]}), false),
        (json!({"metadata": {"name": "a"}, "roleRef": {"name": "x"}}), false),
        (json!(null), false),
    ];
    let jane = user("jane", "");
    for (new, expected) in &cases {
        let write = PolicyWrite {
            user: &jane,
            kind: PolicyKind::Role,
            namespace: "ns",
            name: "a",
            new,
            old: Some(&old),
        };
        assert_eq!(write.is_for_garbage_collection(), *expected, "{new}");
        assert!(!PolicyWrite { old: None, ..write }.is_for_garbage_collection());
    }
}

/// A megabyte of rules names more permissions than can be compared. The answer is no, and it comes.
#[test]
fn a_role_of_a_million_combinations() {
    let many = |what: &str| (0..3_000).map(|number| format!("{what}{number}")).collect::<Vec<_>>();
    let huge = json!({"rules": [
        {"verbs": many("verb"), "apiGroups": many("group"), "resources": many("resource"), "resourceNames": many("name")},
    ]});
    let mut rbac = Rbac::default();
    let jane = user("jane", "");
    let write = PolicyWrite {
        user: &jane,
        kind: PolicyKind::ClusterRole,
        namespace: "",
        name: "",
        new: &huge,
        old: None,
    };
    let error = check_escalation(&rbac, &write).unwrap_err();
    assert!(error.message.ends_with("\nand more: there are too many rules to compare"));
    assert!(error.message.len() < 2_000_000);
    // Even those who hold it all, in a rule that is as long.
    rbac.put(PolicyKind::ClusterRole, "", "huge", &huge);
    rbac.put(PolicyKind::ClusterRoleBinding, "", "huge", &binding("ClusterRole:huge User:jane"));
    assert_eq!(check_escalation(&rbac, &write).unwrap_err().code, 403);
    // But who may do all, may.
    rbac.put(PolicyKind::ClusterRole, "", "all", &role(&["* | * | *"]));
    rbac.put(PolicyKind::ClusterRoleBinding, "", "all", &binding("ClusterRole:all User:jane"));
    check_escalation(&rbac, &write).unwrap();
}

#[test]
fn roles_that_gather_each_other_end() {
    let mut rbac = Rbac::default();
    let gathering = |name: &str, label: &str, wanted: &str, rules: &[&str]| {
        let mut role = role(rules);
        role["metadata"] = json!({"name": name, "labels": {(label): ""}});
        role["aggregationRule"] = json!({"clusterRoleSelectors": [{"matchLabels": {(wanted): ""}}]});
        role
    };
    rbac.put(PolicyKind::ClusterRole, "", "a", &gathering("a", "one", "two", &["get | '' | pods"]));
    rbac.put(PolicyKind::ClusterRole, "", "b", &gathering("b", "two", "one", &["get | '' | nodes"]));
    for (name, rules) in rbac.aggregate() {
        let (label, wanted) = if name == "a" { ("one", "two") } else { ("two", "one") };
        let mut object = gathering(&name, label, wanted, &[]);
        object["rules"] = rules;
        rbac.put(PolicyKind::ClusterRole, "", &name, &object);
    }
    assert_eq!(rbac.aggregate(), []);
}

/// What a test does to the policy: the kind, the namespace, the name, and the object; none removes it.
type Step = (usize, usize, usize, Option<usize>);

fn step(rbac: &mut Rbac, (kind, namespace, name, object): Step) {
    const ROLES: [&[&str]; 3] =
        [&["get | '' | pods"], &["* | '' | pods | a", "get ||||/x"], &["list | * | *", "get | '' | nodes"]];
    const SUBJECTS: [&str; 4] = [
        "User:jane",
        "Group:dev User:bob",
        "ServiceAccount:robot Group:ops",
        "User:jane Group:dev User:jane Group:dev",
    ];
    let kind = PolicyKind::ALL[kind];
    let names = ["one", "two", "three"];
    let namespace = match kind {
        PolicyKind::Role | PolicyKind::RoleBinding => ["a", "b"][namespace],
        PolicyKind::ClusterRole | PolicyKind::ClusterRoleBinding => "",
    };
    let Some(object) = object else { return rbac.remove(kind, namespace, names[name]) };
    let object = match kind {
        PolicyKind::Role | PolicyKind::ClusterRole => role(ROLES[object % 3]),
        PolicyKind::RoleBinding | PolicyKind::ClusterRoleBinding => {
            let role = ["ClusterRole", "Role"][object % 2];
            binding(&format!("{role}:{} {}", names[object % 3], SUBJECTS[object % 4]))
        }
    };
    rbac.put(kind, namespace, names[name], &object);
}

/// Decides as upstream does: by looking at every binding.
fn decide_slowly(rbac: &Rbac, user: &User, attributes: &Attributes<'_>) -> bool {
    rbac.scopes(attributes.namespace).any(|(bindings, namespace)| {
        bindings.by_name.values().any(|binding| {
            let applies = binding.subjects.iter().any(|subject| match &subject.who {
                Who::User(name) => *name == user.name,
                Who::Group(name) => user.in_group(name),
                Who::Nobody => false,
            });
            let rules = rbac.rules(&binding.role_kind, &binding.role, namespace);
            applies && rules.is_ok_and(|rules| rules.iter().any(|rule| rule.allows(attributes)))
        })
    })
}

proptest::proptest! {
    /// However the policy came about, the index knows what the objects say.
    #[test]
    fn the_index_keeps_up(
        steps in proptest::collection::vec((0..4_usize, 0..2_usize, 0..3_usize, proptest::option::weighted(0.8, 0..12_usize)), 0..40)
    ) {
        let mut rbac = Rbac::default();
        let mut last: BTreeMap<(usize, usize, usize), Option<usize>> = BTreeMap::new();
        for (kind, namespace, name, object) in steps {
            step(&mut rbac, (kind, namespace, name, object));
            let namespace = if kind % 2 == 0 { namespace } else { 0 };
            last.insert((kind, namespace, name), object);
        }
        let mut fresh = Rbac::default();
        for ((kind, namespace, name), object) in last {
            step(&mut fresh, (kind, namespace, name, object));
        }
        let users = [
            user("jane", ""), user("bob", "ops"), user("ann", "dev,ops"), user("jane", "dev"), User::service_account("a", "robot"),
            user("nobody", ""),
        ];
        for user in &users {
            for namespace in ["", "a", "b", "c"] {
                for ask in ["get :pods", "get :pods a", "list x:y", "get :nodes", "get /x", "delete :pods a", "delete :pods b"] {
                    let attributes = Attributes { namespace, ..asked(ask) };
                    let decision = rbac.authorize(user, &attributes);
                    proptest::prop_assert_eq!(&decision, &fresh.authorize(user, &attributes));
                    proptest::prop_assert_eq!(decision.allowed, decide_slowly(&rbac, user, &attributes));
                    let granted = rbac.rules_of(user, namespace);
                    proptest::prop_assert_eq!(decision.allowed, granted.rules.iter().any(|rule| rule.allows(&attributes)));
                }
            }
        }
    }
}

//! What kube-apiserver 1.36.3 answered, replayed.
//!
//! `tests/golden/auth` holds a policy on top of the bootstrap one, and under it: `decisions.txt`, a table of identities, namespaces,
//! resources and verbs, where all that is not listed is denied; and `exchanges.jsonl.zst`, requests with their whole answers, in their order.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use http::HeaderMap;
use serde_json::{Value, json};

use super::rbac::{PolicyWrite, check_escalation};
use super::*;

fn file(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/auth").join(name);
    settled_golden::read_to_string(&path).unwrap_or_else(|error| panic!("{error}"))
}

fn put(rbac: &mut Rbac, kind: PolicyKind, object: &Value) {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().unwrap_or_default();
    rbac.put(kind, text("namespace"), text("name"), object);
}

/// The bootstrap policy and the test's, aggregated. Also all objects by kind, namespace and name.
fn policy() -> (Rbac, HashMap<(String, String, String), Value>) {
    let mut rbac = Rbac::default();
    let mut objects = HashMap::new();
    let own: Vec<Value> = serde_json::from_str(&file("policy.json")).unwrap();
    let kind =
        |object: &Value| PolicyKind::ALL.into_iter().find(|kind| object["kind"] == kind.kind()).unwrap();
    let all = bootstrap::policy().into_iter().chain(own.into_iter().map(|object| (kind(&object), object)));
    for (kind, object) in all {
        put(&mut rbac, kind, &object);
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
        objects.insert((kind.resource().to_owned(), text("namespace"), text("name")), object);
    }
    for (name, rules) in rbac.aggregate() {
        let object = objects.get_mut(&("clusterroles".to_owned(), String::new(), name)).unwrap();
        object["rules"] = rules;
        put(&mut rbac, PolicyKind::ClusterRole, object);
    }
    assert_eq!(rbac.aggregate(), []);
    (rbac, objects)
}

#[test]
fn aggregated_rules_are_those_of_the_controller() {
    let (_, objects) = policy();
    let expected: Vec<Value> = serde_json::from_str(&file("aggregated.json")).unwrap();
    let own: Vec<Value> = serde_json::from_str(&file("policy.json")).unwrap();
    let expected = expected.iter().chain(&own).filter(|object| object.get("aggregationRule").is_some());
    let mut count = 0;
    for role in expected {
        let key =
            ("clusterroles".to_owned(), String::new(), role["metadata"]["name"].as_str().unwrap().to_owned());
        assert_eq!(objects[&key]["rules"], role["rules"], "{}", key.2);
        count += 1;
    }
    assert_eq!(count, 4);
}

struct Table {
    verbs: Vec<String>,
    path_verbs: Vec<String>,
    namespaces: Vec<String>,
    identities: Vec<(String, User)>,
    /// Group, resource, subresource, name; and as the table writes them.
    resources: Vec<([String; 4], String)>,
    paths: Vec<String>,
    allowed: HashMap<(String, String, String), Vec<String>>,
}

fn table() -> Table {
    let text = file("decisions.txt");
    let mut fields: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let (head, rows) = text.split_once("allowed:\n").unwrap();
    for line in head.lines().filter(|line| !line.starts_with('#')) {
        let (field, value) = line.split_once(": ").unwrap();
        fields.entry(field).or_default().push(value);
    }
    let words = |field: &str| fields[field][0].split(' ').map(str::to_owned).collect::<Vec<_>>();
    let identity = |line: &&str| {
        let [key, name, groups] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        (key.to_owned(), User::new(name, groups.split(',').filter(|group| !group.is_empty())))
    };
    let resource = |line: &&str| {
        let (group, rest) = line.split_once(": ").unwrap();
        let (resource, name) = rest.split_once(' ').unwrap_or((rest, ""));
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        ([group, resource, subresource, name].map(str::to_owned), (*line).to_owned())
    };
    let rows = rows.lines().map(|line| {
        let [identity, namespace, what, verbs] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let key = (identity.to_owned(), namespace.to_owned(), what.to_owned());
        (key, verbs.split(' ').map(str::to_owned).collect())
    });
    Table {
        verbs: words("verbs"),
        path_verbs: words("path-verbs"),
        namespaces: serde_json::from_str(fields["namespaces"][0]).unwrap(),
        identities: fields["identity"].iter().map(identity).collect(),
        resources: fields["resource"].iter().map(resource).collect(),
        paths: fields["path"].iter().map(|path| serde_json::from_str(path).unwrap()).collect(),
        allowed: rows.collect(),
    }
}

/// Calls with each question of the table, and whether it is allowed.
fn each_question(table: &Table, mut visit: impl FnMut(&str, &User, &Attributes<'_>, bool)) {
    let allowed = |identity: &str, namespace: &str, what: &str, verb: &String| {
        let key = (identity.to_owned(), namespace.to_owned(), what.to_owned());
        table.allowed.get(&key).is_some_and(|verbs| verbs.contains(verb))
    };
    for (identity, user) in &table.identities {
        for namespace in &table.namespaces {
            for ([group, resource, subresource, name], written) in &table.resources {
                for verb in &table.verbs {
                    let attributes = Attributes {
                        verb,
                        api_group: group,
                        api_version: "*",
                        resource,
                        subresource,
                        namespace,
                        name,
                        path: None,
                    };
                    visit(identity, user, &attributes, allowed(identity, namespace, written, verb));
                }
            }
        }
        for path in &table.paths {
            for verb in &table.path_verbs {
                let attributes = Attributes { verb, path: Some(path), ..Attributes::default() };
                visit(identity, user, &attributes, allowed(identity, "-", path, verb));
            }
        }
    }
}

#[test]
fn all_decisions_are_upstreams_and_denied_is_the_rule() {
    let (rbac, _) = policy();
    let (mut asked, mut allowed, mut wrong) = (0, 0, Vec::new());
    each_question(&table(), |identity, user, attributes, expected| {
        asked += 1;
        allowed += usize::from(expected);
        let decision = rbac.authorize(user, attributes);
        if decision.allowed != expected {
            wrong.push(format!("{identity} {attributes:?}: {decision:?}"));
        }
    });
    assert!(wrong.is_empty(), "{} of {asked}: {:#?}", wrong.len(), &wrong[..wrong.len().min(5)]);
    assert_eq!(asked, 124_040);
    assert!(allowed > 10_000 && allowed < asked / 5, "{allowed} allowed");
}

/// A server that does nothing but ask who and whether.
struct Server {
    rbac: Rbac,
    objects: HashMap<(String, String, String), Value>,
    tokens: Tokens,
    impersonation: Impersonation,
}

impl Server {
    fn answer(&self, exchange: &Value) -> Result<Value, ApiError> {
        let token = exchange["token"].as_str().map(|token| format!("Bearer {token}"));
        let mut headers = HeaderMap::new();
        for header in exchange["headers"].as_array().unwrap() {
            let name = http::HeaderName::try_from(header[0].as_str().unwrap()).unwrap();
            headers.append(name, header[1].as_str().unwrap().parse().unwrap());
        }
        let path = exchange["path"].as_str().unwrap();
        let attributes = attributes(exchange["method"].as_str().unwrap(), path);
        let user = authenticate(None, token.as_deref(), &self.tokens)?;
        let effective = self.impersonation.effective(&self.rbac, &user, &attributes, &headers)?;
        let user = effective.unwrap_or(user);
        self.rbac.require(&user, &attributes)?;

        let (body, namespace) = (&exchange["body"], attributes.namespace);
        if let Some(kind) = PolicyKind::of_resource(attributes.resource) {
            let key = (attributes.resource.to_owned(), namespace.to_owned(), attributes.name.to_owned());
            let old = self.objects.get(&key).cloned().map(|mut old| {
                // What is stored has more than what a client sends.
                old["metadata"]["uid"] = "1".into();
                old
            });
            let name = attributes.name;
            let write = PolicyWrite { user: &user, kind, namespace, name, new: body, old: old.as_ref() };
            check_escalation(&self.rbac, &write)?;
        }
        match attributes.resource {
            "selfsubjectaccessreviews" => reviews::self_subject_access_review(&self.rbac, &user, body),
            "subjectaccessreviews" => reviews::subject_access_review(&self.rbac, body),
            "localsubjectaccessreviews" => reviews::local_subject_access_review(&self.rbac, namespace, body),
            "selfsubjectrulesreviews" => reviews::self_subject_rules_review(&self.rbac, &user, body),
            "selfsubjectreviews" => Ok(reviews::self_subject_review(&user, "2026-11-21T00:00:00Z")),
            "tokenreviews" => reviews::token_review(&self.tokens, body),
            _ => Ok(json!({})),
        }
    }
}

fn attributes<'a>(method: &'a str, path: &'a str) -> Attributes<'a> {
    let path = path.split('?').next().unwrap();
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let (api_group, rest) = match parts.as_slice() {
        ["api", _, rest @ ..] if !rest.is_empty() => ("", rest),
        ["apis", group, _, rest @ ..] if !rest.is_empty() => (*group, rest),
        _ => return Attributes { verb: "get", path: Some(path), ..Attributes::default() },
    };
    let (namespace, rest) = match rest {
        ["namespaces", namespace] => (*namespace, rest),
        ["namespaces", namespace, rest @ ..] => (*namespace, rest),
        rest => ("", rest),
    };
    let part = |index: usize| rest.get(index).copied().unwrap_or_default();
    let verb = match (method, part(1)) {
        ("GET", "") => "list",
        ("GET", _) => "get",
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("DELETE", "") => "deletecollection",
        ("DELETE", _) => "delete",
        _ => panic!("{method}"),
    };
    Attributes {
        verb,
        api_group,
        api_version: "v1",
        resource: part(0),
        name: part(1),
        subresource: part(2),
        namespace,
        path: None,
    }
}

/// Takes out what may differ: the order of rules, which upstream does not keep either, and times.
fn normal(mut answer: Value) -> Value {
    for rules in ["resourceRules", "nonResourceRules"] {
        if let Some(rules) = answer["status"].get_mut(rules).and_then(Value::as_array_mut) {
            rules.sort_by_key(Value::to_string);
        }
    }
    let object = answer.as_object_mut().unwrap();
    if object.get("details") == Some(&json!({})) {
        object.remove("details");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("creationTimestamp");
    }
    answer
}

#[test]
fn whole_answers_are_upstreams() {
    let (rbac, objects) = policy();
    let tokens = Tokens::parse(&file("tokens.csv")).unwrap().for_audiences(vec!["https://x".to_owned()]);
    let server = Server { rbac, objects, tokens, impersonation: Impersonation::default() };
    let (mut wrong, mut compared, mut other_reasons) = (Vec::new(), 0, 0);
    for line in file("exchanges.jsonl.zst").lines() {
        let exchange: Value = serde_json::from_str(line).unwrap();
        let (code, note) = (exchange["code"].as_u64().unwrap(), exchange["note"].as_str().unwrap());
        // What is not there, and what the object's own validation says, is not for these modules.
        let passes = match code {
            404 => matches!(note, "access" | "impersonate"),
            422 => note.starts_with("aggregation"),
            _ => false,
        };
        let got = server.answer(&exchange);
        let expected = &exchange["answer"];
        let same = match &got {
            Err(error) => {
                !passes
                    && u64::from(error.code) == code
                    && normal(error.to_status()) == normal(expected.clone())
            }
            Ok(_) if passes => true,
            // Only that it was allowed is known of other kinds.
            Ok(answer) if answer == &json!({}) => code < 300,
            Ok(answer) => {
                let (mut answer, mut expected) = (normal(answer.clone()), normal(expected.clone()));
                if answer["status"]["allowed"] == true
                    && answer["status"]["reason"] != expected["status"]["reason"]
                {
                    // Of several bindings that allow it, upstream names any.
                    other_reasons += 1;
                    answer["status"]["reason"].take();
                    expected["status"]["reason"].take();
                }
                code < 300 && answer == expected
            }
        };
        compared += 1;
        if !same {
            let got = got.unwrap_or_else(|error| error.to_status());
            let request =
                ["token", "path", "headers", "body"].map(|part| exchange[part].to_string()).join(" ");
            wrong.push(format!("{note}: {request}\n  got {got}\n  not {code} {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong[..wrong.len().min(12)].join("\n"));
    assert_eq!(compared, 739);
    assert!(other_reasons < 12, "{other_reasons}");
}

//! What a request needs a verb for besides its own: updates that create need `create`.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use settled_apiserver::Server;
use settled_apiserver::auth::User;
use settled_manifest::{Item, Scratch, Splitter};

use crate::surface::widgets;
use crate::watching::start;

const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

/// The kinds with `AllowCreateOnUpdate` in their strategies upstream.
const CREATED_BY_PUT: [(&str, &str); 11] = [
    ("", "endpoints"),
    ("", "events"),
    ("", "limitranges"),
    ("", "services"),
    ("coordination.k8s.io", "leases"),
    ("events.k8s.io", "events"),
    ("node.k8s.io", "runtimeclasses"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "roles"),
];

/// Objects of the kinds that `builtin/objects.yaml` has none of, and such as need nothing else to exist.
const MORE_OBJECTS: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: empty, namespace: default}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: empty, namespace: default}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nothing}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: empty}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nothing}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: a}
spec:
  reinvocationPolicy: Never
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[]"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: a}
spec: {policyName: a}
---
apiVersion: networking.k8s.io/v1
kind: IPAddress
metadata: {name: 192.0.2.1}
spec: {parentRef: {resource: services, namespace: default, name: a}}
---
apiVersion: networking.k8s.io/v1
kind: ServiceCIDR
metadata: {name: a}
spec: {cidrs: [192.0.2.0/24]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: a}
spec: {driver: a.example.com, nodeName: a, pool: {name: a, generation: 1, resourceSliceCount: 1}}
---
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: a}
driverName: a.example.com
parameters: {a: b}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.org}
spec:
  group: example.org
  scope: Cluster
  names: {plural: gadgets, kind: Gadget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: a, namespace: default}
"#;

/// A request of a user, answered.
pub(crate) async fn ask(
    server: &Server,
    user: &User,
    method: Method,
    path: &str,
    content_type: &str,
    body: &Value,
) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let body = if body.is_null() { Bytes::new() } else { body.to_string().into() };
    let answer = server.call(Some(user.clone()), request.body(Full::new(body)).unwrap()).await;
    let status = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// A user who may do these verbs with everything.
pub(crate) async fn grant(server: &Server, name: &str, verbs: &[&str]) -> User {
    let admin = User::admin();
    let role = json!({
        "metadata": {"name": name}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": verbs}],
    });
    let binding = json!({
        "metadata": {"name": name}, "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name,
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
    });
    for (plural, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let path = format!("{RBAC}/{plural}");
        assert_eq!(ask(server, &admin, Method::POST, &path, JSON, &object).await.0, 201);
    }
    User::new(name, ["developers"]).authenticated()
}

fn documents(text: &str) -> Vec<Value> {
    let (mut splitter, mut scratch, mut found) =
        (Splitter::new(text.as_bytes()), Scratch::default(), Vec::new());
    while let Some(batch) = splitter.next_batch(Default::default()).unwrap() {
        batch.objects(&mut scratch, |item| match item {
            Item::Object(object) => found.push(serde_json::from_slice(object.json).unwrap()),
            Item::Malformed(why) => panic!("{why}"),
        });
    }
    found
}

/// A resource that can be patched.
struct Served {
    group: String,
    plural: String,
    namespaced: bool,
    api_version: String,
    kind: String,
}

impl Served {
    fn path(&self, name: &str) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let namespace = if self.namespaced { "namespaces/default/" } else { "" };
        format!("{root}/{}/{namespace}{}/{name}", self.api_version, self.plural)
    }

    /// What upstream answers to a user who may not create it.
    fn refusal(&self, user: &str, name: &str, subresource: &str) -> String {
        let Self { group, plural, .. } = self;
        let resource = if group.is_empty() { plural.clone() } else { format!("{plural}.{group}") };
        let whole = if subresource.is_empty() { plural.clone() } else { format!("{plural}/{subresource}") };
        let place = match (self.namespaced, plural.as_str()) {
            (true, _) => "in the namespace \"default\"".to_owned(),
            // Its path names it as the namespace too.
            (false, "namespaces") => format!("in the namespace {name:?}"),
            (false, _) => "at the cluster scope".to_owned(),
        };
        format!(
            "{resource} {name:?} is forbidden: User {user:?} cannot create resource {whole:?} in API group {group:?} {place}"
        )
    }
}

/// All resources with the verb `patch`, from discovery.
async fn patchable(server: &Server) -> Vec<Served> {
    let admin = User::admin();
    let mut groups = vec!["v1".to_owned()];
    let (_, list) = ask(server, &admin, Method::GET, "/apis", JSON, &Value::Null).await;
    for group in list["groups"].as_array().unwrap() {
        for version in group["versions"].as_array().unwrap() {
            groups.push(version["groupVersion"].as_str().unwrap().to_owned());
        }
    }
    let mut found = Vec::new();
    for api_version in groups {
        let root = if api_version == "v1" { "/api" } else { "/apis" };
        let path = format!("{root}/{api_version}");
        let (_, list) = ask(server, &admin, Method::GET, &path, JSON, &Value::Null).await;
        for resource in list["resources"].as_array().unwrap() {
            let plural = resource["name"].as_str().unwrap();
            let can_patch = resource["verbs"].as_array().unwrap().contains(&json!("patch"));
            if plural.contains('/') || !can_patch {
                continue;
            }
            found.push(Served {
                group: api_version.split_once('/').map_or("", |(group, _)| group).to_owned(),
                plural: plural.to_owned(),
                namespaced: resource["namespaced"] == true,
                api_version: api_version.clone(),
                kind: resource["kind"].as_str().unwrap().to_owned(),
            });
        }
    }
    found
}

/// A valid object of each kind.
fn objects() -> BTreeMap<(String, String), Value> {
    let mut found = BTreeMap::new();
    for mut object in documents(&format!("{MORE_OBJECTS}---\n{}", include_str!("builtin/objects.yaml"))) {
        let text = |name: &str| object[name].as_str().unwrap().to_owned();
        let kind = (text("apiVersion"), text("kind"));
        if let Some(namespace) = object["metadata"].get_mut("namespace") {
            *namespace = "default".into();
        }
        found.entry(kind).or_insert(object);
    }
    found
}

#[tokio::test]
async fn updates_that_create_need_the_verb_create() {
    let server = start().await;
    let admin = User::admin();
    let bob = grant(&server, "bob", &["get", "patch", "update"]).await;
    let carol =
        grant(&server, "carol", &["get", "patch", "update", "create", "approve", "bind", "escalate"]).await;
    let nothing = json!({"metadata": {"name": "nothing"}, "rules": []});
    ask(&server, &admin, Method::POST, &format!("{RBAC}/clusterroles"), JSON, &nothing).await;
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(ask(&server, &admin, Method::POST, crds, JSON, &widgets()).await.0, 201);
    while ask(&server, &admin, Method::GET, "/apis/example.com/v1", JSON, &Value::Null).await.0 != 200 {
        tokio::task::yield_now().await;
    }

    let mut objects = objects();
    let request = include_str!("golden/signing_requests/rsa.pem");
    objects.insert(
        ("certificates.k8s.io/v1".to_owned(), "CertificateSigningRequest".to_owned()),
        json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "a"},
            "spec": {
                "signerName": "example.com/a", "usages": ["any"],
                "request": base64::prelude::BASE64_STANDARD.encode(request),
            },
        }),
    );
    let mut created_by_put = BTreeSet::new();
    let all = patchable(&server).await;
    assert!(all.len() >= 60, "{}", all.len());
    for served in &all {
        let Some(object) = objects.get(&(served.api_version.clone(), served.kind.clone())) else {
            // The old version of widgets, which is the same resource.
            assert_eq!(served.api_version, "example.com/v1alpha1", "no object of {}", served.kind);
            continue;
        };
        let name = object["metadata"]["name"].as_str().unwrap();
        let path = served.path(name);
        let (dry, real) = ("?fieldManager=m&dryRun=All", "?fieldManager=m");
        let get = || ask(&server, &admin, Method::GET, &path, JSON, &Value::Null);
        let send = |user, method: &Method, content_type, query: &str| {
            let path = format!("{path}{query}");
            let (server, method) = (&server, method.clone());
            async move { ask(server, user, method, &path, content_type, object).await }
        };

        let (patch, put) = (&Method::PATCH, &Method::PUT);
        for query in [dry, real] {
            let (status, answer) = send(&bob, patch, APPLY, query).await;
            assert_eq!(
                (status, &answer["message"]),
                (403, &served.refusal("bob", name, "").into()),
                "{path}"
            );
            assert_eq!(answer["reason"], "Forbidden");
            let by_put = CREATED_BY_PUT.contains(&(served.group.as_str(), served.plural.as_str()));
            let (status, answer) = send(&bob, put, JSON, query).await;
            if by_put {
                created_by_put.insert((served.group.as_str(), served.plural.as_str()));
                assert_eq!(
                    (status, &answer["message"]),
                    (403, &served.refusal("bob", name, "").into()),
                    "{path}"
                );
                assert_eq!(send(&carol, put, JSON, dry).await.0, 201, "{path}");
            } else {
                assert_eq!(status, 404, "{path}: {answer}");
            }
            // Other patches never create.
            assert_eq!(send(&bob, patch, MERGE, query).await.0, 404, "{path}");
        }
        assert_eq!(get().await.0, 404, "{path}");

        let (status, answer) = send(&carol, patch, APPLY, dry).await;
        assert_eq!(status, 201, "{path}: {answer}");
        assert_eq!(get().await.0, 404, "{path}");
        let (status, answer) = send(&carol, patch, APPLY, real).await;
        assert_eq!(status, 201, "{path}: {answer}");
        assert_eq!(get().await.0, 200, "{path}");
        // Objects that exist need the verb patch only.
        let (status, answer) = send(&bob, patch, APPLY, "?fieldManager=m&force=true").await;
        assert_eq!(status, 200, "{path}: {answer}");
    }
    assert_eq!(created_by_put, BTreeSet::from(CREATED_BY_PUT));
}

#[tokio::test]
async fn a_put_of_a_status_that_creates_needs_create_of_the_subresource() {
    let server = start().await;
    let bob = grant(&server, "bob", &["get", "update"]).await;
    let service = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}});
    let path = "/api/v1/namespaces/default/services/a";
    let (status, answer) = ask(&server, &bob, Method::PUT, &format!("{path}/status"), JSON, &service).await;
    let message = "services \"a\" is forbidden: User \"bob\" cannot create resource \"services/status\" in API group \"\" in the \
                   namespace \"default\"";
    assert_eq!((status, answer["message"].as_str()), (403, Some(message)));
    assert_eq!(ask(&server, &User::admin(), Method::GET, path, JSON, &Value::Null).await.0, 404);
}

//! Clients that mean harm: what they send is refused, and everybody else is answered meanwhile.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{self, FutureExt};
use http::{Method, Request};
use http_body::Frame;
use http_body_util::{BodyExt, Full};
use serde_json::{Map, Value, json};
use settled_apiserver::auth::User;
use settled_apiserver::{Config, Server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

struct Client {
    server: Server,
    user: User,
}

impl Client {
    async fn new(config: Config) -> Self {
        let server = Server::start(config).await.unwrap();
        Self { server, user: User::new("admin", ["system:masters"]) }
    }

    fn of(&self, name: &str) -> Self {
        Self { server: self.server.clone(), user: User::new(name, ["system:authenticated"]) }
    }

    async fn call<B>(&self, method: Method, path: &str, body: B) -> (u16, Value)
    where
        B: http_body::Body<Data = Bytes, Error = Infallible> + Send,
    {
        self.send(method, path, "application/json", body).await
    }

    async fn send<B>(&self, method: Method, path: &str, form: &str, body: B) -> (u16, Value)
    where
        B: http_body::Body<Data = Bytes, Error = Infallible> + Send,
    {
        let request =
            Request::builder().method(method).uri(path).header("content-type", form).body(body).unwrap();
        let response = self.server.call(Some(self.user.clone()), request).await;
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        (head.status.as_u16(), serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        self.call(Method::POST, path, Full::new(Bytes::from(body.to_string()))).await
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.call(Method::GET, path, Full::new(Bytes::new())).await
    }

    /// Serves widgets whose spec has this schema, and waits for that.
    async fn with_widgets(self, spec: Value) -> Self {
        let crd = json!({
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": spec},
                }}}],
            },
        });
        let created = self.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await;
        assert_eq!(created.0, 201, "{}", created.1);
        while self.get(WIDGETS).await.0 != 200 {
            tokio::task::yield_now().await;
        }
        self
    }

    /// Lets a user do everything in the namespace.
    async fn allow(&self, name: &str) {
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
        });
        let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
        assert_eq!(self.post(path, &binding).await.0, 201);
    }
}

fn widget(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec})
}

/// Three alternatives, each of which has three, and so on; no small number passes any.
fn tree(depth: usize) -> Value {
    let clause = (0..depth)
        .fold(json!({"minimum": 1_000_000}), |clause, _| json!({"anyOf": [clause, clause, clause]}));
    json!({"type": "integer", "anyOf": clause["anyOf"]})
}

fn numbers(count: usize) -> Value {
    (0..count).collect()
}

/// Takes a while, wherever it is done.
fn crowded() -> Value {
    let names = || (0..3000).map(|number| format!("k{number:06}"));
    let entry = |name: String| {
        json!({
            "manager": format!("m{name}"), "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
            "time": "2024-05-01T10:00:00Z", "fieldsV1": {"f:data": {format!("f:{name}"): {}}},
        })
    };
    let data: Map<String, Value> = names().map(|name| (name, "x".into())).collect();
    let managed: Vec<Value> = names().map(entry).collect();
    json!({"metadata": {"name": "crowded", "managedFields": managed}, "data": data})
}

#[tokio::test]
async fn what_takes_too_much_is_refused_and_not_stored() {
    let fields: Map<String, Value> = (0..20)
        .map(|number| (format!("field-{number}"), json!({"type": "string", "default": "0123456789"})))
        .collect();
    let mut config = Config::default();
    config.limits.steps = 1_000_000;
    let client = Client::new(config).await;
    let client = client
        .with_widgets(json!({"type": "object", "properties": {
            "defaults": {"type": "array", "items": {"type": "object", "properties": fields}},
            "tree": {"type": "array", "items": tree(7)},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
        }}))
        .await;
    let too_large =
        "Request entity too large: with the defaults of its schema the object takes more than 31457280 bytes";
    let too_long = "the request takes too much processor time: its object is too large for the schema that it is defaulted by \
                    and validated against";
    // As many of everything as is fit, and as an attacker sends.
    let twice: Value = (0..300_000).map(|number| number / 2).collect();
    let cases = [
        (json!({"defaults": vec![json!({}); 100], "set": numbers(1000)}), 201, ""),
        (json!({"defaults": vec![json!({}); 300_000]}), 413, too_large),
        (json!({"tree": numbers(3)}), 422, "Widget.example.com \"w\" is invalid: ["),
        (json!({"tree": numbers(20_000)}), 422, too_long),
        (
            json!({"set": twice}),
            422,
            "Widget.example.com \"w\" is invalid: [spec.set[1]: Duplicate value: 0, ",
        ),
    ];
    for (spec, code, message) in cases {
        let answer = client.post(WIDGETS, &widget(spec)).await;
        let found = answer.1["message"].as_str().unwrap_or_default();
        assert_eq!(answer.0, code, "{found:.200}");
        assert!(found.starts_with(message), "{found:.200}");
        let (_, list) = client.get(WIDGETS).await;
        assert_eq!(list["items"].as_array().map(Vec::len), Some(usize::from(code == 201)));
        if code == 201 {
            let path = format!("{WIDGETS}/w");
            assert_eq!(client.call(Method::DELETE, &path, Full::new(Bytes::new())).await.0, 200);
        }
    }
}

#[tokio::test]
async fn others_are_answered_while_a_request_is_worked_on() {
    let client = Client::new(Config::default()).await;
    let large = crowded();
    assert_eq!(client.post(MAPS, &large).await.0, 201);
    let mut renamed = large.clone();
    renamed["metadata"]["name"] = "another".into();
    let (all, crowded) = (format!("{MAPS}?dryRun=All"), format!("{MAPS}/crowded?dryRun=All"));
    let small = json!({"metadata": {"name": "crowded"}, "data": {"k000000": "y"}});
    let patch = json!({"data": {"k000000": "y"}});
    // All but the first are small, and what they change is large. Dry runs wait for nothing but their work.
    let cases = [
        (Method::POST, &all, "application/json", renamed, 201),
        (Method::PUT, &crowded, "application/json", small, 200),
        (Method::PATCH, &crowded, "application/merge-patch+json", patch, 200),
        (
            Method::PATCH,
            &crowded,
            "application/json-patch+json",
            json!([{"op": "test", "path": "/data/k000000", "value": "x"}]),
            200,
        ),
    ];
    for (method, path, form, body, code) in cases {
        let answered = AtomicUsize::new(0);
        let heavy = client
            .send(method.clone(), path, form, Full::new(Bytes::from(body.to_string())))
            .map(|answer| (answer.0, answered.load(Ordering::Relaxed)));
        let health = async {
            for _ in 0..usize::MAX {
                // Its body is a text, not JSON.
                assert_eq!(client.get("/livez").await.0, 200);
                assert_eq!(client.get("/api/v1/namespaces/default").await.0, 200);
                answered.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        };
        // There is one thread here: what is worked on there lets nobody else have a turn.
        let (found, meanwhile) = tokio::select! {
            biased;
            found = heavy => found,
            () = health => (0, 0),
        };
        assert_eq!(found, code, "{method} {form}");
        assert!(meanwhile > 0, "{method} {form}");
    }
}

#[tokio::test]
async fn a_deadline_ends_the_work() {
    let mut config = Config::default();
    config.limits.steps = u64::MAX;
    let client = Client::new(config).await.with_widgets(json!({"type": "array", "items": tree(8)})).await;
    // Hours of work, for more requests than there are threads.
    let hopeless = widget(numbers(200_000));
    let path = format!("{WIDGETS}?dryRun=All&timeout=20ms");
    let requests = (0..12).map(|_| client.post(&path, &hopeless));
    for (code, answer) in future::join_all(requests).await {
        assert_eq!((code, &answer["reason"]), (504, &json!("Timeout")), "{answer}");
    }
    // If the threads were still at it, this would have to wait for ever.
    let (code, _) = client.post(&format!("{MAPS}?dryRun=All"), &crowded()).await;
    assert_eq!(code, 201);
}

/// A body that begins, and does not go on.
struct Stuck {
    first: Option<Bytes>,
    /// How many were asked for more than they had.
    asked: Arc<AtomicUsize>,
}

impl http_body::Body for Stuck {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.first.take() {
            Some(first) => Poll::Ready(Some(Ok(Frame::data(first)))),
            None => {
                self.asked.fetch_add(1, Ordering::Relaxed);
                Poll::Pending
            }
        }
    }
}

#[tokio::test]
async fn slow_bodies_of_one_user_lock_nobody_out() {
    let mut config = Config::default();
    // Nobody has to wait here.
    config.limits.queue_time = Duration::ZERO;
    let client = Client::new(config).await;
    let (jane, bob) = (client.of("jane"), client.of("bob"));
    client.allow("bob").await;
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let asked = Arc::new(AtomicUsize::new(0));
    let stuck = |size| Stuck { first: Some(vec![b'{'; size].into()), asked: asked.clone() };
    // More than there are seats, of both sizes of bodies.
    let mut slow: Vec<_> = (0..260)
        .map(|number| {
            Box::pin(jane.call(Method::POST, reviews, stuck(if number < 200 { 1 } else { 100_000 })))
        })
        .collect();
    for request in &mut slow {
        assert!(request.as_mut().now_or_never().is_none());
    }
    assert!(asked.load(Ordering::Relaxed) >= 200);
    let review = json!({"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}});
    let large = json!({"metadata": {"name": "large"}, "data": {"text": "x".repeat(200_000)}});
    assert_eq!(bob.post(reviews, &review).await.0, 201);
    assert_eq!(bob.post(MAPS, &large).await.0, 201);
    assert_eq!(jane.post(reviews, &review).await.0, 201);
    drop(slow);
    assert_eq!(jane.post(reviews, &review).await.0, 201);
}

#[tokio::test]
async fn nothing_is_read_from_those_who_may_not_write() {
    let client = Client::new(Config::default()).await;
    let asked = Arc::new(AtomicUsize::new(0));
    let body = Stuck { first: None, asked: asked.clone() };
    let (code, _) = client.of("jane").call(Method::POST, MAPS, body).await;
    assert_eq!((code, asked.load(Ordering::Relaxed)), (403, 0));
}

#[tokio::test]
async fn requests_of_one_user_leave_seats_for_others() {
    let mut config = Config::default();
    config.limits.reading = Some(4);
    config.limits.queue_time = Duration::from_millis(1);
    let client = Client::new(config).await;
    for name in ["hog", "bob", "eve"] {
        client.allow(name).await;
    }
    let list = |user: &str| {
        let user = client.of(user);
        async move {
            let request = Request::builder().uri(MAPS).body(Full::new(Bytes::new())).unwrap();
            // A list is read while it is sent: it has its seat until then.
            user.server.call(Some(user.user.clone()), request).await
        }
    };
    let mut held = Vec::new();
    let mut codes = Vec::new();
    for user in ["hog", "hog", "hog", "hog", "bob", "eve", "eve"] {
        let answer = list(user).await;
        codes.push(answer.status().as_u16());
        held.push(answer);
    }
    // Three of four for the hog, the last for bob, one more for who has none.
    assert_eq!(codes, [200, 200, 200, 429, 200, 200, 429]);
    // A waiting request gets the seat that becomes free.
    held.clear();
    assert_eq!(list("hog").await.status(), 200);
}

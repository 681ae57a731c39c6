//! KEP-2527's third example: Buckets that are bound to an instance; and the access scopes: users write spec, controllers write status.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::Request;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::{Api, Client, CustomResourceExt as _, ResourceExt as _};
use serde_json::json;
use settled_apiserver::Server;
use settled_apiserver::auth::User;
use settled_controller::Clock;
use settled_controller::decision::{Permit, Trusted};
use tokio::sync::watch;

use crate::gate::Gate;
use crate::harness::{
    Running, api, client_with_role, object, server, server_in_virtual_time, wait, wait_gone,
};

#[allow(dead_code, unreachable_pub, reason = "the example is a program of its own")]
#[path = "../examples/bucket/scenario.rs"]
pub(crate) mod scenario;

use scenario::controller::{self, BOUND, Bucket, BucketInstance, ObjectStore, bound_to};

/// Who may use what.
#[derive(Clone, Debug, Default)]
struct Store(Arc<Mutex<BTreeMap<String, String>>>);

impl ObjectStore for Store {
    async fn allow(&self, permit: &Permit, instance: &str) -> Result<(), controller::Error> {
        self.0.lock().unwrap().insert(permit.key().to_string(), instance.to_owned());
        Ok(())
    }

    async fn revoke(&self, permit: &Permit) -> Result<(), controller::Error> {
        self.0.lock().unwrap().remove(permit.key().as_str());
        Ok(())
    }
}

async fn start(server: &Server, store: &Store) -> Running {
    let client = client_with_role(server, include_str!("../examples/bucket/rbac.yaml")).await;
    let store = store.clone();
    Running::start(|stop| async move { controller::run(client, store, Clock::system(), stop).await })
}

async fn cluster() -> (Server, Client, Store) {
    with_an_instance(server(&[Bucket::crd(), BucketInstance::crd()]).await).await
}

async fn with_an_instance(server: Server) -> (Server, Client, Store) {
    let client = server.client();
    let instance =
        json!({"metadata": {"name": "artifacts-prod"}, "spec": {"allowedNamespaces": ["default"]}});
    let instances: Api<BucketInstance> = Api::all(client.clone());
    instances.create(&PostParams::default(), &typed("BucketInstance", instance)).await.unwrap();
    (server, client, Store::default())
}

/// An object of one of the kinds, whose type is not in the JSON.
fn typed<K: serde::de::DeserializeOwned>(kind: &str, mut value: serde_json::Value) -> K {
    value["apiVersion"] = json!("storage.example.com/v1");
    value["kind"] = json!(kind);
    object(value)
}

async fn create(client: &Client, name: &str, instance: &str) {
    let bucket = typed("Bucket", json!({"metadata": {"name": name}, "spec": {"instance": instance}}));
    api::<Bucket>(client).create(&PostParams::default(), &bucket).await.unwrap();
}

fn answer(bucket: &Bucket) -> Option<(&str, &str)> {
    let conditions = &bucket.status.as_ref()?.conditions;
    let condition = conditions.iter().find(|condition| condition.type_ == BOUND)?;
    assert_eq!(condition.observed_generation, bucket.metadata.generation);
    Some((&condition.status, &condition.reason))
}

#[tokio::test]
async fn an_allowed_instance_is_confirmed_and_another_one_refused() {
    let (server, client, store) = cluster().await;
    let running = start(&server, &store).await;
    create(&client, "mine", "artifacts-prod").await;
    let mine = wait(api(&client), "mine", |bucket| answer(bucket).is_some()).await;
    assert_eq!(answer(&mine), Some(("True", "Granted")));
    let trusted = Trusted::new(&mine);
    assert_eq!(trusted.read(|status| status.instance.as_deref()), Some("artifacts-prod"));

    create(&client, "other", "billing").await;
    let other = wait(api(&client), "other", |bucket| answer(bucket).is_some()).await;
    assert_eq!((answer(&other), bound_to(&other)), (Some(("False", "NotAllowed")), None));

    api::<Bucket>(&client).delete("mine", &DeleteParams::default()).await.unwrap();
    wait_gone::<Bucket>(api(&client), "mine").await;
    assert!(store.0.lock().unwrap().is_empty());
    running.stop().await;
}

#[tokio::test]
async fn an_instance_that_is_allowed_later_is_bound_then_and_a_forbidden_one_is_taken_away() {
    let (server, client, store) = cluster().await;
    let running = start(&server, &store).await;
    create(&client, "mine", "artifacts-prod").await;
    wait(api::<Bucket>(&client), "mine", |bucket| bound_to(bucket).is_some()).await;

    let instances: Api<BucketInstance> = Api::all(client.clone());
    let forbid = json!({"spec": {"allowedNamespaces": ["elsewhere"]}});
    instances.patch("artifacts-prod", &PatchParams::default(), &Patch::Merge(forbid)).await.unwrap();
    let mine = wait(api(&client), "mine", |bucket| bound_to(bucket).is_none()).await;
    assert_eq!(answer(&mine), Some(("False", "NotAllowed")));

    let allow = json!({"spec": {"allowedNamespaces": ["default"]}});
    instances.patch("artifacts-prod", &PatchParams::default(), &Patch::Merge(allow)).await.unwrap();
    let mine = wait(api(&client), "mine", |bucket| bound_to(bucket).is_some()).await;
    running.stop().await;
    let key = format!("bucket-{}", mine.uid().unwrap());
    assert_eq!(*store.0.lock().unwrap(), BTreeMap::from([(key, "artifacts-prod".to_owned())]));
}

/// A client whose requests go through the gate if their paths have this part.
fn through(gate: &Gate, client: &Client, part: &'static str) -> Client {
    let (gated, direct) = (gate.client(), client.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_gated = request.uri().path().contains(part);
        let client = if is_gated { gated.clone() } else { direct.clone() };
        async move { client.send(request).await }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_was_deleted_while_its_watch_was_expired_is_noticed_later() {
    let (server, _) = server_in_virtual_time(&[Bucket::crd(), BucketInstance::crd()]).await;
    let (_server, client, store) = with_an_instance(server).await;
    let gate = Gate::new(client.clone());
    let (mixed, object_store) = (through(&gate, &client, "/bucketinstances"), store.clone());
    let running =
        Running::start(
            |stop| async move { controller::run(mixed, object_store, Clock::system(), stop).await },
        );
    create(&client, "mine", "artifacts-prod").await;
    wait(api::<Bucket>(&client), "mine", |bucket| bound_to(bucket).is_some()).await;

    gate.hold();
    let instances: Api<BucketInstance> = Api::all(client.clone());
    instances.delete("artifacts-prod", &DeleteParams::default()).await.unwrap();
    gate.expire();
    gate.cut();
    gate.release();
    let mine = wait(api(&client), "mine", |bucket| bound_to(bucket).is_none()).await;
    assert_eq!(answer(&mine), Some(("False", "NotAllowed")));
    running.stop().await;
    assert!(store.0.lock().unwrap().is_empty());
}

/// Counts requests, and records access that the status does not show.
#[derive(Clone)]
struct Careful {
    buckets: Api<Bucket>,
    allowed: watch::Sender<usize>,
    revoked: watch::Sender<usize>,
    early: Arc<Mutex<Vec<String>>>,
}

impl ObjectStore for Careful {
    async fn allow(&self, _: &Permit, instance: &str) -> Result<(), controller::Error> {
        let bucket = self.buckets.get("mine").await?;
        if bound_to(&bucket).is_none_or(|bound| bound != instance) {
            self.early.lock().unwrap().push(format!("{instance}: {:?}", bucket.status));
        }
        self.allowed.send_modify(|count| *count += 1);
        Ok(())
    }

    async fn revoke(&self, _: &Permit) -> Result<(), controller::Error> {
        self.revoked.send_modify(|count| *count += 1);
        Ok(())
    }
}

#[tokio::test]
async fn a_denial_that_the_cache_has_not_seen_is_not_passed_over() {
    let (_server, client, _) = cluster().await;
    let gate = Gate::new(client.clone());
    let mixed = through(&gate, &client, "/buckets");
    let store = Careful {
        buckets: api(&client),
        allowed: watch::Sender::new(0),
        revoked: watch::Sender::new(0),
        early: Arc::default(),
    };
    let (mut allowed, mut revoked) = (store.allowed.subscribe(), store.revoked.subscribe());
    let careful = store.clone();
    let running =
        Running::start(|stop| async move { controller::run(mixed, careful, Clock::system(), stop).await });
    create(&client, "mine", "artifacts-prod").await;
    // Once with the answer, and once when the cache has it.
    allowed.wait_for(|count| *count >= 2).await.unwrap();
    gate.hold();

    let instances: Api<BucketInstance> = Api::all(client.clone());
    let permit = |namespaces: &[&str]| Patch::Merge(json!({"spec": {"allowedNamespaces": namespaces}}));
    instances.patch("artifacts-prod", &PatchParams::default(), &permit(&[])).await.unwrap();
    revoked.wait_for(|count| *count >= 1).await.unwrap();
    let before = *allowed.borrow();
    instances.patch("artifacts-prod", &PatchParams::default(), &permit(&["default"])).await.unwrap();
    allowed.wait_for(|count| *count > before).await.unwrap();
    assert_eq!(*store.early.lock().unwrap(), [""; 0]);
    gate.release();
    running.stop().await;
}

#[tokio::test]
async fn users_write_spec_and_controllers_write_status() {
    let (server, admin, _) = cluster().await;
    let roles = [
        ("user", json!([{"apiGroups": ["storage.example.com"], "resources": ["buckets"], "verbs": ["*"]}])),
        (
            "controller",
            json!([
                {"apiGroups": ["storage.example.com"], "resources": ["buckets"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": ["storage.example.com"], "resources": ["buckets/status"], "verbs": ["patch", "update"]},
            ]),
        ),
    ];
    for (name, rules) in roles {
        let role = json!({"metadata": {"name": name}, "rules": rules});
        api::<k8s_openapi::api::rbac::v1::Role>(&admin)
            .create(&PostParams::default(), &object(role))
            .await
            .unwrap();
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
        });
        api::<k8s_openapi::api::rbac::v1::RoleBinding>(&admin)
            .create(&PostParams::default(), &object(binding))
            .await
            .unwrap();
    }
    let (user, robot) =
        (server.client_as(&User::new("user", [""; 0])), server.client_as(&User::new("controller", [""; 0])));

    // A user's status is dropped on create, and refused at the subresource.
    let bucket = json!({"metadata": {"name": "mine"}, "spec": {"instance": "artifacts-prod"}, "status": {"instance": "billing"}});
    let created =
        api::<Bucket>(&user).create(&PostParams::default(), &typed("Bucket", bucket)).await.unwrap();
    assert_eq!(created.status, None);
    let status = json!({"status": {"instance": "billing"}});
    let spec = json!({"spec": {"instance": "billing"}});
    let none = PatchParams::default();
    let refused = api::<Bucket>(&user).patch_status("mine", &none, &Patch::Merge(&status)).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");
    // A status in a write of the main resource is passed over.
    let mut both = spec.clone();
    both["status"] = status["status"].clone();
    let patched = api::<Bucket>(&user).patch("mine", &none, &Patch::Merge(&both)).await.unwrap();
    assert_eq!((patched.spec.instance.as_str(), patched.status), ("billing", None));

    // The controller writes status, and its spec is passed over or refused.
    let mut both = json!({"spec": {"instance": "elsewhere"}});
    both["status"] = status["status"].clone();
    let patched = api::<Bucket>(&robot).patch_status("mine", &none, &Patch::Merge(&both)).await.unwrap();
    assert_eq!(
        (patched.spec.instance.as_str(), bound_to(&patched).map(String::as_str)),
        ("billing", Some("billing"))
    );
    let refused = api::<Bucket>(&robot).patch("mine", &none, &Patch::Merge(&spec)).await.unwrap_err();
    assert!(matches!(&refused, kube::Error::Api(status) if status.code == 403), "{refused}");
}

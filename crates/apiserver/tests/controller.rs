//! How a controller is tested: a server in memory for each test, a client without a socket, conditions instead of sleeps.
//!
//! What is tested is `examples/controller`.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::{FutureExt, TryStreamExt, future, pin_mut};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, CustomResourceExt, Resource, ResourceExt};
use serde_json::json;
use settled_apiserver::Server;
use tokio::sync::oneshot;

#[allow(dead_code, unreachable_pub, reason = "the example is a program of its own")]
#[path = "../examples/controller/controller.rs"]
mod webapp;

#[allow(dead_code, unreachable_pub, reason = "the example is a program of its own")]
#[path = "../examples/controller/leader.rs"]
mod leader;

use leader::Leader;
use webapp::{FINALIZER, MANAGER, ROUTES, WebApp, WebAppSpec, route_name};

/// A server with the controller's kinds.
async fn server() -> Server {
    let server = Server::in_memory().await.unwrap();
    let client = server.client();
    let crds = Api::all(client.clone());
    crds.create(&PostParams::default(), &WebApp::crd()).await.unwrap();
    await_condition(crds, "webapps.example.com", conditions::is_crd_established()).await.unwrap();
    let routes = Namespace {
        metadata: ObjectMeta { name: Some(ROUTES.to_owned()), ..ObjectMeta::default() },
        ..Namespace::default()
    };
    Api::all(client).create(&PostParams::default(), &routes).await.unwrap();
    server
}

/// The controller, running until it is stopped.
struct Running {
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    fn start(client: Client, config: watcher::Config) -> Self {
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(webapp::run(client, config, stopped.map(|_| ())));
        Self { stop, task }
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}

fn app(name: &str) -> WebApp {
    let host = format!("{name}.example.com");
    WebApp::new(name, WebAppSpec { image: "registry.example.com/shop:1".to_owned(), replicas: 2, host })
}

async fn create(client: &Client, name: &str) -> WebApp {
    Api::default_namespaced(client.clone()).create(&PostParams::default(), &app(name)).await.unwrap()
}

/// What the controllers of Deployments would do: say that all replicas serve.
async fn play_rollout(client: &Client, name: &str, ready: i32) {
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let status = json!({"status": {"replicas": ready, "readyReplicas": ready}});
    deployments.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

fn api<K>(client: &Client) -> Api<K>
where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope>,
    K::DynamicType: Default,
{
    Api::default_namespaced(client.clone())
}

/// Waits for an object that is as it should be, and gives it.
async fn wait<K>(api: Api<K>, name: &str, condition: impl Fn(&K) -> bool) -> K
where
    K: Clone + std::fmt::Debug + Send + serde::de::DeserializeOwned + Resource + 'static,
{
    let found = await_condition(api, name, |object: Option<&K>| object.is_some_and(&condition));
    found.await.unwrap().unwrap()
}

fn list_modes() -> [watcher::Config; 2] {
    [watcher::Config::default().page_size(3), watcher::Config::default().streaming_lists()]
}

#[tokio::test]
async fn an_application_becomes_a_deployment_that_is_its_own() {
    for mode in list_modes() {
        let server = server().await;
        let client = server.client();
        let running = Running::start(client.clone(), mode);
        let app = create(&client, "shop").await;

        let deployment = wait(api::<Deployment>(&client), "shop", |_| true).await;
        assert_eq!(deployment.spec.unwrap().replicas, Some(2));
        assert_eq!(deployment.metadata.owner_references, Some(vec![app.controller_owner_ref(&()).unwrap()]));

        let change = json!({"spec": {"replicas": 5}});
        api::<WebApp>(&client).patch("shop", &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
        let scaled = |deployment: &Deployment| deployment.spec.as_ref().unwrap().replicas == Some(5);
        wait(api::<Deployment>(&client), "shop", scaled).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn the_status_says_how_far_it_is() {
    let server = server().await;
    let client = server.client();
    let running = Running::start(client.clone(), watcher::Config::default());
    create(&client, "shop").await;
    wait(api::<Deployment>(&client), "shop", |_| true).await;

    play_rollout(&client, "shop", 2).await;
    let ready = |app: &WebApp| app.status.as_ref().is_some_and(|status| status.ready_replicas == 2);
    let app = wait(api::<WebApp>(&client), "shop", ready).await;
    // Reporting is no change of what is wanted.
    assert_eq!(app.metadata.generation, Some(1));
    assert_eq!(app.status.unwrap().observed_generation, Some(1));
    // Who wrote what is known, status and spec apart.
    let owner = |subresource: Option<&str>| {
        let owns = app.metadata.managed_fields.iter().flatten();
        owns.filter(|entry| entry.subresource.as_deref() == subresource)
            .map(|entry| entry.manager.clone().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(owner(Some("status")), [MANAGER]);
    running.stop().await;
}

#[tokio::test]
async fn the_finalizer_takes_the_route_away() {
    let server = server().await;
    let client = server.client();
    let running = Running::start(client.clone(), watcher::Config::default());
    let app = create(&client, "shop").await;
    let routes: Api<ConfigMap> = Api::namespaced(client.clone(), ROUTES);
    wait(routes.clone(), &route_name(&app), |_| true).await;

    let apps: Api<WebApp> = api(&client);
    assert_eq!(apps.get("shop").await.unwrap().finalizers(), [FINALIZER]);
    let uid = app.uid().unwrap();
    apps.delete("shop", &DeleteParams::default()).await.unwrap();
    await_condition(apps, "shop", conditions::is_deleted(&uid)).await.unwrap();
    assert!(routes.get_opt(&route_name(&app)).await.unwrap().is_none());
    running.stop().await;
}

/// Without a controller, the object stays until the finalizer is taken off.
#[tokio::test]
async fn a_finalizer_keeps_what_nobody_finalizes() {
    let server = server().await;
    let client = server.client();
    let mut kept = app("shop");
    kept.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    let apps: Api<WebApp> = api(&client);
    let uid = apps.create(&PostParams::default(), &kept).await.unwrap().uid().unwrap();
    let pending = apps.delete("shop", &DeleteParams::default()).await.unwrap();
    assert!(pending.left().unwrap().meta().deletion_timestamp.is_some());

    let off = json!({"metadata": {"finalizers": null}});
    apps.patch("shop", &PatchParams::default(), &Patch::Merge(off)).await.unwrap();
    await_condition(apps, "shop", conditions::is_deleted(&uid)).await.unwrap();
}

#[tokio::test]
async fn whoever_applies_the_controllers_fields_gets_a_conflict() {
    let server = server().await;
    let client = server.client();
    let running = Running::start(client.clone(), watcher::Config::default());
    create(&client, "shop").await;
    let deployments: Api<Deployment> = api(&client);
    wait(deployments.clone(), "shop", |_| true).await;

    let other = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 7}});
    let refused = deployments.patch("shop", &PatchParams::apply("somebody"), &Patch::Apply(&other)).await;
    let Err(kube::Error::Api(status)) = refused else { panic!("{refused:?}") };
    assert_eq!((status.code, status.reason.as_str()), (409, "Conflict"));
    let details = status.details.unwrap();
    let [cause] = details.causes.as_slice() else { panic!("{details:?}") };
    assert_eq!(cause.field, ".spec.replicas");
    assert_eq!(cause.reason, "FieldManagerConflict");
    assert!(cause.message.contains(MANAGER), "{}", cause.message);

    // By force it is theirs, until the controller sees it and takes it back.
    let forced = PatchParams::apply("somebody").force();
    deployments.patch("shop", &forced, &Patch::Apply(&other)).await.unwrap();
    let ours = |deployment: &Deployment| deployment.spec.as_ref().unwrap().replicas == Some(2);
    wait(deployments, "shop", ours).await;
    running.stop().await;
}

#[tokio::test]
async fn what_the_schema_forbids_is_refused() {
    let server = server().await;
    let mut many = app("shop");
    many.spec.replicas = 101;
    let refused = api(&server.client()).create(&PostParams::default(), &many).await;
    let Err(kube::Error::Api(status)) = refused else { panic!("{refused:?}") };
    assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    let causes = status.details.unwrap().causes;
    assert_eq!(causes.iter().map(|cause| cause.field.as_str()).collect::<Vec<_>>(), ["spec.replicas"]);
}

#[tokio::test]
async fn leadership_goes_to_the_next_when_it_is_let_go() {
    let server = Server::in_memory().await.unwrap();
    let candidate = |identity: &str| Leader::new(server.client(), "default", "webapp", identity);
    let (first, second) = (candidate("first"), candidate("second"));
    first.acquire().await.unwrap();
    assert!(first.renew().await.unwrap());
    assert!(!second.renew().await.unwrap());

    let waiting = second.acquire();
    pin_mut!(waiting);
    assert!(futures::poll!(&mut waiting).is_pending());
    let (released, acquired) = future::join(first.release(), waiting).await;
    released.unwrap();
    acquired.unwrap();
    assert!(!first.renew().await.unwrap());

    let lease = api::<Lease>(&server.client()).get("webapp").await.unwrap().spec.unwrap();
    assert_eq!(lease.holder_identity.as_deref(), Some("second"));
    assert_eq!(lease.lease_transitions, Some(3));
}

#[tokio::test]
async fn only_one_of_many_leads() {
    let server = Server::in_memory().await.unwrap();
    let candidates: Vec<Leader> = (0..8)
        .map(|number| Leader::new(server.client(), "default", "webapp", &format!("candidate-{number}")))
        .collect();
    // Each leads, lets go, and so lets the next one lead.
    let turns = candidates.iter().map(|candidate| async move {
        candidate.acquire().await.unwrap();
        assert!(candidate.renew().await.unwrap());
        candidate.release().await.unwrap();
    });
    future::join_all(turns).await;
    let lease = api::<Lease>(&server.client()).get("webapp").await.unwrap().spec.unwrap();
    assert_eq!(lease.lease_transitions, Some(16));
}

#[tokio::test]
async fn a_lease_that_ran_out_is_free() {
    let server = Server::in_memory().await.unwrap();
    let client = server.client();
    let dead = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "webapp"},
        "spec": {"holderIdentity": "dead", "leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.000000Z"},
    });
    api(&client)
        .create(&PostParams::default(), &serde_json::from_value::<Lease>(dead).unwrap())
        .await
        .unwrap();
    Leader::new(client, "default", "webapp", "alive").acquire().await.unwrap();
}

#[tokio::test]
async fn a_watcher_sees_everything_once_in_both_list_modes() {
    for mode in list_modes() {
        let server = server().await;
        let client = server.client();
        let names: BTreeSet<String> = (0..10).map(|number| format!("app-{number}")).collect();
        for name in &names {
            create(&client, name).await;
        }
        let watch = watcher(api::<WebApp>(&client), mode.clone());
        pin_mut!(watch);
        let mut seen = BTreeSet::new();
        loop {
            match watch.try_next().await.unwrap().unwrap() {
                watcher::Event::Init => assert!(seen.is_empty()),
                watcher::Event::InitApply(app) => assert!(seen.insert(app.name_any()), "{mode:?}"),
                watcher::Event::InitDone => break,
                event => panic!("{event:?}"),
            }
        }
        assert_eq!(seen, names, "{mode:?}");

        create(&client, "later").await;
        let event = watch.try_next().await.unwrap().unwrap();
        assert!(matches!(&event, watcher::Event::Apply(app) if app.name_any() == "later"), "{event:?}");
        api::<WebApp>(&client).delete("later", &DeleteParams::default()).await.unwrap();
        let event = watch.try_next().await.unwrap().unwrap();
        assert!(matches!(&event, watcher::Event::Delete(app) if app.name_any() == "later"), "{event:?}");
    }
}

#[tokio::test]
async fn a_reflector_is_a_cache_of_what_there_is() {
    let server = server().await;
    let client = server.client();
    create(&client, "shop").await;
    let (reader, writer) = reflector::store();
    let stream = watcher(api::<WebApp>(&client), watcher::Config::default().streaming_lists());
    let stream = stream.reflect(writer).applied_objects();
    pin_mut!(stream);
    let first = stream.try_next().await.unwrap().unwrap();
    assert_eq!(first.name_any(), "shop");
    create(&client, "blog").await;
    stream.try_next().await.unwrap().unwrap();
    let found: Option<Arc<WebApp>> = reader.get(&ObjectRef::new("blog").within("default"));
    assert_eq!(found.unwrap().spec.host, "blog.example.com");
}

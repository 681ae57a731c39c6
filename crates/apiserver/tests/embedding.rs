//! A server inside of a test: clients with and without a socket, many servers at once, how one ends.

use std::io::{Seek as _, SeekFrom, Write as _};
use std::net::Ipv4Addr;
use std::process::Command;
use std::sync::{Arc, Mutex};

use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use settled_apiserver::auth::User;
use settled_apiserver::{Config, Durability, FeatureGates, Fork, Notice, Server, StartError};
use tokio::net::{TcpListener, TcpStream};

use crate::surface;

fn config_map(name: &str, text: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"text": text}})).unwrap()
}

async fn create(client: &Client, name: &str, text: &str) -> ConfigMap {
    config_maps(client).create(&PostParams::default(), &config_map(name, text)).await.unwrap()
}

fn config_maps(client: &Client) -> Api<ConfigMap> {
    Api::default_namespaced(client.clone())
}

/// A watch of nothing but changes.
fn quiet() -> WatchParams {
    // The controllers write this one into every namespace, when they come to it.
    WatchParams::default().disable_bookmarks().fields("metadata.name!=kube-root-ca.crt")
}

fn refusal<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> Box<kube::core::Status> {
    match result {
        Err(kube::Error::Api(status)) => status,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn two_servers_never_meet() {
    let (one, other) = (Server::in_memory().await.unwrap(), Server::in_memory().await.unwrap());
    create(&one.client(), "here", "").await;
    assert!(config_maps(&one.client()).get_opt("here").await.unwrap().is_some());
    assert!(config_maps(&other.client()).get_opt("here").await.unwrap().is_none());

    // Nor do their certificates.
    let mut mixed = one.kube_config().await.unwrap();
    let right = other.kube_config().await.unwrap();
    assert_ne!(mixed.cluster_url, right.cluster_url);
    mixed.cluster_url = right.cluster_url;
    let client = Client::try_from(mixed).unwrap();
    assert!(config_maps(&client).list(&ListParams::default()).await.is_err());
}

/// A fork of a server that goes on after a write, with its time and a seed of its own.
fn fork(server: &Server, revision: Option<u64>, seed: u64) -> Server {
    let mut fork = Fork::default();
    fork.revision = revision;
    fork.clock = Some(Arc::new(jiff::Timestamp::now));
    fork.seed = Some(seed);
    server.fork(fork).unwrap()
}

#[tokio::test]
async fn forks_go_on_by_themselves_from_any_write() {
    let server = Server::in_memory().await.unwrap();
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let kind =
        kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk("example.com", "v1", "Widget"));
    let widgets =
        |server: &Server| Api::<kube::core::DynamicObject>::default_namespaced_with(server.client(), &kind);
    let crds: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(server.client());
    crds.create(&PostParams::default(), &serde_json::from_value(crd).unwrap()).await.unwrap();
    await_condition(crds, "widgets.example.com", conditions::is_crd_established()).await.unwrap();
    create(&server.client(), "before", "").await;
    let between = server.revision();
    create(&server.client(), "after", "").await;

    let (last, earlier) = (fork(&server, None, 1), fork(&server, Some(between), 1));
    for (fork, later) in [(&last, true), (&earlier, false)] {
        let config_maps = config_maps(&fork.client());
        assert!(config_maps.get_opt("before").await.unwrap().is_some());
        assert_eq!(config_maps.get_opt("after").await.unwrap().is_some(), later);
    }
    let made = create(&earlier.client(), "in-a-fork", "").await;
    assert!(config_maps(&server.client()).get_opt("in-a-fork").await.unwrap().is_none());
    // Custom resources are served, and deleting them in one fork ends nothing in another.
    assert!(widgets(&last).list(&ListParams::default()).await.unwrap().items.is_empty());
    let crds: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(earlier.client());
    crds.delete("widgets.example.com", &DeleteParams::default()).await.unwrap();
    await_condition(crds, "widgets.example.com", |crd: Option<&_>| crd.is_none()).await.unwrap();
    assert!(widgets(&earlier).list(&ListParams::default()).await.is_err());
    assert!(widgets(&last).list(&ListParams::default()).await.is_ok());

    // The same seed, the same UIDs.
    let again = create(&fork(&server, Some(between), 1).client(), "in-a-fork", "").await;
    let other = create(&fork(&server, Some(between), 2).client(), "in-a-fork", "").await;
    assert!(again.uid() == made.uid() && other.uid() != made.uid());
}

#[tokio::test]
async fn changes_are_all_writes_in_order() {
    let server = Server::in_memory().await.unwrap();
    let before = server.revision();
    let made = create(&server.client(), "a", "text").await;
    config_maps(&server.client()).delete("a", &DeleteParams::default()).await.unwrap();
    let changes = server.changes_after(before).unwrap();
    let [created, deleted] = changes.as_slice() else { panic!("{changes:?}") };
    assert_eq!(created.object, Some(serde_json::to_value(&made).unwrap()));
    assert_eq!(
        (created.group.as_str(), created.resource.as_str(), created.namespace.as_str()),
        ("", "configmaps", "default")
    );
    assert_eq!(created.revision.to_string(), made.resource_version().unwrap());
    assert_eq!((deleted.name.as_str(), &deleted.object), ("a", &None));
    assert_eq!(deleted.revision, server.revision());
}

#[tokio::test]
async fn clients_with_and_without_a_socket_see_the_same() {
    let server = Server::in_memory().await.unwrap();
    let inside = server.client();
    let outside = Client::try_from(server.kube_config().await.unwrap()).unwrap();
    let made = create(&inside, "made-inside", "x").await;
    assert_eq!(config_maps(&outside).get("made-inside").await.unwrap(), made);
    let made = create(&outside, "made-outside", "y").await;
    assert_eq!(config_maps(&inside).get("made-outside").await.unwrap(), made);
    assert_eq!(server.url().await.unwrap(), server.url().await.unwrap());
    // The subject of the one certificate is the user of the other client.
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    for client in [inside, outside] {
        let request = http::Request::post("/apis/authentication.k8s.io/v1/selfsubjectreviews")
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&review).unwrap())
            .unwrap();
        let answer: serde_json::Value = client.request(request).await.unwrap();
        assert_eq!(answer["status"]["userInfo"]["username"], "kubernetes-admin");
    }
}

#[tokio::test]
async fn errors_are_those_of_the_api() {
    let server = Server::in_memory().await.unwrap();
    let client = server.client();
    create(&client, "there", "").await;
    let status = refusal(config_maps(&client).create(&PostParams::default(), &config_map("there", "")).await);
    assert_eq!((status.code, status.reason.as_str()), (409, "AlreadyExists"));
    assert_eq!(status.message, r#"configmaps "there" already exists"#);
    let status = refusal(config_maps(&client).get("missing").await);
    assert_eq!((status.code, status.reason.as_str()), (404, "NotFound"));

    let stranger = server.client_as(&User::new("jane", ["dev"]));
    let status = refusal(config_maps(&stranger).get("there").await);
    assert_eq!((status.code, status.reason.as_str()), (403, "Forbidden"));
    assert!(status.message.contains(r#"User "jane" cannot get resource "configmaps""#), "{}", status.message);
    let anonymous = server.client_as(&User::anonymous());
    let status = refusal(config_maps(&anonymous).get("there").await);
    assert!(status.message.contains(r#"User "system:anonymous""#), "{}", status.message);
    assert_eq!(anonymous.apiserver_version().await.unwrap().major, "1");
}

#[tokio::test]
async fn watches_stream_and_answers_are_gzipped_without_a_socket() {
    let server = Server::in_memory().await.unwrap();
    let client = server.client();
    let watch = config_maps(&client).watch(&quiet(), "0").await.unwrap();
    futures::pin_mut!(watch);
    create(&client, "one", "").await;
    let event = watch.try_next().await.unwrap().unwrap();
    assert!(matches!(&event, WatchEvent::Added(map) if map.name_any() == "one"), "{event:?}");
    config_maps(&client).delete("one", &DeleteParams::default()).await.unwrap();
    let event = watch.try_next().await.unwrap().unwrap();
    assert!(matches!(&event, WatchEvent::Deleted(map) if map.name_any() == "one"), "{event:?}");

    create(&client, "large", &"x".repeat(200 * 1024)).await;
    let request = http::Request::get("/api/v1/configmaps").header("accept-encoding", "gzip");
    let answer = client.send(request.body(Vec::new().into()).unwrap()).await.unwrap();
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    let lines = client.request_stream(http::Request::get("/api/v1/configmaps").body(Vec::new()).unwrap());
    let text: Vec<String> = lines.await.unwrap().lines().try_collect().await.unwrap();
    assert!(text.concat().len() > 200 * 1024);
}

#[tokio::test]
async fn feature_gates_switch_features() {
    let mut config = Config::default();
    config.feature_gates = FeatureGates::parse("WatchList=false,APIResponseCompression=false").unwrap();
    let client = Server::start(config).await.unwrap().client();
    let streaming = WatchParams::default().initial_events();
    let status = refusal(config_maps(&client).watch(&streaming, "").await.map(|_| ()));
    assert_eq!(status.code, 422);
    assert_eq!(
        status.message,
        "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is forbidden for \
         watch unless the WatchList feature gate is enabled"
    );
    // Watches without a revision begin with the state all the same, as before there was the gate.
    create(&client, "large", &"x".repeat(200 * 1024)).await;
    let watch = config_maps(&client).watch(&quiet(), "0").await.unwrap();
    futures::pin_mut!(watch);
    let event = watch.try_next().await.unwrap().unwrap();
    assert!(matches!(&event, WatchEvent::Added(map) if map.name_any() == "large"), "{event:?}");
    let request = http::Request::get("/api/v1/configmaps").header("accept-encoding", "gzip");
    let answer = client.send(request.body(Vec::new().into()).unwrap()).await.unwrap();
    assert!(!answer.headers().contains_key("content-encoding"));
}

#[tokio::test]
async fn a_server_ends_with_its_last_handle() {
    let server = Server::in_memory().await.unwrap();
    // An address of its own: no other test takes its port when it is free again.
    let address = server.listen((Ipv4Addr::new(127, 0, 0, 77), 0).into()).await.unwrap();
    // One that never greets.
    let silent = TcpStream::connect(address).await.unwrap();
    let (copy, client, ended) = (server.clone(), server.client(), server.ended());
    drop(server);
    drop(copy);
    // A client is a handle.
    create(&client, "one", "").await;
    let watch = config_maps(&client).watch(&quiet(), "0").await.unwrap();
    drop(client);
    // So is a watch.
    let mut watch = Box::pin(watch);
    assert!(matches!(watch.try_next().await.unwrap().unwrap(), WatchEvent::Added(_)));
    drop(watch);
    ended.await;
    drop(TcpListener::bind(address).await.unwrap());
    drop(silent);
}

/// A definition that cannot be cleaned up leaves a task behind that tries; it ends as well.
#[tokio::test]
async fn what_a_server_does_by_itself_ends_with_it() {
    let server = Server::in_memory().await.unwrap();
    let client = server.client();
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let crds: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = Api::all(client.clone());
    let apply = PatchParams::apply("test");
    crds.patch("widgets.example.com", &apply, &Patch::Apply(&crd)).await.unwrap();
    await_condition(crds.clone(), "widgets.example.com", conditions::is_crd_established()).await.unwrap();
    let widget = json!({
        "apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "kept", "finalizers": ["example.com/kept"]},
    });
    let kind = kube::core::GroupVersionKind::gvk("example.com", "v1", "Widget");
    let widgets: Api<kube::core::DynamicObject> =
        Api::default_namespaced_with(client.clone(), &kube::core::ApiResource::from_gvk(&kind));
    widgets.create(&PostParams::default(), &serde_json::from_value(widget).unwrap()).await.unwrap();
    crds.delete("widgets.example.com", &DeleteParams::default()).await.unwrap();
    await_condition(widgets, "kept", |widget: Option<&kube::core::DynamicObject>| {
        widget.is_some_and(|widget| widget.metadata.deletion_timestamp.is_some())
    })
    .await
    .unwrap();
    let ended = server.ended();
    drop((server, client, crds));
    ended.await;
}

#[tokio::test]
async fn stopping_waits_for_the_port() {
    let server = Server::in_memory().await.unwrap();
    let address = server.listen((Ipv4Addr::LOCALHOST, 0).into()).await.unwrap();
    let client = server.client();
    let watch = config_maps(&client).watch(&quiet(), "0").await.unwrap();
    server.stopped().await;
    drop(TcpListener::bind(address).await.unwrap());
    // Watches have ended, writes are refused, whatever handles there are.
    assert!(Box::pin(watch).try_next().await.unwrap().is_none());
    let status = refusal(config_maps(&client).create(&PostParams::default(), &config_map("late", "")).await);
    assert_eq!(status.code, 503);
    let again = Server::in_memory().await.unwrap();
    assert_eq!(again.listen(address).await.unwrap(), address);
    let error = Server::in_memory().await.unwrap().listen(address).await.unwrap_err();
    assert!(matches!(&error, StartError::Listen { address: taken, .. } if *taken == address), "{error}");
}

/// What a write that was cut off has left is dropped, reported and counted; the next start has nothing to drop.
#[tokio::test]
async fn a_dropped_write_is_reported_and_counted() {
    let directory = tempfile::tempdir().unwrap();
    let start = async || {
        let notices = Arc::new(Mutex::new(Vec::new()));
        let into = notices.clone();
        let mut config = Config::default();
        config.data_dir = Some(directory.path().to_owned());
        config.listener = Some(Arc::new(move |notice: &Notice| {
            if notice.event() == "unfinished-write-dropped" {
                into.lock().unwrap().push((notice.is_problem(), notice.to_string()));
            }
        }));
        let client = surface::Client::new(config).await;
        let metrics = client.get("/metrics", &[]).await.text().to_owned();
        let dropped = metrics.lines().find(|line| line.starts_with("settled_store_dropped_bytes "));
        let dropped = dropped.unwrap().to_owned();
        let ended = client.0.ended();
        client.0.stopped().await;
        drop(client);
        ended.await;
        (dropped, Arc::into_inner(notices).unwrap().into_inner().unwrap())
    };
    assert_eq!(start().await, ("settled_store_dropped_bytes 0".to_owned(), vec![]));
    let report = settled_store::check(&directory.path().join("store")).unwrap();
    assert_eq!((&report.unfinished, &report.damage), (&None, &None));
    let mut log = std::fs::OpenOptions::new().write(true).open(&report.path).unwrap();
    log.seek(SeekFrom::Start(report.used_bytes)).unwrap();
    log.write_all(&[7; 10]).unwrap();
    drop(log);
    let text =
        format!("store: dropped 10 bytes of an unfinished write at revision {}", report.last_revision.0);
    assert_eq!(start().await, ("settled_store_dropped_bytes 10".to_owned(), vec![(true, text)]));
    assert_eq!(start().await, ("settled_store_dropped_bytes 0".to_owned(), vec![]));
}

#[tokio::test]
async fn a_directory_can_be_opened_again_once_its_server_is_dropped() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.data_dir = Some(directory.path().to_owned());
    config.durability = Durability::None;
    let first = Server::start(config.clone()).await.unwrap();
    let made = create(&first.client(), "kept", "x").await;
    let error = Server::start(config.clone()).await.unwrap_err();
    assert!(matches!(error, StartError::Store(_)), "{error}");
    let ended = first.ended();
    drop(first);
    ended.await;
    let second = Server::start(config).await.unwrap();
    assert_eq!(config_maps(&second.client()).get("kept").await.unwrap(), made);
}

#[tokio::test]
async fn a_kubeconfig_file_is_there_as_long_as_it_is_held() {
    let server = Server::in_memory().await.unwrap();
    let file = server.kubeconfig_file().await.unwrap();
    let path = file.path().to_owned();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    assert!(std::fs::read_to_string(&path).unwrap().contains(&server.url().await.unwrap()));
    // Whatever reads KUBECONFIG gets there.
    if Command::new("kubectl").arg("version").arg("--client").output().is_ok() {
        let kubectl = tokio::task::spawn_blocking(move || {
            Command::new("kubectl")
                .env("KUBECONFIG", &file)
                .args(["get", "namespaces", "-o", "name"])
                .output()
        });
        let output = kubectl.await.unwrap().unwrap();
        assert!(String::from_utf8_lossy(&output.stdout).contains("namespace/default"), "{output:?}");
    } else {
        drop(file);
    }
    assert!(!path.exists());
}

#[tokio::test]
async fn whoever_listens_is_told_what_happens() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let mut config = Config::default();
    let log = told.clone();
    config.listener = Some(Arc::new(move |notice| log.lock().unwrap().push(notice.to_string())));
    let server = Server::start(config).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(server.client());
    let shop = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    namespaces.create(&PostParams::default(), &shop).await.unwrap();
    while told.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(*told.lock().unwrap(), ["namespace shop created"]);
}

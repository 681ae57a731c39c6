//! Code for kube-rs' reflector and store, on ours and against the API server: typed, partial and dynamic objects.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use settled_apiserver::Server;
use settled_controller::filter::{Filter, FilteredClient};
use settled_controller::predicate;
use settled_controller::predicate::EventKind;
use settled_controller::runtime::reflector::Store;
use settled_controller::runtime::{WatchStreamExt, reflector, watcher};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Examples of the documentation of kube-runtime 5.0.0 (<https://github.com/kube-rs/kube>, `src/reflector/mod.rs` and
/// `src/utils/watch_ext.rs`), Copyright the kube-rs authors, licensed under the Apache License, Version 2.0
/// (<https://www.apache.org/licenses/LICENSE-2.0>). Only the imports differ, and each hands out its store.
mod examples {
    #![allow(unused_qualifications, reason = "the code stands as it does upstream")]

    use std::future::ready;

    use tracing::{info, warn};
    use watcher::Config;

    use super::*;

    /// Of `reflector`.
    pub(super) async fn nodes(client: Client, state: oneshot::Sender<Store<Node>>) {
        let nodes: Api<Node> = Api::all(client);
        let node_filter = Config::default().labels("kubernetes.io/arch=amd64");
        let (reader, writer) = reflector::store();

        // Create the infinite reflector stream
        let rf = reflector(writer, watcher(nodes, node_filter));

        // !!! pass reader to your webserver/manager as state !!!
        state.send(reader).unwrap();

        // Poll the stream (needed to keep the store up-to-date)
        let infinite_watch = rf.applied_objects().for_each(|_o| ready(()));
        infinite_watch.await;
    }

    /// Of `WatchStreamExt::reflect`.
    pub(super) async fn deployments(client: Client, state: oneshot::Sender<Store<Deployment>>) {
        let deploys: Api<Deployment> = Api::default_namespaced(client);
        let (reader, writer) = reflector::store::<Deployment>();
        state.send(reader.clone()).unwrap();

        tokio::spawn(async move {
            // start polling the store once the reader is ready
            reader.wait_until_ready().await.unwrap();
            let names = reader.state().iter().map(|d| d.name_any()).collect::<Vec<_>>();
            info!("Current {} deploys: {:?}", names.len(), names);
        });

        // configure the watcher stream and populate the store while polling
        watcher(deploys, watcher::Config::default())
            .reflect(writer)
            .applied_objects()
            .for_each(|res| async move {
                match res {
                    Ok(o) => info!("saw {}", o.name_any()),
                    Err(e) => warn!("watcher error: {}", e),
                }
            })
            .await;
    }
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work).await.unwrap()
}

/// Runs what fills a store.
async fn running<K, F>(start: impl FnOnce(oneshot::Sender<Store<K>>) -> F) -> (Store<K>, JoinHandle<()>)
where
    K: Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, store) = oneshot::channel();
    let task = tokio::spawn(start(sender));
    let store = within(store).await.unwrap();
    within(store.wait_until_ready()).await.unwrap();
    (store, task)
}

fn names<K: ResourceExt>(store: &Store<K>) -> Vec<String> {
    let mut names: Vec<String> = store.state().iter().map(|object| object.name_any()).collect();
    names.sort();
    names
}

fn node(name: &str, arch: &str) -> Node {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": {"kubernetes.io/arch": arch}}}))
        .unwrap()
}

#[tokio::test]
async fn a_reflector_of_nodes_runs_on_a_cache() {
    let server = Server::in_memory().await.unwrap();
    let nodes: Api<Node> = Api::all(server.client());
    for (name, arch) in [("a", "amd64"), ("b", "arm64"), ("c", "amd64")] {
        nodes.create(&PostParams::default(), &node(name, arch)).await.unwrap();
    }
    let client = server.client();
    let (store, task) = running(|sender| examples::nodes(client, sender)).await;
    assert_eq!(names(&store), ["a", "c"]);

    // What a Store of kube-rs does not have: changes, with the object before and after.
    let mut changes = store.changes();
    for _ in 0..2 {
        assert_eq!(within(changes.next()).await.unwrap().kind, EventKind::Create);
    }
    let unlabeled = Patch::Merge(json!({"metadata": {"labels": {"kubernetes.io/arch": "arm64"}}}));
    nodes.patch("a", &PatchParams::default(), &unlabeled).await.unwrap();
    let change = within(changes.next()).await.unwrap();
    assert_eq!((change.kind, &*change.key.name), (EventKind::Delete, "a"));
    assert_eq!(change.old.unwrap().labels()["kubernetes.io/arch"], "amd64");
    assert_eq!(names(&store), ["c"]);

    // Without the stream, the store stays as it is.
    task.abort();
    within(task).await.unwrap_err();
    within(store.wait_until_ready()).await.unwrap();
    assert_eq!((names(&store), store.len()), (vec!["c".to_owned()], 1));
}

#[tokio::test]
async fn a_reflector_of_deployments_runs_on_a_cache() {
    let server = Server::in_memory().await.unwrap();
    let deployments: Api<Deployment> = Api::default_namespaced(server.client());
    let deployment = |name: &str| -> Deployment {
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "registry.example/web:1"}]},
            },
        }}))
        .unwrap()
    };
    deployments.create(&PostParams::default(), &deployment("a")).await.unwrap();
    let client = server.client();
    let (store, task) = running(|sender| examples::deployments(client, sender)).await;
    assert_eq!(names(&store), ["a"]);
    let mut changes = store.changes();
    within(changes.next()).await.unwrap();
    deployments.create(&PostParams::default(), &deployment("b")).await.unwrap();
    assert_eq!(&*within(changes.next()).await.unwrap().key.name, "b");
    let found = store.get(&reflector::ObjectRef::new("b").within("default")).unwrap();
    assert_eq!(found.spec.as_ref().unwrap().selector.match_labels.as_ref().unwrap()["app"], "web");
    deployments.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(within(changes.next()).await.unwrap().kind, EventKind::Delete);
    assert_eq!(names(&store), ["b"]);
    task.abort();
}

/// What a filtered client drops is not stored, of objects whose metadata alone is sent, either.
#[tokio::test]
async fn partial_objects_are_reflected() {
    let server = Server::in_memory().await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    for (name, wanted) in [("a", "true"), ("b", "false")] {
        let mut map = crate::filter::config_map(name, json!({"k": "v"}));
        map.labels_mut().insert("wanted".to_owned(), wanted.to_owned());
        maps.create(&PostParams::default(), &map).await.unwrap();
    }
    let filter = Filter::new().objects(predicate::labels("wanted=true").unwrap());
    let filtered = FilteredClient::new(server.client()).kind::<ConfigMap>(filter).into_client();
    let (store, task) = running(|sender| async move {
        let (reader, writer) = reflector::store::<PartialObjectMeta<ConfigMap>>();
        sender.send(reader).unwrap();
        let api: Api<PartialObjectMeta<ConfigMap>> = Api::all(filtered);
        let watched = watcher(api, watcher::Config::default());
        watched
            .default_backoff()
            .reflect(writer)
            .touched_objects()
            .try_for_each(async |_| Ok(()))
            .await
            .unwrap();
    })
    .await;
    assert_eq!(names(&store), ["a"]);
    assert_eq!(
        store.get(&reflector::ObjectRef::new("a").within("default")).unwrap().labels()["wanted"],
        "true"
    );
    task.abort();
}

#[tokio::test]
async fn dynamic_objects_are_reflected() {
    let server = Server::in_memory().await.unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    maps.create(&PostParams::default(), &crate::filter::config_map("a", json!({"k": "v"}))).await.unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let client = server.client();
    let (store, task) = running(|sender| async move {
        let writer = reflector::store::Writer::new(resource.clone());
        sender.send(writer.as_reader()).unwrap();
        let api: Api<DynamicObject> = Api::default_namespaced_with(client, &resource);
        let watched = watcher(api, watcher::Config::default());
        let watched = watched.modify(|map| map.managed_fields_mut().clear()).reflect(writer);
        watched.applied_objects().try_for_each(async |_| Ok(())).await.unwrap();
    })
    .await;
    let map = store.find(|map| map.name_any() == "a").unwrap();
    assert_eq!(map.data["data"]["k"], "v");
    assert!(map.managed_fields().is_empty());
    assert!(store.position().is_some() && store.metrics().lists == 1);
    task.abort();
}

/// As with kube-rs, whose `WriterDropped` it is.
#[tokio::test]
async fn a_store_without_a_writer_never_gets_ready() {
    let (store, writer) = reflector::store::<ConfigMap>();
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.wait_until_ready().await }
    });
    drop(writer);
    within(waiting).await.unwrap().unwrap_err();
    assert!(!store.is_ready());
}

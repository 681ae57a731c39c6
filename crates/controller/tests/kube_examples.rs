//! Controllers as kube-rs' own examples write them, on a filtered client: they do not know of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{self, finalizer};
use kube::runtime::wait::{await_condition, conditions};
use kube::runtime::{WatchStreamExt as _, reflector, watcher};
use kube::{Api, Client, CustomResource, CustomResourceExt as _, Resource as _, ResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use settled_apiserver::Server;
use settled_controller::cache::Cache;
use settled_controller::filter::{Filter, FilteredClient};
use settled_controller::{ObjectKey, Projection, predicate};
use tokio::sync::oneshot;

#[derive(CustomResource, Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[kube(group = "nullable.se", version = "v1", kind = "ConfigMapGenerator", namespaced)]
struct ConfigMapGeneratorSpec {
    content: String,
}

struct Data {
    client: Client,
    runs: AtomicU32,
}

/// A controller until it is stopped.
struct Running {
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
    }
}

/// `configmapgen_controller`: a ConfigMap for each generator.
fn configmap_generator(client: Client) -> (Running, Arc<Data>) {
    async fn reconcile(
        generator: Arc<ConfigMapGenerator>,
        context: Arc<Data>,
    ) -> Result<Action, kube::Error> {
        context.runs.fetch_add(1, Ordering::Relaxed);
        let namespace = generator.namespace().unwrap();
        let config_map = ConfigMap {
            metadata: ObjectMeta {
                name: generator.metadata.name.clone(),
                owner_references: generator.controller_owner_ref(&()).map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([("content".to_owned(), generator.spec.content.clone())])),
            ..ConfigMap::default()
        };
        let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), &namespace);
        let manager = PatchParams::apply("configmapgenerator.kube-rt.nullable.se").force();
        api.patch(&generator.name_any(), &manager, &Patch::Apply(&config_map)).await?;
        Ok(Action::requeue(Duration::from_secs(300)))
    }

    let (stop, stopped) = oneshot::channel::<()>();
    let data = Arc::new(Data { client: client.clone(), runs: AtomicU32::new(0) });
    let generators = Api::<ConfigMapGenerator>::all(client.clone());
    let config_maps = Api::<ConfigMap>::all(client);
    let controller = Controller::new(generators, watcher::Config::default())
        .owns(config_maps, watcher::Config::default())
        .graceful_shutdown_on(stopped.map(drop))
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_millis(50)), Arc::clone(&data))
        .for_each(|_| futures::future::ready(()));
    (Running { stop, task: tokio::spawn(controller) }, data)
}

async fn wait<K>(api: Api<K>, name: &str, condition: impl Fn(&K) -> bool)
where
    K: Clone + std::fmt::Debug + Send + serde::de::DeserializeOwned + kube::Resource + 'static,
{
    await_condition(api, name, |object: Option<&K>| object.is_some_and(&condition)).await.unwrap();
}

/// Foreign ConfigMaps never arrive, the controller's own writes wake it no more, and deleted or changed ones still do.
#[tokio::test]
async fn a_generator_makes_config_maps() {
    let server = Server::in_memory().await.unwrap();
    let direct = server.client();
    let crds = Api::all(direct.clone());
    crds.create(&PostParams::default(), &ConfigMapGenerator::crd()).await.unwrap();
    await_condition(crds, "configmapgenerators.nullable.se", conditions::is_crd_established()).await.unwrap();

    let owned = Filter::new()
        .objects(predicate::owned_by("ConfigMapGenerator"))
        .events(predicate::field_changed("data"))
        .projection(Projection::only(["metadata.ownerReferences"]));
    let generators = Filter::new().events(predicate::generation_changed());
    let filtered =
        FilteredClient::new(direct.clone()).kind::<ConfigMap>(owned).kind::<ConfigMapGenerator>(generators);
    let counts = filtered.counts();
    let (running, data) = configmap_generator(filtered.into_client());

    let api: Api<ConfigMapGenerator> = Api::namespaced(direct.clone(), "default");
    let maps: Api<ConfigMap> = Api::namespaced(direct, "default");
    let spec = ConfigMapGeneratorSpec { content: "one".to_owned() };
    api.create(&PostParams::default(), &ConfigMapGenerator::new("gen", spec)).await.unwrap();
    let content = |wanted: &'static str| {
        move |map: &ConfigMap| map.data.as_ref().is_some_and(|data| data["content"] == wanted)
    };
    wait(maps.clone(), "gen", content("one")).await;

    // What does not matter is dropped before anybody looks at it.
    let status = Patch::Merge(json!({"metadata": {"annotations": {"a": "b"}}}));
    api.patch("gen", &PatchParams::default(), &status).await.unwrap();
    let foreign = crate::filter::config_map("foreign", json!({}));
    maps.create(&PostParams::default(), &foreign).await.unwrap();

    // What does, is not: the map is changed by another client, deleted, and the generator changed.
    let broken = Patch::Merge(json!({"data": {"content": "broken"}}));
    maps.patch("gen", &PatchParams::default(), &broken).await.unwrap();
    wait(maps.clone(), "gen", content("one")).await;
    let before = maps.get("gen").await.unwrap().uid();
    maps.delete("gen", &DeleteParams::default()).await.unwrap();
    wait(maps.clone(), "gen", |map| map.uid() != before).await;
    let change = Patch::Merge(json!({"spec": {"content": "two"}}));
    api.patch("gen", &PatchParams::default(), &change).await.unwrap();
    wait(maps.clone(), "gen", content("two")).await;
    running.stop().await;
    assert!(data.runs.load(Ordering::Relaxed) >= 4);
    // The root certificate of each namespace, the foreign map, the annotation.
    assert!(counts.metrics().dropped >= 6, "{:?}", counts.metrics());
}

/// `secret_syncer`: a Secret for each ConfigMap, cleaned up by a finalizer.
fn secret_syncer(client: Client) -> Running {
    async fn sync(map: Arc<ConfigMap>, client: Client) -> Result<Action, finalizer::Error<kube::Error>> {
        let namespace = map.namespace().unwrap_or_default();
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        let secrets: Api<Secret> = Api::namespaced(client, &namespace);
        let name = format!("cm---{}", map.name_any());
        let each = |event: finalizer::Event<ConfigMap>| async {
            match event {
                finalizer::Event::Apply(map) => {
                    let secret = Secret {
                        metadata: ObjectMeta { name: Some(name.clone()), ..ObjectMeta::default() },
                        string_data: map.data.clone(),
                        ..Secret::default()
                    };
                    let manager = PatchParams::apply("configmap-secret-syncer.nullable.se");
                    secrets.patch(&name, &manager, &Patch::Apply(secret)).await?;
                }
                finalizer::Event::Cleanup(_) => match secrets.delete(&name, &DeleteParams::default()).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    deleted => drop(deleted?),
                },
            }
            Ok(Action::await_change())
        };
        finalizer(&maps, "configmap-secret-syncer.nullable.se/cleanup", map, each).await
    }

    let (stop, stopped) = oneshot::channel::<()>();
    let config = watcher::Config::default().labels("configmap-secret-syncer.nullable.se/sync=true");
    let controller = Controller::new(Api::<ConfigMap>::all(client.clone()), config)
        .graceful_shutdown_on(stopped.map(drop))
        .run(
            move |map, _| sync(map, client.clone()),
            |_, _, _| Action::requeue(Duration::from_millis(50)),
            Arc::new(()),
        )
        .for_each(|_| futures::future::ready(()));
    Running { stop, task: tokio::spawn(controller) }
}

#[tokio::test]
async fn secrets_follow_config_maps() {
    let server = Server::in_memory().await.unwrap();
    let direct = server.client();
    // What the finalizer needs: the deletion and the finalizers; and the data. Labels are for the server.
    let filter = Filter::new()
        .events(predicate::any([
            predicate::field_changed("data"),
            predicate::finalizers_changed(),
            predicate::deletion_requested(),
        ]))
        .projection(Projection::only(["data", "metadata.finalizers"]));
    let running = secret_syncer(FilteredClient::new(direct.clone()).kind::<ConfigMap>(filter).into_client());
    let maps: Api<ConfigMap> = Api::namespaced(direct.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(direct, "default");
    let mut map = crate::filter::config_map("a", json!({"k": "1"}));
    map.labels_mut().insert("configmap-secret-syncer.nullable.se/sync".to_owned(), "true".to_owned());
    maps.create(&PostParams::default(), &map).await.unwrap();
    let value = |wanted: &'static [u8]| {
        move |secret: &Secret| secret.data.as_ref().is_some_and(|data| data["k"].0 == wanted)
    };
    wait(secrets.clone(), "cm---a", value(b"1")).await;
    let change = Patch::Merge(json!({"data": {"k": "2"}}));
    maps.patch("a", &PatchParams::default(), &change).await.unwrap();
    wait(secrets.clone(), "cm---a", value(b"2")).await;
    let uid = maps.get("a").await.unwrap().uid().unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    await_condition(maps, "a", conditions::is_deleted(&uid)).await.unwrap();
    assert!(secrets.get_opt("cm---a").await.unwrap().is_none());
    running.stop().await;
}

/// `pod_reflector`: kube-rs' own reflector and store, of the Pods that DaemonSets own.
#[tokio::test]
async fn a_reflector_holds_pods_of_daemon_sets() {
    let server = Server::in_memory().await.unwrap();
    let pods: Api<Pod> = Api::namespaced(server.client(), "default");
    for (name, kind) in [("a", "DaemonSet"), ("b", "ReplicaSet"), ("c", "DaemonSet")] {
        pods.create(&PostParams::default(), &pod(name, kind)).await.unwrap();
    }
    let filter = Filter::new()
        .objects(predicate::owned_by("DaemonSet"))
        .projection(Projection::only(["spec.nodeName"]));
    let client = FilteredClient::new(server.client()).kind::<Pod>(filter).into_client();
    let (reader, writer) = reflector::store();
    let stream = watcher(Api::<Pod>::all(client), watcher::Config::default()).default_backoff();
    let applied = stream.reflect(writer).applied_objects().map_ok(|pod| pod.name_any());
    let names: Vec<String> = applied.take(2).try_collect().await.unwrap();
    assert_eq!(names, ["a", "c"]);
    drop(reader);
}

/// A cache beside a `Controller`, in its context: what is reconciled is decided by what the cache has.
#[tokio::test]
async fn a_controller_reads_a_cache() {
    #[derive(Deserialize)]
    struct Placement {
        spec: Spec,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        node_name: Option<String>,
    }

    let server = Server::in_memory().await.unwrap();
    let pods: Api<Pod> = Api::namespaced(server.client(), "default");
    pods.create(&PostParams::default(), &pod("a", "DaemonSet")).await.unwrap();
    let cache = Cache::<Placement>::of::<Pod>(server.client())
        .objects(predicate::owned_by("DaemonSet"))
        .projection(Projection::only(["spec.nodeName"]))
        .index_field("spec.nodeName")
        .start();
    cache.wait_until_ready().await.unwrap();
    let (found, mut nodes) = tokio::sync::mpsc::channel(8);
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let own = watcher::Config::default().fields("metadata.name=wanted");
    let controller = Controller::new(maps.clone(), own)
        // Changes of the cache wake it as well.
        .reconcile_all_on(cache.changes().map(drop))
        .run(
            move |map: Arc<ConfigMap>, cache: Arc<Cache<Placement>>| {
                let found = found.clone();
                async move {
                    let name = &map.data.as_ref().unwrap()["pod"];
                    let pod = cache.get(ObjectKey::new("default", name));
                    let node = pod.and_then(|pod| pod.spec.node_name.clone());
                    found.send((name.clone(), node)).await.unwrap();
                    Ok::<_, kube::Error>(Action::await_change())
                }
            },
            |_, _, _| Action::await_change(),
            Arc::new(cache.clone()),
        )
        .for_each(|_| futures::future::ready(()));
    let task = tokio::spawn(controller);
    maps.create(&PostParams::default(), &crate::filter::config_map("wanted", json!({"pod": "b"})))
        .await
        .unwrap();
    assert_eq!(nodes.recv().await, Some(("b".to_owned(), None)));
    pods.create(&PostParams::default(), &pod("b", "DaemonSet")).await.unwrap();
    while nodes.recv().await != Some(("b".to_owned(), Some("node-1".to_owned()))) {}
    assert_eq!(cache.indexed("spec.nodeName", "node-1").unwrap().len(), 2);
    task.abort();
}

fn pod(name: &str, owner: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": owner, "name": "owner", "uid": "00000000-0000-4000-8000-000000000001", "controller": true},
        ]},
        "spec": {"nodeName": "node-1", "containers": [{"name": "app", "image": "registry.example/app:1"}]},
    }))
    .unwrap()
}

//! kube-rs' own example controllers, on our cache: only the imports of the first module differ.
//!
//! The functions of `upstream` are the examples of the documentation of kube-runtime 5.0.0 (<https://github.com/kube-rs/kube>,
//! `src/controller/mod.rs`: `Controller`, `Controller::for_stream`, `watches`, `reconcile_all_on`, `reconcile_on` and
//! `graceful_shutdown_on`), Copyright the kube-rs authors, licensed under the Apache License, Version 2.0
//! (<https://www.apache.org/licenses/LICENSE-2.0>). Where an example leaves out its reconciler, or reads the terminal, the module around it has
//! what is missing.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, CustomResourceExt as _, ResourceExt as _};
use serde_json::json;
use settled_apiserver::Server;
use settled_controller::cache::Cache;
use settled_controller::predicate;
use settled_controller::runtime::controller::{Action, Config, Controller};
use tokio::sync::watch;

/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was reconciled: the context of the controllers.
#[derive(Clone)]
struct Log(Arc<watch::Sender<Vec<String>>>);

impl Log {
    fn new() -> Self {
        Self(Arc::new(watch::Sender::new(Vec::new())))
    }

    fn add(&self, name: String) {
        self.0.send_modify(|names| names.push(name));
    }

    /// Waits until so many reconciles of an object have happened.
    async fn times(&self, name: &str, times: usize) {
        let mut names = self.0.subscribe();
        let enough = names.wait_for(|names| names.iter().filter(|known| *known == name).count() >= times);
        tokio::time::timeout(PATIENCE, enough).await.unwrap_or_else(|_| panic!("{name}")).unwrap();
    }

    fn names(&self) -> BTreeSet<String> {
        self.0.borrow().iter().cloned().collect()
    }
}

mod upstream {
    #![allow(
        unused_qualifications,
        clippy::print_stdout,
        clippy::unnecessary_literal_unwrap,
        reason = "the code stands as it does upstream"
    )]

    use std::convert::Infallible;
    use std::sync::Arc;

    use futures::future::FutureExt;
    use futures::{Stream, StreamExt};
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
    use kube::{Api, Client, CustomResource, ResourceExt};
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use settled_controller::runtime::controller::{Action, Controller};
    use settled_controller::runtime::reflector::ObjectRef;
    use settled_controller::runtime::{WatchStreamExt, predicates, reflector, watcher};
    use thiserror::Error;
    use tokio::time::Duration;

    use super::Log;

    #[derive(Debug, Error)]
    enum Error {}

    /// A custom resource
    #[derive(CustomResource, Debug, Clone, Deserialize, Serialize, JsonSchema)]
    #[kube(group = "nullable.se", version = "v1", kind = "ConfigMapGenerator", namespaced)]
    pub(super) struct ConfigMapGeneratorSpec {
        pub(super) content: String,
    }

    /// The reconciler that will be called when either object change
    async fn reconcile(g: Arc<ConfigMapGenerator>, ctx: Arc<Log>) -> Result<Action, Error> {
        ctx.add(g.name_any());
        Ok(Action::requeue(Duration::from_secs(300)))
    }
    /// an error handler that will be called when the reconciler fails with access to both the
    /// object that caused the failure and the actual error
    fn error_policy(_obj: Arc<ConfigMapGenerator>, _error: &Error, _ctx: Arc<Log>) -> Action {
        Action::requeue(Duration::from_secs(60))
    }

    /// something to drive the controller
    pub(super) async fn wrapper(client: Client, context: Arc<Log>) {
        let cmgs = Api::<ConfigMapGenerator>::all(client.clone());
        let cms = Api::<ConfigMap>::all(client.clone());
        Controller::new(cmgs, watcher::Config::default())
            .owns(cms, watcher::Config::default())
            .run(reconcile, error_policy, context)
            .for_each(|res| async move {
                match res {
                    Ok(o) => println!("reconciled {:?}", o),
                    Err(e) => println!("reconcile failed: {:?}", e),
                }
            })
            .await; // controller does nothing unless polled
    }

    /// Of `Controller::for_stream`.
    pub(super) async fn stream(client: Client, context: Arc<Log>) {
        async fn reconcile(deployment: Arc<Deployment>, ctx: Arc<Log>) -> Result<Action, kube::Error> {
            ctx.add(deployment.name_any());
            Ok(Action::await_change())
        }
        fn error_policy(_: Arc<Deployment>, _: &kube::Error, _: Arc<Log>) -> Action {
            Action::await_change()
        }
        let api: Api<Deployment> = Api::default_namespaced(client);
        let (reader, writer) = reflector::store();
        let deploys = watcher(api, watcher::Config::default())
            .default_backoff()
            .reflect(writer)
            .applied_objects()
            .predicate_filter(predicates::generation, Default::default());

        Controller::for_stream(deploys, reader)
            .run(reconcile, error_policy, context)
            .for_each(|_| std::future::ready(()))
            .await;
    }

    async fn reconcile_map(map: Arc<ConfigMap>, ctx: Arc<Log>) -> Result<Action, kube::Error> {
        ctx.add(map.name_any());
        Ok(Action::await_change())
    }
    fn map_error_policy(_: Arc<ConfigMap>, _: &kube::Error, _: Arc<Log>) -> Action {
        Action::await_change()
    }

    type WatchedResource = Namespace;

    /// Of `Controller::watches`.
    pub(super) async fn watches(client: Client, context: Arc<Log>) {
        let memcached = Api::<ConfigMap>::namespaced(client.clone(), "default");
        Controller::new(memcached, watcher::Config::default())
            .watches(Api::<WatchedResource>::all(client.clone()), watcher::Config::default(), |ar| {
                let prt = ar.annotations().get("operator-sdk/primary-resource-type").map(String::as_str);

                if prt != Some("Memcached.cache.example.com") {
                    return None;
                }

                let (namespace, name) =
                    ar.annotations().get("operator-sdk/primary-resource")?.split_once('/')?;

                Some(ObjectRef::new(name).within(namespace))
            })
            .run(reconcile_map, map_error_policy, context)
            .for_each(|_| futures::future::ready(()))
            .await;
    }

    /// Of `Controller::reconcile_all_on` and `Controller::graceful_shutdown_on`.
    pub(super) async fn reconcile_all(
        client: Client,
        reload_rx: futures::channel::mpsc::Receiver<()>,
        stop: tokio::sync::oneshot::Receiver<()>,
        log: Arc<Log>,
    ) {
        Controller::new(Api::<ConfigMap>::all(client), watcher::Config::default())
            .reconcile_all_on(reload_rx.map(|_| ()))
            .graceful_shutdown_on(stop.map(|_| ()))
            .run(
                |o, log: Arc<Log>| async move {
                    log.add(o.name_any());
                    Ok(Action::await_change())
                },
                |_object: Arc<ConfigMap>, err: &Infallible, _| Err(err).unwrap(),
                log,
            )
            .for_each(|_| futures::future::ready(()))
            .await;
    }

    pub(super) struct ExternalObject {
        pub(super) name: String,
    }

    /// Of `Controller::reconcile_on`.
    pub(super) async fn reconcile_on(
        client: Client,
        watch_external_objects: impl Stream<Item = ExternalObject> + Send + 'static,
        log: Arc<Log>,
    ) {
        let ns = "default".to_string();
        let external_stream = watch_external_objects
            .map(move |ext| ObjectRef::new(&format!("{}-cm", ext.name)).within("default"));

        Controller::new(Api::<ConfigMap>::namespaced(client, &ns), watcher::Config::default())
            .reconcile_on(external_stream)
            .run(reconcile_map, map_error_policy, log)
            .for_each(|_| futures::future::ready(()))
            .await;
    }
}

fn map(name: &str) -> ConfigMap {
    crate::filter::config_map(name, json!({"k": "v"}))
}

async fn touch(api: &Api<ConfigMap>, name: &str, value: &str) {
    let patch = Patch::Merge(json!({"data": {"k": value}}));
    api.patch(name, &PatchParams::default(), &patch).await.unwrap();
}

/// A server, and what a controller on it has reconciled.
async fn begin() -> (Server, Client, Log) {
    let server = Server::in_memory().await.unwrap();
    let client = server.client();
    (server, client, Log::new())
}

#[tokio::test]
async fn a_generator_is_reconciled_for_itself_and_for_what_it_owns() {
    let (_server, client, log) = begin().await;
    let crds = Api::all(client.clone());
    crds.create(&PostParams::default(), &upstream::ConfigMapGenerator::crd()).await.unwrap();
    let established = kube::runtime::wait::conditions::is_crd_established();
    kube::runtime::wait::await_condition(crds, "configmapgenerators.nullable.se", established).await.unwrap();
    let task = tokio::spawn(upstream::wrapper(client.clone(), Arc::new(log.clone())));

    let api: Api<upstream::ConfigMapGenerator> = Api::namespaced(client.clone(), "default");
    let spec = upstream::ConfigMapGeneratorSpec { content: "one".to_owned() };
    let generator = upstream::ConfigMapGenerator::new("gen", spec);
    let generator = api.create(&PostParams::default(), &generator).await.unwrap();
    log.times("gen", 1).await;
    // By an object that it owns: its creation, a change, and its end.
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let mut owned = map("owned");
    owned.metadata.owner_references =
        kube::Resource::controller_owner_ref(&generator, &()).map(|owner| vec![owner]);
    maps.create(&PostParams::default(), &owned).await.unwrap();
    log.times("gen", 2).await;
    touch(&maps, "owned", "changed").await;
    log.times("gen", 3).await;
    maps.delete("owned", &DeleteParams::default()).await.unwrap();
    log.times("gen", 4).await;
    let change = Patch::Merge(json!({"spec": {"content": "two"}}));
    api.patch("gen", &PatchParams::default(), &change).await.unwrap();
    log.times("gen", 5).await;
    assert_eq!(log.names(), BTreeSet::from(["gen".to_owned()]));
    task.abort();
}

#[tokio::test]
async fn a_filtered_stream_decides_what_is_reconciled() {
    let (_server, client, log) = begin().await;
    let task = tokio::spawn(upstream::stream(client.clone(), Arc::new(log.clone())));
    let api: Api<Deployment> = Api::namespaced(client, "default");
    let deployment = |name: &str| -> Deployment {
        let labels = json!({"app": name});
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}});
        let spec = json!({"selector": {"matchLabels": labels}, "template": template});
        serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap()
    };
    api.create(&PostParams::default(), &deployment("a")).await.unwrap();
    log.times("a", 1).await;
    // A label changes no generation; the spec does, and on Deployments an annotation, too.
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    api.patch("a", &PatchParams::default(), &label).await.unwrap();
    let scale = Patch::Merge(json!({"spec": {"replicas": 3}}));
    api.patch("a", &PatchParams::default(), &scale).await.unwrap();
    log.times("a", 2).await;
    api.delete("a", &DeleteParams::default()).await.unwrap();
    api.create(&PostParams::default(), &deployment("z")).await.unwrap();
    log.times("z", 1).await;
    assert_eq!(*log.0.borrow(), ["a", "a", "z"]);
    task.abort();
}

#[tokio::test]
async fn objects_of_another_kind_wake_what_they_name() {
    let (_server, client, log) = begin().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    maps.create(&PostParams::default(), &map("cache")).await.unwrap();
    let task = tokio::spawn(upstream::watches(client.clone(), Arc::new(log.clone())));
    log.times("cache", 1).await;
    let namespaces: Api<Namespace> = Api::all(client);
    let annotations = json!({
        "operator-sdk/primary-resource-type": "Memcached.cache.example.com",
        "operator-sdk/primary-resource": "default/cache",
    });
    let namespace = json!({"metadata": {"name": "shop", "annotations": annotations}});
    namespaces.create(&PostParams::default(), &serde_json::from_value(namespace).unwrap()).await.unwrap();
    log.times("cache", 2).await;
    task.abort();
}

#[tokio::test]
async fn all_are_reconciled_on_demand_until_a_graceful_shutdown() {
    let (_server, client, log) = begin().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    for name in ["a", "b"] {
        maps.create(&PostParams::default(), &map(name)).await.unwrap();
    }
    let (mut reload, reloads) = futures::channel::mpsc::channel(1);
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(upstream::reconcile_all(client, reloads, stopped, Arc::new(log.clone())));
    for name in ["a", "b"] {
        log.times(name, 1).await;
    }
    reload.try_send(()).unwrap();
    for name in ["a", "b"] {
        log.times(name, 2).await;
    }
    stop.send(()).unwrap();
    tokio::time::timeout(PATIENCE, task).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_happens_outside_of_the_cluster_wakes_objects() {
    let (_server, client, log) = begin().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    maps.create(&PostParams::default(), &map("ext-cm")).await.unwrap();
    let (sender, events) = futures::channel::mpsc::unbounded();
    let task = tokio::spawn(upstream::reconcile_on(client, events, Arc::new(log.clone())));
    log.times("ext-cm", 1).await;
    sender.unbounded_send(upstream::ExternalObject { name: "ext".to_owned() }).unwrap();
    log.times("ext-cm", 2).await;
    task.abort();
}

/// What kube-rs' `Controller` cannot: it runs on a cache with predicates, and the failed reconciles of an object are retried as its error
/// policy says.
#[tokio::test]
async fn a_controller_runs_on_a_cache_with_predicates() {
    #[derive(Debug, thiserror::Error)]
    #[error("not yet")]
    struct NotYet;

    let (_server, client, log) = begin().await;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let cache = Cache::<ConfigMap>::builder(client)
        .namespace("default")
        .objects(predicate::labels("team=a").unwrap())
        .events(predicate::field_changed("data"))
        .start();
    let controller = Controller::for_cache(cache).with_config(Config::default().concurrency(2));
    let store = controller.store();
    let (errors, given) = (Arc::new(Mutex::new(0)), log.clone());
    let counted = Arc::clone(&errors);
    let run = controller.run(
        move |map: Arc<ConfigMap>, log: Arc<Log>| {
            let failures = Arc::clone(&errors);
            async move {
                log.add(map.name_any());
                let mut failures = failures.lock().unwrap();
                *failures += 1;
                if *failures == 1 { Err(NotYet) } else { Ok(Action::await_change()) }
            }
        },
        |_, _, _| Action::requeue(Duration::from_millis(1)),
        Arc::new(given),
    );
    let task = tokio::spawn(run.for_each(|_| futures::future::ready(())));
    maps.create(&PostParams::default(), &map("other")).await.unwrap();
    let mut own = map("own");
    own.labels_mut().insert("team".to_owned(), "a".to_owned());
    maps.create(&PostParams::default(), &own).await.unwrap();
    // The first one fails.
    log.times("own", 2).await;
    let annotate = Patch::Merge(json!({"metadata": {"annotations": {"a": "b"}}}));
    maps.patch("own", &PatchParams::default(), &annotate).await.unwrap();
    touch(&maps, "own", "changed").await;
    log.times("own", 3).await;
    assert_eq!((log.names(), *counted.lock().unwrap()), (BTreeSet::from(["own".to_owned()]), 3));
    assert_eq!(store.len(), 1);
    task.abort();
}

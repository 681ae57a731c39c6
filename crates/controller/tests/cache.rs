//! The cache: what it holds, what it reports, and what it survives.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{DynamicObject, PartialObjectMeta, PatchParams};
use kube::core::{ApiResource, Expression};
use kube::runtime::reflector::ObjectRef;
use kube::{Api, ResourceExt as _};
use serde::Deserialize;
use serde_json::{Value, json};
use settled_apiserver::auth::User;
use settled_apiserver::{Config, Server};
use settled_controller::cache::{Cache, CacheStatus, Changes};
use settled_controller::predicate::{self, EventKind};
use settled_controller::{ObjectKey, OwnWrites, Projection};

use crate::filter::Write::{self, Create, Delete, Patch};
use crate::filter::setup;
use crate::gate::Gate;

/// What is kept of a ConfigMap here.
#[derive(Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct Small {
    #[serde(default)]
    pub(crate) data: BTreeMap<String, String>,
}

impl Small {
    fn v(&self) -> &str {
        self.data.get("v").map_or("", |v| v)
    }
}

fn described(kind: EventKind, name: &str, old: Option<&Arc<Small>>, new: Option<&Arc<Small>>) -> String {
    let v =
        |object: Option<&Arc<Small>>| object.map_or_else(|| "-".to_owned(), |object| object.v().to_owned());
    format!("{kind:?} {name} {}>{}", v(old), v(new)).to_lowercase()
}

/// The next changes in short, until that of an object with this name.
async fn changes_until(changes: &mut Changes<Small>, last: &str) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let change = changes.next().await.unwrap();
        seen.push(described(change.kind, &change.key.name, change.old.as_ref(), change.new.as_ref()));
        if *change.key.name == *last {
            return seen;
        }
    }
}

async fn make(api: &Api<ConfigMap>, writes: impl IntoIterator<Item = Write>) {
    for write in writes {
        write.make(api).await;
    }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

#[tokio::test]
async fn a_cache_holds_what_matches_and_reports_how_it_changes() {
    let (server, api) = setup().await;
    make(&api, [Create("a", json!({"keep": "yes", "v": "1"})), Create("b", json!({"keep": "no"}))]).await;
    let cache = Cache::<Small>::of::<ConfigMap>(server.client())
        .namespace("default")
        .objects(predicate::field("data.keep").equals("yes"))
        .projection(Projection::only(["data.v"]))
        .index_field("data.v")
        .index_by("length", |small: &Small| vec![small.v().len().to_string()])
        .start();
    cache.wait_until_ready().await.unwrap();
    // The root certificate that every namespace gets is not kept either.
    assert_eq!(cache.keys(), [key("a")]);
    assert_eq!(cache.get(key("a")).unwrap().data, BTreeMap::from([("v".to_owned(), "1".to_owned())]));

    let mut changes = cache.changes();
    assert_eq!(changes_until(&mut changes, "a").await, ["create a ->1"]);
    // Each step is read before the next one is made: else they would be merged.
    let keep = |keep: &str, v: &str| json!({"data": {"keep": keep, "v": v}});
    for (write, expected) in [
        (Patch("a", keep("yes", "2")), "update a 1>2"),
        (Patch("b", keep("yes", "1")), "create b ->1"),
        (Patch("a", keep("no", "3")), "delete a 2>-"),
        (Patch("a", keep("yes", "22")), "create a ->22"),
        (Delete("b"), "delete b 1>-"),
    ] {
        write.make(&api).await;
        let change = changes.next().await.unwrap();
        let seen = described(change.kind, &change.key.name, change.old.as_ref(), change.new.as_ref());
        assert_eq!(seen, expected);
    }
    let indexed = |index: &str, value: &str| cache.indexed(index, value).map(|objects| objects.len());
    assert_eq!(
        (indexed("data.v", "22"), indexed("data.v", "2"), indexed("length", "2")),
        (Ok(1), Ok(0), Ok(1))
    );
    assert_eq!(indexed("nothing", "2").unwrap_err().to_string(), "the cache has no index \"nothing\"");
    assert_eq!(cache.status(), CacheStatus::Synced);
    let metrics = cache.metrics();
    assert_eq!((metrics.objects, metrics.malformed, metrics.lists, metrics.failures), (1, 0, 1, 0));
    // a, b and the root certificate; five changes, of which one made an object not match.
    assert_eq!((metrics.events, metrics.dropped), (8, 3));
}

/// A reader that skipped as many changes as there are objects would miss one: those of an unread object are merged.
#[tokio::test]
async fn later_changes_begin_without_the_existing_objects() {
    let (server, api) = setup().await;
    make(&api, [Create("a", json!({"v": "1"})), Create("b", json!({"v": "1"}))]).await;
    let cache =
        Cache::<Small>::of::<ConfigMap>(server.client()).objects(predicate::field("data.v").exists()).start();
    cache.wait_until_ready().await.unwrap();
    let (mut all, mut later) = (cache.changes(), cache.later_changes());
    assert_eq!((all.pending(), later.pending()), (2, 0));
    make(&api, [Delete("a"), Patch("b", json!({"data": {"v": "2"}})), Create("c", json!({"v": "1"}))]).await;
    assert_eq!(changes_until(&mut later, "c").await, ["delete a 1>-", "update b 1>2", "create c ->1"]);
    assert_eq!(changes_until(&mut all, "c").await, ["create b ->2", "create c ->1"]);
}

#[tokio::test]
async fn changes_are_suppressed_and_the_cache_has_them() {
    let (server, api) = setup().await;
    make(&api, [Create("a", json!({"v": "1"}))]).await;
    let cache = Cache::<Small>::of::<ConfigMap>(server.client())
        .fields("metadata.namespace=default")
        .objects(predicate::field("data.v").exists())
        .events(predicate::labels_changed())
        .start();
    cache.wait_until_ready().await.unwrap();
    let mut changes = cache.changes();
    let labels = json!({"metadata": {"labels": {"x": "y"}}, "data": {"v": "3"}});
    make(&api, [Patch("a", json!({"data": {"v": "2"}}))]).await;
    // The same name, and another object.
    make(
        &api,
        [Delete("a"), Create("a", json!({"v": "2"})), Patch("a", labels), Create("z", json!({"v": "z"}))],
    )
    .await;
    // Merged: it is there before anything is read, unless the reader is quicker.
    let seen = changes_until(&mut changes, "z").await;
    assert!(seen.iter().all(|change| !change.contains("1>2")), "{seen:?}");
    assert!(seen.iter().any(|change| change.ends_with(">3")), "{seen:?}");
    assert_eq!(cache.get(key("a")).unwrap().v(), "3");
    assert_eq!(cache.metrics().suppressed, 1);
}

/// The server has forgotten where the watch was, and what happened meanwhile: the relist is compared with what is there.
#[tokio::test]
async fn a_relist_reports_what_has_changed_and_what_is_gone() {
    let (server, api) = setup().await;
    let gate = Gate::new(server.client());
    make(&api, ["a", "b", "c", "d"].map(|name| Create(name, json!({"v": "1"})))).await;
    let cache = Cache::<Small>::of::<ConfigMap>(gate.client())
        .namespace("default")
        .objects(predicate::field("data.v").exists())
        .start();
    let mut changes = cache.changes();
    assert_eq!(changes_until(&mut changes, "d").await.len(), 4);
    cache.wait_until_ready().await.unwrap();

    gate.hold();
    gate.cut();
    gate.expire();
    let change = json!({"data": {"v": "2"}});
    make(
        &api,
        [
            Delete("b"),
            Patch("c", change),
            Delete("d"),
            Create("d", json!({"v": "1"})),
            Create("e", json!({"v": "1"})),
        ],
    )
    .await;
    assert_eq!(cache.len(), 4);
    gate.release();
    // In the order of the list; what is gone is known at its end.
    assert_eq!(
        changes_until(&mut changes, "b").await,
        ["update c 1>2", "update d 1>1", "create e ->1", "delete b 1>-"]
    );
    assert_eq!(cache.len(), 4);
    assert_eq!(cache.metrics().lists, 2);

    // A connection that is merely lost is resumed.
    gate.hold();
    gate.cut();
    make(&api, [Delete("a"), Patch("c", json!({"data": {"v": "3"}}))]).await;
    gate.release();
    assert_eq!(changes_until(&mut changes, "c").await, ["delete a 1>-", "update c 2>3"]);
    assert_eq!(cache.metrics().lists, 2);
}

/// A cache is read as kube-rs' `Store` is, of whatever type.
#[tokio::test]
async fn a_cache_is_read_as_a_store() {
    let (server, api) = setup().await;
    make(&api, [Create("a", json!({"v": "1"})), Create("b", json!({"v": "2"}))]).await;
    make(&api, [Patch("b", json!({"metadata": {"labels": {"app": "web"}, "ownerReferences": [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "uid": api.get("a").await.unwrap().uid().unwrap()},
    ]}}))])
    .await;
    let own = || predicate::object(|it| matches!(&*it.name(), "a" | "b"));
    let web: kube::core::Selector = Expression::Equal("app".into(), "web".into()).into();

    let typed =
        Cache::<ConfigMap>::builder(server.client()).objects(own()).index_owners().index_label("app").start();
    typed.wait_until_ready().await.unwrap();
    let b = ObjectRef::<ConfigMap>::new("b").within("default");
    assert_eq!(typed.get(&b).unwrap().data.as_ref().unwrap()["v"], "2");
    assert_eq!(typed.get(&ObjectRef::<ConfigMap>::new("c").within("default")), None);
    assert_eq!((typed.len(), typed.is_empty(), typed.state().len()), (2, false, 2));
    assert_eq!(typed.find(|it| it.name_any() == "a").unwrap().name_any(), "a");
    assert_eq!(typed.state_filter(|it| it.labels().is_empty())[0].name_any(), "a");
    assert_eq!(typed.state_filter_selector(&web)[0].name_any(), "b");
    let a = api.get("a").await.unwrap().uid().unwrap();
    assert_eq!(typed.owned_by(&a).unwrap()[0].name_any(), "b");
    assert_eq!(typed.indexed("app", "web").unwrap()[0].name_any(), "b");

    let partial = Cache::<PartialObjectMeta<ConfigMap>>::builder(server.client()).objects(own()).start();
    partial.wait_until_ready().await.unwrap();
    assert_eq!(partial.state_filter_selector(&web)[0].name_any(), "b");
    assert_eq!(partial.get(&b).unwrap().types.as_ref().unwrap().kind, "PartialObjectMetadata");

    let kind = ApiResource::erase::<ConfigMap>(&());
    let dynamic = Cache::<DynamicObject>::of_resource(server.client(), &kind).objects(own()).start();
    dynamic.wait_until_ready().await.unwrap();
    let b = ObjectRef::<DynamicObject>::new_with("b", kind).within("default");
    assert_eq!(dynamic.get(&b).unwrap().data["data"]["v"], "2");
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_left_out_and_delays_no_other() {
    #[derive(Deserialize)]
    struct Number {
        data: Option<Data>,
    }
    #[derive(Deserialize)]
    struct Data {
        #[serde(deserialize_with = "number")]
        v: u32,
    }
    fn number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
    let (server, api) = setup().await;
    make(
        &api,
        [Create("a", json!({"v": "1"})), Create("b", json!({"v": "many"})), Create("c", json!({"v": "3"}))],
    )
    .await;
    let cache = Cache::<Number>::of::<ConfigMap>(server.client())
        .objects(predicate::field("data.v").exists())
        .start();
    cache.wait_until_ready().await.unwrap();
    let sum = || cache.state().iter().filter_map(|it| Some(it.data.as_ref()?.v)).sum::<u32>();
    assert_eq!((sum(), cache.metrics().malformed), (4, 1));
    let mut changes = cache.changes();
    make(&api, [Patch("c", json!({"data": {"v": "few"}})), Create("z", json!({"v": "10"}))]).await;
    while &*changes.next().await.unwrap().key.name != "z" {}
    assert_eq!((sum(), cache.metrics().malformed), (11, 2));
}

#[tokio::test]
async fn a_user_who_may_not_list_is_told_so() {
    let (server, _) = setup().await;
    let client = server.client_as(&User::new("nobody", Vec::<String>::new()));
    let cache = Cache::<PartialObjectMeta<Pod>>::builder(client).start();
    let mut status = cache.watch_status();
    let forbidden =
        status.wait_for(|status| matches!(status, CacheStatus::Forbidden(_))).await.unwrap().clone();
    let CacheStatus::Forbidden(error) = forbidden else { unreachable!() };
    assert_eq!(error.code(), Some(403));
    assert!(!cache.is_ready());
}

#[tokio::test]
async fn an_object_is_read_live_as_the_cache_reads_it() {
    let (server, api) = setup().await;
    make(&api, [Create("a", json!({"keep": "yes", "v": "1"})), Create("b", json!({"keep": "no"}))]).await;
    let cache = Cache::<Small>::of::<ConfigMap>(server.client())
        .objects(predicate::field("data.keep").equals("yes"))
        .projection(Projection::only(["data.v"]))
        .start();
    let expected = |data: Value| Some(serde_json::from_value::<Small>(json!({"data": data})).unwrap());
    for (name, expected) in [("a", expected(json!({"v": "1"}))), ("b", None), ("c", None)] {
        let read = cache.get_live(&key(name)).await.unwrap();
        assert_eq!(read.as_deref(), expected.as_ref(), "{name}");
    }
}

/// A write by a manager that carries the resourceVersion; the object before and after it.
async fn guarded(api: &Api<ConfigMap>, name: &str, manager: &str, data: Value) -> (ConfigMap, ConfigMap) {
    let before = api.get(name).await.unwrap();
    let patch = json!({"metadata": {"resourceVersion": before.resource_version()}, "data": data});
    let manager = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
    let after = api.patch(name, &manager, &kube::api::Patch::Merge(patch)).await.unwrap();
    (before, after)
}

/// All within one second of the server, where the times of managers say little.
#[tokio::test]
async fn own_writes_are_not_reported_and_those_of_others_are() {
    let mut config = Config::default();
    let now: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    config.clock = Some(Arc::new(move || now));
    let server = Server::start(config).await.unwrap();
    let api: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    make(&api, ["a", "b", "c"].map(|name| Create(name, json!({"v": "1"})))).await;
    let own = OwnWrites::new();
    let gates = [Gate::new(server.client()), Gate::new(server.client())];
    let by_manager = predicate::own_write("me");
    let either = predicate::own_write_in(&own).or(by_manager.clone());
    let caches = [(&gates[0], by_manager), (&gates[1], either)].map(|(gate, own_write)| {
        Cache::<Small>::of::<ConfigMap>(gate.client())
            .objects(predicate::field("data.v").exists())
            .events(own_write.not())
            .start()
    });
    let [mut by_manager, mut either] = caches.each_ref().map(Cache::changes);
    for changes in [&mut by_manager, &mut either] {
        assert_eq!(changes_until(changes, "c").await.len(), 3);
    }
    for cache in &caches {
        cache.wait_until_ready().await.unwrap();
    }
    let v = |v: &str| json!({"v": v});

    // Two own writes: the second one changes no time.
    gates.iter().for_each(Gate::hold);
    for value in ["2", "3"] {
        let (before, after) = guarded(&api, "a", "me", v(value)).await;
        own.wrote(&before, &after);
    }
    guarded(&api, "c", "other", v("2")).await;
    gates.iter().for_each(Gate::release);
    assert_eq!(changes_until(&mut by_manager, "c").await, ["update a 2>3", "update c 1>2"]);
    assert_eq!(changes_until(&mut either, "c").await, ["update c 1>2"]);

    guarded(&api, "b", "other", json!({"v": "2", "w": "theirs"})).await;
    for changes in [&mut by_manager, &mut either] {
        assert_eq!(changes_until(changes, "b").await, ["update b 1>2"]);
    }
    // What a relist shows as one change of b: a write of another manager, whose entry and time stay as they are, and an own one.
    for gate in &gates {
        gate.hold();
        gate.cut();
        gate.expire();
    }
    for (name, manager, value) in [("a", "me", "4"), ("b", "other", "3"), ("b", "me", "4")] {
        let (before, after) = guarded(&api, name, manager, v(value)).await;
        if manager == "me" {
            own.wrote(&before, &after);
        }
    }
    gates.iter().for_each(Gate::release);
    assert_eq!(changes_until(&mut by_manager, "b").await, ["update a 3>4", "update b 2>4"]);
    assert_eq!(changes_until(&mut either, "b").await, ["update b 2>4"]);
    assert_eq!(caches[1].get(key("a")).unwrap().v(), "4");
}

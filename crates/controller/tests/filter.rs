//! Clients whose lists and watches are filtered, with kube-rs' watcher, reflector and Controller on them as they are.

use std::fmt::Debug;

use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{
    DeleteParams, ListParams, PartialObjectMeta, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::runtime::wait::await_condition;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource, ResourceExt as _};
use serde_json::{Value, json};
use settled_apiserver::Server;
use settled_controller::filter::{Filter, FilteredClient};
use settled_controller::{Projection, predicate};

use crate::gate::Gate;

pub(crate) fn config_map(name: &str, data: Value) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "default"}, "data": data})).unwrap()
}

/// What a test does to the objects. A change is a merge patch.
pub(crate) enum Write {
    Create(&'static str, Value),
    Patch(&'static str, Value),
    Delete(&'static str),
}

impl Write {
    pub(crate) async fn make(self, api: &Api<ConfigMap>) -> ConfigMap {
        match self {
            Self::Create(name, data) => {
                api.create(&PostParams::default(), &config_map(name, data)).await.unwrap()
            }
            Self::Patch(name, patch) => {
                api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
            }
            Self::Delete(name) => {
                let object = api.get(name).await.unwrap();
                drop(api.delete(name, &DeleteParams::default()).await.unwrap());
                object
            }
        }
    }
}

/// The next events in short, until that of an object with this name.
async fn events_until<K: Resource + Debug>(
    events: &mut (impl Stream<Item = watcher::Result<Event<K>>> + Unpin),
    last: &str,
) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let event = match events.next().await.unwrap().unwrap() {
            Event::Init => "init".to_owned(),
            Event::InitDone => "done".to_owned(),
            Event::InitApply(object) => format!("listed {}", object.name_any()),
            Event::Apply(object) => format!("applied {}", object.name_any()),
            Event::Delete(object) => format!("deleted {}", object.name_any()),
        };
        let ends = event == last || event.ends_with(&format!(" {last}"));
        seen.push(event);
        if ends {
            return seen;
        }
    }
}

fn modes() -> [watcher::Config; 2] {
    [watcher::Config::default().page_size(2), watcher::Config::default().streaming_lists()]
}

/// A server, and the ConfigMaps of a namespace. The root certificate that each namespace gets is there.
pub(crate) async fn setup() -> (Server, Api<ConfigMap>) {
    let server = Server::in_memory().await.unwrap();
    let api = Api::namespaced(server.client(), "default");
    await_condition(api.clone(), "kube-root-ca.crt", |map: Option<&ConfigMap>| map.is_some()).await.unwrap();
    (server, api)
}

fn filtered(client: Client, filter: Filter) -> Api<ConfigMap> {
    Api::namespaced(FilteredClient::new(client).kind::<ConfigMap>(filter).into_client(), "default")
}

#[tokio::test]
async fn only_objects_that_match_exist() {
    use Write::{Create, Delete, Patch};
    for mode in modes() {
        let (server, api) = setup().await;
        for (name, keep) in [("a", "yes"), ("b", "no"), ("c", "yes"), ("d", "no"), ("e", "yes")] {
            Create(name, json!({"keep": keep})).make(&api).await;
        }
        let filter = Filter::new().objects(predicate::field("data.keep").equals("yes"));
        let filtered = filtered(server.client(), filter);
        let mut events = watcher(filtered.clone(), mode).boxed();
        assert_eq!(
            events_until(&mut events, "done").await,
            ["init", "listed a", "listed c", "listed e", "done"]
        );
        let keep = |value: &str| json!({"data": {"keep": value}});
        for write in [
            Patch("b", keep("yes")),
            Patch("a", keep("no")),
            // It is gone already.
            Patch("a", json!({"data": {"x": "y"}})),
            Delete("a"),
            Delete("d"),
            Patch("c", json!({"data": {"x": "y"}})),
            Delete("c"),
            Create("f", json!({"keep": "no"})),
            Delete("f"),
            Create("z", json!({"keep": "yes"})),
        ] {
            write.make(&api).await;
        }
        assert_eq!(
            events_until(&mut events, "z").await,
            ["applied b", "deleted a", "applied c", "deleted c", "applied z"]
        );
        let listed = filtered.list(&ListParams::default()).await.unwrap();
        assert_eq!(listed.iter().map(|it| it.name_any()).collect::<Vec<_>>(), ["b", "e", "z"]);
        // What is asked for by name is there in any case.
        assert!(filtered.get_opt("d").await.unwrap().is_none());
        Create("g", json!({"keep": "no"})).make(&api).await;
        assert!(filtered.get_opt("g").await.unwrap().is_some());
    }
}

#[tokio::test]
async fn only_changes_that_matter_are_reported() {
    use Write::{Create, Delete, Patch};
    for mode in modes() {
        let (server, api) = setup().await;
        Create("a", json!({"v": "1"})).make(&api).await;
        let events = predicate::field_changed("data.v").and(predicate::own_write("me").not());
        let objects = predicate::field("metadata.name").one_of(["a", "z"]);
        let filtered = filtered(server.client(), Filter::new().objects(objects).events(events));
        let mut events = watcher(filtered, mode).boxed();
        assert_eq!(events_until(&mut events, "done").await, ["init", "listed a", "done"]);
        Patch("a", json!({"data": {"w": "1"}})).make(&api).await;
        Patch("a", json!({"data": {"v": "2"}})).make(&api).await;
        let own = PatchParams::apply("me");
        let patch = kube::api::Patch::Merge(json!({"data": {"v": "3"}}));
        api.patch("a", &own, &patch).await.unwrap();
        // The same name and the same data, and another object.
        Delete("a").make(&api).await;
        Create("a", json!({"v": "3"})).make(&api).await;
        Patch("a", json!({"metadata": {"labels": {"x": "y"}}})).make(&api).await;
        Create("z", json!({})).make(&api).await;
        assert_eq!(
            events_until(&mut events, "z").await,
            ["applied a", "deleted a", "applied a", "applied z"]
        );
    }
}

/// What was dropped is not sent again, and what is compared is not forgotten, when the connection is lost.
#[tokio::test]
async fn a_watch_resumes_where_it_was() {
    use Write::{Create, Patch};
    let (server, api) = setup().await;
    for name in ["a", "b"] {
        Create(name, json!({"v": "1"})).make(&api).await;
    }
    let filter = Filter::new().events(predicate::field_changed("data.v"));
    let filtered_client = FilteredClient::new(server.client()).kind::<ConfigMap>(filter);
    let counts = filtered_client.counts();
    let filtered: Api<ConfigMap> = Api::namespaced(filtered_client.into_client(), "default");
    let version = filtered.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let params = WatchParams::default();

    let mut watch = filtered.watch(&params, &version).await.unwrap().boxed();
    let dropped = Patch("a", json!({"data": {"w": "1"}})).make(&api).await;
    let Some(Ok(WatchEvent::Bookmark(bookmark))) = watch.next().await else { panic!("no bookmark") };
    assert_eq!(Some(&bookmark.metadata.resource_version), dropped.metadata.resource_version.as_ref());
    drop(watch);

    // Meanwhile nobody watches.
    Patch("b", json!({"data": {"w": "1"}})).make(&api).await;
    Patch("b", json!({"data": {"v": "2"}})).make(&api).await;
    let mut watch = filtered.watch(&params, &bookmark.metadata.resource_version).await.unwrap().boxed();
    let next = |event| match event {
        Some(Ok(WatchEvent::Modified(object))) => format!("modified {}", ConfigMap::name_any(&object)),
        Some(Ok(WatchEvent::Bookmark(_))) => "bookmark".to_owned(),
        other => format!("{other:?}"),
    };
    let mut seen = vec![next(watch.next().await)];
    if seen == ["bookmark"] {
        seen = vec![next(watch.next().await)];
    }
    assert_eq!(seen, ["modified b"]);
    let metrics = counts.metrics();
    assert_eq!((metrics.received, metrics.dropped), (6, 2), "three listed, three changed");

    // From a place that nobody has been at, the first change of each object passes.
    let mut watch = filtered.watch(&params, &version).await.unwrap().boxed();
    let seen: Vec<_> = watch.by_ref().take(3).map(|event| next(Some(event))).collect().await;
    assert_eq!(seen, ["modified a", "modified b", "modified b"]);
}

/// `Controller::owns` asks for metadata: predicates on data hold even so.
#[tokio::test]
async fn metadata_is_filtered_by_what_is_not_metadata() {
    use Write::{Create, Patch};
    for mode in modes() {
        let (server, api) = setup().await;
        for (name, keep) in [("a", "yes"), ("b", "no")] {
            Create(name, json!({"keep": keep, "secret": "x"})).make(&api).await;
        }
        let filter = Filter::new().objects(predicate::field("data.keep").equals("yes"));
        let client = FilteredClient::new(server.client()).kind::<ConfigMap>(filter).into_client();
        let api_of_metadata: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(client, "default");
        let mut events = watcher(api_of_metadata, mode).boxed();
        assert_eq!(events_until(&mut events, "done").await, ["init", "listed a", "done"]);
        Patch("a", json!({"data": {"keep": "no"}})).make(&api).await;
        Patch("b", json!({"data": {"keep": "yes"}})).make(&api).await;
        assert_eq!(events_until(&mut events, "b").await, ["deleted a", "applied b"]);
    }
}

#[tokio::test]
async fn fields_that_are_left_out_do_not_arrive() {
    use Write::{Create, Patch};
    for mode in modes() {
        let (server, api) = setup().await;
        Create("a", json!({"small": "1", "large": "2"})).make(&api).await;
        let filter = Filter::new().projection(Projection::without(["metadata.managedFields", "data.large"]));
        let mut events = watcher(filtered(server.client(), filter), mode).boxed();
        let mut objects = Vec::new();
        Patch("a", json!({"data": {"small": "3"}})).make(&api).await;
        while objects.last().is_none_or(|it: &ConfigMap| it.data.as_ref().unwrap()["small"] != "3") {
            if let Event::InitApply(object) | Event::Apply(object) = events.next().await.unwrap().unwrap() {
                objects.push(object);
            }
        }
        for object in objects {
            assert_eq!(object.metadata.managed_fields, None);
            assert!(!object.data.unwrap().contains_key("large"));
            assert!(object.metadata.uid.is_some() && object.metadata.resource_version.is_some());
        }
    }
}

/// A kube-rs watcher whose connection is cut again and again, and once loses its place: it sees what it would see without a filter, of the
/// objects that match.
#[tokio::test]
async fn a_watcher_lives_through_a_bad_connection() {
    use Write::{Create, Delete, Patch};
    let (server, api) = setup().await;
    let gate = Gate::new(server.client());
    Create("a", json!({"keep": "yes"})).make(&api).await;
    Create("b", json!({"keep": "no"})).make(&api).await;
    let filter = Filter::new().objects(predicate::field("data.keep").equals("yes"));
    let mut events = watcher(filtered(gate.client(), filter), watcher::Config::default()).boxed();
    assert_eq!(events_until(&mut events, "done").await, ["init", "listed a", "done"]);
    Create("m", json!({"keep": "yes"})).make(&api).await;
    assert_eq!(events_until(&mut events, "m").await, ["applied m"]);

    gate.hold();
    gate.cut();
    Patch("b", json!({"data": {"keep": "yes"}})).make(&api).await;
    Delete("a").make(&api).await;
    gate.release();
    assert_eq!(events_until(&mut events, "a").await, ["applied b", "deleted a"]);

    gate.hold();
    gate.cut();
    gate.expire();
    Patch("b", json!({"data": {"keep": "no"}})).make(&api).await;
    Create("c", json!({"keep": "yes"})).make(&api).await;
    gate.release();
    let error = events.next().await.unwrap().unwrap_err();
    assert!(error.to_string().contains("too old resource version"), "{error}");
    assert_eq!(events_until(&mut events, "done").await, ["init", "listed c", "listed m", "done"]);
}

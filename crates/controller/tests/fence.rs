//! Read-your-writes, against a watch that lags.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use settled_controller::cache::Cache;
use settled_controller::{Fence, FenceError, Freshness, ObjectKey, predicate};

use crate::cache::Small;
use crate::filter::{Write, setup};
use crate::gate::Gate;

async fn patch(api: &Api<ConfigMap>, v: &str) -> ConfigMap {
    api.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": {"v": v}}))).await.unwrap()
}

struct Lagging {
    _server: settled_apiserver::Server,
    api: Api<ConfigMap>,
    gate: Gate,
    cache: Cache<Small>,
}

const KEY: (&str, &str) = ("default", "a");

fn key() -> ObjectKey {
    ObjectKey::new(KEY.0, KEY.1)
}

/// A cache with one object, whose watch is held up.
async fn lagging() -> Lagging {
    let (server, api) = setup().await;
    Write::Create("a", json!({"v": "1"})).make(&api).await;
    let gate = Gate::new(server.client());
    let cache =
        Cache::<Small>::of::<ConfigMap>(gate.client()).objects(predicate::field("data.v").exists()).start();
    cache.wait_until_ready().await.unwrap();
    gate.hold();
    Lagging { _server: server, api, gate, cache }
}

#[tokio::test]
async fn a_read_waits_for_the_own_write() {
    let Lagging { _server, api, gate, cache } = lagging().await;
    let fence = Fence::new();
    // Nothing was written: nothing is waited for.
    fence.wait(&cache, &key()).await.unwrap();
    fence.wrote(&patch(&api, "2").await);
    assert_eq!(cache.get(key()).unwrap().data["v"], "1");
    let read = fence.read(&cache, key());
    let released = async {
        tokio::task::yield_now().await;
        gate.release();
    };
    let (read, ()) = tokio::join!(read, released);
    assert_eq!(read.unwrap().unwrap().data["v"], "2");
    assert_eq!(fence.pending(), 0);
}

#[tokio::test]
async fn a_read_of_what_was_deleted_ends() {
    let Lagging { _server, api, gate, cache } = lagging().await;
    let fence = Fence::new();
    fence.wrote(&patch(&api, "2").await);
    api.delete("a", &DeleteParams::default()).await.unwrap();
    gate.release();
    fence.wait(&cache, &key()).await.unwrap();
    // It may have been seen in between.
    if let Some(object) = cache.get(key()) {
        assert_eq!(object.data["v"], "2");
    }
}

/// A write that makes an object not match is seen too.
#[tokio::test]
async fn a_write_that_the_cache_rejects_is_seen() {
    let Lagging { _server, api, gate, cache } = lagging().await;
    let fence = Fence::new();
    let none = Patch::Merge(json!({"data": {"v": null}}));
    fence.wrote(&api.patch("a", &PatchParams::default(), &none).await.unwrap());
    gate.release();
    assert_eq!(fence.read(&cache, &key()).await.unwrap().map(|it| it.data.len()), None);
}

#[tokio::test]
async fn a_read_asks_the_server_when_the_watch_does_not_catch_up() {
    let Lagging { _server, api, gate: _gate, cache } = lagging().await;
    let fence = Fence::new().with_timeout(Duration::from_millis(20));
    let written = patch(&api, "2").await;
    fence.wrote(&written);
    let error = fence.wait(&cache, &key()).await.unwrap_err();
    assert!(matches!(error, FenceError::TimedOut { .. }));
    let version = written.metadata.resource_version.unwrap();
    assert_eq!(
        error.to_string(),
        format!("the cache has not seen the write of default/a at resourceVersion {version} within 20ms")
    );
    assert_eq!(fence.read(&cache, &key()).await.unwrap().unwrap().data["v"], "2");
    assert_eq!(cache.get(key()).unwrap().data["v"], "1");
}

#[tokio::test]
async fn a_version_that_is_no_number_is_read_live() {
    let Lagging { _server, api, gate: _gate, cache } = lagging().await;
    let fence = Fence::new();
    let mut written = patch(&api, "2").await;
    written.metadata.resource_version = Some("abc".to_owned());
    fence.wrote(&written);
    assert!(matches!(fence.wait(&cache, &key()).await, Err(FenceError::NotComparable { .. })));
    assert_eq!(fence.read(&cache, &key()).await.unwrap().unwrap().data["v"], "2");
}

/// For the objects that kube-rs' `Controller` hands to a reconciler.
#[tokio::test(start_paused = true)]
async fn an_object_is_older_than_the_own_write_or_not() {
    let at = |version: &str| ConfigMap {
        metadata: serde_json::from_value(json!({"name": "a", "uid": "u", "resourceVersion": version}))
            .unwrap(),
        ..ConfigMap::default()
    };
    let fence = Fence::new();
    assert_eq!(fence.freshness(&at("5")), Freshness::Current);
    fence.wrote(&at("10"));
    // Of two answers that come in the wrong order, the newer one counts.
    fence.wrote(&at("9"));
    for (version, expected, pending) in [
        ("9", Freshness::Stale, 1),
        ("abc", Freshness::Unknown, 1),
        ("10", Freshness::Current, 0),
        ("9", Freshness::Current, 0),
    ] {
        assert_eq!((fence.freshness(&at(version)), fence.pending()), (expected, pending), "{version}");
    }
    fence.wrote(&at("20"));
    tokio::time::advance(Duration::from_secs(6)).await;
    assert_eq!(fence.freshness(&at("19")), Freshness::Unknown);
    assert_eq!(fence.freshness(&at("21")), Freshness::Current);
}

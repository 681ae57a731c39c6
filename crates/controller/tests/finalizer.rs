//! Finalizers on the server: conflicts, recreated objects, deletion.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use settled_controller::finalizer::{self, Change, Error};

use crate::harness::{api, object, server};

const FINALIZER: &str = "example.com/cleanup";

#[tokio::test]
async fn a_write_of_others_is_merged_and_other_finalizers_stay() {
    let server = server(&[]).await;
    let maps = api::<ConfigMap>(&server.client());
    let map: ConfigMap = object(json!({"metadata": {"name": "a", "finalizers": ["example.com/other"]}}));
    let read = maps.create(&PostParams::default(), &map).await.unwrap();
    maps.patch("a", &PatchParams::default(), &Patch::Merge(json!({"data": {"a": "1"}}))).await.unwrap();

    let Change::Written(added) = finalizer::add(&maps, &read, FINALIZER).await.unwrap() else { panic!() };
    assert_eq!(added.finalizers(), ["example.com/other", FINALIZER]);
    assert_eq!(added.data.as_ref().unwrap()["a"], "1");
    let Change::Written(removed) = finalizer::remove(&maps, &added, FINALIZER).await.unwrap() else {
        panic!()
    };
    assert_eq!(removed.finalizers(), ["example.com/other"]);
    // A stale object: it is removed once.
    assert_eq!(finalizer::remove(&maps, &added, FINALIZER).await.unwrap(), Change::Unchanged);
}

#[tokio::test]
async fn a_recreated_object_is_left_alone() {
    let server = server(&[]).await;
    let maps = api::<ConfigMap>(&server.client());
    let map: ConfigMap = object(json!({"metadata": {"name": "a"}}));
    let read = maps.create(&PostParams::default(), &map).await.unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    assert_eq!(finalizer::add(&maps, &read, FINALIZER).await.unwrap(), Change::Gone);
    maps.create(&PostParams::default(), &map).await.unwrap();
    assert_eq!(finalizer::add(&maps, &read, FINALIZER).await.unwrap(), Change::Gone);
    assert!(maps.get("a").await.unwrap().finalizers().is_empty());
}

#[tokio::test]
async fn an_object_that_is_being_deleted_gets_no_new_finalizer() {
    let server = server(&[]).await;
    let maps = api::<ConfigMap>(&server.client());
    let map: ConfigMap = object(json!({"metadata": {"name": "a", "finalizers": ["example.com/other"]}}));
    maps.create(&PostParams::default(), &map).await.unwrap();
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    let read = maps.get("a").await.unwrap();
    assert!(matches!(finalizer::add(&maps, &read, FINALIZER).await, Err(Error::Deleting { .. })));
    let Change::Written(_) = finalizer::remove(&maps, &read, "example.com/other").await.unwrap() else {
        panic!()
    };
    assert!(maps.get_opt("a").await.unwrap().is_none());
}

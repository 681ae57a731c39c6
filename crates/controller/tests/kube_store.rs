//! Tests of kube-rs' reflector and store, on ours: only the imports differ, and `Reflect::new(st, writer)` is `st.reflect(writer)`.
//!
//! From kube-runtime 5.0.0 (<https://github.com/kube-rs/kube>, `src/reflector/store.rs`, `src/reflector/mod.rs` and
//! `src/utils/reflect.rs`), Copyright the kube-rs authors, licensed under the Apache License, Version 2.0
//! (<https://www.apache.org/licenses/LICENSE-2.0>).

#![allow(unused_qualifications, reason = "the code stands as it does upstream")]

use std::collections::BTreeMap;
use std::pin::pin;
use std::task::Poll;

use futures::{StreamExt, poll, stream};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::ObjectMeta;
use kube::runtime::watcher::{Error, Event};
use settled_controller::runtime::reflector::store::{self, Writer, store};
use settled_controller::runtime::reflector::{self, ObjectRef, reflector};
use settled_controller::runtime::{WatchStreamExt as _, watcher};

#[test]
fn should_allow_getting_namespaced_object_by_namespaced_ref() {
    let cm = ConfigMap {
        metadata: ObjectMeta {
            name: Some("obj".to_string()),
            namespace: Some("ns".to_string()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    let mut store_w = Writer::default();
    store_w.apply_watcher_event(&watcher::Event::Apply(cm.clone()));
    let store = store_w.as_reader();
    assert_eq!(store.get(&ObjectRef::from_obj(&cm)).as_deref(), Some(&cm));
}

#[test]
fn should_not_allow_getting_namespaced_object_by_clusterscoped_ref() {
    let cm = ConfigMap {
        metadata: ObjectMeta {
            name: Some("obj".to_string()),
            namespace: Some("ns".to_string()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    let mut cluster_cm = cm.clone();
    cluster_cm.metadata.namespace = None;
    let mut store_w = Writer::default();
    store_w.apply_watcher_event(&watcher::Event::Apply(cm));
    let store = store_w.as_reader();
    assert_eq!(store.get(&ObjectRef::from_obj(&cluster_cm)), None);
}

#[test]
fn should_allow_getting_clusterscoped_object_by_clusterscoped_ref() {
    let cm = ConfigMap {
        metadata: ObjectMeta { name: Some("obj".to_string()), namespace: None, ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    let (store, mut writer) = store();
    writer.apply_watcher_event(&watcher::Event::Apply(cm.clone()));
    assert_eq!(store.get(&ObjectRef::from_obj(&cm)).as_deref(), Some(&cm));
}

#[test]
fn should_allow_getting_clusterscoped_object_by_namespaced_ref() {
    let cm = ConfigMap {
        metadata: ObjectMeta { name: Some("obj".to_string()), namespace: None, ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    let mut nsed_cm = cm.clone();
    nsed_cm.metadata.namespace = Some("ns".to_string());
    let mut store_w = Writer::default();
    store_w.apply_watcher_event(&watcher::Event::Apply(cm.clone()));
    let store = store_w.as_reader();
    assert_eq!(store.get(&ObjectRef::from_obj(&nsed_cm)).as_deref(), Some(&cm));
}

#[test]
fn state_filter_filters_by_predicate() {
    let (reader, mut writer) = store::<ConfigMap>();

    let cm1 = ConfigMap {
        metadata: ObjectMeta {
            name: Some("cm1".to_string()),
            namespace: Some("ns".to_string()),
            labels: Some([("app".to_string(), "nginx".to_string())].into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    let cm2 = ConfigMap {
        metadata: ObjectMeta {
            name: Some("cm2".to_string()),
            namespace: Some("ns".to_string()),
            labels: Some([("app".to_string(), "postgres".to_string())].into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };

    writer.apply_watcher_event(&watcher::Event::Apply(cm1.clone()));
    writer.apply_watcher_event(&watcher::Event::Apply(cm2));

    let result = reader.state_filter(|k| {
        k.metadata.labels.as_ref().and_then(|l| l.get("app")).is_some_and(|v| v == "nginx")
    });
    assert_eq!(result.len(), 1);
    assert_eq!(result[0].as_ref(), &cm1);
}

#[test]
fn state_filter_selector_filters_by_label_selector() {
    use kube::core::{Expression, Selector};

    let (reader, mut writer) = store::<ConfigMap>();

    let cm1 = ConfigMap {
        metadata: ObjectMeta {
            name: Some("cm1".to_string()),
            namespace: Some("ns".to_string()),
            labels: Some([("app".to_string(), "nginx".to_string())].into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    let cm2 = ConfigMap {
        metadata: ObjectMeta {
            name: Some("cm2".to_string()),
            namespace: Some("ns".to_string()),
            labels: Some([("app".to_string(), "postgres".to_string())].into()),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };

    writer.apply_watcher_event(&watcher::Event::Apply(cm1.clone()));
    writer.apply_watcher_event(&watcher::Event::Apply(cm2));

    let selector: Selector = Expression::Equal("app".into(), "nginx".into()).into();
    let result = reader.state_filter_selector(&selector);
    assert_eq!(result.len(), 1);
    assert_eq!(result[0].as_ref(), &cm1);
}

#[test]
fn find_element_in_store() {
    let cm = ConfigMap {
        metadata: ObjectMeta { name: Some("obj".to_string()), namespace: None, ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    let mut target_cm = cm.clone();

    let (reader, mut writer) = store::<ConfigMap>();
    assert!(reader.is_empty());
    writer.apply_watcher_event(&watcher::Event::Apply(cm));

    assert_eq!(reader.len(), 1);
    assert!(reader.find(|k| k.metadata.generation == Some(1234)).is_none());

    target_cm.metadata.name = Some("obj1".to_string());
    target_cm.metadata.generation = Some(1234);
    writer.apply_watcher_event(&watcher::Event::Apply(target_cm.clone()));
    assert!(!reader.is_empty());
    assert_eq!(reader.len(), 2);
    let found = reader.find(|k| k.metadata.generation == Some(1234));
    assert_eq!(found.as_deref(), Some(&target_cm));
}

#[tokio::test]
async fn reflector_applied_should_add_object() {
    let store_w = store::Writer::default();
    let store = store_w.as_reader();
    let cm = ConfigMap {
        metadata: ObjectMeta { name: Some("a".to_string()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    reflector(store_w, stream::iter(vec![Ok(watcher::Event::Apply(cm.clone()))]))
        .map(|_| ())
        .collect::<()>()
        .await;
    assert_eq!(store.get(&ObjectRef::from_obj(&cm)).as_deref(), Some(&cm));
}

#[tokio::test]
async fn reflector_applied_should_update_object() {
    let store_w = store::Writer::default();
    let store = store_w.as_reader();
    let cm = ConfigMap {
        metadata: ObjectMeta { name: Some("a".to_string()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    let updated_cm = ConfigMap {
        data: Some({
            let mut data = BTreeMap::new();
            data.insert("data".to_string(), "present!".to_string());
            data
        }),
        ..cm.clone()
    };
    reflector(
        store_w,
        stream::iter(vec![
            Ok(watcher::Event::Apply(cm.clone())),
            Ok(watcher::Event::Apply(updated_cm.clone())),
        ]),
    )
    .map(|_| ())
    .collect::<()>()
    .await;
    assert_eq!(store.get(&ObjectRef::from_obj(&cm)).as_deref(), Some(&updated_cm));
}

#[tokio::test]
async fn reflector_deleted_should_remove_object() {
    let store_w = store::Writer::default();
    let store = store_w.as_reader();
    let cm = ConfigMap {
        metadata: ObjectMeta { name: Some("a".to_string()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    reflector(
        store_w,
        stream::iter(vec![Ok(watcher::Event::Apply(cm.clone())), Ok(watcher::Event::Delete(cm.clone()))]),
    )
    .map(|_| ())
    .collect::<()>()
    .await;
    assert_eq!(store.get(&ObjectRef::from_obj(&cm)), None);
}

#[tokio::test]
async fn reflector_restarted_should_clear_objects() {
    let store_w = store::Writer::default();
    let store = store_w.as_reader();
    let cm_a = ConfigMap {
        metadata: ObjectMeta { name: Some("a".to_string()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    let cm_b = ConfigMap {
        metadata: ObjectMeta { name: Some("b".to_string()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    reflector(
        store_w,
        stream::iter(vec![
            Ok(watcher::Event::Apply(cm_a.clone())),
            Ok(watcher::Event::Init),
            Ok(watcher::Event::InitApply(cm_b.clone())),
            Ok(watcher::Event::InitDone),
        ]),
    )
    .map(|_| ())
    .collect::<()>()
    .await;
    assert_eq!(store.get(&ObjectRef::from_obj(&cm_a)), None);
    assert_eq!(store.get(&ObjectRef::from_obj(&cm_b)).as_deref(), Some(&cm_b));
}

fn testpod(name: &str) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.name = Some(name.to_string());
    pod
}

#[tokio::test]
async fn reflect_passes_events_through() {
    let foo = testpod("foo");
    let bar = testpod("bar");
    let st = stream::iter([
        Ok(Event::Apply(foo.clone())),
        Err(Error::NoResourceVersion),
        Ok(Event::Init),
        Ok(Event::InitApply(foo)),
        Ok(Event::InitApply(bar)),
        Ok(Event::InitDone),
    ]);
    let (reader, writer) = reflector::store();

    let mut reflect = pin!(st.reflect(writer));
    assert_eq!(reader.len(), 0);

    assert!(matches!(poll!(reflect.next()), Poll::Ready(Some(Ok(Event::Apply(_))))));
    assert_eq!(reader.len(), 1);

    assert!(matches!(poll!(reflect.next()), Poll::Ready(Some(Err(Error::NoResourceVersion)))));
    assert_eq!(reader.len(), 1);

    assert!(matches!(poll!(reflect.next()), Poll::Ready(Some(Ok(Event::Init)))));
    assert_eq!(reader.len(), 1);

    let restarted = poll!(reflect.next());
    assert!(matches!(restarted, Poll::Ready(Some(Ok(Event::InitApply(_))))));
    assert_eq!(reader.len(), 1);
    let restarted = poll!(reflect.next());
    assert!(matches!(restarted, Poll::Ready(Some(Ok(Event::InitApply(_))))));
    assert_eq!(reader.len(), 1);

    assert!(matches!(poll!(reflect.next()), Poll::Ready(Some(Ok(Event::InitDone)))));
    assert_eq!(reader.len(), 2);

    assert!(matches!(poll!(reflect.next()), Poll::Ready(None)));
    assert_eq!(reader.len(), 2);
}

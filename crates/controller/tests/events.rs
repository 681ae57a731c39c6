//! The event recorder, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event as CoreEvent, ObjectReference};
use k8s_openapi::api::events::v1::Event as ApiEvent;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::events::{Event, EventType, Reporter};
use kube::{Api, Client, Resource};
use settled_controller::events::{EventCounts, Recorder};
use tokio::time::sleep;

use crate::bucket::{at, create, server_in_virtual_time};
use crate::intercept::{UNREACHABLE, failure, intercept};

fn reporter() -> Reporter {
    Reporter { controller: "example.com/buckets".to_owned(), instance: Some("pod-0".to_owned()) }
}

fn event(reason: &str) -> Event {
    Event {
        type_: EventType::Warning,
        reason: reason.to_owned(),
        note: Some("the quota is used up".to_owned()),
        action: "Binding".to_owned(),
        secondary: None,
    }
}

/// What is stored: reason and count.
async fn stored(client: &Client) -> Vec<(String, i32)> {
    let events: Api<ApiEvent> = Api::default_namespaced(client.clone());
    let list = events.list(&ListParams::default()).await.unwrap();
    let count = |event: &ApiEvent| event.series.as_ref().map_or(1, |series| series.count);
    list.items.iter().map(|event| (event.reason.clone().unwrap(), count(event))).collect()
}

async fn bucket(client: &Client) -> ObjectReference {
    create(client, "a").await.object_ref(&())
}

fn some(reason: &str, count: i32) -> Vec<(String, i32)> {
    vec![(reason.to_owned(), count)]
}

/// Lets the recorder's task do what it can do now: time passes only when nothing else is left to do.
async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn the_same_event_is_one_object_with_a_count() {
    let (server, clock) = server_in_virtual_time().await;
    let client = server.client();
    let bucket = bucket(&client).await;
    let recorder = Recorder::new(client.clone(), reporter(), clock);
    recorder.record(event("QuotaExceeded"), bucket.clone());
    settle().await;
    assert_eq!(stored(&client).await, some("QuotaExceeded", 1));
    recorder.record(event("QuotaExceeded"), bucket.clone());
    settle().await;
    assert_eq!(stored(&client).await, some("QuotaExceeded", 2));
    for _ in 0..5 {
        recorder.record(event("QuotaExceeded"), bucket.clone());
    }
    settle().await;
    assert_eq!(recorder.counts(), EventCounts { written: 2, ..EventCounts::default() });
    // The series is over.
    sleep(Duration::from_secs(15 * 60)).await;
    assert_eq!(stored(&client).await, some("QuotaExceeded", 7));
    assert_eq!(recorder.counts(), EventCounts { written: 3, ..EventCounts::default() });

    let events: Api<ApiEvent> = Api::default_namespaced(client.clone());
    let found = events.list(&ListParams::default()).await.unwrap().items.remove(0);
    assert_eq!(found.reporting_controller.as_deref(), Some("example.com/buckets"));
    assert_eq!(found.reporting_instance.as_deref(), Some("pod-0"));
    assert_eq!(found.type_.as_deref(), Some("Warning"));
    assert_eq!(found.action.as_deref(), Some("Binding"));
    assert_eq!(found.note.as_deref(), Some("the quota is used up"));
    assert_eq!(found.regarding.unwrap().uid, bucket.uid);
    assert!(found.event_time.unwrap().0.duration_since(at(0)).as_secs() < 60);
    let last: Timestamp = found.series.unwrap().last_observed_time.0;
    assert!(last.duration_since(at(0)).as_secs() < 60);
}

#[tokio::test(start_paused = true)]
async fn core_events_are_patched_with_their_count() {
    let (server, clock) = server_in_virtual_time().await;
    let client = server.client();
    let bucket = bucket(&client).await;
    let recorder = Recorder::core_v1(client.clone(), reporter(), clock);
    for _ in 0..3 {
        recorder.record(event("QuotaExceeded"), bucket.clone());
        sleep(Duration::from_secs(2)).await;
    }
    let events: Api<CoreEvent> = Api::default_namespaced(client.clone());
    let found = events.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(found.len(), 1);
    let only = &found[0];
    assert_eq!((only.count, only.message.as_deref()), (Some(3), Some("the quota is used up")));
    let source = only.source.as_ref().unwrap();
    assert_eq!(
        (source.component.as_deref(), source.host.as_deref()),
        (Some("example.com/buckets"), Some("pod-0"))
    );
    assert_eq!(only.involved_object.uid, bucket.uid);
    let times = [&only.first_timestamp, &only.last_timestamp].map(|time| time.as_ref().unwrap().0);
    assert_eq!(times[1].duration_since(times[0]).as_secs(), 4);
    assert_eq!((&only.event_time, &only.series), (&None, &None));
    // One that the server has deleted is created again, with its count.
    events.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    recorder.record(event("QuotaExceeded"), bucket);
    recorder.shutdown().await;
    let found = events.list(&ListParams::default()).await.unwrap().items;
    assert_eq!(found.iter().map(|event| event.count).collect::<Vec<_>>(), [Some(4)]);
}

#[tokio::test(start_paused = true)]
async fn shutdown_writes_what_is_left() {
    let (server, clock) = server_in_virtual_time().await;
    let client = server.client();
    let bucket = bucket(&client).await;
    let recorder = Recorder::new(client.clone(), reporter(), clock);
    let copy = recorder.clone();
    for _ in 0..9 {
        recorder.record(event("QuotaExceeded"), bucket.clone());
    }
    recorder.shutdown().await;
    assert_eq!(stored(&client).await, some("QuotaExceeded", 9));
    copy.record(event("QuotaExceeded"), bucket);
    assert_eq!(copy.counts().dropped, 1);
    // It has ended.
    copy.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_server_forgot_is_created_again() {
    let (server, clock) = server_in_virtual_time().await;
    let client = server.client();
    let bucket = bucket(&client).await;
    let recorder = Recorder::new(client.clone(), reporter(), clock);
    recorder.record(event("QuotaExceeded"), bucket.clone());
    settle().await;
    let events: Api<ApiEvent> = Api::default_namespaced(client.clone());
    events.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    recorder.record(event("QuotaExceeded"), bucket);
    recorder.shutdown().await;
    assert_eq!(stored(&client).await, some("QuotaExceeded", 2));
}

#[tokio::test(start_paused = true)]
async fn events_wait_for_a_server_that_does_not_answer() {
    let (server, clock) = server_in_virtual_time().await;
    let bucket = bucket(&server.client()).await;
    let left = Arc::new(AtomicU32::new(3));
    let answers = [failure(503, "ServiceUnavailable", "not now"), failure(UNREACHABLE, "", "")];
    let (client, requests) = intercept(server.client(), move |_| {
        let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        let answer = before.ok().map(|left| answers[left as usize % 2].clone());
        Box::pin(async move { answer })
    });
    let recorder = Recorder::new(client, reporter(), clock.clone());
    recorder.record(event("QuotaExceeded"), bucket.clone());
    recorder.record(event("Bound"), bucket);
    settle().await;
    assert_eq!(requests.take().len(), 1);
    recorder.shutdown().await;
    let reasons: Vec<String> = stored(&server.client()).await.into_iter().map(|(reason, _)| reason).collect();
    assert_eq!(reasons.len(), 2, "{reasons:?}");
    let waited = clock.now().duration_since(at(0)).as_secs();
    assert!((30..40).contains(&waited), "{waited}");
}

#[tokio::test(start_paused = true)]
async fn refused_and_unanswered_events_are_dropped() {
    let (server, clock) = server_in_virtual_time().await;
    let bucket = bucket(&server.client()).await;
    for (code, requests_made) in [(403, 1), (422, 1), (500, 12)] {
        let (client, requests) =
            intercept(server.client(), move |_| Box::pin(async move { Some(failure(code, "", "no")) }));
        let recorder = Recorder::new(client, reporter(), clock.clone());
        recorder.record(event("QuotaExceeded"), bucket.clone());
        let copy = recorder.clone();
        recorder.shutdown().await;
        assert_eq!(copy.counts(), EventCounts { failed: 1, ..EventCounts::default() }, "{code}");
        assert_eq!(requests.take().len(), requests_made, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn too_many_events_are_dropped_and_counted() {
    let (server, clock) = server_in_virtual_time().await;
    let client = server.client();
    let bucket = bucket(&client).await;
    let recorder = Recorder::new(client.clone(), reporter(), clock);
    // The task has had no turn: all of them wait.
    for _ in 0..1500 {
        recorder.record(event("QuotaExceeded"), bucket.clone());
    }
    assert_eq!(recorder.counts().dropped, 500);
    recorder.shutdown().await;
    assert_eq!(stored(&client).await, some("QuotaExceeded", 1000));
}

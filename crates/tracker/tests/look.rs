//! Looks at how things stand: the final report, without the changes on the way.

use std::sync::Arc;
use std::time::Duration;

use kstatus::{FailureClass, Status};
use serde_json::{Value, json};
use settled_apiserver::Server;
use settled_tracker::request::{Causes, KindName, Selection};
use settled_tracker::{Cluster, Outcome, Report, Request, State, Target, Tracker, WaitCondition};

fn request(causes: Causes) -> Request {
    let pods = Selection {
        kind: KindName::Spoken("pods".to_owned()),
        namespace: Some("shop".to_owned()),
        everywhere: false,
        labels: None,
        fields: None,
    };
    let mut request = Request::new([Target::Select(pods)]);
    request.limits.timeout = Some(Duration::ZERO);
    request.causes = causes;
    request
}

async fn look(server: &Server, request: Request) -> Report {
    let mut tracker = Tracker::start(Cluster::new(server.client()), request).await.unwrap();
    let report = tracker.finished().await.unwrap();
    assert_eq!(tracker.finished().await, None, "nothing comes after the end");
    report
}

async fn send(client: &kube_client::Client, method: &str, path: &str, object: &Value) -> Value {
    let request = http::Request::builder().method(method).uri(path);
    let request = request.header(
        "content-type",
        match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        },
    );
    client.request(request.body(object.to_string().into_bytes()).unwrap()).await.unwrap()
}

#[tokio::test]
async fn reports_without_causes_are_the_same_otherwise() {
    let server = Server::in_memory().await.unwrap();
    let client = server.client();
    let create = async |path: &str, object: Value| send(&client, "POST", path, &object).await;
    create("/api/v1/namespaces", json!({"metadata": {"name": "shop"}})).await;
    for number in 0..20 {
        let containers = json!([{"name": "app", "image": "registry.example/app:1"}]);
        let pod = json!({"metadata": {"name": format!("web-{number}")}, "spec": {"containers": containers}});
        create("/api/v1/namespaces/shop/pods", pod).await;
    }
    let mut with = look(&server, request(Causes::All)).await;
    let without = look(&server, request(Causes::None)).await;
    assert_eq!((with.outcome, with.counts.waiting, with.targets.len()), (Outcome::TimedOut, 20, 20));
    let grouped = look(&server, request(Causes::Grouped)).await;
    let (first, others) = grouped.targets.split_first().unwrap();
    assert_eq!(first, &with.targets[0], "the first of the group has its causes");
    for (target, whole) in others.iter().zip(&with.targets[1..]) {
        assert_eq!(target.same_as, Some(first.object.clone()));
        assert_eq!((&target.object, target.causes.len(), target.since), (&whole.object, 0, whole.since));
    }
    for target in &mut with.targets {
        assert_eq!((target.state, target.causes.len()), (State::Waiting, 1));
        target.causes.clear();
    }
    assert_eq!(without.targets, with.targets);
    assert_eq!((without.outcome, without.counts), (with.outcome, with.counts));
}

#[tokio::test]
async fn targets_with_the_same_evaluation_and_note_share_them() {
    let server = Server::in_memory().await.unwrap();
    let client = server.client();
    send(&client, "POST", "/api/v1/namespaces", &json!({"metadata": {"name": "shop"}})).await;
    for number in 0..3 {
        let containers = json!([{"name": "app", "image": "registry.example/app:1"}]);
        let pod = json!({"metadata": {"name": format!("web-{number}")}, "spec": {"containers": containers}});
        send(&client, "POST", "/api/v1/namespaces/shop/pods", &pod).await;
        let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "manifest unknown"}});
        let container = json!({
            "name": "app", "image": "registry.example/app:1", "imageID": "", "ready": false, "restartCount": 0, "state": waiting,
        });
        let status = json!({"status": {"phase": "Pending", "containerStatuses": [container]}});
        let path = format!("/api/v1/namespaces/shop/pods/web-{number}/status");
        send(&client, "PATCH", &path, &status).await;
    }
    let mut tolerant = request(Causes::None);
    // It has failed, and counts as InProgress for an hour.
    tolerant.limits.grace.insert(FailureClass::Image, Duration::from_secs(3600));
    let report = look(&server, tolerant).await;
    let (first, others) = report.targets.split_first().unwrap();
    assert_eq!((first.verdict.status, others.len()), (Status::InProgress, 2));
    assert_eq!(first.own.as_ref().map(|own| own.status), Some(Status::Failed));
    for target in others {
        assert!(Arc::ptr_eq(&target.verdict, &first.verdict), "{:?}", target.verdict);
    }

    let mut running = request(Causes::None);
    running.conditions = WaitCondition::parse_all(["jsonpath={.status.phase}=Running"]).unwrap();
    let report = look(&server, running).await;
    let notes: Vec<_> = report.targets.iter().map(|target| target.note.as_ref().unwrap()).collect();
    assert!(notes[0].contains("Pending"), "{}", notes[0]);
    assert_eq!(notes.len(), 3);
    assert!(notes.iter().all(|note| Arc::ptr_eq(note, notes[0])), "{notes:?}");
}

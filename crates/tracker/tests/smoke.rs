//! The shortest way through: an object becomes ready, and the wait ends.

use std::time::Duration;

use settled_apiserver::Server;
use settled_tracker::{Cluster, Event, Outcome, Request, Target, Tracker};

fn write(method: &str, path: &str, type_: &str, body: &str) -> http::Request<Vec<u8>> {
    http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", type_)
        .body(body.as_bytes().to_vec())
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_pod_becomes_ready() {
    let server = Server::in_memory().await.unwrap();
    let client = server.client();
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"a","image":"b"}]}}"#;
    client
        .request_text(write("POST", "/api/v1/namespaces/default/pods", "application/json", pod))
        .await
        .unwrap();
    let mut tracker =
        Tracker::start(Cluster::new(server.client()), Request::new([Target::object("pod", None, "web")]))
            .await
            .unwrap();
    let later = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(7)).await;
        let status = r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#;
        let path = "/api/v1/namespaces/default/pods/web/status";
        client.request_text(write("PATCH", path, "application/merge-patch+json", status)).await.unwrap();
    });
    let mut told = Vec::new();
    while let Some(event) = tracker.next().await {
        if let Event::Finished(report) = &event {
            assert_eq!(report.outcome, Outcome::Settled);
            assert_eq!(report.elapsed.as_secs(), 7);
        }
        told.push(serde_json::to_string(&event).unwrap());
    }
    later.await.unwrap();
    assert!(told.join("").contains("PodPending"), "{told:?}");
    let watches = tracker.cluster().traffic().requests;
    assert!(!watches.iter().any(|(verb, _)| *verb == "list"), "{watches:?}");
}

//! Looks at how things stand: the final report, without the changes on the way.

use std::time::Duration;

use serde_json::{Value, json};
use settled_apiserver::Server;
use settled_tracker::{
    Causes, Cluster, KindName, Outcome, Report, Request, Selection, State, Target, Tracker,
};

async fn look(server: &Server, causes: Causes) -> Report {
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
    let mut tracker = Tracker::start(Cluster::new(server.client()), request).await.unwrap();
    let report = tracker.finished().await.unwrap();
    assert_eq!(tracker.finished().await, None, "nothing comes after the end");
    report
}

#[tokio::test]
async fn reports_without_causes_are_the_same_otherwise() {
    let server = Server::in_memory().await.unwrap();
    let client = server.client();
    let create = async |path: &str, object: Value| {
        let request = http::Request::post(path).body(object.to_string().into_bytes()).unwrap();
        client.request::<Value>(request).await.unwrap()
    };
    create("/api/v1/namespaces", json!({"metadata": {"name": "shop"}})).await;
    for number in 0..20 {
        let containers = json!([{"name": "app", "image": "registry.example/app:1"}]);
        let pod = json!({"metadata": {"name": format!("web-{number}")}, "spec": {"containers": containers}});
        create("/api/v1/namespaces/shop/pods", pod).await;
    }
    let mut with = look(&server, Causes::All).await;
    let without = look(&server, Causes::None).await;
    assert_eq!((with.outcome, with.counts.waiting, with.targets.len()), (Outcome::TimedOut, 20, 20));
    let grouped = look(&server, Causes::Grouped).await;
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

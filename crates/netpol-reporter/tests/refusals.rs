//! Status writes that the API server refuses: 409, 410, and others that pass.

use kube::Client;
use kube::api::DynamicObject;
use settled_netpol_reporter::Config;

use crate::front::Front;
use crate::harness::{
    Gate, Running, config, create, policies, range, reports, run_cilium, server, statuses, three, wait,
};

/// Reports one policy with the first status writes refused. Returns the object with the conditions, and the writes of its status.
async fn refused(
    client: &Client,
    config: Config,
    only_reports: bool,
    refusals: &[(u16, &'static str)],
) -> (DynamicObject, usize) {
    run_cilium(client, "v1.15.5").await;
    create(&policies(client, "default"), range("a")).await;
    let front = Front::new(client.clone());
    for (code, reason) in refusals {
        front.refuse(*code, reason);
    }
    let reporter = Running::start(front.client(), config);
    let written = if only_reports { reports(client, "default") } else { policies(client, "default") };
    let object = wait(&written, "a", |object| statuses(object) == three("False", "False", "True")).await;
    reporter.stop().await;
    assert_eq!(front.refusals(), 0, "each refusal was met");
    let writes = front.writes().iter().filter(|write| write.ends_with("/a/status")).count();
    (object, writes)
}

#[tokio::test]
async fn a_conflict_is_tried_again() {
    for only_reports in [false, true] {
        let server = server(Gate::On).await;
        let config = if only_reports { config().only_reports() } else { config() };
        let conflicts = [(409, "Conflict"), (409, "Conflict")];
        let (object, writes) = refused(&server.client(), config, only_reports, &conflicts).await;
        assert_eq!(writes, 3, "two conflicts and the write");
        assert_eq!(object.metadata.generation, Some(1), "the spec is as it was");
    }
}

#[tokio::test]
async fn gone_is_tried_again() {
    for only_reports in [false, true] {
        let server = server(Gate::On).await;
        let config = if only_reports { config().only_reports() } else { config() };
        let gone = [(410, "Gone"), (410, "Expired")];
        let (_, writes) = refused(&server.client(), config, only_reports, &gone).await;
        assert_eq!(writes, 3, "two refusals and the write");
    }
}

#[tokio::test]
async fn an_overloaded_server_is_tried_again() {
    let server = server(Gate::On).await;
    let overload = [(429, "TooManyRequests"), (503, "ServiceUnavailable"), (500, "InternalError")];
    let (_, writes) = refused(&server.client(), config(), false, &overload).await;
    assert_eq!(writes, 4);
}

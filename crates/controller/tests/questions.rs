//! The answers of docs/controller/questions.md to questions of controller authors, as the example shows them.

#[allow(unreachable_pub, reason = "the example is a program of its own")]
#[path = "../examples/questions/change_feed.rs"]
mod change_feed;
#[allow(unreachable_pub, reason = "the example is a program of its own")]
#[path = "../examples/questions/durability.rs"]
mod durability;
#[allow(unreachable_pub, reason = "the example is a program of its own")]
#[path = "../examples/questions/metadata.rs"]
mod metadata;
#[allow(unreachable_pub, reason = "the example is a program of its own")]
#[path = "../examples/questions/schema_rollback.rs"]
mod schema_rollback;

#[tokio::test]
async fn status_is_durable() {
    let expected = [
        "granted: web has 192.0.2.7",
        "after a restart: web has 192.0.2.7",
        "restored without status: web has no address",
        "restored with status: web has 192.0.2.7",
        "load balancers without an owner at 2026-01-01T00:00:00Z: 0",
        "load balancers without an owner at 2026-01-01T00:01:00Z: 1",
    ];
    assert_eq!(durability::answer().await.unwrap(), expected);
}

#[tokio::test]
async fn every_replica_sees_all_changes() {
    let expected = [
        "replica 0: bread ->3",
        "replica 1: bread ->3",
        "replica 2: bread ->3",
        "the new replica begins with: bread ->3",
        "replica 0: bread 3>4",
        "replica 1: bread 3>4",
        "replica 0: bread 4>-",
        "replica 1: bread 4>-",
    ];
    assert_eq!(change_feed::answer().await.unwrap(), expected);
}

#[tokio::test]
async fn annotations_status_and_spec_are_written_apart() {
    let expected = [
        "created: generation 1, annotations example.com/team, status.replicas 0",
        "annotated: generation 1, annotations example.com/cost example.com/team, status.replicas 0",
        "reported: generation 1, annotations example.com/cost example.com/team, status.replicas 2",
        "annotation withdrawn: generation 1, annotations example.com/team, status.replicas 2",
        "scaled: generation 2, annotations example.com/team, status.replicas 2",
    ];
    assert_eq!(metadata::answer().await.unwrap(), expected);
}

#[tokio::test]
async fn a_field_that_is_removed_from_the_schema_is_lost_with_the_next_write() {
    let both = r#"spec {"color":"red","name":"Corner"}"#;
    let expected = [
        format!("new version: {both}"),
        r#"rolled back: spec {"name":"Corner"}"#.to_owned(),
        format!("rolled forward: {both}"),
        format!("deprecated, and written: {both}"),
        r#"rolled back, written, and rolled forward: spec {"name":"Corner"}"#.to_owned(),
    ];
    assert_eq!(schema_rollback::answer().await.unwrap(), expected);
}

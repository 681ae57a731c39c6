//! Companion objects and claims by name, on the server.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ObjectMeta, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use settled_controller::decision::policy::name_lock::{self, Claim, claim_by_creating};
use settled_controller::decision::{Companion, CompanionLink, Decision, IdempotencyKey};

use crate::harness::{api, object, server, wait_gone};

async fn create(client: &Client, name: &str) -> ConfigMap {
    let owner = object(json!({"metadata": {"name": name}}));
    api(client).create(&PostParams::default(), &owner).await.unwrap()
}

fn companion(owner: &ConfigMap, name: &str) -> ConfigMap {
    ConfigMap { metadata: Companion::metadata(owner, name).unwrap(), ..ConfigMap::default() }
}

#[tokio::test]
async fn a_companion_goes_with_its_owner_and_is_not_that_of_a_recreated_one() {
    let server = server(&[]).await;
    let client = server.client();
    let owner = create(&client, "owner").await;
    let data = api(&client).create(&PostParams::default(), &companion(&owner, "owner-data")).await.unwrap();
    assert!(matches!(Companion::link(&owner, &data), CompanionLink::Current | CompanionLink::Stale { .. }));

    let other = create(&client, "other").await;
    assert_eq!(Companion::link(&other, &data), CompanionLink::Foreign);

    api::<ConfigMap>(&client).delete("owner", &DeleteParams::default()).await.unwrap();
    let recreated = create(&client, "owner").await;
    assert_eq!(Companion::link(&recreated, &data), CompanionLink::Foreign);
    wait_gone::<ConfigMap>(api(&client), "owner-data").await;
}

#[test]
fn a_companion_of_an_older_generation_is_stale() {
    let owner = |generation: i64| ConfigMap {
        metadata: ObjectMeta {
            name: Some("a".to_owned()),
            uid: Some("uid".to_owned()),
            generation: Some(generation),
            ..ObjectMeta::default()
        },
        ..ConfigMap::default()
    };
    let data = companion(&owner(1), "a-data");
    assert_eq!(Companion::link(&owner(1), &data), CompanionLink::Current);
    assert_eq!(Companion::link(&owner(2), &data), CompanionLink::Stale { generation: Some(1) });
}

#[tokio::test]
async fn a_name_is_claimed_once_and_found_again_after_a_lost_response() {
    let server = server(&[]).await;
    let client = server.client();
    let (first, second) = (create(&client, "first").await, create(&client, "second").await);
    let claims = api::<ConfigMap>(&client);
    let names = || ["port-1".to_owned(), "port-2".to_owned()];
    let mut granted = Vec::new();
    // The first claims twice: its first response was lost.
    for owner in [&first, &first, &second] {
        let request = name_lock::begin(IdempotencyKey::of("port", owner).unwrap(), 1);
        let claim = async |name: String| claim_by_creating(&claims, &companion(owner, &name)).await;
        let claimed = request.claim(names(), claim).await.unwrap().unwrap();
        let record = async |answer: settled_controller::decision::Answer<String>| {
            granted.push(answer.decision);
            Ok::<_, ()>(())
        };
        claimed.acknowledge(record).await.unwrap();
    }
    let granted_to = |name: &str| Decision::Granted(name.to_owned());
    assert_eq!(granted, [granted_to("port-1"), granted_to("port-1"), granted_to("port-2")]);

    let third = create(&client, "third").await;
    let request = name_lock::begin(IdempotencyKey::of("port", &third).unwrap(), 1);
    let claim = async |name: String| claim_by_creating(&claims, &companion(&third, &name)).await;
    let exhausted = request.claim(names(), claim).await.unwrap().unwrap_err();
    assert_eq!(exhausted.decision.denial().map(|denial| denial.reason.as_str()), Some("PoolExhausted"));
    let taken = claim_by_creating(&claims, &companion(&third, "port-1")).await.unwrap();
    assert_eq!(taken, Claim::Taken);
    assert_eq!(claims.get("port-1").await.unwrap().owner_references()[0].uid, first.uid().unwrap());
}

//! Leader election: one leader at a time, whatever happens to the connection.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use kube::client::Body;
use serde_json::json;
use settled_apiserver::Server;
use settled_apiserver::auth::User;
use settled_controller::Clock;
use settled_controller::leader::{Election, ElectionError, NotLeading};
use tokio::time::Instant;

use crate::harness::{api, object, server_in_virtual_time};

/// A server whose time is tokio's.
async fn server() -> Server {
    server_in_virtual_time(&[]).await.0
}

fn election(identity: &str) -> Election {
    let clock = Clock::following_tokio("2026-01-01T00:00:00Z".parse().unwrap());
    Election { clock, ..Election::new("default", "web", identity) }
}

/// A client whose connection can be cut.
#[derive(Clone)]
struct Cable {
    client: Client,
    is_cut: Arc<AtomicBool>,
}

impl Cable {
    fn new(client: Client) -> Self {
        Self { client, is_cut: Arc::default() }
    }

    fn client(&self) -> Client {
        Client::new(self.clone(), "default")
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }
}

impl tower::Service<Request<Body>> for Cable {
    type Response = Response<Body>;
    type Error = Box<dyn std::error::Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Self { client, is_cut } = self.clone();
        Box::pin(async move {
            if is_cut.load(Ordering::Relaxed) {
                // As a network that swallows packets.
                return std::future::pending().await;
            }
            Ok(client.send(request).await?)
        })
    }
}

async fn lease(client: &Client) -> Lease {
    api::<Lease>(client).get("web").await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_once_and_the_token_grows() {
    let server = server().await;
    let client = server.client();
    let first = election("first").acquire(&client).await.unwrap();
    assert!(first.is_leading());

    let second = tokio::spawn({
        let client = client.clone();
        async move { election("second").acquire(&client).await.unwrap() }
    });
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!second.is_finished() && first.is_leading());

    let token = first.token();
    let released = Instant::now();
    first.release().await;
    let second = second.await.unwrap();
    assert!(released.elapsed() <= Duration::from_secs(3), "{:?}", released.elapsed());
    assert_eq!(second.token(), token + 1);
    let spec = lease(&client).await.spec.unwrap();
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_transitions), (Some("second"), Some(token + 1)));
    second.release().await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_has_stopped_before_the_next_one_starts() {
    let server = server().await;
    let cable = Cable::new(server.client());
    let first = election("first").acquire(&cable.client()).await.unwrap();
    let writer = first.client();
    let map: ConfigMap = object(json!({"metadata": {"name": "written"}}));
    api::<ConfigMap>(&writer).create(&PostParams::default(), &map).await.unwrap();

    tokio::time::sleep(Duration::from_secs(7)).await;
    cable.cut();
    let cut = Instant::now();
    let other = server.client();
    let (lost, second) = tokio::join!(
        async {
            first.lost().await;
            cut.elapsed()
        },
        async {
            let leadership = election("second").acquire(&other).await.unwrap();
            (cut.elapsed(), leadership)
        }
    );
    let (taken, second) = second;
    assert!(lost <= Duration::from_secs(10), "{lost:?}");
    assert!(lost < taken && taken <= Duration::from_secs(20), "{lost:?} {taken:?}");
    assert!(!first.is_leading() && second.is_leading());

    // Writes are refused here, and not sent into the dead connection.
    let refused = api::<ConfigMap>(&writer).create(&PostParams::default(), &map).await.unwrap_err();
    let kube::Error::Service(refused) = refused else { panic!("{refused}") };
    assert!(refused.downcast_ref::<NotLeading>().is_some(), "{refused}");
    second.release().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_another_holder_was_written_into_is_lost() {
    let server = server().await;
    let client = server.client();
    let leadership = election("first").acquire(&client).await.unwrap();
    let robbed = json!({"spec": {"holderIdentity": "another", "leaseTransitions": 7}});
    api::<Lease>(&client).patch("web", &PatchParams::default(), &Patch::Merge(robbed)).await.unwrap();
    let began = Instant::now();
    leadership.lost().await;
    assert!(began.elapsed() <= Duration::from_secs(3));
    leadership.release().await;
    // It is not given back by one who does not hold it.
    assert_eq!(lease(&client).await.spec.unwrap().holder_identity.as_deref(), Some("another"));
}

/// Of a day back, and of a century ahead: what counts is how long the lease was not renewed, by the candidate's own monotonic clock.
#[tokio::test(start_paused = true)]
async fn a_clock_that_steps_takes_no_lease_away() {
    let server = server().await;
    let client = server.client();
    let step = Arc::new(AtomicI64::new(0));
    let stepping = |identity: &str| {
        let (step, steady) = (Arc::clone(&step), election(identity).clock);
        let clock =
            Clock::new(move || steady.now() + jiff::SignedDuration::from_secs(step.load(Ordering::Relaxed)));
        Election { clock, ..election(identity) }
    };
    let first = stepping("first").acquire(&client).await.unwrap();
    let candidate = stepping("second");
    let second = tokio::spawn(async move { candidate.acquire(&client).await.unwrap() });
    for seconds in [-86_400, 3_155_760_000, 0] {
        step.store(seconds, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert!(first.is_leading() && !second.is_finished(), "after a step of {seconds} s");
    }
    first.release().await;
    second.await.unwrap().release().await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_restarts_under_its_name_leads_on_without_a_new_term() {
    let server = server().await;
    let cable = Cable::new(server.client());
    let before = election("same").acquire(&cable.client()).await.unwrap();
    // It crashes: nothing is released.
    cable.cut();
    let began = Instant::now();
    let after = election("same").acquire(&server.client()).await.unwrap();
    assert_eq!((after.token(), began.elapsed()), (before.token(), Duration::ZERO));
    after.release().await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_succeed_is_an_error_with_its_reason() {
    let server = server().await;
    let nobody = server.client_as(&User::new("nobody", [""; 0]));
    let refused = election("x").acquire(&nobody).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "cannot use the lease default/web; it needs verbs \"get\", \"create\" and \"update\" on \"leases\""
    );
    let contradiction = Election { renew_deadline: Duration::from_secs(15), ..election("x") };
    let refused = contradiction.acquire(&server.client()).await.unwrap_err();
    assert!(matches!(refused, ElectionError::Durations { .. }));
}

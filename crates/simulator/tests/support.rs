//! A cluster for a test: the embedded API server and a simulation, in virtual time.

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use settled_apiserver::{ApiError, Config, Server};
use settled_controller::Clock;
use settled_simulator::{LogError, Options, Simulator};

/// When tests begin: 2026-01-01T00:00:00Z.
const BEGIN: i64 = 1_767_225_600;

/// A simulated cluster.
#[allow(dead_code, reason = "not every test reads all of it")]
pub(crate) struct Cluster {
    pub(crate) server: Server,
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    _simulator: Simulator,
}

/// Starts a cluster. In a runtime whose time is paused.
pub(crate) async fn cluster(change: impl FnOnce(&mut Options)) -> Cluster {
    let clock = Clock::following_tokio(Timestamp::from_second(BEGIN).expect("a time"));
    let mut config = Config::default();
    let now = clock.clone();
    config.clock = Some(std::sync::Arc::new(move || now.now()));
    config.seed = Some(1);
    let server = Server::start(config).await.expect("a server");
    let client = server.client();
    let mut options = Options::default();
    options.clock = clock.clone();
    change(&mut options);
    let simulator = Simulator::start(client.clone(), options).await.expect("a simulation");
    let logs = simulator.logs();
    server.set_pod_logs(std::sync::Arc::new(move |wanted| {
        let log = logs.read(wanted.namespace, wanted.pod, wanted.container, wanted.previous);
        log.map_err(|error| match error {
            LogError::NoPod(_) => ApiError::new(404, "NotFound", error.to_string()),
            _ => ApiError::bad_request(error.to_string()),
        })
    }));
    Cluster { server, client, clock, _simulator: simulator }
}

/// Lets virtual time pass.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

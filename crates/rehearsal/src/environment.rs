//! Environment of a rehearsal: the API server, the simulation and their clock.

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Client;
use settled_apiserver::{Config, Server};
use settled_controller::Clock;
use settled_simulator::customs::Customs;
use settled_simulator::scenario::{Scenario, Unmatched};
use settled_simulator::{Simulator, nodes::NodeSpec};

use crate::logs::serve_logs;
use crate::speed::{Speed, keep_pace};
use crate::watchdog::{self, Watchdog};

/// Watches here follow at once; the watchdog looks at the last 2,000 writes.
const HISTORY_BYTES: usize = 16 << 20;

/// How a rehearsal is set up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The Nodes of the cluster.
    pub nodes: Vec<NodeSpec>,
    /// What everything random follows from.
    pub seed: u64,
    /// How fast time passes.
    pub speed: Speed,
    /// When the rehearsal begins.
    pub begin: Timestamp,
    /// What happens other than success.
    pub scenario: Scenario,
    /// What the controllers of custom resources report that the scenario does not mention.
    pub customs: Customs,
}

impl Default for Options {
    fn default() -> Self {
        let now = Timestamp::now();
        Self {
            nodes: settled_simulator::nodes::default_nodes(),
            seed: 1,
            speed: Speed::Max,
            begin: Timestamp::from_second(now.as_second()).unwrap_or(now),
            scenario: Scenario::default(),
            customs: Customs::default(),
        }
    }
}

/// Why there is no environment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The API server does not start.
    #[error("cannot start the API server")]
    Server(#[from] settled_apiserver::StartError),
    /// The simulation does not start.
    #[error("cannot start the simulation")]
    Simulation(#[from] settled_simulator::StartError),
}

/// An object that is written again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// Resource, namespace and name: `deployments shop/web`.
    pub object: String,
    /// How many of the last 2,000 writes were to it.
    pub writes: usize,
}

/// A cluster for a rehearsal. It ends when this is dropped.
#[derive(Debug)]
pub struct Environment {
    server: Server,
    clock: Clock,
    watchdog: Watchdog,
    simulator: Simulator,
}

impl Environment {
    /// Starts a cluster, in a [`Runtime`](crate::Runtime) with virtual time.
    ///
    /// # Errors
    /// The server or the simulation cannot be started.
    pub fn start(options: Options) -> BoxFuture<'static, Result<Self, StartError>> {
        // Boxed, so that it is compiled here, and not again in each program.
        Box::pin(Self::started(options))
    }

    async fn started(options: Options) -> Result<Self, StartError> {
        let Options { nodes, seed, speed, begin, scenario, customs } = options;
        let clock = Clock::following_tokio(begin);
        let mut config = Config::default();
        config.seed = Some(seed);
        let now = clock.clone();
        config.clock = Some(Arc::new(move || now.now()));
        config.history_bytes = Some(HISTORY_BYTES);
        let server = Server::start(config).await?;
        let mut simulation = settled_simulator::Options::default();
        simulation.nodes = nodes;
        simulation.clock = clock.clone();
        simulation.scenario = scenario.with_seed(seed);
        simulation.customs = customs;
        let simulator = Simulator::start(server.client(), simulation).await?;
        serve_logs(&server, &simulator);
        keep_pace(speed);
        let watchdog = Watchdog::start(&server);
        Ok(Self { server, clock, watchdog, simulator })
    }

    /// The API server.
    #[must_use]
    pub const fn server(&self) -> &Server {
        &self.server
    }

    /// A client of the administrator.
    #[must_use]
    pub fn client(&self) -> Client {
        self.server.client()
    }

    /// Deletes an object by its path, such as `/api/v1/namespaces/shop`.
    ///
    /// # Errors
    /// The server refuses it.
    pub async fn delete(&self, path: &str) -> Result<(), kube::Error> {
        let request = http::Request::delete(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        self.client().request::<serde_json::Value>(request).await.map(drop)
    }

    /// Waits until virtual time stands still, because controllers write without an end.
    pub async fn is_stuck(&self) {
        self.watchdog.barks().await;
    }

    /// The object that was written most of late, if that is so often that it looks like an endless loop.
    #[must_use]
    pub fn loops(&self) -> Option<Loop> {
        watchdog::culprit(&self.server).map(|(object, writes)| Loop { object, writes })
    }

    /// Ends the simulation. The server goes on with what there is.
    pub fn stop(&self) {
        self.simulator.stop();
    }

    /// The entries of the scenario that nothing has matched so far.
    #[must_use]
    pub fn unmatched(&self) -> Vec<Unmatched> {
        self.simulator.unmatched()
    }

    /// The time of day in the rehearsal.
    #[must_use]
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kube::api::{Api, ListParams, PostParams};
    use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
    use serde_json::{Value, json};

    use super::*;
    use crate::Runtime;

    /// All Pods, ReplicaSets and Events of rollouts, as they are stored: of one that succeeds, one whose image is
    /// not there, and one that crashes.
    fn play(runtime: &Runtime, begin: Timestamp) -> Vec<Value> {
        let scenario = "{images: [{image: missing:1, fails: not-found}], \
                        containers: [{container: crashing, crash: {after: 5s}}]}";
        let scenario = Scenario::parse("scenario.yaml", scenario).unwrap();
        let options = Options { seed: 7, begin, scenario, ..Options::default() };
        runtime.block_on(async {
            let environment = Environment::start(options).await.unwrap();
            let api = |group, version, kind| {
                let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
                Api::<DynamicObject>::namespaced_with(environment.client(), "default", &kind)
            };
            for (name, replicas) in [("web", 40), ("missing", 2), ("crashing", 2)] {
                let template = json!({
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": name, "image": format!("{name}:1")}]},
                });
                let spec = json!({
                    "replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template,
                });
                let deployment = json!({
                    "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec,
                });
                let deployment = serde_json::from_value(deployment).unwrap();
                api("apps", "v1", "Deployment").create(&PostParams::default(), &deployment).await.unwrap();
            }
            tokio::time::sleep(Duration::from_secs(300)).await;
            let mut objects = Vec::new();
            for (group, kind) in [("", "Pod"), ("apps", "ReplicaSet"), ("", "Event")] {
                let listed = api(group, "v1", kind).list(&ListParams::default()).await.unwrap();
                objects.extend(listed.items.iter().map(|object| serde_json::to_value(object).unwrap()));
            }
            objects
        })
    }

    /// Replaces times by how long they are after the beginning, and the names of Events, which are times too.
    fn relative(value: &mut Value, begin: Timestamp) {
        match value {
            Value::String(text) => {
                if let Ok(time) = text.parse::<Timestamp>() {
                    *text = time.duration_since(begin).to_string();
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| relative(item, begin)),
            Value::Object(fields) => {
                if fields.contains_key("involvedObject") {
                    fields["metadata"]["name"].take();
                }
                fields.values_mut().for_each(|field| relative(field, begin));
            }
            _ => {}
        }
    }

    /// Once it is stopped, nobody acts on what is written, and time still passes.
    #[test]
    fn a_simulation_ends_before_its_server() {
        let begin = Timestamp::from_second(1_700_000_000).unwrap();
        let runtime = Runtime::new(Speed::Max).unwrap();
        runtime.block_on(async {
            let environment = Environment::start(Options { begin, ..Options::default() }).await.unwrap();
            let pods = Api::<k8s_openapi::api::core::v1::Pod>::default_namespaced(environment.client());
            let pod = |name: &str| {
                let containers = json!([{"name": "web", "image": "web:1"}]);
                serde_json::from_value(
                    json!({"metadata": {"name": name}, "spec": {"containers": containers}}),
                )
                .unwrap()
            };
            let phase =
                async |name: &str| pods.get(name).await.unwrap().status.and_then(|status| status.phase);
            // The ServiceAccount of the namespace.
            tokio::time::sleep(Duration::from_secs(5)).await;
            pods.create(&PostParams::default(), &pod("before")).await.unwrap();
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(phase("before").await.as_deref(), Some("Running"));
            environment.stop();
            pods.create(&PostParams::default(), &pod("after")).await.unwrap();
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(phase("after").await.as_deref(), Some("Pending"));
            let log = pods.logs("before", &kube::api::LogParams::default()).await.unwrap_err();
            assert!(log.to_string().contains("the simulation has ended"), "{log}");
        });
    }

    #[test]
    fn the_time_of_day_changes_nothing() {
        let played = |begin: i64| {
            let begin = Timestamp::from_second(begin).unwrap();
            let mut objects = play(&Runtime::alone().unwrap(), begin);
            objects.iter_mut().for_each(|object| relative(object, begin));
            // Lists are sorted by name, and names of Events are times.
            objects.sort_by_cached_key(Value::to_string);
            objects
        };
        let first = played(1_800_000_000);
        let text = Value::from(first.clone()).to_string();
        assert!(text.contains("ImagePullBackOff") && text.contains("CrashLoopBackOff"), "{text}");
        for begin in [1_800_000_001, 1_800_000_007, 1_812_345_678] {
            for (second, first) in played(begin).iter().zip(&first) {
                assert_eq!(second, first, "{begin}");
            }
        }
    }

    #[test]
    fn a_second_processor_changes_nothing() {
        let alone = play(&Runtime::alone().unwrap(), Timestamp::UNIX_EPOCH);
        assert!(alone.iter().filter(|object| object["status"]["phase"] == "Running").count() >= 40);
        for _ in 0..3 {
            assert!(play(&Runtime::new(Speed::Max).unwrap(), Timestamp::UNIX_EPOCH) == alone);
        }
    }
}

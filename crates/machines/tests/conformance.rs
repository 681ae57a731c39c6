//! The conformance suite: the simulated provider passes it, and broken ones do not.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::json;
use settled_controller::Clock;
use settled_machines::crds::ConfigSchema;
use settled_machines::provider::conformance::{Subject, check};
use settled_machines::provider::{
    Desired, Host, HostKey, Observed, Owned, Plan, Progress, Provider, ProviderError, Request, Step,
};
use settled_machines::simulated::{API_VERSION, Access as _, KIND, Latency, Shared, SimulatedProvider};
use settled_machines::types::{ContainerRuntime, MachineVersions};

pub(crate) fn begin() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().expect("a time")
}

fn desired(kubelet: &str, image: &str, runtime: &str) -> Desired {
    Desired {
        versions: MachineVersions {
            kubelet: kubelet.to_owned(),
            control_plane: None,
            container_runtime: Some(ContainerRuntime {
                name: runtime.to_owned(),
                version: "2.1.0".to_owned(),
            }),
        },
        config: json!({"apiVersion": API_VERSION, "kind": KIND, "image": image, "size": "small"}),
        node_name: "a".to_owned(),
        ..Desired::default()
    }
}

type Wrap = fn(SimulatedProvider<Shared>) -> Box<dyn Provider>;

struct Simulated {
    cloud: Shared,
    clock: Clock,
    wrap: Wrap,
}

impl Subject for Simulated {
    fn restart(&self) -> Box<dyn Provider> {
        (self.wrap)(SimulatedProvider::new(self.cloud.clone(), self.clock.clone(), Latency::CLOUD))
    }

    fn lose_response(&self) {
        self.cloud.lose_response();
    }

    fn pass(&self, time: Duration) -> BoxFuture<'_, ()> {
        tokio::time::sleep(time).boxed()
    }

    fn leftovers(&self) -> BoxFuture<'_, Vec<String>> {
        let now = self.clock.now();
        async move {
            self.cloud
                .read(|cloud| {
                    let live =
                        cloud.hosts.values().filter(|host| host.gone_from.is_none_or(|gone| gone > now));
                    live.map(|host| host.id.clone()).collect()
                })
                .await
        }
        .boxed()
    }

    fn desired(&self) -> Desired {
        desired("v1.36.0", "debian-12", "containerd")
    }

    fn in_place(&self) -> Desired {
        let mut desired = desired("v1.37.1", "debian-12", "containerd");
        if let Some(runtime) = &mut desired.versions.container_runtime {
            runtime.version = "2.2.0".to_owned();
        }
        desired
    }

    fn replaced(&self) -> Option<Desired> {
        Some(desired("v1.36.0", "debian-13", "containerd"))
    }

    fn unsupported(&self) -> Option<Desired> {
        Some(desired("v1.36.0", "debian-12", "cri-o"))
    }
}

async fn failures(wrap: Wrap) -> Vec<String> {
    let make = || Simulated { cloud: Shared::default(), clock: Clock::following_tokio(begin()), wrap };
    check(make).await.iter().map(ToString::to_string).collect()
}

#[tokio::test(start_paused = true)]
async fn the_simulated_provider_is_a_provider() {
    let none: [String; 0] = [];
    assert_eq!(failures(|provider| Box::new(provider)).await, none);
}

/// A provider with one mistake.
struct Broken {
    provider: SimulatedProvider<Shared>,
    mistake: Mistake,
}

#[derive(Clone, Copy, PartialEq)]
enum Mistake {
    /// Each creation is of another host.
    KeyIsNotKept,
    /// Deletion answers before it begins.
    DeletesNothing,
    /// Steps are not performed.
    SkipsSteps,
    /// Hosts are not listed.
    ListsNothing,
    /// Everything is planned in place.
    NeverReplaces,
}

impl Provider for Broken {
    fn schema(&self) -> ConfigSchema {
        self.provider.schema()
    }

    fn observe<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Observed, ProviderError>> {
        self.provider.observe(key)
    }

    fn plan(&self, host: &Host, desired: &Desired) -> Plan {
        match self.provider.plan(host, desired) {
            Plan::Replace { reason } if self.mistake == Mistake::NeverReplaces => {
                Plan::InPlace { steps: vec![Step::new("kubelet", &reason)], disruptive: true }
            }
            plan => plan,
        }
    }

    fn create<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        if self.mistake != Mistake::KeyIsNotKept {
            return self.provider.create(request);
        }
        async move {
            let uid = format!("{}-{}", request.key, self.provider.list().await?.len());
            let request = Request { key: HostKey::new(&uid), ..request.clone() };
            self.provider.create(&request).await
        }
        .boxed()
    }

    fn apply_step<'a>(
        &'a self,
        request: &'a Request,
        step: &'a Step,
    ) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        if self.mistake == Mistake::SkipsSteps {
            return async { Ok(Progress::Done) }.boxed();
        }
        self.provider.apply_step(request, step)
    }

    fn delete<'a>(&'a self, key: &'a HostKey) -> BoxFuture<'a, Result<Progress, ProviderError>> {
        if self.mistake == Mistake::DeletesNothing {
            return async { Ok(Progress::Done) }.boxed();
        }
        self.provider.delete(key)
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Owned>, ProviderError>> {
        if self.mistake == Mistake::ListsNothing {
            return async { Ok(Vec::new()) }.boxed();
        }
        self.provider.list()
    }
}

#[tokio::test(start_paused = true)]
async fn mistakes_are_found() {
    macro_rules! found {
        ($($mistake:ident: $text:literal,)+) => {
            $({
                let wrap: Wrap = |provider| Box::new(Broken { provider, mistake: Mistake::$mistake });
                let failures = failures(wrap).await;
                assert!(failures.iter().any(|failure| failure.contains($text)), "{}: {failures:?}", stringify!($mistake));
            })+
        };
    }
    found! {
        KeyIsNotKept: "not done after",
        DeletesNothing: "not done after",
        SkipsSteps: "not done after",
        ListsNothing: "listed: []",
        NeverReplaces: "not done after",
    }
}

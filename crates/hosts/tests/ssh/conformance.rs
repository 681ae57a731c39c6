//! The conformance suite on real hosts.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;
use settled_machines::provider::conformance::{Subject, check_share};
use settled_machines::provider::{Desired, Provider};

use super::hosts::{Machine, Network};
use super::world::{World, desired};

/// Disturbances of each run. `SETTLED_CONFORMANCE=1000` explores all of them.
const SHARE: u64 = 6;

struct Pool<'w> {
    world: &'w World,
    machines: &'w [Machine],
}

impl Subject for Pool<'_> {
    fn restart(&self) -> Box<dyn Provider> {
        Box::new(self.world.provider())
    }

    fn lose_response(&self) {
        self.world.lose_response();
    }

    fn pass(&self, _time: Duration) -> BoxFuture<'_, ()> {
        // Nothing goes on beside the calls.
        tokio::task::yield_now().boxed()
    }

    fn leftovers(&self) -> BoxFuture<'_, Vec<String>> {
        async {
            let mut found: Vec<String> = self.machines.iter().flat_map(Machine::leftovers).collect();
            for machine in self.machines {
                found.extend(self.world.claim_of(&machine.name).await);
            }
            found
        }
        .boxed()
    }

    fn desired(&self) -> Desired {
        desired("v1.36.0")
    }

    fn in_place(&self) -> Desired {
        let mut desired = desired("v1.37.1");
        if let Some(runtime) = &mut desired.versions.container_runtime {
            runtime.version = "2.2.0".to_owned();
        }
        desired
    }

    fn replaced(&self) -> Option<Desired> {
        let mut desired = desired("v1.36.0");
        if let Some(runtime) = &mut desired.versions.container_runtime {
            (runtime.name, runtime.version) = ("cri-o".to_owned(), "1.36.0".to_owned());
        }
        Some(desired)
    }

    fn unsupported(&self) -> Option<Desired> {
        let mut desired = desired("v1.36.0");
        desired.versions.control_plane = Some("v1.36.0".to_owned());
        Some(desired)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_of_ssh_hosts_is_a_provider() {
    let Some(network) = Network::new() else { return };
    let machines = [network.host(), network.host()];
    let world = World::start(&network, &machines).await;
    let began = std::time::Instant::now();
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (share, seed) = (number("SETTLED_CONFORMANCE").unwrap_or(SHARE), number("SETTLED_SEED").unwrap_or(1));
    let pool = || Pool { world: &world, machines: &machines };
    let failures = check_share(pool, usize::try_from(share).unwrap_or(usize::MAX), seed).await;
    eprintln!("conformance on real sshd, {share} disturbances, seed {seed}: {:.1?}", began.elapsed());
    let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
    let none: [String; 0] = [];
    assert_eq!(failures, none, "{}", machines[0].log());
    assert_eq!(
        world.get("Host", "h1").await.map(|host| host["status"]["claimRef"].clone()),
        Some(json!(null))
    );
    machines.into_iter().for_each(Machine::end);
}

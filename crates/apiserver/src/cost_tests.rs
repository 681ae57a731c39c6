//! Cost of validating built-in kinds with thousands of items in a list: near-linear, so that no small request takes minutes.
//!
//! Costs are processor time of the test's thread, which other programs hardly change. Only Linux reports it without unsafe code.

use std::fs;

use serde_json::{Value, json};

use crate::kinds::core::pod::subresources::update_part;
use crate::kinds::names::Part;
use crate::kinds::strategies;
use crate::state::services;

/// How many items there are, and how many times as many for comparison.
const ITEMS: usize = 1000;
const TIMES: usize = 16;
/// Linear work costs 16 times as much then, and quadratic work 256 times.
const MAX_RATIO: f64 = 64.0;
/// The kernel counts in steps of a few milliseconds: work is repeated until it has taken longer.
const AT_LEAST: u64 = 40_000_000;

/// So many rounds take longer than that on any machine.
const ROUNDS_MAX: u32 = 10_000_000;

/// A list on which work is done that looks each item up.
struct Case {
    name: &'static str,
    /// Does it on an object with so many items, old and new; how many complaints there are.
    work: fn(&Value, &Value) -> usize,
    object: fn(usize) -> Value,
}

/// Nanoseconds of processor time that this thread has used.
fn used() -> u64 {
    let text =
        fs::read_to_string("/proc/thread-self/schedstat").expect("the kernel reports scheduling statistics");
    text.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

/// The cost of some work in nanoseconds, and what came of it.
fn cost(work: impl Fn() -> usize) -> (f64, usize) {
    let start = used();
    let (mut rounds, mut found) = (0_u32, 0);
    while used() - start < AT_LEAST {
        found = work();
        rounds += 1;
        assert!(rounds < ROUNDS_MAX, "the kernel does not count the processor time of threads");
    }
    ((used() - start) as f64 / f64::from(rounds), found)
}

fn many(count: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..count).map(item).collect()
}

/// What is wrong with a change of an object of a kind.
fn refused(group: &str, kind: &str, new: &Value, old: &Value) -> usize {
    strategies::find(group, kind).validate_content(new, Some(old)).len()
}

fn pod(list: &str, items: Value) -> Value {
    let container = json!({"name": "app", "image": "web:1", "imagePullPolicy": "Always", "resources": {}});
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}});
    pod["spec"][list] = items;
    pod
}

fn containers(count: usize) -> Value {
    many(
        count,
        |at| json!({"name": format!("c{at}"), "image": "web:1", "resources": {"limits": {"cpu": "1"}}}),
    )
}

/// Work that compared each item with each other.
const CASES: &[Case] = &[
    Case {
        name: "tolerations",
        work: |new, old| refused("", "Pod", new, old),
        object: |count| {
            pod(
                "tolerations",
                many(
                    count,
                    |at| json!({"key": format!("k{at}"), "operator": "Exists", "effect": "NoExecute"}),
                ),
            )
        },
    },
    Case {
        name: "scheduling gates",
        work: |new, old| refused("", "Pod", new, old),
        object: |count| {
            pod("schedulingGates", many(count, |at| json!({"name": format!("example.com/g{at}")})))
        },
    },
    Case {
        name: "volumes of a StatefulSet",
        work: |new, old| refused("apps", "StatefulSet", new, old),
        object: |count| {
            let claim = |at| json!({"metadata": {"name": format!("c{at}")}, "spec": {}});
            let mut pod = pod("volumes", many(count, |at| json!({"name": format!("v{at}"), "emptyDir": {}})));
            pod["metadata"] = json!({"labels": {"app": "web"}});
            json!({"metadata": {"name": "s"}, "spec": {
                "selector": {"matchLabels": {"app": "web"}}, "template": pod, "volumeClaimTemplates": many(count, claim),
            }})
        },
    },
    Case {
        name: "ingress of a load balancer",
        work: |new, old| strategies::find("", "Service").validate_part(Part::Status, new, old).len(),
        object: |count| {
            let point = |at: usize| json!({"ip": format!("10.1.{}.{}", at / 256, at % 256), "ipMode": "VIP"});
            json!({"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": many(count, point)}}})
        },
    },
    Case {
        name: "node ports of a Service",
        work: |new, old| {
            let mut new = new.clone();
            for port in new["spec"]["ports"].as_array_mut().into_iter().flatten() {
                port["nodePort"] = 0.into();
            }
            services::keep(&mut new, old);
            usize::from(new != *old)
        },
        object: |count| {
            let port = |at| json!({"name": format!("p{at}"), "port": at + 1, "nodePort": 30_000 + at});
            json!({"spec": {"type": "NodePort", "ports": many(count, port)}})
        },
    },
    Case {
        name: "ephemeral containers",
        work: |new, old| strategies::find("", "Pod").validate_part(Part::Ephemeral, new, old).len(),
        object: |count| pod("ephemeralContainers", containers(count)),
    },
    Case {
        name: "containers to be resized",
        work: |new, old| {
            let mut new = new.clone();
            update_part(Part::Resize, &mut new, old);
            usize::from(new != *old)
        },
        object: |count| pod("containers", containers(count)),
    },
];

#[test]
fn long_lists_take_linear_time() {
    for Case { name, work, object } in CASES {
        let [(few, found_of_few), (lots, found_of_lots)] = [ITEMS, ITEMS * TIMES].map(|count| {
            let (new, old) = (object(count), object(count));
            cost(|| work(&new, &old))
        });
        // A complaint about each item would be another kind of work.
        assert_eq!(found_of_few, found_of_lots, "{name}");
        assert!(
            lots < few * MAX_RATIO,
            "{name}: {TIMES} times as many items cost {:.1} times as much",
            lots / few
        );
    }
}

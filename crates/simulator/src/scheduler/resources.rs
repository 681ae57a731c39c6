//! Resources: what Pods request and Nodes offer, as the scheduler counts them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use settled_apimachinery::quantity;

/// What a container without a request counts for in scores: `DefaultMilliCPURequest`, `DefaultMemoryRequest`.
const DEFAULT: (i64, i64) = (100, 200 * 1024 * 1024);

/// Amounts of resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Resources {
    /// Thousandths of a CPU.
    pub(crate) cpu: i64,
    /// Bytes.
    pub(crate) memory: i64,
    /// Bytes.
    pub(crate) ephemeral_storage: i64,
    /// Huge pages and extended resources.
    pub(crate) scalar: BTreeMap<String, i64>,
}

type Quantities = BTreeMap<String, Quantity>;

/// `IsScalarResourceName`.
fn is_scalar(name: &str) -> bool {
    name.starts_with("hugepages-")
        || name.starts_with("attachable-volumes-")
        || name.contains('/') && !name.starts_with("requests.")
}

/// The value of a quantity, rounded up.
pub(crate) fn value(quantity: &Quantity) -> i64 {
    quantity::Quantity::parse(&quantity.0).map_or(0, |parsed| parsed.value())
}

fn milli_value(quantity: &Quantity) -> i64 {
    quantity::Quantity::parse(&quantity.0).map_or(0, |parsed| parsed.milli_value())
}

impl Resources {
    /// Reads a list of quantities.
    pub(crate) fn of(quantities: Option<&Quantities>) -> Self {
        let mut all = Self::default();
        for (name, quantity) in quantities.into_iter().flatten() {
            match name.as_str() {
                "cpu" => all.cpu = milli_value(quantity),
                "memory" => all.memory = value(quantity),
                "ephemeral-storage" => all.ephemeral_storage = value(quantity),
                name if is_scalar(name) => drop(all.scalar.insert(name.to_owned(), value(quantity))),
                _ => {}
            }
        }
        all
    }

    /// Adds, `sign` times.
    pub(crate) fn add(&mut self, other: &Self, sign: i64) {
        self.cpu += sign * other.cpu;
        self.memory += sign * other.memory;
        self.ephemeral_storage += sign * other.ephemeral_storage;
        for (name, amount) in &other.scalar {
            *self.scalar.entry(name.clone()).or_default() += sign * amount;
        }
    }

    /// The larger amount of each resource.
    fn max(&mut self, other: &Self) {
        self.cpu = self.cpu.max(other.cpu);
        self.memory = self.memory.max(other.memory);
        self.ephemeral_storage = self.ephemeral_storage.max(other.ephemeral_storage);
        for (name, amount) in &other.scalar {
            let mine = self.scalar.entry(name.clone()).or_default();
            *mine = (*mine).max(*amount);
        }
    }

    /// Is nothing requested?
    pub(crate) fn is_empty(&self) -> bool {
        self.cpu == 0 && self.memory == 0 && self.ephemeral_storage == 0 && self.scalar.is_empty()
    }
}

/// The status of a container, if that is of a kind that can be resized in place.
fn status_of<'p>(pod: &'p Pod, container: &Container) -> Option<&'p ContainerStatus> {
    let status = pod.status.as_ref()?;
    let mut all = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    all.find(|status| status.name == container.name && status.resources.is_some())
}

/// What a Pod requests: the sum of its containers and sidecars, or what its init containers need if that is more, and the
/// overhead: `resource.PodRequests`. A container that is resized counts for the most of what it asks for, was given and has. With
/// defaults, containers without a request count for a little CPU and memory.
pub(crate) fn requests(pod: &Pod, with_defaults: bool) -> Resources {
    let Some(spec) = &pod.spec else { return Resources::default() };
    let of = |container: &Container, is_resizable: bool| {
        let requests = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let mut all = Resources::of(requests);
        if let Some(status) = status_of(pod, container).filter(|_| is_resizable) {
            // `determineEffectiveRequests`. Mostly they are the same.
            let has = status.resources.as_ref().and_then(|resources| resources.requests.as_ref());
            for amounts in [has, status.allocated_resources.as_ref()] {
                if amounts != requests {
                    all.max(&Resources::of(amounts));
                }
            }
        }
        let has = |name: &str| requests.is_some_and(|requests| requests.contains_key(name));
        if with_defaults {
            all.cpu = if has("cpu") { all.cpu } else { DEFAULT.0 };
            all.memory = if has("memory") { all.memory } else { DEFAULT.1 };
        }
        all
    };
    let mut sum = Resources::default();
    for container in &spec.containers {
        sum.add(&of(container, true), 1);
    }
    let (mut sidecars, mut initial) = (Resources::default(), Resources::default());
    for container in spec.init_containers.iter().flatten() {
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        let requests = of(container, is_sidecar);
        if is_sidecar {
            sum.add(&requests, 1);
            sidecars.add(&requests, 1);
            initial.max(&sidecars);
        } else {
            let mut needed = requests;
            needed.add(&sidecars, 1);
            initial.max(&needed);
        }
    }
    sum.max(&initial);
    let of_pod = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    for (name, quantity) in of_pod.into_iter().flatten() {
        match name.as_str() {
            "cpu" => sum.cpu = milli_value(quantity),
            "memory" => sum.memory = value(quantity),
            name if name.starts_with("hugepages-") => {
                sum.scalar.insert(name.to_owned(), value(quantity));
            }
            _ => {}
        }
    }
    sum.add(&Resources::of(spec.overhead.as_ref()), 1);
    sum
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn container(cpu: &str, policy: Option<&str>) -> Value {
        json!({"name": "c", "restartPolicy": policy, "resources": {"requests": {"cpu": cpu, "memory": "1Gi", "example.com/gpu": "1"}}})
    }

    fn cpu_of(spec: Value) -> Resources {
        let pod = serde_json::from_value(json!({"spec": spec})).expect("a Pod");
        requests(&pod, false)
    }

    #[test]
    fn requests_are_counted_as_upstream() {
        let sum = cpu_of(
            json!({"containers": [container("500m", None), container("1", None)], "overhead": {"cpu": "250m"}}),
        );
        assert_eq!((sum.cpu, sum.memory, sum.scalar["example.com/gpu"]), (1750, 2 << 30, 2));
        // An init container that needs more than all containers together.
        let initial = json!({"containers": [container("1", None)], "initContainers": [container("3", None)]});
        assert_eq!(cpu_of(initial).cpu, 3000);
        // A sidecar counts beside the containers, and beside the init containers after it.
        let sidecar = json!({
            "containers": [container("1", None)],
            "initContainers": [container("1", Some("Always")), container("3", None)],
        });
        assert_eq!(cpu_of(sidecar).cpu, 4000);
        let before = json!({
            "containers": [container("1", None)],
            "initContainers": [container("3", None), container("1", Some("Always"))],
        });
        assert_eq!(cpu_of(before).cpu, 3000);
    }

    #[test]
    fn a_resize_counts_until_it_is_over() {
        let pod = |wanted: &str, given: &str, has: &str| {
            let of = |cpu: &str| json!({"requests": {"cpu": cpu}});
            let status = json!({"name": "c", "image": "a", "imageID": "", "ready": true, "restartCount": 0,
                "allocatedResources": {"cpu": given}, "resources": of(has)});
            let pod = json!({
                "spec": {"containers": [{"name": "c", "resources": of(wanted)}]},
                "status": {"containerStatuses": [status]},
            });
            requests(&serde_json::from_value(pod).expect("a Pod"), false).cpu
        };
        assert_eq!([pod("2", "1", "1"), pod("1", "1", "2"), pod("1", "1", "1")], [2000, 2000, 1000]);
    }

    #[test]
    fn containers_without_requests_count_a_little_in_scores() {
        let pod: Pod =
            serde_json::from_value(json!({"spec": {"containers": [{"name": "c"}]}})).expect("a Pod");
        assert!(requests(&pod, false).is_empty());
        assert_eq!(requests(&pod, true).cpu, 100);
    }
}

//! What kubelets remember: addresses and images on Nodes, and when each Pod was looked at. It is rebuilt from the Pods.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::Ipv4Addr;
use std::num::NonZeroU32;

use k8s_openapi::api::core::v1::Pod;
use settled_controller::ObjectKey;

use super::container;
use super::pulls::{PullRequest, Puller, Turn};
use super::resize::PENDING;
use super::status::condition;
use super::text;
use crate::meta;

/// The network of Pods on Nodes that have none: 10.244.0.0/16.
const NETWORK: (Ipv4Addr, u32) = (Ipv4Addr::new(10, 244, 0, 0), 16);

/// What is remembered.
#[derive(Default)]
pub(super) struct Memory {
    /// Pods by UID.
    pods: HashMap<Box<str>, Remembered>,
    /// The addresses that Pods have.
    taken: HashSet<Ipv4Addr>,
    /// Of each Node.
    pullers: HashMap<String, Puller>,
    /// Pods of a Node whose resize does not fit.
    deferred: HashMap<String, BTreeSet<ObjectKey>>,
}

/// What is remembered of a Pod.
#[derive(Default)]
struct Remembered {
    /// The last look.
    looked: Option<i64>,
    address: Option<Ipv4Addr>,
}

impl Memory {
    /// Takes in a Pod as it is stored.
    pub(super) fn observe(&mut self, pod: &Pod) {
        let (Some(spec), Some(status)) = (&pod.spec, &pod.status) else { return };
        let uid = meta::uid(pod);
        if spec.host_network != Some(true)
            && self.pods.get(uid).is_none_or(|pod| pod.address.is_none())
            && let Some(address) = status.pod_ip.as_deref().and_then(|ip| ip.parse().ok())
        {
            self.take(uid, address);
        }
        let Some(node) = &spec.node_name else { return };
        if condition(status, PENDING).is_some() {
            self.deferred.entry(node.clone()).or_default().insert(meta::key(pod));
        } else {
            self.settle(node, pod);
        }
        let puller = self.pullers.entry(node.clone()).or_default();
        let statuses = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
        // Until all have been started, when they asked for their images decides when they are.
        let mut regular = status.container_statuses.iter().flatten();
        if regular.all(|known| container::running_since(known).is_some()) {
            puller.forget(uid);
        }
        for known in statuses {
            let Some(since) = container::running_since(known) else { continue };
            let mut containers = spec.init_containers.iter().flatten().chain(&spec.containers);
            let image = containers.find(|container| container.name == known.name);
            let Some(image) = image.and_then(|container| container.image.as_ref()) else { continue };
            puller.has_image(image, since);
        }
    }

    fn settle(&mut self, node: &str, pod: &Pod) {
        if let Some(keys) = self.deferred.get_mut(node) {
            keys.remove(&meta::key(pod));
            if keys.is_empty() {
                self.deferred.remove(node);
            }
        }
    }

    /// The Pods on the Node of a Pod whose resize waits for room.
    pub(super) fn deferred(&self, pod: &Pod) -> Vec<ObjectKey> {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        let keys = node.and_then(|node| self.deferred.get(node));
        keys.into_iter().flatten().cloned().collect()
    }

    /// Forgets a Pod that is gone.
    pub(super) fn forget(&mut self, pod: &Pod) {
        let uid = meta::uid(pod);
        if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref()) {
            self.settle(node, pod);
            if let Some(puller) = self.pullers.get_mut(node) {
                puller.forget(uid);
            }
        }
        if let Some(address) = self.pods.remove(uid).and_then(|pod| pod.address) {
            self.taken.remove(&address);
        }
    }

    pub(super) fn image_since(&self, node: &str, image: &str) -> Option<i64> {
        self.pullers.get(node)?.image_since(image)
    }

    /// When it is the turn of a Pod's pull.
    pub(super) fn pull(
        &mut self,
        node: &str,
        uid: &str,
        pull: &PullRequest<'_>,
        most: NonZeroU32,
        now: i64,
    ) -> Turn {
        self.pullers.entry(node.to_owned()).or_default().pull(uid, pull, most, now)
    }

    pub(super) fn looked(&self, uid: &str) -> Option<i64> {
        self.pods.get(uid)?.looked
    }

    pub(super) fn look(&mut self, uid: &str, at: i64) {
        self.pod(uid).looked = Some(at);
    }

    fn pod(&mut self, uid: &str) -> &mut Remembered {
        self.pods.entry(uid.into()).or_default()
    }

    fn take(&mut self, uid: &str, address: Ipv4Addr) {
        self.taken.insert(address);
        self.pod(uid).address = Some(address);
    }

    /// The address of a Pod in the network of its Node: a free one, the same each time.
    pub(super) fn address(&mut self, seed: u64, pod: &Pod, network: Option<&str>) -> Ipv4Addr {
        let uid = meta::uid(pod);
        if let Some(address) = self.pods.get(uid).and_then(|pod| pod.address) {
            return address;
        }
        let given = network.and_then(|network| {
            let (address, bits) = network.split_once('/')?;
            Some((address.parse().ok()?, bits.parse().ok().filter(|bits| (8..=30).contains(bits))?))
        });
        let (network, bits): (Ipv4Addr, u32) = given.unwrap_or(NETWORK);
        // Without the addresses of the network, of its bridge and for broadcasts.
        let size = (1_u32 << (32 - bits)) - 3;
        let key = text::hash(seed, &[meta::namespace(pod), meta::name(pod), uid, "address"]);
        let first = u32::try_from(key % u64::from(size)).unwrap_or_default();
        let nth = |number: u32| Ipv4Addr::from(u32::from(network) + 2 + (first + number) % size);
        let address =
            (0..size).map(nth).find(|address| !self.taken.contains(address)).unwrap_or_else(|| nth(0));
        self.take(uid, address);
        address
    }
}

//! Informers: one cache for each kind that a controller reads, shared by all of them.

use std::sync::Arc;

use futures::stream::{SelectAll, StreamExt as _};
use kube::{Client, Resource};
use settled_controller::cache::{Cache, CacheClosed, Change};
use settled_controller::{ObjectKey, Projection, ResourceVersion};
use tokio::sync::watch;

use super::meta;
use crate::small::{Lease, Node, Pod, Secret};
use crate::types::{
    CLUSTER_LABEL, Cluster, DEPLOYMENT_LABEL, Machine, MachineClass, MachineDeployment, MachineHealthCheck,
    MachineSet,
};

/// Index of Pods by their Node.
pub(super) const POD_NODE: &str = "spec.nodeName";
/// Index of Nodes by the provider's name for their host.
pub(super) const PROVIDER: &str = "spec.providerID";
/// Index of Nodes by the Machine that they say they are of.
pub(super) const MACHINE: &str = "machine";
/// Index of Machines that nobody controls, by namespace.
const UNCONTROLLED: &str = "uncontrolled";
/// Index of Machines by the key of their host.
const HOST: &str = "host";
/// Index of objects by namespace.
const NAMESPACE: &str = "namespace";
/// Namespace of the Leases of Nodes.
pub(super) const LEASES: &str = "kube-node-lease";

/// A kind that has an informer.
pub(super) trait Informed: Resource<DynamicType = ()> + Sized + 'static {
    /// Its place among the informers.
    const INDEX: usize;

    /// Its cache.
    fn cache(informers: &Informers) -> &Cache<Self>;
}

macro_rules! informers {
    ($($index:literal $field:ident: $kind:ident $(.$option:ident($($argument:expr),*))*;)+) => {
        /// The caches.
        pub(super) struct Informers {
            $(pub(super) $field: Cache<$kind>,)+
        }

        /// A change of an object of any kind.
        #[allow(dead_code, reason = "Pods wake no controller: a drain looks at them again and again, since budgets do not report")]
        pub(super) enum AnyChange {
            $($kind(Change<$kind>),)+
            /// A Node of a Cluster with an API server of its own.
            RemoteNode(ObjectKey, Change<Node>),
            /// A Cluster with an API server of its own answers, or does not any more.
            Remote(ObjectKey),
        }

        $(impl Informed for $kind {
            const INDEX: usize = $index;

            fn cache(informers: &Informers) -> &Cache<Self> {
                &informers.$field
            }
        })+

        impl Informers {
            /// Lists and watches all kinds.
            pub(super) fn start(client: &Client) -> Self {
                Self {
                    $($field: Cache::<$kind>::builder(client.clone())
                        .projection(Projection::without_managed_fields())
                        $(.$option($($argument),*))*
                        .start(),)+
                }
            }

            /// Waits until all kinds are listed.
            pub(super) async fn ready(&self) -> Result<(), CacheClosed> {
                $(self.$field.wait_until_ready().await?;)+
                Ok(())
            }

            /// The changes of all kinds.
            pub(super) fn changes(&self) -> SelectAll<futures::stream::BoxStream<'static, AnyChange>> {
                futures::stream::select_all([$(self.$field.changes().map(AnyChange::$kind).boxed(),)+])
            }

            /// Up to which resourceVersion the cache of a kind is complete.
            pub(super) fn position(&self, index: usize) -> watch::Receiver<Option<ResourceVersion>> {
                match index {
                    $($index => self.$field.watch_position(),)+
                    _ => watch::channel(None).1,
                }
            }
        }
    };
}

fn namespace<K: Resource>(object: &K) -> Vec<String> {
    vec![meta::namespace(object).to_owned()]
}

/// The namespace of a Machine that nobody controls.
fn uncontrolled(machine: &Machine) -> Vec<String> {
    match meta::controller(machine) {
        Some(_) => Vec::new(),
        None => namespace(machine),
    }
}

/// The key of the host of a Machine.
fn host(machine: &Machine) -> Vec<String> {
    vec![machine.host_key().to_owned()]
}

/// Namespace and name of the Cluster of a Machine.
fn cluster(machine: &Machine) -> Vec<String> {
    let name = machine.spec.cluster_name.as_ref();
    name.map(|name| format!("{}/{name}", meta::namespace(machine))).into_iter().collect()
}

informers! {
    0 clusters: Cluster;
    1 machines: Machine .index_owners() .index_by(NAMESPACE, namespace) .index_by(CLUSTER_LABEL, cluster) .index_by(UNCONTROLLED, uncontrolled) .index_by(HOST, host);
    2 sets: MachineSet .index_owners() .index_by(NAMESPACE, namespace);
    3 deployments: MachineDeployment .index_by(NAMESPACE, namespace);
    4 classes: MachineClass;
    5 checks: MachineHealthCheck .index_by(NAMESPACE, namespace);
    6 nodes: Node .index_field(PROVIDER) .index_by(MACHINE, |node: &Node| node.machine().map(str::to_owned).into_iter().collect());
    7 pods: Pod .index_field(POD_NODE);
    8 leases: Lease .namespace(LEASES);
    9 secrets: Secret .labels(CLUSTER_LABEL);
}

impl Informers {
    /// The Node of a host, or the one that says that it is of the Machine.
    pub(super) fn node_of(&self, machine: &Machine, provider_id: Option<&str>) -> Option<Arc<Node>> {
        if let Some(id) = provider_id {
            let found = self.nodes.indexed(PROVIDER, id).unwrap_or_default();
            return found.into_iter().next();
        }
        self.nodes.indexed(MACHINE, &meta::key(machine).to_string()).unwrap_or_default().into_iter().next()
    }

    /// The Pods on a Node, by name.
    pub(super) fn pods_on(&self, node: &Node) -> Vec<Arc<Pod>> {
        sorted(self.pods.indexed(POD_NODE, meta::name(node)).unwrap_or_default())
    }

    /// The Machines of a Cluster, by name.
    pub(super) fn machines_of_cluster(&self, cluster: &ObjectKey) -> Vec<Arc<Machine>> {
        sorted(self.machines.indexed(CLUSTER_LABEL, &cluster.to_string()).unwrap_or_default())
    }

    /// The Machines that a MachineSet controls, by name.
    pub(super) fn machines_of_set(&self, set: &MachineSet) -> Vec<Arc<Machine>> {
        controlled(self.machines.owned_by(meta::uid(set)).unwrap_or_default(), meta::uid(set))
    }

    /// The Machines of a namespace that nobody controls, by name.
    pub(super) fn uncontrolled_machines(&self, namespace: &str) -> Vec<Arc<Machine>> {
        sorted(self.machines.indexed(UNCONTROLLED, namespace).unwrap_or_default())
    }

    /// The MachineSets that a MachineDeployment controls, by name.
    pub(super) fn sets_of(&self, deployment: &MachineDeployment) -> Vec<Arc<MachineSet>> {
        controlled(self.sets.owned_by(meta::uid(deployment)).unwrap_or_default(), meta::uid(deployment))
    }

    /// The objects of a kind in a namespace, by name.
    pub(super) fn in_namespace<K: Informed>(&self, namespace: &str) -> Vec<Arc<K>> {
        sorted(K::cache(self).indexed(NAMESPACE, namespace).unwrap_or_default())
    }

    /// The Machine that has the host of this one before it: the older one of two that name the same host.
    pub(super) fn host_is_of(&self, machine: &Machine) -> Option<Arc<Machine>> {
        let mut same = self.machines.indexed(HOST, machine.host_key()).unwrap_or_default();
        // What names its own host has it, whatever others say; then age decides.
        let rank = |machine: &Machine| {
            let created = machine.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (machine.host_key() != meta::uid(machine), created, meta::uid(machine).to_owned())
        };
        same.sort_by_key(|other| rank(other));
        same.into_iter().next().filter(|first| meta::uid(&**first) != meta::uid(machine))
    }

    /// Whether a Cluster of this name, if there is one, is left alone by the controllers.
    pub(super) fn is_cluster_paused(&self, namespace: &str, name: Option<&String>) -> bool {
        let cluster = name.and_then(|name| self.clusters.get(ObjectKey::new(namespace, name)));
        cluster.is_some_and(|cluster| cluster.spec.paused || meta::is_paused(&*cluster))
    }

    /// Keys of the MachineSets of a Cluster.
    pub(super) fn sets_of_cluster(&self, cluster: &ObjectKey) -> Vec<ObjectKey> {
        let mut sets = self.in_namespace::<MachineSet>(&cluster.namespace);
        sets.retain(|set| set.spec.template.spec.cluster_name.as_deref() == Some(&*cluster.name));
        sets.iter().map(|set| meta::key(&**set)).collect()
    }

    /// Keys of the MachineDeployments of a Cluster.
    pub(super) fn deployments_of_cluster(&self, cluster: &ObjectKey) -> Vec<ObjectKey> {
        let mut all = self.in_namespace::<MachineDeployment>(&cluster.namespace);
        all.retain(|group| group.spec.template.spec.cluster_name.as_deref() == Some(&*cluster.name));
        all.iter().map(|group| meta::key(&**group)).collect()
    }

    /// Keys of the MachineDeployment of a Machine.
    pub(super) fn deployment_of(machine: &Machine) -> Option<ObjectKey> {
        let name = machine.metadata.labels.as_ref()?.get(DEPLOYMENT_LABEL)?;
        Some(ObjectKey::new(meta::namespace(machine), name))
    }
}

fn sorted<K: Resource>(mut objects: Vec<Arc<K>>) -> Vec<Arc<K>> {
    objects.sort_by(|one, other| meta::name(&**one).cmp(meta::name(&**other)));
    objects
}

fn controlled<K: Resource>(mut objects: Vec<Arc<K>>, uid: &str) -> Vec<Arc<K>> {
    objects.retain(|object| meta::controller(&**object).is_some_and(|owner| owner.uid == uid));
    sorted(objects)
}

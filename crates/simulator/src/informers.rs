//! Informers: one cache for each kind that a simulated component reads, shared by all of them.

use std::sync::Arc;

use futures::stream::{SelectAll, StreamExt as _};
use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::{
    ConfigMap, Endpoints, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod, Secret, Service,
    ServiceAccount,
};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::Ingress;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{Client, Resource};
use settled_controller::cache::{Cache, CacheClosed, Change};
use settled_controller::{Projection, ResourceVersion};
use tokio::sync::watch;

use crate::meta;

/// Index of Pods by the name of their Node.
pub(crate) const NODE: &str = "spec.nodeName";
/// Index of Pods and EndpointSlices by each of their labels: [`label_key`].
const LABEL: &str = "metadata.labels";

/// The value in the index of labels.
fn label_key(namespace: &str, label: &str, value: &str) -> String {
    format!("{namespace}/{label}={value}")
}

fn label_keys<K: Informed>(object: &K) -> Vec<String> {
    if K::INDEX != Pod::INDEX && K::INDEX != EndpointSlice::INDEX {
        return Vec::new();
    }
    let labels = object.meta().labels.iter().flatten();
    labels.map(|(label, value)| label_key(meta::namespace(object), label, value)).collect()
}
/// Index of objects by their namespace.
pub(crate) const NAMESPACE: &str = "namespace";
/// Index of objects without a controller by their namespace.
const ORPHANS: &str = "orphans";

/// A kind that has an informer.
pub(crate) trait Informed: Resource<DynamicType = ()> + Sized + 'static {
    /// Its place among the informers.
    const INDEX: usize;

    /// Its cache.
    fn cache(informers: &Informers) -> &Cache<Self>;
}

macro_rules! informers {
    ($($index:literal $field:ident: $kind:ident,)+) => {
        /// The caches.
        pub(crate) struct Informers {
            $(pub(crate) $field: Cache<$kind>,)+
        }

        /// A change of an object of any kind.
        #[allow(dead_code, reason = "some kinds wake no controller")]
        pub(crate) enum AnyChange {
            $($kind(Change<$kind>),)+
        }

        $(impl Informed for $kind {
            const INDEX: usize = $index;

            fn cache(informers: &Informers) -> &Cache<Self> {
                &informers.$field
            }
        })+

        impl Informers {
            /// Lists and watches all kinds.
            pub(crate) fn start(client: &Client) -> Self {
                Self {
                    $($field: Cache::<$kind>::of::<$kind>(client.clone())
                        .projection(Projection::without_managed_fields())
                        .index_owners()
                        .index_field(NODE)
                        .index_by(LABEL, label_keys::<$kind>)
                        .index_by(NAMESPACE, |object| vec![meta::namespace(object).to_owned()])
                        .index_by(ORPHANS, |object| match meta::controller(object) {
                            None => vec![meta::namespace(object).to_owned()],
                            Some(_) => Vec::new(),
                        })
                        .start(),)+
                }
            }

            /// Waits until all kinds are listed.
            pub(crate) async fn ready(&self) -> Result<(), CacheClosed> {
                $(self.$field.wait_until_ready().await?;)+
                Ok(())
            }

            /// The changes of all kinds.
            pub(crate) fn changes(&self) -> SelectAll<futures::stream::BoxStream<'static, AnyChange>> {
                futures::stream::select_all([$(self.$field.changes().map(AnyChange::$kind).boxed(),)+])
            }

            /// Up to which resourceVersion the cache of a kind is complete.
            pub(crate) fn position(&self, index: usize) -> watch::Receiver<Option<ResourceVersion>> {
                match index {
                    $($index => self.$field.watch_position(),)+
                    _ => watch::channel(None).1,
                }
            }
        }
    };
}

informers! {
    0 pods: Pod,
    1 nodes: Node,
    2 namespaces: Namespace,
    3 deployments: Deployment,
    4 replica_sets: ReplicaSet,
    5 stateful_sets: StatefulSet,
    6 daemon_sets: DaemonSet,
    7 controller_revisions: ControllerRevision,
    8 jobs: Job,
    9 cron_jobs: CronJob,
    10 services: Service,
    11 endpoint_slices: EndpointSlice,
    12 ingresses: Ingress,
    13 claims: PersistentVolumeClaim,
    14 volumes: PersistentVolume,
    15 storage_classes: StorageClass,
    16 config_maps: ConfigMap,
    17 secrets: Secret,
    18 service_accounts: ServiceAccount,
    19 budgets: PodDisruptionBudget,
    20 autoscalers: HorizontalPodAutoscaler,
    21 priority_classes: PriorityClass,
    22 endpoints: Endpoints,
}

impl std::fmt::Debug for Informers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Informers").finish_non_exhaustive()
    }
}

impl Informers {
    /// The Pods of a namespace that a selector matches, by name.
    pub(crate) fn pods_matching(&self, namespace: &str, selector: &LabelSelector) -> Vec<Arc<Pod>> {
        let first = selector.match_labels.as_ref().and_then(|labels| labels.first_key_value());
        let mut pods = match first {
            Some((label, value)) => {
                self.pods.indexed(LABEL, &label_key(namespace, label, value)).unwrap_or_default()
            }
            None => self.pods.state_filter(|pod| meta::namespace(pod) == namespace),
        };
        pods.retain(|pod| crate::selector::matches(Some(selector), pod.metadata.labels.as_ref()));
        pods.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        pods
    }

    /// The EndpointSlices with a label, by name.
    pub(crate) fn slices_with(&self, namespace: &str, label: &str, value: &str) -> Vec<Arc<EndpointSlice>> {
        let mut slices =
            self.endpoint_slices.indexed(LABEL, &label_key(namespace, label, value)).unwrap_or_default();
        slices.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
        slices
    }

    /// The Pods on a Node, by name.
    pub(crate) fn pods_on(&self, node: &str) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.indexed(NODE, node).unwrap_or_default();
        pods.sort_by(|one, other| {
            (&one.metadata.namespace, &one.metadata.name)
                .cmp(&(&other.metadata.namespace, &other.metadata.name))
        });
        pods
    }

    /// The objects of a kind that an object controls, sorted by name.
    pub(crate) fn controlled<K: Informed>(&self, uid: &str) -> Vec<Arc<K>> {
        let mut objects = K::cache(self).owned_by(uid).unwrap_or_default();
        objects.retain(|object| meta::controller(&**object).is_some_and(|owner| owner.uid == uid));
        objects.sort_by(|one, other| meta::name(&**one).cmp(meta::name(&**other)));
        objects
    }

    /// The objects of a kind without a controller in a namespace, sorted by name.
    pub(crate) fn orphans<K: Informed>(&self, namespace: &str) -> Vec<Arc<K>> {
        let mut objects = K::cache(self).indexed(ORPHANS, namespace).unwrap_or_default();
        objects.sort_by(|one, other| meta::name(&**one).cmp(meta::name(&**other)));
        objects
    }

    /// The objects of a kind in a namespace, sorted by name.
    pub(crate) fn in_namespace<K: Informed>(&self, namespace: &str) -> Vec<Arc<K>> {
        let mut objects = K::cache(self).indexed(NAMESPACE, namespace).unwrap_or_default();
        objects.sort_by(|one, other| meta::name(&**one).cmp(meta::name(&**other)));
        objects
    }

    /// The Pods that an object controls.
    pub(crate) fn pods_of(&self, uid: &str) -> Vec<Arc<Pod>> {
        self.controlled(uid)
    }
}

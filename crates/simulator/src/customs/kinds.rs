//! Kinds with a CRD: their caches and queues.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use settled_controller::ObjectKey;
use settled_controller::cache::Cache;
use settled_controller::queue::Queue;

/// A kind.
pub(super) struct Kind {
    pub(super) resource: ApiResource,
    pub(super) is_namespaced: bool,
    /// Has it a status subresource?
    pub(super) has_status: bool,
    pub(super) cache: Cache<DynamicObject>,
    pub(super) queue: Queue<ObjectKey>,
}

impl Kind {
    pub(super) fn new(client: &Client, resource: ApiResource, is_namespaced: bool, has_status: bool) -> Self {
        let cache = Cache::<DynamicObject>::of_resource(client.clone(), &resource).start();
        Self { resource, is_namespaced, has_status, cache, queue: super::step::queue() }
    }
}

/// The resource that an established CRD serves and stores, whether it is in namespaces, and whether it has a status subresource.
pub(super) fn resource_of(definition: &CustomResourceDefinition) -> Option<(ApiResource, bool, bool)> {
    let conditions = definition.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == "Established" && condition.status == "True")?;
    let spec = &definition.spec;
    let served = || spec.versions.iter().filter(|version| version.served);
    let version = served().find(|version| version.storage).or_else(|| served().next())?;
    let resource = super::step::resource(&spec.group, &version.name, &spec.names.kind, &spec.names.plural);
    let has_status = version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some());
    Some((resource, spec.scope == "Namespaced", has_status))
}

/// All kinds by group and kind.
#[derive(Default)]
pub(super) struct Kinds(Mutex<BTreeMap<(String, String), Arc<Kind>>>);

impl Kinds {
    pub(super) fn insert(&self, kind: Arc<Kind>) {
        let key = (kind.resource.group.clone(), kind.resource.kind.clone());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, kind);
    }

    pub(super) fn remove(&self, resource: &ApiResource) {
        let key = (resource.group.clone(), resource.kind.clone());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
    }

    /// A kind.
    pub(super) fn get(&self, group: &str, kind: &str) -> Option<Arc<Kind>> {
        let key = (group.to_owned(), kind.to_owned());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned()
    }

    /// Looks at all objects of a group again.
    pub(super) fn wake_group(&self, group: &str) {
        let kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for kind in kinds.values().filter(|kind| kind.resource.group == group) {
            for key in kind.cache.keys() {
                kind.queue.add(key, 0);
            }
        }
    }
}

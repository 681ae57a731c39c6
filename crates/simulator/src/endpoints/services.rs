//! Services as the controllers of EndpointSlices and of Endpoints follow them: which ones a Pod is behind, and the Pods of each.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use settled_controller::ObjectKey;
use settled_controller::cache::Change;

use super::plan::addresses;
use super::trigger::TriggerTimes;
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::pod as pods;
use crate::selector_index::{SelectorIndex, service_selector};

/// The Services that a controller has seen.
#[derive(Default)]
pub(super) struct Services {
    index: SelectorIndex,
    triggers: TriggerTimes,
}

/// A Service with a selector.
pub(super) struct Selecting {
    pub(super) service: Arc<Service>,
    /// The Pods that it selects, by name.
    pub(super) pods: Vec<Arc<Pod>>,
    /// The change that its endpoints follow: see [`TriggerTimes::next`].
    pub(super) trigger: Option<Timestamp>,
}

/// What there is to sync.
pub(super) enum Found {
    /// There is no Service.
    Gone,
    /// Others write its endpoints, or it has none.
    WithoutSelector,
    Selecting(Selecting),
}

impl Services {
    /// The keys of the Services that a change of a Service or of a Pod is about; none for other kinds.
    pub(super) fn wake(&self, change: &AnyChange) -> Option<Vec<ObjectKey>> {
        match change {
            AnyChange::Service(change) => {
                self.index.service(change);
                Some(vec![change.key.clone()])
            }
            AnyChange::Pod(change) => Some(self.of_pod(change)),
            _ => None,
        }
    }

    /// The Services that a changed Pod is behind, or was.
    fn of_pod(&self, change: &Change<Pod>) -> Vec<ObjectKey> {
        if let (Some(old), Some(new)) = (change.old.as_deref(), change.new.as_deref())
            && is_same_endpoint(old, new)
        {
            return Vec::new();
        }
        let mut keys: Vec<_> =
            change.old.iter().chain(&change.new).flat_map(|pod| self.index.candidates(pod)).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    pub(super) fn find(&self, key: &ObjectKey, informers: &Informers) -> Found {
        let Some(service) = informers.services.get(key) else {
            self.triggers.forget(key);
            return Found::Gone;
        };
        let is_external =
            service.spec.as_ref().and_then(|spec| spec.type_.as_deref()) == Some("ExternalName");
        let Some(wanted) = service_selector(&service).filter(|_| !is_external) else {
            return Found::WithoutSelector;
        };
        let wanted = LabelSelector { match_labels: Some(wanted.clone()), match_expressions: None };
        let pods = informers.pods_matching(&key.namespace, &wanted);
        let trigger = self.triggers.next(key, &service, &pods);
        Found::Selecting(Selecting { service, pods, trigger })
    }
}

fn is_same_endpoint(old: &Pod, new: &Pod) -> bool {
    let facts = |pod: &Pod| {
        let is_over = matches!(pods::phase(pod), "Succeeded" | "Failed");
        (pods::is_ready(pod), meta::is_deleting(pod), is_over)
    };
    let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    facts(old) == facts(new)
        && addresses(old) == addresses(new)
        && node(old) == node(new)
        && old.metadata.labels == new.metadata.labels
        && old.metadata.uid == new.metadata.uid
}

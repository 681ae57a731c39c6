//! Trigger times: which change endpoints follow (`TriggerTimeTracker` of `k8s.io/endpointslice/util` upstream).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Service};
use settled_controller::ObjectKey;

use crate::meta;
use crate::pod as pods;

/// What the last sync of a Service saw.
#[derive(Debug, Default)]
struct Seen {
    service: Option<Timestamp>,
    pods: HashMap<String, Timestamp>,
}

/// The times that the last syncs saw. As upstream, a restart forgets them: then it is the creation of the Service.
#[derive(Debug, Default)]
pub(super) struct TriggerTimes(Mutex<HashMap<ObjectKey, Seen>>);

fn pod_time(pod: &Pod) -> Option<Timestamp> {
    pods::condition(pod, "Ready")?.last_transition_time.as_ref().map(|time| time.0)
}

impl TriggerTimes {
    /// The first of the changes since the last sync of the Service; none if nothing has become ready, or the opposite, since then.
    pub(super) fn next(
        &self,
        key: &ObjectKey,
        service: &Service,
        selected: &[Arc<Pod>],
    ) -> Option<Timestamp> {
        let created = service.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let times = selected.iter().filter_map(|pod| Some((meta::name(&**pod).to_owned(), pod_time(pod)?)));
        let new = Seen { service: created, pods: times.collect() };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(old) = all.get(key) else {
            all.insert(key.clone(), new);
            return created;
        };
        let changed =
            new.pods.iter().filter(|(name, time)| old.pods.get(*name).is_none_or(|seen| *time > seen));
        let of_service = new.service.filter(|time| old.service.is_none_or(|seen| *time > seen));
        let first = changed.map(|(_, time)| *time).chain(of_service).min();
        all.insert(key.clone(), new);
        first
    }

    /// Forgets a Service that is gone.
    pub(super) fn forget(&self, key: &ObjectKey) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_change_since_the_last_sync_counts() {
        let key = ObjectKey::new("shop", "web");
        let service = json!({"metadata": {"name": "web", "creationTimestamp": "2026-01-01T00:00:00Z"}});
        let service: Service = serde_json::from_value(service).expect("a Service");
        let pod = |name: &str, time: &str| {
            let ready = json!([{"type": "Ready", "status": "True", "lastTransitionTime": time}]);
            let pod = json!({"metadata": {"name": name}, "status": {"conditions": ready}});
            Arc::new(serde_json::from_value::<Pod>(pod).expect("a Pod"))
        };
        let times = TriggerTimes::default();
        let next = |pods: &[Arc<Pod>]| times.next(&key, &service, pods).map(|time| time.to_string());
        let at = |second: u8| format!("2026-01-01T00:00:0{second}Z");
        // A new Service, whatever its Pods are.
        assert_eq!(next(&[pod("a", &at(3))]), Some(at(0)));
        assert_eq!(next(&[pod("a", &at(3))]), None);
        // Of two changes, the first.
        assert_eq!(next(&[pod("a", &at(5)), pod("b", &at(4))]), Some(at(4)));
        // A Pod that goes has no time.
        assert_eq!(next(&[pod("b", &at(4))]), None);
        times.forget(&key);
        assert_eq!(next(&[pod("b", &at(4))]), Some(at(0)));
    }
}

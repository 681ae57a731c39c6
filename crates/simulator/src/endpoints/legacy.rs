//! Endpoints: the addresses behind each Service in one object, as kube-controller-manager keeps them beside EndpointSlices.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::PoisonError;

use k8s_openapi::api::core::v1::{Endpoints as EndpointsObject, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::events::EventType;
use settled_controller::ObjectKey;
use settled_controller::worker::Next;

use super::is_namespace_ending;
use super::plan::{HEADLESS, TRIGGER, has_address};
use super::services::{Found, Selecting, Services};
use super::subsets::{is_over_capacity, is_same, subsets, truncate};
use crate::controller::{Context, Controller, Error, Shared};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::selector::Labels;

/// `LabelManagedBy`.
const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
/// Endpoints that leave addresses out.
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// Endpoints that are a lock of a leader election, of no Service.
pub(super) const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// The controller of Endpoints.
pub(crate) struct Endpoints {
    services: Services,
    /// Endpoints that were there at the start, which may have outlived their Services: `checkLeftoverEndpoints`.
    leftovers: Mutex<BTreeSet<ObjectKey>>,
}

impl Endpoints {
    pub(crate) fn new(shared: &Shared) -> Self {
        let all = shared.informers.endpoints.state();
        let is_lock = |endpoints: &EndpointsObject| {
            endpoints.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(LEADER))
        };
        let leftovers = all.iter().filter(|endpoints| !is_lock(endpoints)).map(|one| meta::key(&**one));
        Self { services: Services::default(), leftovers: Mutex::new(leftovers.collect()) }
    }
}

/// `labelsCorrectForEndpoints`.
fn has_labels_of(endpoints: &EndpointsObject, service: &Service) -> bool {
    let empty = Labels::new();
    let own = endpoints.metadata.labels.as_ref().unwrap_or(&empty);
    let wanted = service.metadata.labels.as_ref().unwrap_or(&empty);
    let mut rest = own.iter().filter(|(key, _)| !matches!(key.as_str(), HEADLESS | MANAGED_BY));
    own.get(MANAGED_BY).is_some_and(|manager| manager == Endpoints::NAME)
        && rest.clone().count() == wanted.len()
        && rest.all(|(key, value)| wanted.get(key) == Some(value))
}

fn labels(service: &Service) -> Labels {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    if has_address(service) {
        labels.remove(HEADLESS);
    } else {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels.insert(MANAGED_BY.to_owned(), Endpoints::NAME.to_owned());
    labels
}

impl Controller for Endpoints {
    const NAME: &'static str = "endpoint-controller";

    fn wake(&self, change: &AnyChange, _: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::Endpoints(change) => {
                let mut leftovers = self.leftovers.lock().unwrap_or_else(PoisonError::into_inner);
                let is_leftover = leftovers.remove(&change.key);
                (is_leftover || change.new.is_none()).then(|| change.key.clone()).into_iter().collect()
            }
            change => self.services.wake(change).unwrap_or_default(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let current = context.informers.endpoints.get(key);
        let Selecting { service, pods, trigger } = match self.services.find(key, &context.informers) {
            Found::Selecting(selecting) => selecting,
            Found::WithoutSelector => return Ok(Next::AwaitChange),
            Found::Gone => {
                if let Some(current) = current.filter(|current| !meta::is_deleting(&**current)) {
                    context.delete(key, &*current).await?;
                }
                return Ok(Next::AwaitChange);
            }
        };
        let mut subsets = subsets(&service, &pods);
        if let Some(current) = &current {
            let before = current.subsets.as_deref().unwrap_or_default();
            let annotations = current.metadata.annotations.as_ref();
            let is_noted = annotations.is_some_and(|annotations| annotations.contains_key(OVER_CAPACITY));
            if is_same(before, &subsets)
                && has_labels_of(current, &service)
                && !is_over_capacity(before)
                && !is_noted
            {
                return Ok(Next::AwaitChange);
            }
        }
        let is_truncated = truncate(&mut subsets);
        let is_new = current.is_none();
        let mut new = match &current {
            Some(current) => EndpointsObject::clone(current),
            None => EndpointsObject {
                metadata: ObjectMeta {
                    name: Some(key.name.to_string()),
                    namespace: Some(key.namespace.to_string()),
                    ..ObjectMeta::default()
                },
                subsets: None,
            },
        };
        new.subsets = Some(subsets).filter(|subsets| !subsets.is_empty());
        new.metadata.labels = Some(labels(&service));
        let annotations = new.metadata.annotations.get_or_insert_default();
        match trigger {
            Some(time) => drop(annotations.insert(TRIGGER.to_owned(), time.to_string())),
            None => drop(annotations.remove(TRIGGER)),
        }
        match is_truncated {
            true => drop(annotations.insert(OVER_CAPACITY.to_owned(), "truncated".to_owned())),
            false => drop(annotations.remove(OVER_CAPACITY)),
        }
        if let Some(current) = current.filter(|current| **current == new) {
            // What cannot be stored otherwise, such as Endpoints that are cut, is not written again.
            tracing::trace!(name = meta::name(&*current), "unchanged");
            return Ok(Next::AwaitChange);
        }
        let written = match is_new {
            true => context.create(key, &new).await,
            false => context.replace(key, &new).await,
        };
        let Err(error) = written else { return Ok(Next::AwaitChange) };
        if is_new && is_namespace_ending(&error) {
            return Ok(Next::AwaitChange);
        }
        let text = Error::text(&error);
        let (reason, note) = match is_new {
            true => {
                ("FailedToCreateEndpoint", format!("Failed to create endpoint for service {key}: {text}"))
            }
            false => ("FailedToUpdateEndpoint", format!("Failed to update endpoint {key}: {text}")),
        };
        context.event(&new, EventType::Warning, reason, reason, note);
        Err(error.into())
    }
}

//! Index of selectors by a label: which Services or budgets select a Pod, without walking all of them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Resource;
use settled_controller::ObjectKey;
use settled_controller::cache::Change;

use crate::meta;
use crate::selector::Labels;

/// A namespace, a label and its value. Without a label: selectors of expressions only.
type Pair = (String, String, String);

/// Objects by the first label that their selectors ask for.
#[derive(Debug, Default)]
pub(crate) struct SelectorIndex(Mutex<HashMap<Pair, BTreeSet<String>>>);

/// The labels that a Service selects; nothing if it selects none.
pub(crate) fn service_selector(service: &Service) -> Option<&Labels> {
    service.spec.as_ref()?.selector.as_ref().filter(|selector| !selector.is_empty())
}

fn pair(object: &impl Resource, labels: Option<&Labels>) -> Pair {
    let first = labels.and_then(|labels| labels.first_key_value());
    let (key, value) = first.map(|(key, value)| (key.clone(), value.clone())).unwrap_or_default();
    (meta::namespace(object).to_owned(), key, value)
}

fn service_pair(service: &Arc<Service>) -> Option<Pair> {
    Some(pair(&**service, Some(service_selector(service)?)))
}

fn budget_pair(budget: &Arc<PodDisruptionBudget>) -> Option<Pair> {
    let selector = budget.spec.as_ref()?.selector.as_ref()?;
    Some(pair(&**budget, selector.match_labels.as_ref()))
}

impl SelectorIndex {
    /// Follows a change of a Service.
    pub(crate) fn service(&self, change: &Change<Service>) {
        self.apply(
            &change.key,
            change.old.as_ref().and_then(service_pair),
            change.new.as_ref().and_then(service_pair),
        );
    }

    /// Follows a change of a budget.
    pub(crate) fn budget(&self, change: &Change<PodDisruptionBudget>) {
        self.apply(
            &change.key,
            change.old.as_ref().and_then(budget_pair),
            change.new.as_ref().and_then(budget_pair),
        );
    }

    fn apply(&self, key: &ObjectKey, old: Option<Pair>, new: Option<Pair>) {
        let mut index = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pair) = old
            && let Some(names) = index.get_mut(&pair)
        {
            names.remove(&*key.name);
            if names.is_empty() {
                index.remove(&pair);
            }
        }
        if let Some(pair) = new {
            index.entry(pair).or_default().insert(key.name.to_string());
        }
    }

    /// The objects that may select a Pod with these labels: the first label that they ask for is among them.
    pub(crate) fn candidates(&self, pod: &Pod) -> Vec<ObjectKey> {
        let namespace = meta::namespace(pod);
        let index = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let labels = pod.metadata.labels.iter().flatten().map(|(key, value)| (key.clone(), value.clone()));
        let pairs = labels.chain([(String::new(), String::new())]);
        let found = pairs.filter_map(|(key, value)| index.get(&(namespace.to_owned(), key, value)));
        found.flatten().map(|name| ObjectKey::new(namespace, name)).collect()
    }
}

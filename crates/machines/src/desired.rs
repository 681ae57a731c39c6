//! What a Machine asks a provider for: its configuration, and the request with the names of its Cluster.

use serde_json::Value;

use crate::provider::{ConfigError, Desired};
use crate::types::{CLUSTER_LABEL, Cluster, MachineSpec, ProviderSpec};

/// The configuration of a Machine: its own, or that of the class that it names.
pub(crate) fn configuration(
    spec: &ProviderSpec,
    class: impl FnOnce(&str) -> Option<Value>,
) -> Result<Value, ConfigError> {
    match (&spec.value, &spec.value_from) {
        (Some(value), _) => Ok(value.clone()),
        (None, Some(source)) => {
            let name = &source.machine_class.name;
            class(name).ok_or_else(|| ConfigError::NoClass(name.clone()))
        }
        (None, None) => Err(ConfigError::Missing),
    }
}

/// What a Machine with this spec asks for.
pub(crate) fn desired(
    namespace: &str,
    name: &str,
    spec: &MachineSpec,
    cluster: Option<&Cluster>,
    config: Value,
) -> Desired {
    let mut labels = spec.metadata.labels.clone();
    if let Some(name) = &spec.cluster_name {
        labels.insert(CLUSTER_LABEL.to_owned(), name.clone());
    }
    let endpoint = cluster.and_then(|cluster| cluster.status.as_ref()?.api_endpoints.first().cloned());
    Desired {
        versions: spec.versions.clone(),
        config,
        node_name: name.to_owned(),
        cluster: spec.cluster_name.as_ref().map(|name| format!("{namespace}/{name}")).unwrap_or_default(),
        endpoint,
        labels,
        taints: spec.taints.clone(),
    }
}

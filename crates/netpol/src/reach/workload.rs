//! Names of workloads from the names and labels that their controllers give to pods.

use std::fmt;
use std::sync::Arc;

use crate::cluster::Pod;

/// A workload: pods of a namespace with a common controller, or a single pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Workload {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Workload {
    /// The workload of a pod: of a Deployment by `pod-template-hash`, of a StatefulSet or DaemonSet by
    /// `controller-revision-hash`, of a Job by `batch.kubernetes.io/job-name`; otherwise the pod itself.
    #[must_use]
    pub fn of(pod: &Pod) -> Self {
        let label = |key: &str| pod.labels.get(key).map(AsRef::as_ref);
        let name = &*pod.name;
        let workload = if let Some(hash) = label("pod-template-hash") {
            // web-6d4cf56db6-x7k2p
            name.rsplit_once('-').and_then(|(set, _)| set.strip_suffix(hash)?.strip_suffix('-'))
        } else if label("controller-revision-hash").is_some() {
            // db-0, agent-x7k2p
            name.rsplit_once('-').map(|(workload, _)| workload)
        } else {
            label("batch.kubernetes.io/job-name").or_else(|| label("job-name"))
        };
        let name = match workload {
            Some(workload) if !workload.is_empty() => workload.into(),
            _ => Arc::clone(&pod.name),
        };
        Self { namespace: Arc::clone(&pod.namespace), name }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Labels;

    fn workload(name: &str, labels: &[(&str, &str)]) -> String {
        let labels: Labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let pod = Pod {
            namespace: "shop".into(),
            name: name.into(),
            labels,
            addresses: Vec::new(),
            ports: Vec::new(),
            host_network: false,
            owned: true,
            node: None,
            finished: false,
        };
        Workload::of(&pod).to_string()
    }

    #[test]
    fn controllers_name_their_pods() {
        assert_eq!(workload("web-6d4cf56db6-x7k2p", &[("pod-template-hash", "6d4cf56db6")]), "shop/web");
        assert_eq!(workload("db-0", &[("controller-revision-hash", "db-5f")]), "shop/db");
        assert_eq!(workload("load-x7k2p", &[("batch.kubernetes.io/job-name", "load")]), "shop/load");
        assert_eq!(workload("debug", &[]), "shop/debug");
        assert_eq!(workload("renamed", &[("pod-template-hash", "6d4cf56db6")]), "shop/renamed");
    }
}

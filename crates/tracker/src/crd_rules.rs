//! Rules in annotations of CRDs of the cluster.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use settled_rules::RuleSet;
use settled_watch::{Cluster, PARTIAL, Resource, Verb};
use tokio::sync::OnceCell;

/// How long a CRD is waited for: without it, its kind is evaluated as any other.
const ANSWER_MAX: Duration = Duration::from_secs(3);
/// The groups with a dot in their names that are Kubernetes' own: their kinds have no CRDs.
const BUILTIN_GROUPS: &[&str] = &[
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "metrics.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// The rules of CRDs, each read once.
#[derive(Debug, Default)]
pub(crate) struct CrdRules {
    asked: Mutex<HashMap<String, Arc<OnceCell<()>>>>,
}

impl CrdRules {
    /// Adds the rule of a kind's CRD to the rules. Only the first call for a kind asks; the others wait for its answer.
    pub(crate) async fn learn(&self, cluster: &Cluster, resource: &Resource, rules: &RuleSet) {
        if !resource.group.contains('.') || BUILTIN_GROUPS.contains(&&*resource.group) {
            return;
        }
        let name = format!("{}.{}", resource.plural, resource.group);
        let asked = {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(asked.entry(name.clone()).or_default())
        };
        let once = asked.get_or_init(|| async {
            let asking = annotations(cluster, &name);
            if let Ok(Some(annotations)) = tokio::time::timeout(ANSWER_MAX, asking).await {
                let definition = json!({
                    "apiVersion": "apiextensions.k8s.io/v1",
                    "kind": "CustomResourceDefinition",
                    "metadata": {"name": name, "annotations": annotations},
                    "spec": {"group": &*resource.group, "names": {"kind": &*resource.kind}},
                });
                // What cannot be read is no rule; `settled rules test` reports its errors to its author.
                rules.add_definition(&name, &definition.to_string()).ok();
            }
        });
        once.await;
    }
}

/// The annotations of a CRD, if it has some and they may be read.
async fn annotations(cluster: &Cluster, name: &str) -> Option<Value> {
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    let bytes = cluster.fetch(Verb::Get, Method::GET, &path, PARTIAL, None).await.ok()?;
    let mut definition: Value = serde_json::from_slice(&bytes).ok()?;
    let annotations = definition.get_mut("metadata")?.get_mut("annotations")?.take();
    annotations.is_object().then_some(annotations)
}

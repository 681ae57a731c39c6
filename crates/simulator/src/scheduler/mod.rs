//! Scheduler: binds Pods to Nodes.

pub(crate) mod affinity;
pub(crate) mod taints;

use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, PostParams};
use kube::runtime::events::EventType;
use settled_controller::ObjectKey;
use settled_controller::worker::Next;

use crate::controller::{Context, Controller, Error};
use crate::informers::{AnyChange, Informers};
use crate::meta;

/// The scheduler.
pub(crate) struct Scheduler;

impl Scheduler {
    pub(crate) const fn new() -> Self {
        Self
    }
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

impl Controller for Scheduler {
    const NAME: &'static str = "default-scheduler";
    const WORKERS: usize = 1;

    fn wake(&self, change: &AnyChange, _: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::Pod(change) if change.new.as_deref().is_some_and(|pod| node_of(pod).is_none()) => {
                vec![change.key.clone()]
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Some(pod) = context.informers.pods.get(key) else { return Ok(Next::AwaitChange) };
        if node_of(&pod).is_some() || meta::is_deleting(&*pod) {
            return Ok(Next::AwaitChange);
        }
        let nodes = context.informers.nodes.state();
        let least = nodes.iter().min_by_key(|node| {
            let name = meta::name(&***node);
            let pods = context.informers.pods.indexed(crate::informers::NODE, name).unwrap_or_default();
            (pods.len(), name.to_owned())
        });
        let Some(node) = least else {
            return Ok(Next::AwaitChange);
        };
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(key.name.to_string()),
                namespace: Some(key.namespace.to_string()),
                uid: pod.metadata.uid.clone(),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                kind: Some("Node".to_owned()),
                name: node.metadata.name.clone(),
                ..ObjectReference::default()
            },
        };
        let api: Api<Pod> = Api::namespaced(context.client.clone(), &key.namespace);
        let _status: serde_json::Value =
            api.create_subresource("binding", &key.name, &PostParams::default(), &binding).await?;
        let note = format!("Successfully assigned {key} to {}", meta::name(&**node));
        context.event(&*pod, EventType::Normal, "Scheduled", "Binding", note);
        Ok(Next::AwaitChange)
    }
}

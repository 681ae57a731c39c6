//! Deployments: a ReplicaSet for each template, and the way from one to the next.

use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::runtime::events::EventType;
use settled_controller::ObjectKey;
use settled_controller::status::StatusWriter;
use settled_controller::worker::Next;

use crate::controller::{Context, Controller, Error, Shared};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::workloads::hash::template_hash;

/// The label that tells the ReplicaSets of a Deployment apart.
const HASH: &str = "pod-template-hash";

/// The controller of Deployments.
pub(crate) struct Deployments {
    status: StatusWriter<Deployment>,
}

impl Deployments {
    pub(crate) fn new(shared: &Shared) -> Self {
        Self { status: Context::status_writer(&shared.client, &shared.clock, Self::NAME) }
    }
}

impl Controller for Deployments {
    const NAME: &'static str = "deployment-controller";

    fn wake(&self, change: &AnyChange, _: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::Deployment(change) => vec![change.key.clone()],
            AnyChange::ReplicaSet(change) => {
                let sets = change.new.iter().chain(&change.old);
                sets.filter_map(|set| meta::controller_key(&**set, "Deployment")).take(1).collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Some(deployment) = context.informers.deployments.get(key) else { return Ok(Next::AwaitChange) };
        let Some(spec) = &deployment.spec else { return Ok(Next::AwaitChange) };
        if meta::is_deleting(&*deployment) {
            return Ok(Next::AwaitChange);
        }
        let hash = template_hash(&spec.template, None);
        let name = format!("{}-{hash}", key.name);
        let sets = context.informers.replica_sets_of(meta::uid(&*deployment));
        let replicas = spec.replicas.unwrap_or(1);
        if !sets.iter().any(|set| meta::name(&**set) == name) {
            let mut template = spec.template.clone();
            let with_hash = |labels: &mut Option<std::collections::BTreeMap<String, String>>| {
                labels.get_or_insert_default().insert(HASH.to_owned(), hash.clone());
            };
            with_hash(&mut template.metadata.get_or_insert_default().labels);
            let mut selector: LabelSelector = spec.selector.clone();
            with_hash(&mut selector.match_labels);
            let new = ReplicaSet {
                metadata: ObjectMeta {
                    name: Some(name.clone()),
                    namespace: deployment.metadata.namespace.clone(),
                    labels: template.metadata.as_ref().and_then(|meta| meta.labels.clone()),
                    owner_references: Some(vec![meta::controller_reference(&*deployment)]),
                    ..ObjectMeta::default()
                },
                spec: Some(ReplicaSetSpec {
                    replicas: Some(replicas),
                    selector,
                    template: Some(template),
                    ..ReplicaSetSpec::default()
                }),
                status: None,
            };
            context.create(key, &new).await?;
            let note = format!("Scaled up replica set {name} from 0 to {replicas}");
            context.event(&*deployment, EventType::Normal, "ScalingReplicaSet", "ScalingReplicaSet", note);
        }
        let sum = |of: &dyn Fn(&ReplicaSet) -> i32| sets.iter().map(|set| of(set)).sum::<i32>();
        let status = |set: &ReplicaSet| set.status.clone().unwrap_or_default();
        let updated = sets.iter().find(|set| meta::name(&***set) == name).map(|set| status(set).replicas);
        let available = sum(&|set| status(set).available_replicas.unwrap_or_default());
        let status = DeploymentStatus {
            observed_generation: deployment.metadata.generation,
            replicas: Some(sum(&|set| status(set).replicas)),
            updated_replicas: Some(updated.unwrap_or_default()),
            ready_replicas: Some(sum(&|set| status(set).ready_replicas.unwrap_or_default())),
            available_replicas: Some(available),
            unavailable_replicas: Some((replicas - available).max(0)),
            ..DeploymentStatus::default()
        };
        context.write_status(key, &self.status, &deployment, &status).await?;
        Ok(Next::AwaitChange)
    }
}

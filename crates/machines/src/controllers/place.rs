//! Place of the Node of a Machine: the API server of the Machine, or that of its Cluster.

use std::sync::Arc;

use kube::api::{Api, DeleteParams, EvictParams, Patch, PatchParams, Preconditions};
use kube::{Client, Resource as _};
use serde_json::Value;
use settled_controller::ObjectKey;

use super::controller::{Context, Error, REMOTE_TIMEOUT};
use super::meta::{self, is_code};
use super::remote::{Reach, Remote};
use crate::small::{Node, Pod};
use crate::types::{Machine, kubeconfig_secret};

/// Where the Node of a Machine is.
pub(super) enum Place {
    /// On the API server of the Machine.
    Same,
    /// On that of its Cluster.
    Remote(ObjectKey, Arc<Remote>),
    /// On one that does not answer.
    Unreachable(String),
}

impl Place {
    /// The place of the Node of a Machine.
    pub(super) fn of(machine: &Machine, context: &Context) -> Self {
        let informers = &*context.informers;
        let Some(name) = &machine.spec.cluster_name else { return Self::Same };
        let namespace = meta::namespace(machine);
        let cluster = ObjectKey::new(namespace, name);
        let secret = informers.secrets.get(ObjectKey::new(namespace, &kubeconfig_secret(name)));
        if secret.is_none() || informers.clusters.get(&cluster).is_none() {
            return Self::Same;
        }
        let remote = context.remotes.get(&cluster);
        match remote.as_ref().map_or(Reach::Connecting, |remote| remote.reach()) {
            Reach::Connected => match remote {
                Some(remote) => Self::Remote(cluster, remote),
                None => Self::Same,
            },
            Reach::Connecting => Self::Unreachable(
                "the connection to the API server of the cluster is being opened".to_owned(),
            ),
            Reach::Lost(error) => {
                Self::Unreachable(format!("the API server of the cluster does not answer: {error}"))
            }
        }
    }

    /// The Node of a host, or the one that says that it is of the Machine.
    pub(super) fn node_of(
        &self,
        machine: &Machine,
        provider_id: Option<&str>,
        context: &Context,
    ) -> Option<Arc<Node>> {
        match self {
            Self::Same => context.informers.node_of(machine, provider_id),
            Self::Remote(_, remote) => remote.node_of(&meta::key(machine), provider_id),
            Self::Unreachable(_) => None,
        }
    }

    /// The Pods on a Node, by name.
    pub(super) fn pods_on(&self, node: &Node, context: &Context) -> Vec<Arc<Pod>> {
        match self {
            Self::Same => context.informers.pods_on(node),
            Self::Remote(_, remote) => remote.pods_on(node),
            Self::Unreachable(_) => Vec::new(),
        }
    }

    /// Why Nodes are not known.
    pub(super) fn problem(&self) -> Option<&str> {
        match self {
            Self::Same | Self::Remote(..) => None,
            Self::Unreachable(message) => Some(message),
        }
    }

    /// Changes a Node by a merge patch, unless it was written since it was read.
    pub(super) async fn patch(
        &self,
        key: &ObjectKey,
        node: &Node,
        mut patch: Value,
        context: &Context,
    ) -> Result<(), Error> {
        let Self::Remote(cluster, remote) = self else {
            return Ok(context.patch_global(key, node, patch).await?);
        };
        if let Some(patch) = patch.as_object_mut() {
            let metadata = patch.entry("metadata").or_insert_with(|| Value::Object(serde_json::Map::new()));
            metadata["uid"] = meta::uid(node).into();
            metadata["resourceVersion"] = node.meta().resource_version.clone().unwrap_or_default().into();
        }
        answered(cluster, remote, async |client| {
            let nodes: Api<Node> = Api::all(client);
            nodes.patch(meta::name(node), &PatchParams::default(), &Patch::Merge(&patch)).await.map(drop)
        })
        .await
    }

    /// Deletes a Node, unless it was replaced by another one of its name.
    pub(super) async fn delete(&self, key: &ObjectKey, node: &Node, context: &Context) -> Result<(), Error> {
        let Self::Remote(cluster, remote) = self else {
            return Ok(context.delete_global(key, node).await?);
        };
        answered(cluster, remote, async |client| delete_node(client, node).await).await
    }

    /// Evicts Pods. Budgets may refuse it.
    pub(super) async fn evict(&self, pods: &[(String, String)], context: &Context) -> Result<(), Error> {
        let Self::Remote(cluster, remote) = self else {
            return Ok(evict(context.client.clone(), pods).await?);
        };
        answered(cluster, remote, async |client| evict(client, pods).await).await
    }
}

/// Deletes a Node, unless it was replaced by another one of its name. Gone is fine.
pub(super) async fn delete_node(client: Client, node: &Node) -> Result<(), kube::Error> {
    let nodes: Api<Node> = Api::all(client);
    let preconditions = Preconditions { uid: Some(meta::uid(node).to_owned()), resource_version: None };
    let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match nodes.delete(meta::name(node), &parameters).await {
        Err(error) if !is_code(&error, 404) && !is_code(&error, 409) => Err(error),
        _ => Ok(()),
    }
}

async fn evict(client: Client, pods: &[(String, String)]) -> Result<(), kube::Error> {
    for (namespace, name) in pods {
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        match api.evict(name, &EvictParams::default()).await {
            // Gone, or its budget permits no disruption now.
            Err(error) if !is_code(&error, 404) && !is_code(&error, 429) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Performs a request on the API server of a Cluster, which must answer in time.
async fn answered(
    cluster: &ObjectKey,
    remote: &Remote,
    request: impl AsyncFnOnce(Client) -> Result<(), kube::Error>,
) -> Result<(), Error> {
    let Some(client) = remote.client().cloned() else { return Ok(()) };
    match tokio::time::timeout(REMOTE_TIMEOUT, request(client)).await {
        Ok(result) => Ok(result?),
        Err(_) => Err(Error::Unanswered(cluster.clone())),
    }
}

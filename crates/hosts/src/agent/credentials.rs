//! Credentials of agents: an identity for each Node, and roles that let it write its own Node, Lease and Host status, and nothing else.
//!
//! Roles name the objects, so that no authorizer of its own is needed. A request that creates an object has no name that RBAC could compare, except
//! server-side apply, where the name is in the path: agents register by it.

use std::fmt;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Api, Client};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use settled_machines::provider::Desired;
use settled_machines::types::ApiEndpoint;

/// Namespace of the Leases of Nodes.
pub(crate) const LEASES: &str = "kube-node-lease";
const MANAGER: &str = "settled-hosts";

/// A Host.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct HostRef {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Whom credentials are for.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Grant {
    /// Name of the Node.
    pub node: String,
    /// Its Host, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostRef>,
    /// Its Cluster, `NAMESPACE/NAME`; empty if it is of none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cluster: String,
    /// Where the control plane is served, if its Cluster has an endpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<ApiEndpoint>,
}

impl Grant {
    /// For the Node of a Machine whose host is of no pool.
    #[must_use]
    pub fn of(desired: &Desired) -> Self {
        Self {
            node: desired.node_name.clone(),
            host: None,
            cluster: desired.cluster.clone(),
            endpoint: desired.endpoint.clone(),
        }
    }

    /// The user, as kubelets are called.
    #[must_use]
    pub fn user(&self) -> String {
        format!("system:node:{}", self.node)
    }

    /// The group of kubelets.
    pub const GROUP: &'static str = "system:nodes";

    /// Roles and bindings that let the agent write its own Node, Lease and Host status.
    #[must_use]
    pub fn objects(&self) -> Vec<Value> {
        let own = |group: &str, resources: &[&str], verbs: &[&str], name: &str| json!({"apiGroups": [group], "resources": resources, "resourceNames": [name], "verbs": verbs});
        let mut objects = Vec::new();
        let node = vec![
            own("", &["nodes"], &["get", "create", "patch"], &self.node),
            own("", &["nodes/status"], &["patch"], &self.node),
        ];
        self.role(&mut objects, None, node);
        let lease = own("coordination.k8s.io", &["leases"], &["get", "create", "patch"], &self.node);
        self.role(&mut objects, Some(LEASES), vec![lease]);
        if let Some(host) = &self.host {
            let group = "cluster.settled.dev";
            let rules = vec![
                own(group, &["hosts"], &["get"], &host.name),
                own(group, &["hosts/status"], &["get", "patch"], &host.name),
            ];
            self.role(&mut objects, Some(&host.namespace), rules);
        }
        objects
    }

    fn role(&self, objects: &mut Vec<Value>, namespace: Option<&str>, rules: Vec<Value>) {
        let name = format!("settled:node:{}", self.node);
        let kind = if namespace.is_some() { "Role" } else { "ClusterRole" };
        let mut metadata = json!({"name": name, "labels": {"cluster.settled.dev/node-agent": "true"}});
        if let Some(namespace) = namespace {
            metadata["namespace"] = namespace.into();
        }
        let group = "rbac.authorization.k8s.io";
        let version = format!("{group}/v1");
        objects.push(json!({"apiVersion": version, "kind": kind, "metadata": metadata, "rules": rules}));
        objects.push(json!({
            "apiVersion": version, "kind": format!("{kind}Binding"), "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": kind, "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": self.user()}],
        }));
    }
}

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The API server refused, or could not be reached.
    #[error("cannot write the roles of the node: {0}")]
    Request(#[from] kube::Error),
    /// The API server of the Cluster is not one that credentials can be made for, and why.
    #[error("cannot make credentials for Cluster {cluster}: {reason}")]
    NoServer {
        /// The Cluster.
        cluster: String,
        /// Why.
        reason: String,
    },
    /// The credentials cannot be made.
    #[error("cannot make credentials: {0}")]
    Sign(Box<dyn std::error::Error + Send + Sync>),
}

/// Who gives agents their credentials.
pub trait Credentials: Send + Sync + 'static {
    /// Grants a Node what its agent needs. The kubeconfig of the agent.
    fn issue<'a>(&'a self, grant: &'a Grant) -> BoxFuture<'a, Result<String, CredentialsError>>;

    /// Takes it back. Done if there is nothing.
    fn revoke<'a>(&'a self, grant: &'a Grant) -> BoxFuture<'a, Result<(), CredentialsError>>;
}

type Sign = dyn Fn(&Grant) -> Result<String, Box<dyn std::error::Error + Send + Sync>> + Send + Sync;

/// Credentials that a function signs, with roles on an API server.
#[derive(Clone)]
pub struct Signed {
    client: Client,
    sign: Arc<Sign>,
}

impl fmt::Debug for Signed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Signed").finish_non_exhaustive()
    }
}

impl Signed {
    /// Roles are written by this client; the function makes a kubeconfig for [`Grant::user`] in [`Grant::GROUP`].
    pub fn new(
        client: Client,
        sign: impl Fn(&Grant) -> Result<String, Box<dyn std::error::Error + Send + Sync>> + Send + Sync + 'static,
    ) -> Self {
        Self { client, sign: Arc::new(sign) }
    }

    fn api(&self, object: &DynamicObject) -> Api<DynamicObject> {
        let kind = object.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
        let kind = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", &kind);
        let resource = ApiResource::from_gvk(&kind);
        match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }
}

fn objects(grant: &Grant) -> Vec<DynamicObject> {
    grant.objects().into_iter().filter_map(|object| serde_json::from_value(object).ok()).collect()
}

impl Credentials for Signed {
    fn issue<'a>(&'a self, grant: &'a Grant) -> BoxFuture<'a, Result<String, CredentialsError>> {
        async move {
            for object in objects(grant) {
                let name = object.metadata.name.clone().unwrap_or_default();
                let parameters = PatchParams::apply(MANAGER).force();
                self.api(&object).patch(&name, &parameters, &Patch::Apply(&object)).await?;
            }
            (self.sign)(grant).map_err(CredentialsError::Sign)
        }
        .boxed()
    }

    fn revoke<'a>(&'a self, grant: &'a Grant) -> BoxFuture<'a, Result<(), CredentialsError>> {
        async move {
            // Bindings first: without its role, one grants nothing.
            for object in objects(grant).iter().rev() {
                let name = object.metadata.name.clone().unwrap_or_default();
                match self.api(object).delete(&name, &DeleteParams::default()).await {
                    Ok(_) => {}
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        }
        .boxed()
    }
}

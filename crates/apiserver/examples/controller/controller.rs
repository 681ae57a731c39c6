//! A controller as one writes it with kube-rs: it runs web applications.
//!
//! A `WebApp` becomes a Deployment beside it, and a route in the namespace `routes`. The Deployment is owned: it goes with
//! the `WebApp`. Owner references don't reach into other namespaces, so a finalizer takes the route away.
//!
//! Nothing in here knows that it is tested: it is given a client.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What keeps a `WebApp` until its route is gone.
pub const FINALIZER: &str = "example.com/route";
/// Who owns the fields that are applied.
pub const MANAGER: &str = "webapp-controller";
/// Where the routes are.
pub const ROUTES: &str = "routes";

/// A web application.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.com",
    version = "v1",
    kind = "WebApp",
    namespaced,
    status = "WebAppStatus",
    shortname = "wa",
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas")
)]
#[serde(rename_all = "camelCase")]
pub struct WebAppSpec {
    /// The image to run.
    pub image: String,
    /// How often.
    #[schemars(range(min = 0, max = 100))]
    pub replicas: i32,
    /// The name in the network.
    pub host: String,
}

/// How far it is.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebAppStatus {
    /// The generation that this is about.
    pub observed_generation: Option<i64>,
    /// How many replicas serve.
    pub ready_replicas: i32,
}

/// Why an application cannot be brought to what it should be. It is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused something.
    #[error(transparent)]
    Kube(#[from] kube::Error),
    /// Reconciling failed, or the finalizer could not be put or taken off.
    #[error(transparent)]
    Finalizer(#[from] Box<kube::runtime::finalizer::Error<Self>>),
}

/// Runs until shutdown is requested.
pub async fn run(
    client: Client,
    config: watcher::Config,
    stop: impl Future<Output = ()> + Send + Sync + 'static,
) {
    Controller::new(Api::<WebApp>::all(client.clone()), config.clone())
        .owns(Api::<Deployment>::all(client.clone()), config)
        .graceful_shutdown_on(stop)
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), Arc::new(client))
        // A real one logs what went wrong.
        .for_each(|_| std::future::ready(()))
        .await;
}

async fn reconcile(app: Arc<WebApp>, client: Arc<Client>) -> Result<Action, Error> {
    let client = client.as_ref().clone();
    let apps = Api::namespaced(client.clone(), &app.namespace().unwrap_or_default());
    let reconciled = finalizer(&apps, FINALIZER, app, |event| async {
        match event {
            Event::Apply(app) => apply(client, &app).await,
            Event::Cleanup(app) => clean_up(client, &app).await,
        }
    });
    Ok(reconciled.await.map_err(Box::new)?)
}

/// The name of an application's route: those of all namespaces are in one.
pub fn route_name(app: &WebApp) -> String {
    format!("{}.{}", app.name_any(), app.namespace().unwrap_or_default())
}

async fn apply(client: Client, app: &WebApp) -> Result<Action, Error> {
    let (name, namespace) = (app.name_any(), app.namespace().unwrap_or_default());
    let ours = PatchParams::apply(MANAGER).force();

    let labels = json!({"app": name});
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels, "ownerReferences": [app.controller_owner_ref(&())]},
        "spec": {
            "replicas": app.spec.replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": app.spec.image}]},
            },
        },
    });
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &namespace);
    let deployment = deployments.patch(&name, &ours, &Patch::Apply(deployment)).await?;

    let route = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": route_name(app)},
        "data": {"host": app.spec.host},
    });
    let routes: Api<ConfigMap> = Api::namespaced(client.clone(), ROUTES);
    routes.patch(&route_name(app), &ours, &Patch::Apply(route)).await?;

    let ready = deployment.status.and_then(|status| status.ready_replicas).unwrap_or_default();
    let status = WebAppStatus { observed_generation: app.metadata.generation, ready_replicas: ready };
    if app.status.as_ref() != Some(&status) {
        let patch = json!({"apiVersion": "example.com/v1", "kind": "WebApp", "status": status});
        let apps: Api<WebApp> = Api::namespaced(client, &namespace);
        apps.patch_status(&name, &ours, &Patch::Apply(patch)).await?;
    }
    Ok(Action::await_change())
}

async fn clean_up(client: Client, app: &WebApp) -> Result<Action, Error> {
    let routes: Api<ConfigMap> = Api::namespaced(client, ROUTES);
    match routes.delete(&route_name(app), &DeleteParams::default()).await {
        Ok(_) => Ok(Action::await_change()),
        // Another write was faster.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Action::await_change()),
        Err(error) => Err(error.into()),
    }
}

//! A controller that runs a website as a Deployment, twice: once it reports its status as it comes to mind, and once with the kit.
//!
//! Both apply the Deployment with server-side apply in each reconcile, and are woken by changes of the Website and of the Deployment.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use settled_controller::Clock;
use settled_controller::conditions::{Child, ConditionType, Conditions, Finding, crd, mirror};
use settled_controller::status::{StatusWriter, WriteError};
use tokio::sync::watch;

/// Who owns the fields that are applied.
pub const MANAGER: &str = "website-controller";

/// A website.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Website", namespaced, status = "WebsiteStatus")]
pub struct WebsiteSpec {
    /// The image to run.
    pub image: String,
}

/// How far it is.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub struct WebsiteStatus {
    /// What is known of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "crd::schema_with::<WebsiteCondition>")]
    pub conditions: Vec<Condition>,
}

/// What the controller reports.
#[derive(ConditionType, Clone, Copy, Debug)]
pub enum WebsiteCondition {
    /// The Deployment serves the site.
    Available,
}

/// Why a website cannot be brought to what it should be. It is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused something.
    #[error(transparent)]
    Kube(#[from] kube::Error),
    /// The status was not written.
    #[error(transparent)]
    Status(#[from] WriteError),
}

/// How the controller reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reporting {
    /// Each reconcile writes what it found.
    Naive,
    /// With the kit.
    Kit,
}

/// What a reconcile needs.
pub struct Context {
    /// The cluster.
    pub client: Client,
    /// The time of day.
    pub clock: Clock,
    /// How the controller reports.
    pub reporting: Reporting,
    /// What the kit reports with.
    pub writer: StatusWriter<Website>,
    /// How many reconciles there were.
    pub reconciles: watch::Sender<u64>,
}

/// Runs until shutdown is requested.
pub async fn run(context: Context, stop: impl Future<Output = ()> + Send + Sync + 'static) {
    let client = context.client.clone();
    Controller::new(Api::<Website>::all(client.clone()), watcher::Config::default())
        .owns(Api::<Deployment>::all(client), watcher::Config::default())
        .graceful_shutdown_on(stop)
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(5)), Arc::new(context))
        // A real one logs what went wrong.
        .for_each(|_| std::future::ready(()))
        .await;
}

async fn reconcile(website: Arc<Website>, context: Arc<Context>) -> Result<Action, Error> {
    context.reconciles.send_modify(|count| *count += 1);
    let deployment = apply(&website, &context.client).await?;
    let child = Child::new(format!("Deployment/{}", deployment.name_any()), &conditions_of(&deployment))
        .generation(deployment.metadata.generation)
        .observed_generation(deployment.status.as_ref().and_then(|status| status.observed_generation));
    let available = mirror(&child, "Available");
    match context.reporting {
        Reporting::Naive => report_naively(&website, &context, available).await?,
        Reporting::Kit => {
            let outcome = context.writer.write(&website, |website| {
                let observed = website.status.clone().unwrap_or_default();
                let mut conditions =
                    Conditions::new(&observed.conditions, website.metadata.generation, &context.clock);
                conditions.report(WebsiteCondition::Available, available.clone());
                Ok(WebsiteStatus { conditions: conditions.finish()? })
            });
            outcome.await?;
        }
    }
    Ok(Action::await_change())
}

/// The mistake: each reconcile stamps the condition with its own time. The write changes the object, the change wakes the controller, and so on.
async fn report_naively(website: &Website, context: &Context, available: Finding) -> Result<(), kube::Error> {
    let condition = Condition {
        type_: "Available".to_owned(),
        status: available.status.to_string(),
        reason: available.reason,
        message: available.message,
        observed_generation: website.metadata.generation,
        last_transition_time: Time(context.clock.now()),
    };
    let patch = json!({"status": {"conditions": [condition]}});
    let websites: Api<Website> =
        Api::namespaced(context.client.clone(), &website.namespace().unwrap_or_default());
    websites.patch_status(&website.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}

fn conditions_of(deployment: &Deployment) -> Vec<k8s_openapi::api::apps::v1::DeploymentCondition> {
    deployment.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default()
}

async fn apply(website: &Website, client: &Client) -> Result<Deployment, kube::Error> {
    let (name, namespace) = (website.name_any(), website.namespace().unwrap_or_default());
    let labels = json!({"website": name});
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels, "ownerReferences": [website.controller_owner_ref(&())]},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": website.spec.image}]},
            },
        },
    });
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), &namespace);
    deployments.patch(&name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(deployment)).await
}

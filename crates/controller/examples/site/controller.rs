//! The controller of Sites: each becomes a ConfigMap.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Preconditions};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, Resource as _, ResourceExt as _};
use settled_controller::apply::{Applier, ApplyError};
use settled_controller::conditions::Conditions;
use settled_controller::decision::{Companion, CompanionLink};
use settled_controller::run::Runtime;
use settled_controller::status::{StatusWriter, WriteError};
use settled_controller::{Clock, WatchBackoff};

use super::kind::{Site, SiteCondition, SiteReason, SiteStatus};

/// The controller's name as field manager.
pub const MANAGER: &str = "site-controller";

/// Why a reconcile failed. It is tried again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The ConfigMap was not applied.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The status was not written.
    #[error(transparent)]
    Status(#[from] WriteError),
}

/// What reconciles share.
pub struct Context {
    client: Client,
    applier: Applier,
    status: StatusWriter<Site>,
    clock: Clock,
}

impl Context {
    /// The context of a controller that has just started: it remembers nothing.
    pub fn new(client: Client, clock: Clock) -> Self {
        // One attempt: what was published is for the spec that was read. After a conflict, the next reconcile does both anew.
        let status = StatusWriter::new(client.clone(), MANAGER).attempts(1).clock(clock.clone());
        Self { client, applier: Applier::new(MANAGER), status, clock }
    }
}

/// Runs until it is time to stop.
pub async fn run(runtime: Runtime) {
    let client = runtime.client.clone();
    let context = Context::new(runtime.client, runtime.clock);
    Controller::new(Api::<Site>::all(client.clone()), watcher::Config::default())
        .owns(Api::<ConfigMap>::all(client), watcher::Config::default())
        .trigger_backoff(WatchBackoff::default())
        .graceful_shutdown_on(runtime.shutdown.requested())
        .run(reconcile, |_, _, _| Action::requeue(Duration::from_secs(1)), Arc::new(context))
        .for_each(|_| std::future::ready(()))
        .await;
}

async fn reconcile(site: Arc<Site>, context: Arc<Context>) -> Result<Action, Error> {
    if site.metadata.deletion_timestamp.is_some() {
        // The garbage collector deletes the ConfigMap.
        return Ok(Action::await_change());
    }
    let published = publish(&site, &context).await;
    let decide = |site: &Site| Ok(status_of(site, published.as_ref(), &context.clock)?);
    context.status.write(&site, decide).await?;
    match published {
        // Reported: only a change of the Site, or of the ConfigMap, helps.
        Err(ApplyError::Conflict { .. }) | Ok(()) => Ok(Action::await_change()),
        // Reported: it may pass when others delete something, which wakes nobody here.
        Err(ApplyError::Denied { .. }) => Ok(Action::requeue(Duration::from_secs(30))),
        Err(error) => Err(error.into()),
    }
}

/// Brings about what the spec asks for, whatever it asked for before.
async fn publish(site: &Site, context: &Context) -> Result<(), ApplyError> {
    let name = site.name_any();
    let maps: Api<ConfigMap> = Api::namespaced(context.client.clone(), &site.namespace().unwrap_or_default());
    if site.spec.page.is_empty() {
        return withdraw(&maps, site, name).await;
    }
    let intent = ConfigMap {
        metadata: kube::api::ObjectMeta {
            name: Some(name.clone()),
            owner_references: site.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..Default::default()
        },
        data: Some([("index.html".to_owned(), site.spec.page.clone())].into()),
        ..Default::default()
    };
    context.applier.apply(&maps, &intent, None).await.map(drop)
}

/// Deletes the page, if it is there and of this Site.
async fn withdraw(maps: &Api<ConfigMap>, site: &Site, name: String) -> Result<(), ApplyError> {
    let refused = |source| ApplyError::Request { name: name.clone(), source: Box::new(source) };
    let Some(map) = maps.get_opt(&name).await.map_err(refused)? else { return Ok(()) };
    if Companion::link(site, &map) == CompanionLink::Foreign {
        return Ok(());
    }
    let parameters =
        DeleteParams::default().preconditions(Preconditions { uid: map.uid(), resource_version: None });
    match maps.delete(&name, &parameters).await {
        Ok(_) => Ok(()),
        // Another one is there by now, or none: both are as wanted.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(refused(error)),
    }
}

/// What is true of a Site now, and no more.
fn status_of(
    site: &Site,
    published: Result<&(), &ApplyError>,
    clock: &Clock,
) -> Result<SiteStatus, settled_controller::conditions::InvalidConditions> {
    let observed = site.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let mut conditions = Conditions::new(observed, site.metadata.generation, clock);
    match published {
        Ok(()) if site.spec.page.is_empty() => {
            conditions.set(SiteCondition::Published, false, SiteReason::EmptyPage, "spec.page is empty");
            conditions.stalled(SiteReason::EmptyPage, "set spec.page");
        }
        Ok(()) => {
            conditions.set(SiteCondition::Published, true, SiteReason::Stored, "");
        }
        Err(ApplyError::Conflict { message, .. }) => {
            conditions.set(SiteCondition::Published, false, SiteReason::Conflict, message);
            conditions.stalled(SiteReason::Conflict, "another manager owns the page");
        }
        Err(ApplyError::Denied { message, .. }) => {
            conditions.set(SiteCondition::Published, false, SiteReason::Denied, message);
        }
        // Nothing was found out: the condition is Unknown, and the reconcile is tried again.
        Err(_) => {}
    }
    Ok(SiteStatus { observed_generation: site.metadata.generation, conditions: conditions.finish()? })
}

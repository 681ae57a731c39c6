//! EndpointSlices: the addresses behind each Service, as kube-controller-manager keeps them.

pub(crate) mod legacy;
pub(crate) mod mirror;
pub(crate) mod plan;
mod services;
mod subsets;
mod trigger;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::events::EventType;
use settled_controller::ObjectKey;
use settled_controller::worker::Next;

use self::plan::{MANAGED_BY, MANAGER, Place, SERVICE_NAME, plan};
use self::services::{Found, Selecting, Services};
use crate::controller::{Context, Controller, Error};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::selector;

/// The label of a Node that says in which zone it is.
const ZONE: &str = "topology.kubernetes.io/zone";

/// The controller of EndpointSlices.
#[derive(Default)]
pub(crate) struct EndpointSlices {
    services: Services,
}

impl EndpointSlices {
    pub(crate) fn new() -> Self {
        Self::default()
    }
}

/// The Service of a slice that this controller manages.
fn service_of(slice: &EndpointSlice) -> Option<ObjectKey> {
    let label = |key| selector::label(slice.metadata.labels.as_ref(), key);
    let name = label(SERVICE_NAME).filter(|_| label(MANAGED_BY) == Some(MANAGER))?;
    Some(ObjectKey::new(meta::namespace(slice), name))
}

impl Controller for EndpointSlices {
    const NAME: &'static str = "endpoint-slice-controller";

    fn wake(&self, change: &AnyChange, _: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::EndpointSlice(change) => {
                let slices = change.new.iter().chain(&change.old);
                slices.filter_map(|slice| service_of(slice)).take(1).collect()
            }
            change => self.services.wake(change).unwrap_or_default(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Found::Selecting(Selecting { service, pods, trigger }) =
            self.services.find(key, &context.informers)
        else {
            return Ok(Next::AwaitChange);
        };
        let mut slices = context.informers.slices_with(&key.namespace, SERVICE_NAME, &key.name);
        slices.retain(|slice| service_of(slice).is_some() && !meta::is_deleting(&**slice));
        let place = |node: &str| match context.informers.nodes.get(ObjectKey::new("", node)) {
            Some(node) => {
                Place::Zone(selector::label(node.metadata.labels.as_ref(), ZONE).map(str::to_owned))
            }
            None => Place::Missing,
        };
        let plan = plan(&service, &pods, &slices, trigger, place);
        let written = async {
            for slice in &plan.create {
                context.create(key, slice).await?;
            }
            for slice in &plan.update {
                context.replace(key, slice).await?;
            }
            for slice in &plan.delete {
                context.delete(key, &**slice).await?;
            }
            Ok::<_, kube::Error>(())
        };
        let failed = match written.await {
            Err(error) if is_namespace_ending(&error) => return Ok(Next::AwaitChange),
            // Somebody else has written: not worth an Event, the next look decides anew.
            Err(error) if Error::is_code(&error, 409) => return Err(error.into()),
            Err(error) => Some(error.to_string()),
            Ok(()) => {
                let skipped = plan.skipped.iter().map(|pod| {
                    let node = pods.iter().find(|one| meta::name(&***one) == pod);
                    let node = node.and_then(|pod| pod.spec.as_ref()?.node_name.clone()).unwrap_or_default();
                    format!("skipping Pod {pod} for Service {key}: Node {node} Not Found")
                });
                let skipped: Vec<String> = skipped.collect();
                match skipped.as_slice() {
                    [] => None,
                    [only] => Some(only.clone()),
                    several => Some(format!("[{}]", several.join(", "))),
                }
            }
        };
        let Some(failed) = failed else { return Ok(Next::AwaitChange) };
        let note = format!("Error updating Endpoint Slices for Service {key}: {failed}");
        context.event(
            &*service,
            EventType::Warning,
            "FailedToUpdateEndpointSlices",
            "FailedToUpdateEndpointSlices",
            note,
        );
        Err(Error::Failed(failed))
    }
}

/// Is the namespace being deleted? Nothing is created in it any more.
fn is_namespace_ending(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403 && status.message.contains("because it is being terminated"))
}

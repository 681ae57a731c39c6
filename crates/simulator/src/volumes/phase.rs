//! Phases of volumes: available, bound, released; and what becomes of those whose claims are gone (`syncVolume`).

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::api::{DeleteParams, GetParams, Preconditions};
use serde_json::json;
use settled_controller::ObjectKey;
use settled_controller::status::StatusWriter;
use settled_controller::worker::Next;

use super::binder::with_time;
use super::matching::{self, BOUND_BY_CONTROLLER};
use super::provisioner::PROVISIONED_BY;
use crate::controller::{Context, Controller, Error, Shared};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::requests;
use crate::selector;

/// The controller of volumes.
pub(crate) struct VolumePhases {
    status: StatusWriter<PersistentVolume>,
}

/// What a volume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Available,
    Bound,
    /// Its claim is gone, or has another volume.
    Released,
    /// It was taken for a claim that has another volume.
    Unbind,
    /// The claim is still to be bound to it.
    Wait,
}

fn state(volume: &PersistentVolume, informers: &Informers) -> State {
    let Some(reference) = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) else {
        return State::Available;
    };
    let uid = reference.uid.as_deref().unwrap_or_default();
    if uid.is_empty() {
        return State::Available;
    }
    let key = ObjectKey::new(
        reference.namespace.as_deref().unwrap_or_default(),
        reference.name.as_deref().unwrap_or_default(),
    );
    match informers.claims.get(&key).filter(|claim| meta::uid(&**claim) == uid) {
        None => State::Released,
        Some(claim) => match matching::volume_name(&claim) {
            "" => State::Wait,
            name if name == meta::name(volume) => State::Bound,
            _ if policy(volume) == "Delete" && is_provisioned(volume) => State::Released,
            _ => State::Unbind,
        },
    }
}

fn policy(volume: &PersistentVolume) -> &str {
    let policy = volume.spec.as_ref().and_then(|spec| spec.persistent_volume_reclaim_policy.as_deref());
    policy.unwrap_or("Retain")
}

fn is_provisioned(volume: &PersistentVolume) -> bool {
    selector::label(volume.metadata.annotations.as_ref(), PROVISIONED_BY).is_some()
}

impl VolumePhases {
    pub(crate) fn new(shared: &Shared) -> Self {
        Self { status: Context::status_writer(&shared.client, &shared.clock, Self::NAME) }
    }

    async fn set(
        &self,
        key: &ObjectKey,
        volume: &PersistentVolume,
        phase: &str,
        context: &Context,
    ) -> Result<(), Error> {
        let mut status = volume.status.clone().unwrap_or_default();
        status.phase = Some(phase.to_owned());
        let status = with_time(status, volume, context);
        context.write_status(key, &self.status, volume, &status).await
    }
}

/// Does the server know the claim of a volume, though the cache does not show it?
async fn is_claimed(volume: &PersistentVolume, context: &Context) -> Result<bool, Error> {
    let Some(reference) = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref()) else {
        return Ok(false);
    };
    let namespace = reference.namespace.as_deref().unwrap_or_default();
    let name = reference.name.as_deref().unwrap_or_default();
    let request = requests::of::<PersistentVolumeClaim>(namespace).get(name, &GetParams::default());
    match requests::send(&context.client, request).await {
        Ok(claim) => Ok(requests::view(&claim)?.uid() == reference.uid.as_deref().unwrap_or_default()),
        Err(error) if Error::is_code(&error, 404) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Controller for VolumePhases {
    const NAME: &'static str = "persistentvolume-controller";

    fn wake(&self, change: &AnyChange, informers: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::PersistentVolume(change) => vec![change.key.clone()],
            AnyChange::PersistentVolumeClaim(change) => {
                let claims = || change.new.iter().chain(&change.old);
                let mut keys: Vec<_> = claims()
                    .map(|claim| matching::volume_name(claim))
                    .filter(|name| !name.is_empty())
                    .map(|name| ObjectKey::new("", name))
                    .collect();
                if change.new.is_none() {
                    let of_claim = |volume: &PersistentVolume| {
                        change.old.as_deref().is_some_and(|claim| matching::is_bound_to(volume, claim))
                    };
                    keys.extend(
                        informers.volumes.state_filter(of_claim).iter().map(|volume| meta::key(&**volume)),
                    );
                }
                keys.sort();
                keys.dedup();
                keys
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Some(volume) = context.informers.volumes.get(key) else { return Ok(Next::AwaitChange) };
        if meta::is_deleting(&*volume) {
            return Ok(Next::AwaitChange);
        }
        match state(&volume, &context.informers) {
            State::Available => self.set(key, &volume, "Available", context).await?,
            State::Bound => self.set(key, &volume, "Bound", context).await?,
            State::Wait => {}
            State::Unbind => {
                let by_controller =
                    selector::label(volume.metadata.annotations.as_ref(), BOUND_BY_CONTROLLER).is_some();
                let patch = match by_controller {
                    true => {
                        json!({"metadata": {"annotations": {BOUND_BY_CONTROLLER: null}}, "spec": {"claimRef": null}})
                    }
                    false => json!({"spec": {"claimRef": {"uid": null}}}),
                };
                context.patch(key, &*volume, patch).await?;
            }
            State::Released => {
                let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
                // A volume must not be given up because the watch of claims is late.
                if phase != Some("Released") && is_claimed(&volume, context).await? {
                    return Err(Error::Behind);
                }
                self.set(key, &volume, "Released", context).await?;
                if policy(&volume) == "Delete" {
                    let preconditions =
                        Preconditions { uid: volume.metadata.uid.clone(), resource_version: None };
                    let parameters =
                        DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
                    let request = requests::of::<PersistentVolume>("").delete(&key.name, &parameters);
                    match requests::send(&context.client, request).await {
                        Ok(_) => {}
                        Err(error) if Error::is_code(&error, 404) || Error::is_code(&error, 409) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
        Ok(Next::AwaitChange)
    }
}

//! Binder: claims get the volumes that fit them, or wait with the words of the persistent volume controller.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::api::core::v1::{
    PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimStatus, PersistentVolumeStatus, Pod,
};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::runtime::events::EventType;
use serde_json::{Value, json};
use settled_controller::ObjectKey;
use settled_controller::status::StatusWriter;
use settled_controller::worker::Next;

use super::class;
use super::matching::{self, BIND_COMPLETED, BOUND_BY_CONTROLLER, For, SELECTED_NODE};
use super::provisioner::PROVISIONER;
use crate::controller::{Context, Controller, Error, Shared};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::pod as pods;
use crate::scheduler::claim_names;

/// The annotation that [`PROVISIONER`] had before it was stable.
const PROVISIONER_BETA: &str = "volume.beta.kubernetes.io/storage-provisioner";

/// The controller of claims.
pub(crate) struct Binder {
    claims: StatusWriter<PersistentVolumeClaim>,
    volumes: StatusWriter<PersistentVolume>,
    /// The last Event of each claim: the same one is not recorded at each look.
    said: Mutex<HashMap<ObjectKey, String>>,
}

/// What is to be done with a claim.
#[derive(Debug)]
enum Step {
    /// Bind it to a volume.
    Bind(Arc<PersistentVolume>),
    /// Give it the default class.
    SetClass(String),
    /// Ask for a volume of its class.
    Provision(Arc<StorageClass>),
    /// It waits, and says why: type, reason and note.
    Wait(Option<(EventType, &'static str, String)>),
    /// It has lost its volume.
    Lose(&'static str, &'static str),
}

fn warning(reason: &'static str, note: String) -> Step {
    Step::Wait(Some((EventType::Warning, reason, note)))
}

fn normal(reason: &'static str, note: String) -> Step {
    Step::Wait(Some((EventType::Normal, reason, note)))
}

fn phase(claim: &PersistentVolumeClaim) -> &str {
    claim.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn claimed_by(volume: &PersistentVolume) -> Option<&k8s_openapi::api::core::v1::ObjectReference> {
    volume.spec.as_ref()?.claim_ref.as_ref()
}

/// `syncUnboundClaim` and `syncBoundClaim`.
fn step(claim: &PersistentVolumeClaim, informers: &Informers) -> Step {
    let name = matching::volume_name(claim);
    let is_bound = matching::has_annotation(claim, BIND_COMPLETED);
    if name.is_empty() {
        return match is_bound {
            true => Step::Lose(
                "ClaimLost",
                "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!",
            ),
            false => unbound(claim, informers),
        };
    }
    let Some(volume) = informers.volumes.get(ObjectKey::new("", name)) else {
        return match is_bound {
            true => Step::Lose(
                "ClaimLost",
                "Bound claim has lost its PersistentVolume. Data on the volume is lost!",
            ),
            false => Step::Wait(None),
        };
    };
    let Some(reference) = claimed_by(&volume) else {
        return match unsuitable(claim, &volume).filter(|_| !is_bound) {
            Some(why) => {
                warning("VolumeMismatch", format!("Cannot bind to requested volume {name:?}: {why}"))
            }
            None => Step::Bind(volume),
        };
    };
    if is_bound && reference.uid.as_deref() != claim.metadata.uid.as_deref() {
        return Step::Lose(
            "ClaimMisbound",
            "Two claims are bound to the same volume, this one is bound incorrectly",
        );
    }
    if matching::is_bound_to(&volume, claim) {
        return Step::Bind(volume);
    }
    warning("FailedBinding", format!("volume {name:?} already bound to a different claim."))
}

fn unbound(claim: &PersistentVolumeClaim, informers: &Informers) -> Step {
    let class_name = matching::claim_class(claim);
    let class = informers.storage_classes.get(ObjectKey::new("", class_name));
    let is_delayed = matching::is_delayed(class.as_deref());
    let mut volumes = informers.volumes.state();
    volumes.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    let purpose = if is_delayed { For::Reserved } else { For::Binder };
    if let Some(volume) = matching::find(claim, &volumes, purpose, &[]) {
        return Step::Bind(Arc::clone(volume));
    }
    let has_class = claim.spec.as_ref().is_some_and(|spec| spec.storage_class_name.is_some());
    if !has_class
        && class_name.is_empty()
        && let Some(default) = class::default(&informers.storage_classes.state())
    {
        return Step::SetClass(meta::name(&*default).to_owned());
    }
    if is_delayed && !matching::has_annotation(claim, SELECTED_NODE) {
        let waiting = waiting_pods(claim, informers);
        return match waiting.as_slice() {
            [] => normal(
                "WaitForFirstConsumer",
                "waiting for first consumer to be created before binding".to_owned(),
            ),
            [only] => normal("WaitForPodScheduled", format!("waiting for pod {only} to be scheduled")),
            several => normal(
                "WaitForPodScheduled",
                format!("waiting for pods {} to be scheduled", several.join(",")),
            ),
        };
    }
    match class {
        Some(class) => Step::Provision(class),
        None if !class_name.is_empty() => {
            warning("ProvisioningFailed", format!("storageclass.storage.k8s.io {class_name:?} not found"))
        }
        None => normal(
            "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set".to_owned(),
        ),
    }
}

/// The Pods that use a claim and have no Node yet.
fn waiting_pods(claim: &PersistentVolumeClaim, informers: &Informers) -> Vec<String> {
    let uses = |pod: &Pod| {
        meta::namespace(pod) == meta::namespace(claim)
            && pods::node_name(pod).is_empty()
            && pods::is_active(pod)
            && claim_names(pod).any(|(name, _)| name == meta::name(claim))
    };
    let mut names: Vec<_> =
        informers.pods.state_filter(uses).iter().map(|pod| meta::name(&**pod).to_owned()).collect();
    names.sort();
    names
}

/// Why a volume that a claim names does not suit it: `checkVolumeSatisfyClaim`.
fn unsuitable(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> Option<&'static str> {
    let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()?.get("storage"));
    if meta::is_deleting(volume) {
        Some("the volume is marked for deletion")
    } else if matching::compare(capacity, matching::requested(claim)) == Ordering::Less {
        Some("requested PV is too small")
    } else if matching::volume_class(volume) != matching::claim_class(claim) {
        Some("storageClassName does not match")
    } else if matching::volume_modes_differ(claim, volume) {
        Some("incompatible volumeMode")
    } else if !matching::modes_match(claim, volume) {
        Some("incompatible accessMode")
    } else {
        None
    }
}

impl Binder {
    pub(crate) fn new(shared: &Shared) -> Self {
        Self {
            claims: Context::status_writer(&shared.client, &shared.clock, Self::NAME),
            volumes: Context::status_writer(&shared.client, &shared.clock, Self::NAME),
            said: Mutex::default(),
        }
    }

    fn say(
        &self,
        claim: &PersistentVolumeClaim,
        type_: EventType,
        reason: &'static str,
        note: String,
        context: &Context,
    ) {
        let said = format!("{}/{reason}/{note}", meta::uid(claim));
        let key = meta::key(claim);
        let before = self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(key, said.clone());
        if before.as_ref() != Some(&said) {
            context.event(claim, type_, reason, reason, note);
        }
    }

    async fn set_phase(
        &self,
        key: &ObjectKey,
        claim: &PersistentVolumeClaim,
        phase: &str,
        volume: Option<&PersistentVolume>,
        context: &Context,
    ) -> Result<(), Error> {
        let mut status = claim.status.clone().unwrap_or_default();
        status.phase = Some(phase.to_owned());
        let spec = volume.and_then(|volume| volume.spec.as_ref());
        status.access_modes = spec.and_then(|spec| spec.access_modes.clone());
        // Once bound, the capacity grows with expansions only.
        if self::phase(claim) != phase || spec.is_none() {
            status.capacity = spec.and_then(|spec| spec.capacity.clone());
        }
        status.current_volume_attributes_class_name =
            spec.and_then(|spec| spec.volume_attributes_class_name.clone());
        let status = PersistentVolumeClaimStatus { ..status };
        context.write_status(key, &self.claims, claim, &status).await
    }

    /// Four writes, in the order that lets each of them be repeated: the volume and its phase, the claim and its phase.
    async fn bind(
        &self,
        key: &ObjectKey,
        claim: &PersistentVolumeClaim,
        volume: &PersistentVolume,
        context: &Context,
    ) -> Result<(), Error> {
        let reference = claimed_by(volume);
        let mut volume = volume.clone();
        if reference.and_then(|reference| reference.uid.as_deref()) != claim.metadata.uid.as_deref() {
            let mut patch = json!({"spec": {"claimRef": meta::reference(claim)}});
            if reference.is_none() {
                patch["metadata"] = json!({"annotations": {BOUND_BY_CONTROLLER: "yes"}});
            }
            volume = context.patch(key, &volume, patch).await?;
        }
        let status = PersistentVolumeStatus {
            phase: Some("Bound".to_owned()),
            reason: None,
            message: None,
            ..volume.status.clone().unwrap_or_default()
        };
        let status = with_time(status, &volume, context);
        context.write_status(key, &self.volumes, &volume, &status).await?;
        let mut claim = claim.clone();
        let mut annotations = serde_json::Map::new();
        if !matching::has_annotation(&claim, BIND_COMPLETED) {
            annotations.insert(BIND_COMPLETED.to_owned(), "yes".into());
        }
        let mut patch = json!({});
        if matching::volume_name(&claim).is_empty() {
            annotations.insert(BOUND_BY_CONTROLLER.to_owned(), "yes".into());
            patch["spec"] = json!({"volumeName": meta::name(&volume)});
        }
        if !annotations.is_empty() {
            patch["metadata"] = json!({"annotations": Value::Object(annotations)});
            claim = context.patch(key, &claim, patch).await?;
        }
        self.set_phase(key, &claim, "Bound", Some(&volume), context).await
    }

    async fn provision(
        &self,
        key: &ObjectKey,
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        context: &Context,
    ) -> Result<(), Error> {
        let provisioner = &class.provisioner;
        if !matching::has_annotation(claim, PROVISIONER) {
            let annotations = json!({PROVISIONER: provisioner, PROVISIONER_BETA: provisioner});
            context.patch(key, claim, json!({"metadata": {"annotations": annotations}})).await?;
        }
        let note = format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the \
             system administrator. If volume creation is delayed, please verify that the provisioner is running and \
             correctly registered."
        );
        self.say(claim, EventType::Normal, "ExternalProvisioning", note, context);
        Ok(())
    }
}

/// A phase that changes has a time.
pub(super) fn with_time(
    mut status: PersistentVolumeStatus,
    volume: &PersistentVolume,
    context: &Context,
) -> PersistentVolumeStatus {
    let before = volume.status.as_ref().and_then(|status| status.phase.as_deref());
    if status.phase.as_deref() != before {
        status.last_phase_transition_time = Some(meta::time(context.now()));
    }
    status
}

/// The claims that are not bound.
fn unbound_claims(
    informers: &Informers,
    is_concerned: impl Fn(&PersistentVolumeClaim) -> bool,
) -> Vec<ObjectKey> {
    let wanted = |claim: &PersistentVolumeClaim| phase(claim) != "Bound" && is_concerned(claim);
    let mut keys: Vec<_> =
        informers.claims.state_filter(wanted).iter().map(|claim| meta::key(&**claim)).collect();
    keys.sort();
    keys
}

impl Controller for Binder {
    const NAME: &'static str = "persistentvolume-controller";
    const WORKERS: usize = 1;

    fn wake(&self, change: &AnyChange, informers: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::PersistentVolumeClaim(change) => vec![change.key.clone()],
            AnyChange::PersistentVolume(change) => {
                let volumes = || change.new.iter().chain(&change.old);
                let claims = volumes().filter_map(|volume| {
                    let reference = claimed_by(volume)?;
                    Some(ObjectKey::new(reference.namespace.as_deref()?, reference.name.as_deref()?))
                });
                let mut keys: Vec<_> = claims.collect();
                if let Some(volume) = change.new.as_deref().filter(|volume| claimed_by(volume).is_none()) {
                    let is_concerned = |claim: &PersistentVolumeClaim| {
                        matching::claim_class(claim) == matching::volume_class(volume)
                            || matching::volume_name(claim) == meta::name(volume)
                    };
                    keys.extend(unbound_claims(informers, is_concerned));
                }
                keys.sort();
                keys.dedup();
                keys
            }
            AnyChange::StorageClass(_) => unbound_claims(informers, |_| true),
            AnyChange::Pod(change) => {
                // A new Pod is what a claim may have waited for.
                let new = change.new.as_deref().filter(|_| change.old.is_none());
                let names = new.into_iter().flat_map(claim_names);
                names.map(|(name, _)| ObjectKey::new(&change.key.namespace, &name)).collect()
            }
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let Some(claim) = context.informers.claims.get(key) else {
            self.said.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
            return Ok(Next::AwaitChange);
        };
        if meta::is_deleting(&*claim) && !matching::is_bound(&claim) {
            return Ok(Next::AwaitChange);
        }
        match step(&claim, &context.informers) {
            Step::Bind(volume) => self.bind(key, &claim, &volume, context).await?,
            Step::SetClass(name) => {
                context.patch(key, &*claim, json!({"spec": {"storageClassName": name}})).await?;
            }
            Step::Provision(class) => {
                self.provision(key, &claim, &class, context).await?;
                let claim = context.informers.claims.get(key).unwrap_or(claim);
                if phase(&claim).is_empty() {
                    self.set_phase(key, &claim, "Pending", None, context).await?;
                }
            }
            Step::Wait(event) => {
                if let Some((type_, reason, note)) = event {
                    self.say(&claim, type_, reason, note, context);
                }
                self.set_phase(key, &claim, "Pending", None, context).await?;
            }
            Step::Lose(reason, note) => {
                if phase(&claim) != "Lost" {
                    self.say(&claim, EventType::Warning, reason, note.to_owned(), context);
                }
                self.set_phase(key, &claim, "Lost", None, context).await?;
            }
        }
        Ok(Next::AwaitChange)
    }
}

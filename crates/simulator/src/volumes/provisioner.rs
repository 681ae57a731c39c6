//! Provisioner: what the external provisioner and resizer of a storage driver do. All drivers are simulated.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec,
};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::events::EventType;
use serde_json::json;
use settled_controller::ObjectKey;
use settled_controller::status::StatusWriter;
use settled_controller::worker::Next;

use super::matching::{self, SELECTED_NODE};
use crate::controller::{Context, Controller, Error, Shared};
use crate::informers::{AnyChange, Informers};
use crate::meta;
use crate::selector;

/// Who makes the volume of a claim.
pub(super) const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// Who has made a volume.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Classes whose volumes are made by hand.
const NONE: &str = "kubernetes.io/no-provisioner";
/// How long a volume takes.
const TAKES: Duration = Duration::from_secs(1);

/// All provisioners.
pub(crate) struct Provisioner {
    status: StatusWriter<PersistentVolumeClaim>,
    began: Mutex<HashMap<ObjectKey, Timestamp>>,
}

impl Provisioner {
    pub(crate) fn new(shared: &Shared) -> Self {
        let status = Context::status_writer(&shared.client, &shared.clock, Self::NAME);
        Self { status, began: Mutex::default() }
    }

    /// How long the volume of a claim takes still. It begins when it is asked for the first time.
    fn left(&self, claim: &PersistentVolumeClaim, context: &Context) -> Option<Duration> {
        let key = meta::key(claim);
        let now = context.now();
        let mut began = self.began.lock().unwrap_or_else(PoisonError::into_inner);
        let since = *began.entry(key.clone()).or_insert_with(|| {
            let note = format!("External provisioner is provisioning volume for claim \"{key}\"");
            context.event(claim, EventType::Normal, "Provisioning", "Provisioning", note);
            now
        });
        let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        TAKES.checked_sub(passed).filter(|left| !left.is_zero())
    }

    async fn expand(
        &self,
        key: &ObjectKey,
        claim: &PersistentVolumeClaim,
        context: &Context,
    ) -> Result<(), Error> {
        let has = claim.status.as_ref().and_then(|status| status.capacity.as_ref()?.get("storage"));
        let wanted = matching::requested(claim);
        if matching::compare(has, wanted) != std::cmp::Ordering::Less {
            return Ok(());
        }
        let Some(wanted) = wanted else { return Ok(()) };
        let Some(volume) = context.informers.volumes.get(ObjectKey::new("", matching::volume_name(claim)))
        else {
            return Ok(());
        };
        let class = context.informers.storage_classes.get(ObjectKey::new("", matching::claim_class(claim)));
        if class.and_then(|class| class.allow_volume_expansion) != Some(true) {
            return Ok(());
        }
        let size = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref()?.get("storage"));
        if matching::compare(size, Some(wanted)) == std::cmp::Ordering::Less {
            let note = format!("External resizer is resizing volume {}", meta::name(&*volume));
            context.event(claim, EventType::Normal, "Resizing", "Resizing", note);
            context.patch(key, &*volume, json!({"spec": {"capacity": {"storage": wanted}}})).await?;
        }
        let mut status = claim.status.clone().unwrap_or_default();
        status.capacity.get_or_insert_default().insert("storage".to_owned(), wanted.clone());
        context.write_status(key, &self.status, claim, &status).await?;
        let note = "Resize volume succeeded".to_owned();
        context.event(claim, EventType::Normal, "VolumeResizeSuccessful", "VolumeResizeSuccessful", note);
        Ok(())
    }
}

/// The volume for a claim, bound to it already.
fn volume_for(claim: &PersistentVolumeClaim, class: &StorageClass) -> PersistentVolume {
    let name = format!("pvc-{}", meta::uid(claim));
    let spec = claim.spec.clone().unwrap_or_default();
    let capacity = matching::requested(claim).map(|size| [("storage".to_owned(), size.clone())].into());
    PersistentVolume {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            annotations: Some([(PROVISIONED_BY.to_owned(), class.provisioner.clone())].into()),
            ..ObjectMeta::default()
        },
        spec: Some(PersistentVolumeSpec {
            capacity,
            access_modes: spec.access_modes,
            claim_ref: Some(meta::reference(claim)),
            csi: Some(CSIPersistentVolumeSource {
                driver: class.provisioner.clone(),
                volume_handle: name,
                ..CSIPersistentVolumeSource::default()
            }),
            mount_options: class.mount_options.clone(),
            persistent_volume_reclaim_policy: Some(
                class.reclaim_policy.clone().unwrap_or_else(|| "Delete".to_owned()),
            ),
            storage_class_name: class.metadata.name.clone(),
            volume_mode: spec.volume_mode.or_else(|| Some("Filesystem".to_owned())),
            volume_attributes_class_name: spec.volume_attributes_class_name,
            ..PersistentVolumeSpec::default()
        }),
        status: None,
    }
}

impl Controller for Provisioner {
    const NAME: &'static str = "external-provisioner";

    fn wake(&self, change: &AnyChange, _: &Informers) -> Vec<ObjectKey> {
        match change {
            AnyChange::PersistentVolumeClaim(change) => vec![change.key.clone()],
            _ => Vec::new(),
        }
    }

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Next, Error> {
        let forget = || {
            self.began.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        };
        let Some(claim) = context.informers.claims.get(key) else {
            forget();
            return Ok(Next::AwaitChange);
        };
        if matching::is_bound(&claim) {
            self.expand(key, &claim, context).await?;
            forget();
            return Ok(Next::AwaitChange);
        }
        let asked = selector::label(claim.metadata.annotations.as_ref(), PROVISIONER);
        let class = context.informers.storage_classes.get(ObjectKey::new("", matching::claim_class(&claim)));
        let Some(class) =
            class.filter(|class| asked == Some(class.provisioner.as_str()) && asked != Some(NONE))
        else {
            return Ok(Next::AwaitChange);
        };
        let waits = matching::is_delayed(Some(&class)) && !matching::has_annotation(&claim, SELECTED_NODE);
        let name = format!("pvc-{}", meta::uid(&*claim));
        let is_made = context.informers.volumes.get(ObjectKey::new("", &name)).is_some();
        if waits || is_made || meta::is_deleting(&*claim) || !matching::volume_name(&claim).is_empty() {
            return Ok(Next::AwaitChange);
        }
        if let Some(left) = self.left(&claim, context) {
            return Ok(Next::RequeueAfter(left));
        }
        match context.create(key, &volume_for(&claim, &class)).await {
            Ok(_) => {
                let note = format!("Successfully provisioned volume {name}");
                context.event(
                    &*claim,
                    EventType::Normal,
                    "ProvisioningSucceeded",
                    "ProvisioningSucceeded",
                    note,
                );
            }
            // Made before, by an attempt whose answer was lost.
            Err(error) if Error::is_code(&error, 409) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Next::AwaitChange)
    }
}

//! Volume binding: where the claims of a Pod let it run, and what is to be bound or provisioned there (`volumebinding`).

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use settled_controller::ObjectKey;

use crate::informers::Informers;
use crate::meta;
use crate::selector;
use crate::volumes::matching::{self, For};

/// No volume for a claim that waits for its Pod.
const BIND_CONFLICT: &str = "node(s) didn't find available persistent volumes to bind";
/// A bound volume that cannot be used on the Node.
const NODE_CONFLICT: &str = "node(s) didn't match PersistentVolume's node affinity";
/// A bound volume that is gone.
const NO_VOLUME: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
/// The provisioner of classes whose volumes are made by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The names of the claims of a Pod, and whether the Pod makes them.
pub(crate) fn claim_names(pod: &Pod) -> impl Iterator<Item = (String, bool)> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(claim), _) => Some((claim.claim_name.clone(), false)),
        (None, Some(_)) => Some((format!("{}-{}", meta::name(pod), volume.name), true)),
        (None, None) => None,
    })
}

/// The claims of a Pod that matter for where it may run.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    bound: Vec<Option<Arc<PersistentVolume>>>,
    delayed: Vec<(Arc<PersistentVolumeClaim>, Arc<StorageClass>)>,
    /// The volumes of the classes of delayed claims.
    volumes: Vec<Arc<PersistentVolume>>,
}

/// What is to be done before a Pod can be bound to a Node.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    /// Claims and the volumes for them.
    pub(crate) bindings: Vec<(Arc<PersistentVolumeClaim>, Arc<PersistentVolume>)>,
    /// Claims for which volumes are to be made.
    pub(crate) provisions: Vec<Arc<PersistentVolumeClaim>>,
}

impl Claims {
    /// Reads the claims of a Pod; an error if they keep it from running anywhere.
    pub(crate) fn new(pod: &Pod, informers: &Informers) -> Result<Self, String> {
        let mut claims = Self::default();
        let mut immediate = false;
        for (name, is_ephemeral) in claim_names(pod) {
            let Some(claim) = informers.claims.get(ObjectKey::new(meta::namespace(pod), &name)) else {
                return Err(match is_ephemeral {
                    true => format!(
                        "waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"
                    ),
                    false => format!("persistentvolumeclaim {name:?} not found"),
                });
            };
            if claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Lost") {
                let volume = matching::volume_name(&claim);
                return Err(format!(
                    "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
                ));
            }
            if meta::is_deleting(&*claim) {
                return Err(format!("persistentvolumeclaim {name:?} is being deleted"));
            }
            if matching::is_bound(&claim) {
                claims.bound.push(informers.volumes.get(ObjectKey::new("", matching::volume_name(&claim))));
                continue;
            }
            let class_name = matching::claim_class(&claim);
            let class = informers.storage_classes.get(ObjectKey::new("", class_name));
            match class.filter(|class| matching::is_delayed(Some(class))) {
                Some(class) if matching::volume_name(&claim).is_empty() => {
                    claims.delayed.push((claim, class))
                }
                _ => immediate = true,
            }
        }
        if immediate {
            return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
        }
        if !claims.delayed.is_empty() {
            let is_of_class = |volume: &PersistentVolume| {
                claims
                    .delayed
                    .iter()
                    .any(|(claim, _)| matching::claim_class(claim) == matching::volume_class(volume))
            };
            let mut volumes = informers.volumes.state_filter(is_of_class);
            volumes.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
            claims.volumes = volumes;
            claims.delayed.sort_by(|(one, _), (other, _)| {
                matching::compare(matching::requested(one), matching::requested(other))
            });
        }
        Ok(claims)
    }

    /// What is to be bound and made for the Pod on a Node, or why it cannot run there: never for want of other Pods' removal.
    pub(crate) fn check(&self, node: &Node) -> Result<Choice, Vec<&'static str>> {
        let mut choice = Choice::default();
        let mut reasons = Vec::new();
        for volume in &self.bound {
            match volume {
                None => {
                    reasons.push(NO_VOLUME);
                    break;
                }
                Some(volume) if !matching::node_matches(volume, node) => {
                    reasons.push(NODE_CONFLICT);
                    break;
                }
                Some(_) => {}
            }
        }
        let mut taken: Vec<&str> = Vec::new();
        let mut wanting = Vec::new();
        for (claim, class) in &self.delayed {
            match selector::label(claim.metadata.annotations.as_ref(), matching::SELECTED_NODE) {
                Some(selected) if selected != meta::name(node) => {
                    reasons.push(BIND_CONFLICT);
                    return Err(reasons);
                }
                Some(_) => wanting.push((claim, class)),
                None => match matching::find(claim, &self.volumes, For::Node(node), &taken) {
                    Some(volume) => {
                        taken.push(meta::name(&**volume));
                        choice.bindings.push((Arc::clone(claim), Arc::clone(volume)));
                    }
                    None => wanting.push((claim, class)),
                },
            }
        }
        for (claim, class) in wanting {
            let can_provision = !class.provisioner.is_empty() && class.provisioner != NO_PROVISIONER;
            if !can_provision || !matching::topology_matches(class.allowed_topologies.as_ref(), node) {
                reasons.push(BIND_CONFLICT);
                break;
            }
            choice.provisions.push(Arc::clone(claim));
        }
        if reasons.is_empty() { Ok(choice) } else { Err(reasons) }
    }

    /// Are there claims that are not bound yet?
    pub(crate) fn has_unbound(&self) -> bool {
        !self.delayed.is_empty()
    }
}

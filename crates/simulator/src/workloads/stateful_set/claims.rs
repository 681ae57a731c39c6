//! Claims of the Pods of a StatefulSet, and who owns them (`stateful_pod_control.go` and the retention policy upstream).

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use kube::runtime::events::EventType;
use serde_json::json;
use settled_controller::ObjectKey;

use super::{Sync, identity};
use crate::controller::Error;
use crate::meta;

/// When claims go with their Pods and with their StatefulSet.
struct Retention {
    delete_when_scaled: bool,
    delete_when_deleted: bool,
}

fn retention(set: &StatefulSet) -> Retention {
    let policy = set
        .spec
        .as_ref()
        .and_then(|spec| spec.persistent_volume_claim_retention_policy.clone())
        .unwrap_or_default();
    let is_delete = |value: Option<String>| value.as_deref() == Some("Delete");
    Retention {
        delete_when_scaled: is_delete(policy.when_scaled),
        delete_when_deleted: is_delete(policy.when_deleted),
    }
}

fn references(claim: &PersistentVolumeClaim) -> &[OwnerReference] {
    claim.metadata.owner_references.as_deref().unwrap_or_default()
}

fn is_reference_to<K: Resource<DynamicType = ()>>(reference: &OwnerReference, object: &K) -> bool {
    reference.api_version == K::api_version(&())
        && reference.kind == K::kind(&())
        && reference.name == meta::name(object)
}

fn is_owned_by(claim: &PersistentVolumeClaim, object: &impl Resource) -> bool {
    references(claim).iter().any(|reference| reference.uid == meta::uid(object))
}

fn is_stale<K: Resource<DynamicType = ()>>(claim: &PersistentVolumeClaim, object: &K) -> bool {
    let found = references(claim).iter().find(|reference| is_reference_to(reference, object));
    found.is_some_and(|reference| reference.uid != meta::uid(object))
}

/// Is there a controller that is neither the StatefulSet nor the Pod, while the policy needs one?
fn has_unexpected_controller(claim: &PersistentVolumeClaim, set: &StatefulSet, pod: &Pod) -> bool {
    let policy = retention(set);
    if !policy.delete_when_scaled && !policy.delete_when_deleted {
        return false;
    }
    references(claim).iter().any(|reference| {
        if is_reference_to(reference, set) {
            reference.uid != meta::uid(set)
        } else if is_reference_to(reference, pod) {
            reference.uid != meta::uid(pod)
        } else {
            reference.controller == Some(true)
        }
    })
}

/// Who is to own a claim: the StatefulSet, or the Pod that goes.
fn owners(set: &StatefulSet, pod: &Pod) -> (bool, bool) {
    let policy = retention(set);
    let is_scaled_down = !identity::is_in_range(set, pod);
    let pod_owns = policy.delete_when_scaled && is_scaled_down;
    (policy.delete_when_deleted && !pod_owns, pod_owns)
}

/// Has a claim the owners of the policy?
fn is_up_to_date(claim: &PersistentVolumeClaim, set: &StatefulSet, pod: &Pod) -> bool {
    if is_stale(claim, set) || is_stale(claim, pod) {
        return true;
    }
    let owned = (is_owned_by(claim, set), is_owned_by(claim, pod));
    if has_unexpected_controller(claim, set, pod) {
        return owned == (false, false);
    }
    let is_ours = |reference: &&OwnerReference| {
        reference.uid == meta::uid(set) || (!meta::uid(pod).is_empty() && reference.uid == meta::uid(pod))
    };
    let has_plain_owner =
        references(claim).iter().filter(is_ours).any(|reference| reference.controller != Some(true));
    !has_plain_owner && owned == owners(set, pod)
}

/// The owners of a claim by the policy.
fn updated_references(claim: &PersistentVolumeClaim, set: &StatefulSet, pod: &Pod) -> Vec<OwnerReference> {
    let mut references = references(claim).to_vec();
    let is_unexpected = has_unexpected_controller(claim, set, pod);
    references.retain(|reference| !is_reference_to(reference, set) && !is_reference_to(reference, pod));
    if !is_unexpected {
        let (by_set, by_pod) = owners(set, pod);
        references.extend(by_pod.then(|| meta::controller_reference(pod)));
        references.extend(by_set.then(|| meta::controller_reference(set)));
    }
    references
}

impl Sync<'_> {
    fn cached_claims(&self, pod: &Pod) -> Vec<(String, Option<std::sync::Arc<PersistentVolumeClaim>>)> {
        let Some(ordinal) = identity::ordinal(pod) else { return Vec::new() };
        let names = identity::claim_templates(self.set).iter().map(|template| {
            let name = identity::claim_name(self.set, template, ordinal);
            let key = ObjectKey::new(&self.key.namespace, &name);
            (name, self.context.informers.claims.get(&key))
        });
        names.collect()
    }

    /// Creates the claims of a Pod that are missing: `createPersistentVolumeClaims`.
    pub(super) async fn create_claims(&self, pod: &Pod) -> Result<(), String> {
        let mut errors = Vec::new();
        let templates = identity::claim_templates(self.set);
        for ((name, cached), template) in self.cached_claims(pod).into_iter().zip(templates) {
            if let Some(claim) = cached {
                if meta::is_deleting(&*claim) {
                    errors.push(format!("pvc {name} is being deleted"));
                }
                continue;
            }
            let mut claim = template.clone();
            claim.status = None;
            claim.metadata.name = Some(name.clone());
            claim.metadata.namespace = self.set.metadata.namespace.clone();
            let labels = self.set.spec.as_ref().and_then(|spec| spec.selector.match_labels.clone());
            claim.metadata.labels.get_or_insert_default().extend(labels.unwrap_or_default());
            let (set, pod) = (meta::name(self.set), meta::name(pod));
            match self.context.create(self.key, &claim).await {
                Ok(_) => {
                    let note = format!("Create Claim {name} Pod {pod} in StatefulSet {set} success");
                    self.event(EventType::Normal, "SuccessfulCreate", note);
                }
                Err(error) => {
                    let text = Error::text(&error);
                    if !Error::is_code(&error, 409) {
                        let note = format!(
                            "Create Claim {name} for Pod {pod} in StatefulSet {set} failed error: {text}"
                        );
                        self.event(EventType::Warning, "FailedCreate", note);
                    }
                    errors.push(format!("failed to create PVC {name}: {text}"));
                }
            }
        }
        match &*errors {
            [] => Ok(()),
            [only] => Err(only.clone()),
            all => Err(format!("[{}]", all.join(", "))),
        }
    }

    /// Have all claims of a Pod the owners of the policy?
    pub(super) fn claims_match(&self, pod: &Pod) -> bool {
        let claims = self.cached_claims(pod);
        claims.iter().filter_map(|(_, claim)| claim.as_ref()).all(|claim| is_up_to_date(claim, self.set, pod))
    }

    /// Is a claim left of a Pod of this name that is gone? Then it will be deleted first.
    pub(super) fn has_stale_claim(&self, pod: &Pod) -> bool {
        let claims = self.cached_claims(pod);
        retention(self.set).delete_when_scaled
            && claims.iter().filter_map(|(_, claim)| claim.as_ref()).any(|claim| is_stale(claim, pod))
    }

    /// Gives the claims of a Pod the owners of the policy: `UpdatePodClaimForRetentionPolicy`.
    pub(super) async fn update_claims(&self, pod: &Pod) -> Result<(), String> {
        for (name, claim) in self.cached_claims(pod) {
            let Some(claim) = claim else { continue };
            if has_unexpected_controller(&claim, self.set, pod) {
                let note = format!(
                    "PersistentVolumeClaim {name} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim"
                );
                self.event(EventType::Warning, "ConflictingController", note);
            }
            if !is_up_to_date(&claim, self.set, pod) {
                let patch =
                    json!({"metadata": {"ownerReferences": updated_references(&claim, self.set, pod)}});
                self.context.patch(self.key, &*claim, patch).await.map_err(|error| {
                    format!(
                        "could not update claim {name} for delete policy ownerRefs: {}",
                        Error::text(&error)
                    )
                })?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(when_scaled: &str, when_deleted: &str) -> StatefulSet {
        let set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "uid": "set"},
            "spec": {
                "replicas": 1, "selector": {}, "template": {},
                "persistentVolumeClaimRetentionPolicy": {"whenScaled": when_scaled, "whenDeleted": when_deleted},
            },
        });
        serde_json::from_value(set).expect("a StatefulSet")
    }

    fn pod(name: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": name, "uid": name}})).expect("a Pod")
    }

    #[test]
    fn claims_go_with_the_pod_or_with_the_set() {
        for (scaled, deleted, pod_name, expected) in [
            ("Retain", "Retain", "db-0", vec![]),
            ("Retain", "Delete", "db-0", vec!["set"]),
            ("Retain", "Delete", "db-1", vec!["set"]),
            ("Delete", "Retain", "db-0", vec![]),
            ("Delete", "Retain", "db-1", vec!["db-1"]),
            ("Delete", "Delete", "db-0", vec!["set"]),
            ("Delete", "Delete", "db-1", vec!["db-1"]),
        ] {
            let (set, pod) = (set(scaled, deleted), pod(pod_name));
            let mut claim = PersistentVolumeClaim::default();
            let references = updated_references(&claim, &set, &pod);
            let uids: Vec<&str> = references.iter().map(|reference| &*reference.uid).collect();
            assert_eq!(uids, expected, "{scaled} {deleted} {pod_name}");
            assert_eq!(is_up_to_date(&claim, &set, &pod), expected.is_empty());
            claim.metadata.owner_references = Some(references);
            assert!(is_up_to_date(&claim, &set, &pod));
        }
    }

    #[test]
    fn a_claim_of_another_controller_is_left_alone() {
        let (set, pod) = (set("Delete", "Delete"), pod("db-0"));
        let other =
            OwnerReference { kind: "Other".to_owned(), controller: Some(true), ..OwnerReference::default() };
        let mut claim = PersistentVolumeClaim::default();
        claim.metadata.owner_references = Some(vec![other]);
        assert!(is_up_to_date(&claim, &set, &pod));
        assert_eq!(updated_references(&claim, &set, &pod).len(), 1);
    }
}

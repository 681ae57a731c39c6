//! Matching of claims and volumes, for the binder and the scheduler (`component-helpers/storage/volume`).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, TopologySelectorTerm};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use settled_apimachinery::quantity;

use crate::meta;
use crate::scheduler::affinity;
use crate::selector::{self, Labels};

/// The binding of the claim is complete.
pub(crate) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// The controller chose the volume of a claim, or the claim of a volume.
pub(crate) const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// The Node that the scheduler chose for a claim.
pub(crate) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The class before there was a field for it.
const CLASS: &str = "volume.beta.kubernetes.io/storage-class";

fn annotation<'m>(annotations: Option<&'m Labels>, key: &str) -> Option<&'m str> {
    selector::label(annotations, key)
}

/// Has a claim an annotation?
pub(crate) fn has_annotation(claim: &PersistentVolumeClaim, key: &str) -> bool {
    annotation(claim.metadata.annotations.as_ref(), key).is_some()
}

/// The class of a claim: empty without one.
pub(crate) fn claim_class(claim: &PersistentVolumeClaim) -> &str {
    let field = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
    annotation(claim.metadata.annotations.as_ref(), CLASS).or(field).unwrap_or_default()
}

/// The class of a volume.
pub(crate) fn volume_class(volume: &PersistentVolume) -> &str {
    let field = volume.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
    annotation(volume.metadata.annotations.as_ref(), CLASS).or(field).unwrap_or_default()
}

/// Does a class wait for the first Pod?
pub(crate) fn is_delayed(class: Option<&StorageClass>) -> bool {
    class.is_some_and(|class| class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"))
}

/// The volume that a claim names.
pub(crate) fn volume_name(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).unwrap_or_default()
}

/// Is a claim bound, and the binding complete?
pub(crate) fn is_bound(claim: &PersistentVolumeClaim) -> bool {
    !volume_name(claim).is_empty() && has_annotation(claim, BIND_COMPLETED)
}

/// The storage that a claim requests.
pub(crate) fn requested(claim: &PersistentVolumeClaim) -> Option<&Quantity> {
    claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?.get("storage")
}

fn storage(quantities: Option<&BTreeMap<String, Quantity>>) -> Option<&Quantity> {
    quantities?.get("storage")
}

/// Compares quantities; one that is missing is zero.
pub(crate) fn compare(one: Option<&Quantity>, other: Option<&Quantity>) -> Ordering {
    let parse = |quantity: Option<&Quantity>| {
        let parsed = quantity.and_then(|quantity| quantity::Quantity::parse(&quantity.0).ok());
        parsed.unwrap_or_else(|| quantity::Quantity::from(0))
    };
    parse(one).cmp(&parse(other))
}

/// Is a volume bound to a claim, or reserved for it?
pub(crate) fn is_bound_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let reference = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
    reference.is_some_and(|reference| {
        let uid = reference.uid.as_deref().unwrap_or_default();
        reference.name.as_deref() == claim.metadata.name.as_deref()
            && reference.namespace.as_deref() == claim.metadata.namespace.as_deref()
            && (uid.is_empty() || uid == meta::uid(claim))
    })
}

/// May a Node use a volume?
pub(crate) fn node_matches(volume: &PersistentVolume, node: &Node) -> bool {
    let required = volume.spec.as_ref().and_then(|spec| spec.node_affinity.as_ref()?.required.as_ref());
    required.is_none_or(|required| affinity::matches(required, node))
}

/// Has a volume all access modes that a claim asks for?
pub(crate) fn modes_match(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let has = volume.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
    let wanted = claim.spec.as_ref().and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default();
    wanted.iter().all(|mode| has.contains(mode))
}

/// Do a claim and a volume differ in `volumeMode`?
pub(crate) fn volume_modes_differ(claim: &PersistentVolumeClaim, volume: &PersistentVolume) -> bool {
    let of_claim = claim.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref());
    let of_volume = volume.spec.as_ref().and_then(|spec| spec.volume_mode.as_deref());
    of_claim.unwrap_or("Filesystem") != of_volume.unwrap_or("Filesystem")
}

/// Does a Node match the allowed topologies of a class? No terms match every Node.
pub(crate) fn topology_matches(terms: Option<&Vec<TopologySelectorTerm>>, node: &Node) -> bool {
    let terms = terms.map(Vec::as_slice).unwrap_or_default();
    let labels = node.metadata.labels.as_ref();
    terms.is_empty()
        || terms.iter().any(|term| {
            term.match_label_expressions.iter().flatten().all(|expression| {
                selector::label(labels, &expression.key)
                    .is_some_and(|value| expression.values.iter().any(|wanted| wanted == value))
            })
        })
}

/// How a volume is looked for.
#[derive(Clone, Copy)]
pub(crate) enum For<'n> {
    /// The binder, at once.
    Binder,
    /// The binder, but the scheduler chooses: only volumes reserved for the claim.
    Reserved,
    /// The scheduler, for a Node.
    Node(&'n Node),
}

/// The volume for a claim: one that is reserved for it, or the smallest that fits: `FindMatchingVolume`.
pub(crate) fn find<'v, V: AsRef<PersistentVolume>>(
    claim: &PersistentVolumeClaim,
    volumes: impl IntoIterator<Item = &'v V>,
    purpose: For<'_>,
    excluded: &[&str],
) -> Option<&'v V> {
    let class = claim_class(claim);
    let wanted_attributes = claim.spec.as_ref().and_then(|spec| spec.volume_attributes_class_name.as_deref());
    let claim_selector = claim.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let mut smallest: Option<(&V, Option<&Quantity>)> = None;
    for candidate in volumes {
        let volume = candidate.as_ref();
        let Some(spec) = &volume.spec else { continue };
        let is_reserved = is_bound_to(volume, claim);
        let capacity = storage(spec.capacity.as_ref());
        let attributes = spec.volume_attributes_class_name.as_deref();
        if excluded.contains(&meta::name(volume))
            || spec.claim_ref.is_some() && !is_reserved
            || compare(capacity, requested(claim)) == Ordering::Less
            || volume_modes_differ(claim, volume)
            || wanted_attributes.unwrap_or_default() != attributes.unwrap_or_default()
            || meta::is_deleting(volume)
        {
            continue;
        }
        let node_fits = match purpose {
            For::Node(node) => node_matches(volume, node),
            For::Binder | For::Reserved => true,
        };
        if is_reserved {
            return node_fits.then_some(candidate);
        }
        let is_available =
            volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Available");
        let fits = match purpose {
            For::Reserved => false,
            // Upstream's binder asks an index for the access modes.
            For::Binder | For::Node(_) => modes_match(claim, volume),
        };
        if !fits
            || !node_fits
            || !is_available
            || volume_class(volume) != class
            || claim_selector
                .is_some_and(|wanted| !selector::matches(Some(wanted), volume.metadata.labels.as_ref()))
        {
            continue;
        }
        if smallest.is_none_or(|(_, least)| compare(capacity, least) == Ordering::Less) {
            smallest = Some((candidate, capacity));
        }
    }
    smallest.map(|(volume, _)| volume)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn volume(name: &str, size: &str, more: Value) -> Arc<PersistentVolume> {
        let mut volume = json!({
            "metadata": {"name": name},
            "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "fast"},
            "status": {"phase": "Available"},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            volume["spec"][key] = value.clone();
        }
        Arc::new(serde_json::from_value(volume).expect("a volume"))
    }

    #[test]
    fn the_smallest_volume_that_fits_is_found() {
        let claim: PersistentVolumeClaim = serde_json::from_value(json!({
            "metadata": {"name": "data", "namespace": "shop", "uid": "1"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": {"requests": {"storage": "5Gi"}}},
        }))
        .expect("a claim");
        let reserved = |name: &str| json!({"claimRef": {"name": name, "namespace": "shop"}});
        let terms = json!([{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]);
        let affinity = json!({"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}});
        let node: Node =
            serde_json::from_value(json!({"metadata": {"labels": {"zone": "a"}}})).expect("a Node");
        let found = |volumes: &[Arc<PersistentVolume>], purpose: For<'_>| {
            find(&claim, volumes, purpose, &[]).map(|volume| meta::name(&**volume).to_owned())
        };
        let all = [
            volume("small", "1Gi", json!({})),
            volume("large", "50Gi", json!({})),
            volume("fits", "10Gi", json!({})),
            volume("other-class", "5Gi", json!({"storageClassName": "slow"})),
            volume("other-mode", "5Gi", json!({"accessModes": ["ReadOnlyMany"]})),
            volume("block", "5Gi", json!({"volumeMode": "Block"})),
            volume("of-another", "5Gi", reserved("cache")),
            volume("elsewhere", "6Gi", affinity),
        ];
        assert_eq!(found(&all, For::Node(&node)).as_deref(), Some("fits"));
        assert_eq!(found(&all, For::Binder).as_deref(), Some("elsewhere"));
        assert_eq!(found(&all, For::Reserved), None);
        let with_reserved = [volume("fits", "10Gi", json!({})), volume("mine", "90Gi", reserved("data"))];
        assert_eq!(found(&with_reserved, For::Reserved).as_deref(), Some("mine"));
    }
}

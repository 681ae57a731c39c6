//! Companion objects: separate objects, linked to their owner, for data that does not belong in its status.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};

/// Annotation of a companion: the generation of its owner when it was written.
pub const OWNER_GENERATION: &str = "settled.dev/owner-generation";

/// Data that should be in an object of its own rather than in its owner's status:
///
/// | the data | in `status` | in a companion |
/// |---|---|---|
/// | writers | all writers of the status | a role of its own, for one kind |
/// | schema | known at design time | an extension's, or one of several |
/// | presence | usually present | optional |
/// | cardinality | one per object, small | many per object, or large |
/// | lifecycle | the owner's | may begin later, or outlive a rollout |
/// | change rate | with the spec, or rarely | often: would wake up all watches of the owner |
///
/// A companion has the owner's namespace, an owner reference with the UID, by which the garbage collector deletes it,
/// and the owner's generation. Since the reference is a controller reference, `Controller::owns` follows it.
#[derive(Clone, Copy, Debug)]
pub struct Companion;

/// Relation of an object to its expected owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompanionLink {
    /// Up to date with the owner's generation.
    Current,
    /// Written for an older generation of the owner, or without one.
    Stale {
        /// The generation, if it is recorded.
        generation: Option<i64>,
    },
    /// Controlled by another object, or by an earlier incarnation of the owner. It must not be written.
    Foreign,
}

impl Companion {
    /// Metadata of a companion with this name. `None` if the owner is not stored yet and has no UID.
    pub fn metadata<K: Resource<DynamicType = ()>>(owner: &K, name: &str) -> Option<ObjectMeta> {
        let generation = owner.meta().generation.unwrap_or_default();
        Some(ObjectMeta {
            name: Some(name.to_owned()),
            namespace: owner.meta().namespace.clone(),
            owner_references: Some(vec![owner.controller_owner_ref(&())?]),
            annotations: Some(BTreeMap::from([(OWNER_GENERATION.to_owned(), generation.to_string())])),
            ..ObjectMeta::default()
        })
    }

    /// Determines the relation of an object with the companion's name to the owner.
    pub fn link<K: Resource, C: Resource>(owner: &K, companion: &C) -> CompanionLink {
        let uid = owner.meta().uid.as_deref();
        let controller =
            companion.owner_references().iter().find(|reference| reference.controller == Some(true));
        if uid.is_none() || controller.map(|reference| reference.uid.as_str()) != uid {
            return CompanionLink::Foreign;
        }
        let generation = companion.annotations().get(OWNER_GENERATION).and_then(|text| text.parse().ok());
        match generation {
            Some(generation) if Some(generation) == owner.meta().generation => CompanionLink::Current,
            generation => CompanionLink::Stale { generation },
        }
    }
}

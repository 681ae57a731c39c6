//! Companion objects: what does not belong in status gets an object of its own, linked to its owner.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};

/// The annotation of a companion with the generation of its owner that it was made for.
pub const OWNER_GENERATION: &str = "settled.dev/owner-generation";

/// An object that holds what its owner's status should not:
///
/// | the data | in `status` | in a companion |
/// |---|---|---|
/// | writers | all that may write the status | a role of its own, for one kind |
/// | schema | known when the API is designed | an extension's, or one of several |
/// | presence | nearly always there | optional |
/// | cardinality | one for each object, small | many for each object, or large |
/// | lifecycle | the owner's | may begin later, or outlive a rollout |
/// | change rate | with the spec, or seldom | often: it would wake up all watchers of the owner |
///
/// A companion has the owner's namespace, an owner reference with the UID, by which the garbage collector deletes it, and the generation of
/// the owner that it was made for. The controller's own reference makes `Controller::owns` follow it.
#[derive(Clone, Copy, Debug)]
pub struct Companion;

/// How an object stands to the one that should own it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompanionLink {
    /// It was made for the present generation of the owner.
    Current,
    /// It was made for an older generation of the owner, or does not say for which.
    Stale {
        /// The generation, if it is recorded.
        generation: Option<i64>,
    },
    /// Another object controls it, or an earlier object of the owner's name. It must not be written to.
    Foreign,
}

impl Companion {
    /// The metadata of a companion of this name. None if the owner is not stored yet: it has no UID.
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

    /// How an object that has a companion's name stands to the owner.
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

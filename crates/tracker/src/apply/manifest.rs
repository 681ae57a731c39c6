//! Manifests: objects to apply, with their ids.

use settled_watch::Resources;

use crate::id::ObjectId;
use crate::target::{KindName, Target};

/// An object to apply.
#[derive(Clone, Debug)]
pub(super) struct Manifest {
    pub(super) id: ObjectId,
    pub(super) version: Option<String>,
    pub(super) json: Vec<u8>,
}

/// Reads an object that is to be applied; or which one it is, and what is wrong with it.
pub(super) fn read(
    json: Vec<u8>,
    resources: &Resources,
    default: &str,
) -> Result<Manifest, (ObjectId, String)> {
    let nameless = |message: &str| Err((ObjectId::new("", "", "", ""), message.to_owned()));
    let target = match Target::manifest(&json) {
        Ok(target) => target,
        Err(error) => return nameless(&error.to_string()),
    };
    let Target::Object { kind, namespace, name, .. } = target else { return nameless("it is no object") };
    let resource = kind.find(resources);
    let KindName::Exact { group, version, kind } = kind else { return nameless("it has no kind") };
    let namespaced = resource.is_none_or(|resource| resource.namespaced);
    let namespace = if namespaced { namespace.unwrap_or_else(|| default.to_owned()) } else { String::new() };
    Ok(Manifest { id: ObjectId::new(group, kind, namespace, name), version, json })
}

//! Ownership by selector: controllers adopt orphans that they select, and release what they do not select any more
//! (`controller_ref_manager.go` upstream).

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use settled_controller::ObjectKey;
use settled_controller::cache::Change;

use crate::controller::{Context, Error};
use crate::informers::{Informed, Informers};
use crate::meta;
use crate::selector;

/// Does the selector select an object?
pub(crate) fn selects(selector: &LabelSelector, object: &impl Resource) -> bool {
    selector::matches(Some(selector), object.meta().labels.as_ref())
}

/// The controllers of a kind that a changed object concerns: its controller, the one before, or all that select an orphan.
pub(crate) fn wake<T, O>(
    change: &Change<T>,
    informers: &Informers,
    selector_of: impl Fn(&O) -> Option<&LabelSelector>,
) -> Vec<ObjectKey>
where
    T: Resource,
    O: Informed,
{
    let kind = O::kind(&());
    let of =
        |object: &Option<Arc<T>>| object.as_deref().and_then(|object| meta::controller_key(object, &kind));
    let mut keys: Vec<_> = of(&change.new).into_iter().chain(of(&change.old)).collect();
    keys.dedup();
    let Some(new) = change.new.as_deref() else { return keys };
    if meta::controller(new).is_some() || meta::is_deleting(new) {
        return keys;
    }
    let labels = |object: &T| object.meta().labels.clone();
    let is_new =
        change.old.as_deref().is_none_or(|old| labels(old) != labels(new) || meta::controller(old).is_some());
    if is_new && new.meta().labels.as_ref().is_some_and(|labels| !labels.is_empty()) {
        let owners = informers.in_namespace::<O>(meta::namespace(new));
        let selecting = owners.iter().filter(|owner| {
            let is_empty = |selector: &LabelSelector| *selector == LabelSelector::default();
            selector_of(owner).is_some_and(|selector| !is_empty(selector) && selects(selector, new))
        });
        keys.extend(selecting.map(|owner| meta::key(&**owner)));
    }
    keys
}

/// The objects that an owner controls and selects, after orphans were adopted and others released. Only objects that `is_candidate` accepts are
/// looked at.
pub(crate) async fn claim<O, T>(
    context: &Context,
    key: &ObjectKey,
    owner: &O,
    selector: &LabelSelector,
    is_candidate: impl Fn(&T) -> bool,
) -> Result<Vec<Arc<T>>, Error>
where
    O: Informed + Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
    T: Informed + Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
{
    let mut claimed = Vec::new();
    for object in context.informers.controlled::<T>(meta::uid(owner)) {
        if !is_candidate(&object) {
            continue;
        }
        if selects(selector, &*object) {
            claimed.push(object);
        } else if !meta::is_deleting(owner) {
            let references = object.meta().owner_references.iter().flatten();
            let rest: Vec<&OwnerReference> =
                references.filter(|reference| reference.uid != meta::uid(owner)).collect();
            let patch = json!({"metadata": {"ownerReferences": rest}});
            ignore_gone(context.patch(key, &*object, patch).await)?;
        }
    }
    let mut adopted = false;
    for object in context.informers.orphans::<T>(meta::namespace(owner)) {
        let can_adopt = !meta::is_deleting(owner) && !meta::is_deleting(&*object);
        if !can_adopt || !is_candidate(&object) || !selects(selector, &*object) {
            continue;
        }
        if !adopted {
            recheck_deletion(context, owner).await?;
            adopted = true;
        }
        let mut references: Vec<OwnerReference> = object.meta().owner_references.clone().unwrap_or_default();
        references.retain(|reference| reference.uid != meta::uid(owner));
        references.push(meta::controller_reference(owner));
        let patch = json!({"metadata": {"ownerReferences": references}});
        if let Some(object) = ignore_gone(context.patch(key, &*object, patch).await)? {
            claimed.push(Arc::new(object));
        }
    }
    if adopted {
        claimed.sort_by(|one, other| meta::name(&**one).cmp(meta::name(&**other)));
    }
    Ok(claimed)
}

/// Before objects are adopted: the owner is there and not being deleted, past the cache (`RecheckDeletionTimestamp`).
async fn recheck_deletion<O>(context: &Context, owner: &O) -> Result<(), Error>
where
    O: Informed + Resource<Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned,
{
    let fresh: O = context.fresh(owner).await?;
    let (kind, key) = (O::kind(&()), meta::key(owner));
    if meta::uid(&fresh) != meta::uid(owner) {
        let (got, wanted) = (meta::uid(&fresh), meta::uid(owner));
        return Err(Error::Failed(format!("original {kind} {key} is gone: got uid {got}, wanted {wanted}")));
    }
    if let Some(deleted) = &fresh.meta().deletion_timestamp {
        return Err(Error::Failed(format!("{key} has just been deleted at {}", deleted.0)));
    }
    Ok(())
}

/// An object that is gone needs no owner.
fn ignore_gone<T>(result: Result<T, kube::Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(object) => Ok(Some(object)),
        Err(error) if Error::is_code(&error, 404) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

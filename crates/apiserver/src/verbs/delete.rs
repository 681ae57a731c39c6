//! Delete: preconditions, grace period, finalizers, propagation to dependents (`pkg/registry/generic/registry/store.go`,
//! `pkg/registry/rest/delete.go` upstream).

use std::collections::BTreeSet;

use serde_json::{Value, json};
use settled_store::{Expect, Write, WriteError};

use crate::error::{ApiError, GroupResource, write_failed};
use crate::kinds::behavior::Dependents;
use crate::kinds::crd;
use crate::object::{self, finalizers, is_terminating, meta, metadata, metadata_mut};
use crate::options::{DeleteOptions, Propagation};
use crate::state::State;
use crate::state::call::{Call, Target};
use crate::verbs::read;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
/// Conflicts can only come from others that change the same object.
const MAX_ATTEMPTS: usize = 100;

/// What a deletion left behind.
#[derive(Debug)]
pub(crate) enum Deleted {
    /// The object is gone; this was its last state.
    Gone(Value),
    /// The object stays until its finalizers, or its grace period, are over.
    Pending(Value),
}

/// What is to be done with the object as it is.
enum Step {
    /// It is on its way already.
    Nothing,
    Mark(Box<Value>),
    Remove,
    /// Both: watchers see that its time was over before they see it go.
    MarkAndRemove(Box<Value>),
}

/// Deletes an object, or marks it as being deleted.
pub(crate) async fn delete(
    state: &State,
    call: &Call<'_>,
    target: &Target<'_>,
    options: &DeleteOptions,
) -> Result<Deleted, ApiError> {
    let stored = read::as_stored(state, call, target);
    let target = &stored.as_deref().map_or(*target, |definition| Target { definition, ..*target });
    let definition = target.definition;
    let key = target.key()?;
    let mut attempts = 0;
    // Whether its revision is the one that was written here.
    let mut over = false;
    loop {
        attempts += 1;
        let entry = state.store.get(&key).ok_or_else(|| target.not_found())?;
        definition.check_readable(&entry)?;
        let old = definition.read(&entry);
        if !over {
            check_preconditions(target, &old, options)?;
        }
        protect(target)?;
        let step = next_step(call, target, &old, options);
        if matches!(step, Step::Mark(_) | Step::MarkAndRemove(_)) {
            definition.check_storable()?;
        }
        let expect = Expect::Revision(entry.mod_revision());
        let (write, marked) = match step {
            Step::Nothing => return Ok(Deleted::Pending(old)),
            Step::Remove if options.dry_run => return Ok(Deleted::Gone(old)),
            Step::Mark(object) if options.dry_run => return Ok(Deleted::Pending(*object)),
            Step::MarkAndRemove(object) if options.dry_run => return Ok(Deleted::Gone(*object)),
            Step::MarkAndRemove(object) => {
                let bytes = object::encode(&definition.model.to_stored(&object));
                match state.store.write(Write::update(key.clone(), entry.mod_revision(), bytes)).await {
                    Ok(_) => over = true,
                    Err(WriteError::Conflict { .. }) if attempts < MAX_ATTEMPTS => {}
                    Err(WriteError::Conflict { .. }) => return Err(target.modified()),
                    Err(error) => return Err(write_failed(&error)),
                }
                continue;
            }
            Step::Remove => (Write::delete(key.clone(), expect), None),
            Step::Mark(object) => {
                let bytes = object::encode(&definition.model.to_stored(&object));
                if *bytes == **entry.value() {
                    return Ok(Deleted::Pending(old));
                }
                (Write::update(key.clone(), entry.mod_revision(), bytes), Some(object))
            }
        };
        match state.store.write(write).await {
            Ok(event) => {
                return Ok(match marked {
                    None => {
                        let mut last = old;
                        object::set_resource_version(&mut last, event.revision().0);
                        Deleted::Gone(last)
                    }
                    Some(mut object) => {
                        object::set_resource_version(&mut object, event.revision().0);
                        Deleted::Pending(*object)
                    }
                });
            }
            Err(WriteError::Conflict { .. }) if attempts < MAX_ATTEMPTS => {}
            Err(WriteError::Conflict { .. }) => return Err(target.modified()),
            Err(error) => return Err(write_failed(&error)),
        }
    }
}

fn next_step(call: &Call<'_>, target: &Target<'_>, old: &Value, options: &DeleteOptions) -> Step {
    let definition = target.definition;
    if (definition.group.as_str(), definition.plural.as_str()) == ("", "namespaces") {
        return namespace_step(call, old);
    }
    if crd::is_crd(definition) && !is_terminating(old) {
        return Step::Mark(Box::new(definition_step(call, old)));
    }
    let behavior = definition.model.behavior();
    let mut new = old.clone();
    let graceful = match graceful(call, behavior.graceful, &mut new, options) {
        Grace::Pending => return Step::Nothing,
        Grace::Marked(grace) => Some(grace),
        Grace::None => None,
    };
    let wanted = dependents_finalizers(old, behavior.dependents, options);
    let left = !wanted.is_empty();
    let metadata = metadata_mut(&mut new);
    if left {
        metadata.insert("finalizers".to_owned(), wanted.into());
    } else {
        metadata.remove("finalizers");
    }
    match graceful {
        Some(grace) if left || grace > 0 => Step::Mark(Box::new(new)),
        None if left => {
            mark(&mut new, call.now);
            Step::Mark(Box::new(new))
        }
        Some(_) => Step::MarkAndRemove(Box::new(new)),
        None => Step::Remove,
    }
}

/// The grace period of kinds whose deletion takes time.
fn graceful(call: &Call<'_>, graceful: bool, new: &mut Value, options: &DeleteOptions) -> Grace {
    if !graceful {
        return Grace::None;
    }
    let number = |object: &Value, name: &str| {
        metadata(object).and_then(|metadata| metadata.get(name)).and_then(Value::as_i64)
    };
    if is_terminating(new) {
        let before = number(new, "deletionGracePeriodSeconds").unwrap_or_default();
        if before == 0 {
            return Grace::None;
        }
        return match options.grace {
            Some(grace) if grace < before => {
                let due: Option<jiff::Timestamp> = meta(new, "deletionTimestamp").parse().ok();
                let shift = jiff::SignedDuration::from_secs(grace - before);
                let mut grace = grace;
                let due = match due.and_then(|due| due.checked_add(shift).ok()) {
                    Some(due) if due >= call.now => due,
                    // The shorter grace period is over already, but the object still has to be removed.
                    _ => {
                        grace = grace.min(1);
                        call.now
                    }
                };
                set_deletion(new, due, grace);
                Grace::Marked(grace)
            }
            _ => Grace::Pending,
        };
    }
    // Upstream's rule for pods: nobody has to stop what was never placed or has ended.
    let asked =
        options.grace.or_else(|| new.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64));
    let mut grace = asked.unwrap_or(30).max(0);
    let unplaced = new.pointer("/spec/nodeName").and_then(Value::as_str).unwrap_or_default().is_empty();
    let phase = new.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    if unplaced || matches!(phase, "Failed" | "Succeeded") {
        grace = 0;
    }
    let shift = jiff::SignedDuration::from_secs(grace);
    set_deletion(new, call.now.checked_add(shift).unwrap_or(call.now), grace);
    bump_generation(new);
    Grace::Marked(grace)
}

enum Grace {
    /// Deletion is not graceful, or its grace period is over.
    None,
    /// It is on its way, and not to be hastened.
    Pending,
    /// The object says now when it is due, in so many seconds.
    Marked(i64),
}

fn set_deletion(object: &mut Value, due: jiff::Timestamp, grace: i64) {
    let metadata = metadata_mut(object);
    metadata.insert("deletionTimestamp".to_owned(), object::time(due));
    metadata.insert("deletionGracePeriodSeconds".to_owned(), grace.into());
}

fn bump_generation(object: &mut Value) {
    let metadata = metadata_mut(object);
    if let Some(generation) = metadata.get("generation").and_then(Value::as_i64).filter(|number| *number > 0)
    {
        metadata.insert("generation".to_owned(), (generation + 1).into());
    }
}

/// Marks an object that must wait for its finalizers.
fn mark(object: &mut Value, now: jiff::Timestamp) {
    let due: Option<jiff::Timestamp> = meta(object, "deletionTimestamp").parse().ok();
    if due.is_none() {
        bump_generation(object);
    }
    set_deletion(object, due.filter(|due| *due <= now).unwrap_or(now), 0);
}

/// A namespace is emptied first; its controller takes the finalizer off its spec then.
fn namespace_step(call: &Call<'_>, old: &Value) -> Step {
    let spec = old.pointer("/spec/finalizers").and_then(Value::as_array);
    if !is_terminating(old) {
        let mut new = old.clone();
        set_deletion(&mut new, call.now, 0);
        metadata_mut(&mut new).remove("deletionGracePeriodSeconds");
        new["status"]["phase"] = json!("Terminating");
        return Step::Mark(Box::new(new));
    }
    if spec.is_none_or(Vec::is_empty) && finalizers(old).is_empty() { Step::Remove } else { Step::Nothing }
}

/// A definition stays until its objects are gone.
fn definition_step(call: &Call<'_>, old: &Value) -> Value {
    let mut new = old.clone();
    let metadata = metadata_mut(&mut new);
    metadata.insert("deletionTimestamp".to_owned(), object::time(call.now));
    let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
    if let Some(list) = finalizers.as_array_mut()
        && !list.iter().any(|name| name == crd::CLEANUP)
    {
        list.push(crd::CLEANUP.into());
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    crd::set_condition(&mut new, ("Terminating", "True", "InstanceDeletionPending", message), call.now);
    new
}

/// The finalizers that an object has when it is deleted with these options.
fn dependents_finalizers(old: &Value, default: Dependents, options: &DeleteOptions) -> Vec<String> {
    let present = finalizers(old);
    let has = |name: &str| present.contains(&name);
    let (orphan, foreground) = if default == Dependents::Unsupported {
        (false, false)
    } else if let Some(orphan) = options.orphan_dependents {
        (orphan, false)
    } else {
        match options.propagation {
            Some(Propagation::Orphan) => (true, false),
            Some(Propagation::Foreground) => (false, true),
            Some(Propagation::Background) => (false, false),
            None if has(ORPHAN) => (true, false),
            None if has(FOREGROUND) => (false, true),
            None => (default == Dependents::Orphan, false),
        }
    };
    let mut wanted: Vec<String> = present
        .iter()
        .filter(|name| !matches!(**name, ORPHAN | FOREGROUND))
        .map(|name| (*name).to_owned())
        .collect();
    if orphan {
        wanted.push(ORPHAN.to_owned());
    }
    if foreground {
        wanted.push(FOREGROUND.to_owned());
    }
    let same =
        wanted.iter().map(String::as_str).collect::<BTreeSet<_>>() == present.iter().copied().collect();
    if same { present.into_iter().map(str::to_owned).collect() } else { wanted }
}

fn check_preconditions(target: &Target<'_>, old: &Value, options: &DeleteOptions) -> Result<(), ApiError> {
    let definition = target.definition;
    let kind = GroupResource { group: &definition.group, resource: &definition.kind };
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != meta(old, "uid")) {
        let why = format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been \
             deleted and then recreated",
            meta(old, "uid")
        );
        return Err(ApiError::conflict(kind, target.name, &why));
    }
    let revision = meta(old, "resourceVersion");
    if let Some(wanted) = options.resource_version.as_deref().filter(|wanted| *wanted != revision) {
        let why = format!(
            "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
             ({revision}). The object might have been modified"
        );
        return Err(ApiError::conflict(kind, target.name, &why));
    }
    Ok(())
}

/// Without these namespaces a cluster is none.
fn protect(target: &Target<'_>) -> Result<(), ApiError> {
    let definition = target.definition;
    let namespace = (definition.group.as_str(), definition.plural.as_str()) == ("", "namespaces");
    if namespace && matches!(target.name, "default" | "kube-system" | "kube-public") {
        let why = "this namespace may not be deleted";
        return Err(ApiError::forbidden(definition.group_resource(), target.name, why));
    }
    Ok(())
}

/// The answer to a deletion that is complete.
pub(crate) fn success(target: &Target<'_>, last: &Value) -> Value {
    let mut details = serde_json::Map::new();
    details.insert("name".to_owned(), target.name.into());
    if !target.definition.group.is_empty() {
        details.insert("group".to_owned(), target.definition.group.clone().into());
    }
    details.insert("kind".to_owned(), target.definition.plural.clone().into());
    details.insert("uid".to_owned(), meta(last, "uid").into());
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

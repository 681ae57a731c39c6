//! Delete: preconditions, grace period, finalizers, propagation to dependents (`pkg/registry/generic/registry/store.go`,
//! `pkg/registry/rest/delete.go` upstream).

use std::collections::BTreeSet;

use serde_json::{Value, json};
use settled_store::{Expect, Write, WriteError};

use crate::error::{ApiError, GroupResource, write_failed};
use crate::kinds::behavior::Dependents;
use crate::kinds::strategy::{DeleteStep, Strategy};
use crate::object::{self, finalizers, is_terminating, meta, metadata, metadata_mut, set_deletion};
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
    // What was marked here, and has to be removed now.
    let mut over: Option<Value> = None;
    loop {
        attempts += 1;
        let Some(entry) = state.store.get(&key) else {
            // Others saw the mark, and removed it first.
            return over.map(Deleted::Gone).ok_or_else(|| target.not_found());
        };
        definition.check_readable(&entry)?;
        let old = definition.read(&entry);
        match over {
            Some(marked) if meta(&marked, "uid") != meta(&old, "uid") => return Ok(Deleted::Gone(marked)),
            Some(_) => {}
            None => check_preconditions(target, &old, options)?,
        }
        protect(target)?;
        let step = next_step(call, target, &old, options);
        if matches!(step, DeleteStep::Mark(_) | DeleteStep::MarkAndRemove(_)) {
            definition.check_storable()?;
        }
        let expect = Expect::Revision(entry.mod_revision());
        let (write, marked) = match step {
            DeleteStep::Nothing => return Ok(Deleted::Pending(old)),
            DeleteStep::Remove if options.dry_run => return Ok(Deleted::Gone(old)),
            DeleteStep::Mark(object) if options.dry_run => return Ok(Deleted::Pending(*object)),
            DeleteStep::MarkAndRemove(object) if options.dry_run => return Ok(Deleted::Gone(*object)),
            DeleteStep::MarkAndRemove(object) => {
                let bytes = object::encode(&definition.model.to_stored(&object));
                match state.store.write(Write::update(key.clone(), entry.mod_revision(), bytes)).await {
                    Ok(event) => {
                        let mut marked = *object;
                        object::set_resource_version(&mut marked, event.revision().0);
                        over = Some(marked);
                    }
                    Err(WriteError::Conflict { .. }) if attempts < MAX_ATTEMPTS => {}
                    Err(WriteError::Conflict { .. }) => return Err(target.modified()),
                    Err(error) => return Err(write_failed(&error)),
                }
                continue;
            }
            DeleteStep::Remove => (Write::delete(key.clone(), expect), None),
            DeleteStep::Mark(object) => {
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

fn next_step(call: &Call<'_>, target: &Target<'_>, old: &Value, options: &DeleteOptions) -> DeleteStep {
    let strategy = target.definition.model.strategy();
    if let Some(step) = (strategy.begin_delete)(old, call.now) {
        return step;
    }
    let mut new = old.clone();
    let graceful = match graceful(call, strategy, &mut new, options) {
        Grace::Pending => return DeleteStep::Nothing,
        Grace::Marked(grace) => Some(grace),
        Grace::None => None,
    };
    let wanted = dependents_finalizers(old, strategy.behavior.dependents, options);
    let left = !wanted.is_empty();
    let metadata = metadata_mut(&mut new);
    if left {
        metadata.insert("finalizers".to_owned(), wanted.into());
    } else {
        metadata.remove("finalizers");
    }
    match graceful {
        Some(grace) if left || grace > 0 => DeleteStep::Mark(Box::new(new)),
        None if left => {
            mark(&mut new, call.now);
            DeleteStep::Mark(Box::new(new))
        }
        Some(_) => DeleteStep::MarkAndRemove(Box::new(new)),
        None => DeleteStep::Remove,
    }
}

/// The grace period of kinds whose deletion takes time.
fn graceful(call: &Call<'_>, strategy: &Strategy, new: &mut Value, options: &DeleteOptions) -> Grace {
    let Some(grace_period) = strategy.grace_period else { return Grace::None };
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
    let grace = grace_period(new, options.grace);
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
    let kind = GroupResource { group: &definition.names.group, resource: &definition.names.kind };
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

/// Refuses to delete what a cluster needs.
fn protect(target: &Target<'_>) -> Result<(), ApiError> {
    let definition = target.definition;
    if definition.model.strategy().protected_names.contains(&target.name) {
        let why = format!("this {} may not be deleted", definition.names.singular);
        return Err(ApiError::forbidden(definition.group_resource(), target.name, &why));
    }
    Ok(())
}

/// The answer to a deletion that is complete.
pub(crate) fn success(target: &Target<'_>, last: &Value) -> Value {
    let mut details = serde_json::Map::new();
    details.insert("name".to_owned(), target.name.into());
    if !target.definition.names.group.is_empty() {
        details.insert("group".to_owned(), target.definition.names.group.clone().into());
    }
    details.insert("kind".to_owned(), target.definition.names.plural.clone().into());
    details.insert("uid".to_owned(), meta(last, "uid").into());
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

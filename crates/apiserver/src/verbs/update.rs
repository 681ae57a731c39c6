//! Update, patch and apply (`Store.Update` of `pkg/registry/generic/registry` upstream).

use std::sync::Arc;

use serde_json::{Map, Value, json};
use settled_aside::{aside, back, discard};
use settled_go as go;
use settled_store::{Entry, Expect, Write, WriteError};

use crate::admission;
use crate::budget::check_budget;
use crate::error::{ApiError, write_failed};
use crate::kinds::definition::Definition;
use crate::kinds::index::Info;
use crate::kinds::names::{Names, Part};
use crate::kinds::noop_applies::Apply;
use crate::kinds::strategy::UpdateContext;
use crate::kinds::validation;
use crate::metadata;
use crate::object::{self, finalizers, is_terminating, meta, metadata_mut};
use crate::options::{FieldValidation, WriteOptions};
use crate::state::State;
use crate::state::call::{Call, Target};
use crate::state::services::Claims;
use crate::verbs::change::{Change, apply_failed, check_place};
use crate::verbs::create::{Begun, create_complete, create_part};
use crate::verbs::patching::{Configuration, Patch, Patched};
use crate::verbs::prepare::prepare_for_update;
use crate::verbs::strict::check_type;
use crate::verbs::write::{
    Origin, Outcome, Written, as_if_stored, check_namespace, complete, finish_decoding, refuse, stored,
    wipe_system_fields,
};
use crate::verbs::{read, scale, unenforced};

/// How often a write without a revision is tried again after a conflict.
const MAX_ATTEMPTS: usize = 100;

/// Changes an object, or one of its parts.
pub(crate) async fn update(
    state: &State,
    call: &mut Call<'_>,
    target: &Target<'_>,
    part: Part,
    change: Change<'_>,
    options: &WriteOptions,
) -> Result<Outcome, ApiError> {
    let updated = try_update(state, call, target, part, change, options).await;
    // Who goes on after an error may look at the cluster.
    back().await;
    updated
}

async fn try_update(
    state: &State,
    call: &mut Call<'_>,
    target: &Target<'_>,
    part: Part,
    change: Change<'_>,
    options: &WriteOptions,
) -> Result<Outcome, ApiError> {
    let as_stored = read::as_stored(state, call, target);
    let target = &as_stored.as_deref().map_or(*target, |definition| Target { definition, ..*target });
    let definition = target.definition;
    let behavior = definition.model.behavior();
    let key = target.key()?;
    let given_warnings = call.warnings.len();
    let mut attempts = 0;
    loop {
        attempts += 1;
        let Some(entry) = state.store.get(&key) else {
            return create_by_update(state, call, target, part, change, options).await;
        };
        definition.check_readable(&entry)?;
        aside().await;
        let mut old = definition.read(&entry);
        let mut new = changed(call, target, part, &change, &mut old, options)?;
        let revision = revision_of(&new)?;
        let current = entry.mod_revision().0;
        if revision == 0 && !behavior.unconditional_update {
            let why = "must be specified for an update";
            let cause = metadata::invalid("metadata.resourceVersion", &json!(0), why);
            let Names { group, plural, .. } = &definition.names;
            return Err(ApiError::invalid(group, plural, target.name, vec![cause]));
        }
        if revision != 0 && revision != current {
            return Err(target.modified());
        }
        object::set_resource_version(&mut new, current);
        if admission::mutates(definition, part) || (part == Part::Main && Claims::has(definition)) {
            back().await;
        }
        admission::mutate(state, target, part, &mut new, Some(&old)).await?;
        let context = UpdateContext { part, now: call.now, gates: &state.lifecycle.gates };
        prepare_for_update(definition, &mut new, &old, &context);
        let _until_stored = match part {
            Part::Main => state.claims.allocate(&state.store, target, &mut new, Some(&old))?,
            _ => None,
        };
        definition.model.set_zero_values(&mut new);
        keep_system_fields(&mut new, &old);
        let mut warnings = Vec::new();
        let causes = validation::validate_update(definition, part, &new, &old, &mut warnings);
        check_budget()?;
        warnings.into_iter().for_each(|warning| call.warn(warning));
        refuse(definition, &new, causes)?;
        (definition.model.strategy().canonicalize)(&mut new);
        metadata::normalize(&mut new);
        keep_times_of_managers(&mut new, &old);
        let finished = is_terminating(&old)
            && finalizers(&new).is_empty()
            && (definition.model.strategy().may_be_removed)(&new)
            && object::metadata(&old)
                .and_then(|metadata| metadata.get("deletionGracePeriodSeconds"))
                .and_then(Value::as_i64)
                .is_none_or(|grace| grace == 0);
        let is_stored = !finished && !options.dry_run;
        let to_store = is_stored.then(|| {
            let to_store = definition.model.to_stored(&new);
            let bytes = object::encode(&to_store);
            let is_new = *bytes != **entry.value();
            (bytes, is_new.then(|| Info::of_written(definition, &to_store)))
        });
        // Half of an object must never be stored.
        check_budget()?;
        back().await;
        let charge = admission::admit(state, call, target, part, &new, Some(&old), options.dry_run).await?;
        if !finished && let Err(error) = definition.check_storable() {
            admission::settle(state, charge, false).await;
            return Err(error);
        }
        if !call.internal
            && part == Part::Main
            && let Some(warning) = unenforced::warning(definition, &new)
        {
            call.warn(warning);
        }
        if options.dry_run {
            // What goes with its last finalizer would not be stored.
            let shown = if finished { new } else { as_if_stored(definition, new) };
            return Ok(Outcome { written: Written::Object(shown), created: false });
        }
        let expect = Expect::Revision(entry.mod_revision());
        let write = match to_store {
            None => Write::delete(key.clone(), expect),
            Some((bytes, Some(info))) => {
                Info::attach(info, Write::update(key.clone(), entry.mod_revision(), bytes))
            }
            Some((_, None)) => {
                if let Change::Apply(config) = &change
                    && call.warnings.len() == given_warnings
                {
                    remember_noop(target, part, config, &entry, options);
                }
                return Ok(Outcome { written: Written::Stored(entry), created: false });
            }
        };
        let written = state.store.write(write).await;
        admission::settle(state, charge, written.is_ok()).await;
        match written {
            Ok(event) => {
                if !finished && !call.internal {
                    unenforced::report(state, target, &new, Some(&old));
                }
                discard(old);
                return Ok(Outcome { written: stored(definition, event.entry(), new), created: false });
            }
            Err(WriteError::Conflict { current: None }) if finished => {
                return Ok(Outcome { written: Written::Object(new), created: false });
            }
            Err(WriteError::Conflict { .. }) if attempts >= MAX_ATTEMPTS => {
                return Err(target.modified());
            }
            Err(WriteError::Conflict { .. }) => {}
            Err(error) => return Err(write_failed(&error)),
        }
    }
}

/// The stored object, if it is known that applying the configuration changes nothing about it.
pub(crate) fn known_noop(
    state: &State,
    target: &Target<'_>,
    part: Part,
    body: &[u8],
    options: &WriteOptions,
) -> Option<Arc<Entry>> {
    let definition = target.definition;
    if options.dry_run || !admission::ignores_noop_updates(definition) {
        return None;
    }
    let entry = state.store.get(&target.key().ok()?)?;
    let is_known = !definition.needs_completion(&entry)
        && definition.noop_applies.contains(&apply_of(part, body, &entry, options));
    is_known.then_some(entry)
}

fn remember_noop(
    target: &Target<'_>,
    part: Part,
    config: &Configuration<'_>,
    entry: &Entry,
    options: &WriteOptions,
) {
    let definition = target.definition;
    if let Some(body) = config.body()
        && part != Part::Scale
        && admission::ignores_noop_updates(definition)
        && !definition.needs_completion(entry)
    {
        definition.noop_applies.insert(&apply_of(part, body, entry, options));
    }
}

fn apply_of<'a>(part: Part, body: &'a [u8], entry: &'a Entry, options: &'a WriteOptions) -> Apply<'a> {
    Apply { part, manager: &options.field_manager, force: options.force, body, value: entry.value() }
}

/// The object that a change makes of `old`, with its managed fields. `old` stays as it is.
fn changed(
    call: &mut Call<'_>,
    target: &Target<'_>,
    part: Part,
    change: &Change<'_>,
    old: &mut Value,
    options: &WriteOptions,
) -> Result<Value, ApiError> {
    let definition = target.definition;
    if part == Part::Scale {
        return scale::rescaled(definition, call, target, change, old, options);
    }
    let manager = definition.field_manager(part);
    let mut new = match change {
        Change::Replace(new) => {
            let mut new = (*new).clone();
            finish_decoding(call, definition, &mut new, Origin::Sent);
            check_place(target, &mut new)?;
            let (given, uid) = (meta(&new, "uid"), meta(old, "uid"));
            if !given.is_empty() && given != uid {
                let why = format!(
                    "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: \
                     Precondition failed: UID in precondition: {given}, UID in object meta: {uid}",
                    storage_key(target)
                );
                return Err(ApiError::conflict(definition.group_resource(), target.name, &why));
            }
            new
        }
        Change::With(change) => {
            let mut new = change(old)?;
            complete(call, definition, &mut new, options, Origin::Patched)?;
            new
        }
        Change::Patch(patch) => patched(call, definition, patch, old, part, options)?,
        Change::Apply(config) => {
            let mut new = manager
                .apply(old, &config.object, &options.field_manager, options.force, call.now)
                .map_err(apply_failed)?;
            config.report(call, options)?;
            // What changes nothing leaves the object as it is, without the defaults of this version.
            if !same_but_managers(&new, old) {
                complete(call, definition, &mut new, options, Origin::Applied)?;
            }
            check_place(target, &mut new)?;
            return Ok(new);
        }
    };
    // An object whose fields cannot be tracked is written without managed fields.
    let _untracked = manager.update_in_place(old, &mut new, &options.manager(call.user_agent), call.now);
    check_place(target, &mut new)?;
    Ok(new)
}

/// What a patch made, as an object of the kind.
fn patched(
    call: &mut Call<'_>,
    definition: &Definition,
    patch: &Patch<'_>,
    old: &Value,
    part: Part,
    options: &WriteOptions,
) -> Result<Value, ApiError> {
    let mut patched = patch.apply(old, part)?;
    let mut new = patched.object.take();
    // As it was before it was decoded; seldom needed, so it is made again then.
    let refused = |patched: &Patched, why: &str| match patch.apply(old, part) {
        Ok(given) => patched.refused(&given.object, why),
        Err(error) => error,
    };
    if !definition.model.is_custom() {
        check_type(definition.api_version(), &definition.names.kind, &new)
            .map_err(|(_, _, why)| refused(&patched, &why))?;
    }
    let incoming = match patched.is_strategic() {
        true => definition.model.decode_map(&mut new),
        false => definition.model.decode(&mut new),
    };
    if let Some(why) = incoming.error {
        return Err(refused(&patched, &why));
    }
    let mut findings = std::mem::take(&mut patched.findings);
    findings
        .extend(incoming.unknown.iter().map(|path| format!("unknown field {}", go::strconv::quote(path))));
    match options.field_validation {
        FieldValidation::Ignore => {}
        FieldValidation::Warn => findings.into_iter().for_each(|finding| call.warn(finding)),
        FieldValidation::Strict if findings.is_empty() => {}
        FieldValidation::Strict => {
            let why = format!("strict decoding error: {}", findings.join(", "));
            return Err(refused(&patched, &why));
        }
    }
    finish_decoding(call, definition, &mut new, Origin::Patched);
    Ok(new)
}

/// An update of what isn't there: for some kinds, and for apply, that creates it.
async fn create_by_update(
    state: &State,
    call: &mut Call<'_>,
    target: &Target<'_>,
    part: Part,
    change: Change<'_>,
    options: &WriteOptions,
) -> Result<Outcome, ApiError> {
    let definition = target.definition;
    let creates = definition.model.behavior().create_on_update;
    // Of such kinds upstream creates by a write to the status as well.
    if part != Part::Main && !(part == Part::Status && creates) {
        return Err(target.not_found());
    }
    match change {
        Change::Replace(new) if creates => {
            let mut new = new.clone();
            check_place(target, &mut new)?;
            // Upstream does not look at it on this way.
            metadata_mut(&mut new).remove("resourceVersion");
            create_part(state, call, target, part, Begun::update(state, target, part), new, options).await
        }
        Change::Apply(config) => {
            let manager = definition.field_manager(part);
            let mut object = manager
                .apply(&manager.empty(), &config.object, &options.field_manager, options.force, call.now)
                .map_err(apply_failed)?;
            config.report(call, options)?;
            complete(call, definition, &mut object, options, Origin::Applied)?;
            let uid = meta(&object, "uid");
            if !uid.is_empty() {
                let why = format!(
                    "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                );
                return Err(ApiError::conflict(definition.group_resource(), target.name, &why));
            }
            check_place(target, &mut object)?;
            check_namespace(state, target)?;
            wipe_system_fields(&mut object);
            metadata_mut(&mut object).remove("resourceVersion");
            create_complete(state, call, target, Begun::update(state, target, part), object, options).await
        }
        _ => Err(target.not_found()),
    }
}

/// Where upstream keeps an object: its messages show it.
fn storage_key(target: &Target<'_>) -> String {
    let Definition { names: Names { group, plural, .. }, model, .. } = target.definition;
    let resource = if model.is_custom() { format!("{group}/{plural}") } else { plural.clone() };
    let parts = [resource.as_str(), target.namespace, target.name];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("/registry/{}", parts.join("/"))
}

/// The revision that an object names; 0 for none.
fn revision_of(object: &Value) -> Result<u64, ApiError> {
    match meta(object, "resourceVersion") {
        "" => Ok(0),
        text => text.parse().map_err(|_| {
            ApiError::new(
                500,
                "",
                format!("strconv.ParseUint: parsing {}: invalid syntax", go::strconv::quote(text)),
            )
        }),
    }
}

/// What the server set, an update can't take away.
fn keep_system_fields(new: &mut Value, old: &Value) {
    let empty = Map::new();
    let before = object::metadata(old).unwrap_or(&empty);
    let metadata = metadata_mut(new);
    let keep = |metadata: &mut Map<String, Value>, name: &str| {
        if let Some(value) = before.get(name) {
            metadata.insert(name.to_owned(), value.clone());
        }
    };
    if metadata.get("uid").and_then(Value::as_str).unwrap_or_default().is_empty() {
        keep(metadata, "uid");
    }
    keep(metadata, "creationTimestamp");
    keep(metadata, "deletionTimestamp");
    if metadata.get("deletionGracePeriodSeconds").is_none_or(Value::is_null) {
        keep(metadata, "deletionGracePeriodSeconds");
    }
    metadata.remove("selfLink");
}

/// If nothing but the times of managers changed, nothing changed.
fn keep_times_of_managers(new: &mut Value, old: &Value) {
    let (Some(after), Some(before)) = (managers_of(new), managers_of(old)) else { return };
    let same = |(after, before): (&Value, &Value)| match (after, before) {
        (Value::Object(after), Value::Object(before)) => same_but(after, before, "time"),
        _ => after == before,
    };
    let same_but_times = after.len() == before.len() && after.iter().zip(before).all(same);
    if same_but_times && after != before && same_but_managers(new, old) {
        let before = before.clone();
        metadata_mut(new).insert("managedFields".to_owned(), before.into());
    }
}

fn managers_of(object: &Value) -> Option<&Vec<Value>> {
    object::metadata(object)?.get("managedFields")?.as_array()
}

/// Whether two objects differ in nothing but who manages them.
fn same_but_managers(a: &Value, b: &Value) -> bool {
    let empty = Map::new();
    let (Value::Object(all), Value::Object(others)) = (a, b) else { return a == b };
    let (metadata, other) = (object::metadata(a).unwrap_or(&empty), object::metadata(b).unwrap_or(&empty));
    same_but(all, others, "metadata") && same_but(metadata, other, "managedFields")
}

/// Whether two maps are equal, without one of the fields.
fn same_but(a: &Map<String, Value>, b: &Map<String, Value>, field: &str) -> bool {
    let rest = |map: &Map<String, Value>| map.len() - usize::from(map.contains_key(field));
    rest(a) == rest(b)
        && a.iter().filter(|(name, _)| *name != field).all(|(name, value)| b.get(name) == Some(value))
}

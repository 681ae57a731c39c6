//! Creating and changing objects (`pkg/registry/rest`, `pkg/registry/generic/registry` upstream).

use std::sync::Arc;

use serde_json::{Map, Value, json};
use settled_go as go;
use settled_store::{Entry, Expect, Write, WriteError};

use crate::admission;
use crate::auth::Attributes;
use crate::budget::check_budget;
use crate::error::{ApiError, Cause, GroupResource, write_failed};
use crate::kinds::definition::Definition;
use crate::kinds::names::Part;
use crate::kinds::{index, validation};
use crate::metadata;
use crate::object::{self, finalizers, is_terminating, meta, metadata_mut};
use crate::options::{FieldValidation, WriteOptions};
use crate::state::State;
use crate::state::call::{Call, Target};
use crate::verbs::change::{Change, apply_failed, check_namespace_of, check_place};
use crate::verbs::patching::Patched;
use crate::verbs::strict::{cannot_be_handled, check_type, report};
use crate::verbs::{parts, read, scale, strategy, unenforced};

/// How often a write without a revision is tried again after a conflict.
const MAX_ATTEMPTS: usize = 100;
/// How many names are made up before giving up.
const MAX_NAMES: usize = 8;

/// What a write left behind.
#[derive(Debug)]
pub(crate) enum Written {
    /// It is stored, or was so already.
    Stored(Arc<Entry>),
    /// It would have been stored, or is gone now.
    Object(Value),
}

/// A write and whether it created the object.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) written: Written,
    pub(crate) created: bool,
}

/// Which request creates an object.
#[derive(Clone, Copy)]
enum Way {
    /// A POST, which was authorized as `create`.
    Post,
    /// An update, patch or apply of a part of what did not exist. It was authorized as `update` or `patch` only.
    Update(Part),
}

/// Removes what is not the client's to say.
fn wipe_system_fields(object: &mut Value) {
    let metadata = metadata_mut(object);
    for name in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(name);
    }
}

fn fill_system_fields(object: &mut Value, call: &Call<'_>) {
    let metadata = metadata_mut(object);
    metadata.insert("uid".to_owned(), uuid::Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".to_owned(), object::time(call.now));
}

/// Five characters that spell no words.
fn random_suffix() -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let bytes = uuid::Uuid::new_v4().into_bytes();
    // The bytes that hold nothing but chance.
    let bytes = bytes.iter().take(5);
    bytes.map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).collect()
}

fn generated_name(prefix: &str) -> String {
    let mut prefix = prefix.to_owned();
    while prefix.len() > 58 {
        prefix.pop();
    }
    prefix + &random_suffix()
}

/// Creates an object.
pub(crate) async fn create(
    state: &State,
    call: &mut Call<'_>,
    target: &Target<'_>,
    mut object: Value,
    options: &WriteOptions,
) -> Result<Outcome, ApiError> {
    read_in(call, target.definition, &mut object, options)?;
    create_read(state, call, target, object, options).await
}

/// As [`create`], of an object that was read as one of its kind.
pub(crate) async fn create_read(
    state: &State,
    call: &mut Call<'_>,
    target: &Target<'_>,
    object: Value,
    options: &WriteOptions,
) -> Result<Outcome, ApiError> {
    create_part(state, call, target, Part::Main, Way::Post, object, options).await
}

/// As [`create_read`], by a write to a part of the object.
async fn create_part(
    state: &State,
    call: &mut Call<'_>,
    target: &Target<'_>,
    part: Part,
    way: Way,
    mut object: Value,
    options: &WriteOptions,
) -> Result<Outcome, ApiError> {
    let definition = target.definition;
    finish_reading(call, definition, &mut object, Origin::Sent);
    wipe_system_fields(&mut object);
    check_namespace_of(target, &mut object)?;
    check_namespace(state, target)?;
    let object = definition.field_manager(part).update_or_forget(
        &definition.empty(),
        &object,
        &options.manager(call.user_agent),
        call.now,
    );
    create_complete(state, call, target, way, object, options).await
}

/// The part of a create after the managed fields.
async fn create_complete(
    state: &State,
    call: &mut Call<'_>,
    target: &Target<'_>,
    way: Way,
    mut object: Value,
    options: &WriteOptions,
) -> Result<Outcome, ApiError> {
    let definition = target.definition;
    let generate = meta(&object, "name").is_empty() && !meta(&object, "generateName").is_empty();
    admission::mutate(state, target, Part::Main, &mut object, None).await?;
    let mut attempts = 0;
    loop {
        attempts += 1;
        fill_system_fields(&mut object, call);
        if generate {
            let name = generated_name(meta(&object, "generateName"));
            metadata_mut(&mut object).insert("name".to_owned(), name.into());
        }
        strategy::prepare_create(definition, &mut object, &call.user);
        definition.model.prepare_create(&mut object);
        // As upstream, before the object is checked.
        let _until_stored = state.claims.allocate(&state.store, target, &mut object, None)?;
        definition.model.fill_zeros(&mut object);
        let mut warnings = Vec::new();
        let causes = validation::validate_create(definition, &object, &mut warnings);
        check_budget()?;
        warnings.into_iter().for_each(|warning| call.warn(warning));
        refuse(definition, &object, causes)?;
        strategy::canonicalize(definition, &mut object);
        metadata::normalize(&mut object);
        let revision = meta(&object, "resourceVersion").parse().unwrap_or(0_u64);
        if revision != 0 && !options.dry_run {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(ApiError::new(500, "", message));
        }
        if !options.dry_run {
            metadata_mut(&mut object).remove("resourceVersion");
        }
        // Half of an object must never be stored.
        check_budget()?;
        if let Way::Update(part) = way {
            authorize_create(state, call, target, part)?;
        }
        let charge =
            admission::admit(state, call, target, Part::Main, &object, None, options.dry_run).await?;
        if let Err(error) = definition.check_storable() {
            admission::settle(state, charge, false).await;
            return Err(error);
        }
        if !call.internal
            && let Some(warning) = unenforced::warning(definition, &object)
        {
            call.warn(warning);
        }
        let name = meta(&object, "name").to_owned();
        let target = Target { name: &name, ..*target };
        let key = target.key()?;
        let exists = |current: Option<&Arc<Entry>>| already_exists(&target, current, generate);
        if options.dry_run {
            return match state.store.get(&key) {
                Some(current) => Err(exists(Some(&current))),
                None => {
                    Ok(Outcome { written: Written::Object(as_if_stored(definition, object)), created: true })
                }
            };
        }
        let bytes = object::encode(&definition.model.to_stored(&object));
        let written = state.store.write(Write::create(key, bytes)).await;
        admission::settle(state, charge, written.is_ok()).await;
        match written {
            Ok(event) => {
                // If the namespace began to go meanwhile, its controller may have looked already. If it begins later, that looks
                // after this write.
                if let Err(error) = check_namespace(state, &target) {
                    let undo = Write::delete(target.key()?, Expect::Revision(event.revision()));
                    let _gone_or_changed = state.store.write(undo).await;
                    return Err(error);
                }
                if !call.internal {
                    unenforced::report(state, &target, &object, None);
                }
                return Ok(Outcome { written: stored(event.entry(), object), created: true });
            }
            Err(WriteError::Conflict { .. }) if generate && attempts < MAX_NAMES => {}
            Err(WriteError::Conflict { current }) => return Err(exists(current.as_ref())),
            Err(error) => return Err(write_failed(&error)),
        }
    }
}

/// Requires the verb `create` for an update that creates (`withAuthorization` of `pkg/endpoints/handlers/update.go` upstream):
/// after the object was found valid, before validating admission.
fn authorize_create(state: &State, call: &Call<'_>, target: &Target<'_>, part: Part) -> Result<(), ApiError> {
    let Definition { group, version, plural, .. } = target.definition;
    // The path of a Namespace names it as the namespace too.
    let is_namespace = (group.as_str(), plural.as_str()) == ("", "namespaces");
    let attributes = Attributes {
        verb: "create",
        api_group: group,
        api_version: version,
        resource: plural,
        subresource: part.subresource(),
        namespace: if is_namespace { target.name } else { target.namespace },
        name: target.name,
        path: None,
    };
    state.identity.rbac().require(&call.user, &attributes)
}

/// Makes an object whole that is not read from a request: unknown fields go, defaults come.
fn complete(
    call: &mut Call<'_>,
    definition: &Definition,
    object: &mut Value,
    options: &WriteOptions,
    origin: Origin,
) -> Result<(), ApiError> {
    read_in(call, definition, object, options)?;
    finish_reading(call, definition, object, origin);
    Ok(())
}

/// The namespace must be there and not on its way out.
fn check_namespace(state: &State, target: &Target<'_>) -> Result<(), ApiError> {
    if !target.definition.namespaced {
        return Ok(());
    }
    let namespaces = GroupResource { group: "", resource: "namespaces" };
    let gone = || ApiError::not_found(namespaces, target.namespace);
    let key = settled_store::Key::new(&state.namespaces, "", target.namespace).map_err(|_| gone())?;
    let namespace = state.store.get(&key).ok_or_else(gone)?;
    if index::is_terminating(&namespace) {
        let why = format!(
            "unable to create new content in namespace {} because it is being terminated",
            target.namespace
        );
        let cause = Cause::new(
            "NamespaceTerminating",
            format!("namespace {} is being terminated", target.namespace),
            "metadata.namespace",
        );
        let error = ApiError::forbidden(target.definition.group_resource(), target.name, &why);
        return Err(error.because([cause]));
    }
    Ok(())
}

/// Changes an object, or one of its parts.
pub(crate) async fn update(
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
    let behaviour = definition.model.behaviour();
    let key = target.key()?;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let Some(entry) = state.store.get(&key) else {
            return create_by_update(state, call, target, part, change, options).await;
        };
        definition.check_readable(&entry)?;
        let old = definition.read(&entry);
        let mut new = changed(call, target, part, &change, &old, options)?;
        let revision = revision_of(&new)?;
        let current = entry.mod_revision().0;
        if revision == 0 && !behaviour.unconditional_update {
            let why = "must be specified for an update";
            let cause = metadata::invalid("metadata.resourceVersion", &json!(0), why);
            let Definition { group, plural, .. } = definition;
            return Err(ApiError::invalid(group, plural, target.name, vec![cause]));
        }
        if revision != 0 && revision != current {
            return Err(target.modified());
        }
        object::set_resource_version(&mut new, current);
        admission::mutate(state, target, part, &mut new, Some(&old)).await?;
        strategy::prepare_update(definition, part, &mut new, &old, call.now);
        let _until_stored = match part {
            Part::Main => state.claims.allocate(&state.store, target, &mut new, Some(&old))?,
            _ => None,
        };
        definition.model.fill_zeros(&mut new);
        keep_system_fields(&mut new, &old);
        let mut warnings = Vec::new();
        let causes = validation::validate_update(definition, part, &new, &old, &mut warnings);
        check_budget()?;
        warnings.into_iter().for_each(|warning| call.warn(warning));
        refuse(definition, &new, causes)?;
        refuse(definition, &new, parts::validate_part(part, &new, &old))?;
        strategy::canonicalize(definition, &mut new);
        metadata::normalize(&mut new);
        keep_times_of_managers(&mut new, &old);
        // Half of an object must never be stored.
        check_budget()?;
        let charge = admission::admit(state, call, target, part, &new, Some(&old), options.dry_run).await?;

        let finished = is_terminating(&old)
            && finalizers(&new).is_empty()
            && strategy::may_vanish(definition, &new)
            && object::metadata(&old)
                .and_then(|metadata| metadata.get("deletionGracePeriodSeconds"))
                .and_then(Value::as_i64)
                .is_none_or(|grace| grace == 0);
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
        let bytes = object::encode(&definition.model.to_stored(&new));
        let write = if finished {
            Write::delete(key.clone(), expect)
        } else if *bytes == **entry.value() {
            return Ok(Outcome { written: Written::Stored(entry), created: false });
        } else {
            Write::update(key.clone(), entry.mod_revision(), bytes)
        };
        let written = state.store.write(write).await;
        admission::settle(state, charge, written.is_ok()).await;
        match written {
            Ok(event) => {
                if !finished && !call.internal {
                    unenforced::report(state, target, &new, Some(&old));
                }
                return Ok(Outcome { written: stored(event.entry(), new), created: false });
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

/// The object that a change makes of `old`, with its managed fields.
fn changed(
    call: &mut Call<'_>,
    target: &Target<'_>,
    part: Part,
    change: &Change<'_>,
    old: &Value,
    options: &WriteOptions,
) -> Result<Value, ApiError> {
    let definition = target.definition;
    if part == Part::Scale {
        return scale::rescaled(definition, call, target, change, old, options);
    }
    let manager = definition.field_manager(part);
    let new = match change {
        Change::Replace(new) => {
            let mut new = (*new).clone();
            finish_reading(call, definition, &mut new, Origin::Sent);
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
        Change::Patch(patch) => patched(call, definition, patch.apply(old, part)?, options)?,
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
    let mut new = manager.update_or_forget(old, &new, &options.manager(call.user_agent), call.now);
    check_place(target, &mut new)?;
    Ok(new)
}

/// What a patch made, as an object of the kind.
fn patched(
    call: &mut Call<'_>,
    definition: &Definition,
    mut patched: Patched,
    options: &WriteOptions,
) -> Result<Value, ApiError> {
    let mut new = patched.object.take();
    let given = new.clone();
    if !definition.model.is_custom() {
        check_type(definition.api_version(), &definition.kind, &new)
            .map_err(|(_, _, why)| patched.refused(&given, &why))?;
    }
    let incoming = match patched.is_strategic() {
        true => definition.model.read_in_map(&mut new),
        false => definition.model.read_in(&mut new),
    };
    if let Some(why) = incoming.error {
        return Err(patched.refused(&given, &why));
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
            return Err(patched.refused(&given, &why));
        }
    }
    finish_reading(call, definition, &mut new, Origin::Patched);
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
    let creates = definition.model.behaviour().create_on_update;
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
            create_part(state, call, target, part, Way::Update(part), new, options).await
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
            create_complete(state, call, target, Way::Update(part), object, options).await
        }
        _ => Err(target.not_found()),
    }
}

/// Where upstream keeps an object: its messages show it.
fn storage_key(target: &Target<'_>) -> String {
    let Definition { group, plural, model, .. } = target.definition;
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

/// Where an object comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The client sent it whole.
    Sent,
    /// A patch, or the server itself, made it of another.
    Patched,
    /// It was merged with what a client applies.
    Applied,
}

/// What follows the reading of an object: owners that were given twice go, defaults come. Of all but what was sent, upstream
/// sees to the owners later. What is applied is not decoded again, so nulls stay in it.
fn finish_reading(call: &mut Call<'_>, definition: &Definition, object: &mut Value, origin: Origin) {
    let when = if origin == Origin::Sent { "" } else { " after mutating admission happens" };
    let duplicates = metadata::deduplicate_owners(object);
    if !duplicates.is_empty() {
        call.warn(format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and \
             may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            duplicates.join(", ")
        ));
    }
    metadata::normalize(object);
    definition.model.default(object, origin == Origin::Applied);
}

/// What a dry run answers: an object as it would be read, had it been stored.
fn as_if_stored(definition: &Definition, mut object: Value) -> Value {
    if let Some(custom) = definition.model.custom().filter(|custom| custom.several) {
        object = custom.to_stored(&object).into_owned();
        custom.read_stored(&mut object, &definition.version);
    }
    object
}

fn already_exists(target: &Target<'_>, current: Option<&Arc<Entry>>, generated: bool) -> ApiError {
    let resource = target.definition.group_resource();
    if generated {
        let message = format!(
            "{resource} {:?} already exists, the server was not able to generate a unique name for the object",
            target.name
        );
        return ApiError::new(409, "AlreadyExists", message).about(resource, target.name).retry_after(1);
    }
    let mut error = ApiError::already_exists(resource, target.name);
    if current.is_some_and(index::is_terminating) {
        error.message = format!("object is being deleted: {}", error.message);
    }
    error
}

fn stored(entry: Option<&Arc<Entry>>, object: Value) -> Written {
    entry.map_or(Written::Object(object), |entry| Written::Stored(entry.clone()))
}

fn refuse(definition: &Definition, object: &Value, causes: Vec<Cause>) -> Result<(), ApiError> {
    if causes.is_empty() {
        return Ok(());
    }
    // Views of a kind are called as it is.
    let group = definition.model.stored_as().map_or(definition.group.as_str(), |stored| stored.group);
    Err(ApiError::invalid(group, &definition.kind, meta(object, "name"), causes))
}

/// Reads what a client sent as an object of the kind. Fields that the kind doesn't have are an error, warnings, or nothing.
fn read_in(
    call: &mut Call<'_>,
    definition: &Definition,
    object: &mut Value,
    options: &WriteOptions,
) -> Result<(), ApiError> {
    let incoming = definition.model.read_in(object);
    if let Some(error) = incoming.error {
        return Err(cannot_be_handled(definition, &error));
    }
    let findings = incoming.unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    report(call, definition, findings, options)
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
    let entries =
        |object: &Value| object.pointer("/metadata/managedFields").and_then(Value::as_array).cloned();
    let (Some(after), Some(before)) = (entries(new), entries(old)) else { return };
    if after == before {
        return;
    }
    let without_time = |entry: &Value| {
        let mut entry = entry.clone();
        entry.as_object_mut().map(|entry| entry.remove("time"));
        entry
    };
    if after.len() != before.len()
        || after.iter().zip(&before).any(|(after, before)| without_time(after) != without_time(before))
    {
        return;
    }
    let mut candidate = new.clone();
    metadata_mut(&mut candidate).insert("managedFields".to_owned(), before.into());
    if candidate == *old {
        *new = candidate;
    }
}

/// Whether two objects differ in nothing but who manages them.
fn same_but_managers(a: &Value, b: &Value) -> bool {
    let without = |object: &Value| {
        let mut object = object.clone();
        metadata_mut(&mut object).remove("managedFields");
        object
    };
    without(a) == without(b)
}

//! Create (`Store.Create` of `pkg/registry/generic/registry` upstream).

use std::sync::Arc;

use serde_json::Value;
use settled_aside::{aside, back};
use settled_store::{Entry, Expect, Write, WriteError};
use uuid::Uuid;

use crate::admission;
use crate::auth::Attributes;
use crate::budget::check_budget;
use crate::error::{ApiError, write_failed};
use crate::kinds::index::{self, Info};
use crate::kinds::names::{Names, Part};
use crate::kinds::validation;
use crate::metadata;
use crate::object::{self, meta, metadata_mut};
use crate::options::WriteOptions;
use crate::state::State;
use crate::state::call::{Call, Target};
use crate::state::random::Random;
use crate::state::services::Claims;
use crate::verbs::change::check_namespace_of;
use crate::verbs::prepare::prepare_for_create;
use crate::verbs::unenforced;
use crate::verbs::write::{
    Namespace, Origin, Outcome, Written, as_if_stored, check_namespace, decode, finish_decoding, refuse,
    stored, wipe_system_fields,
};

/// How many names are made up before giving up.
const MAX_NAMES: usize = 8;

/// Which request creates an object.
#[derive(Clone, Copy)]
enum Way {
    /// A POST, which was authorized as `create`.
    Post,
    /// An update, patch or apply of a part of what did not exist. It was authorized as `update` or `patch` only.
    Update(Part),
}

/// What a create takes from the server before its object is looked at.
pub(crate) struct Begun {
    way: Way,
    uid: Option<Uuid>,
    namespace: Namespace,
}

impl Begun {
    /// Begins to create an object by a POST.
    pub(crate) fn post(state: &State, target: &Target<'_>) -> Self {
        Self::new(state, target, Way::Post)
    }

    /// Begins to create an object by a write to a part of what is not there.
    pub(super) fn update(state: &State, target: &Target<'_>, part: Part) -> Self {
        Self::new(state, target, Way::Update(part))
    }

    fn new(state: &State, target: &Target<'_>, way: Way) -> Self {
        Self { way, uid: Some(state.random.uuid()), namespace: Namespace::find(state, target) }
    }
}

fn fill_system_fields(object: &mut Value, uid: Uuid, call: &Call<'_>) {
    let metadata = metadata_mut(object);
    metadata.insert("uid".to_owned(), uid.to_string().into());
    metadata.insert("creationTimestamp".to_owned(), object::time(call.now));
}

/// Five characters that spell no words.
fn random_suffix(random: &Random) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let bytes = random.uuid().into_bytes();
    // The bytes that hold nothing but chance.
    let bytes = bytes.iter().take(5);
    bytes.map(|byte| char::from(ALPHABET[usize::from(*byte) % ALPHABET.len()])).collect()
}

fn generated_name(prefix: &str, random: &Random) -> String {
    let mut prefix = prefix.to_owned();
    while prefix.len() > 58 {
        prefix.pop();
    }
    prefix + &random_suffix(random)
}

/// Creates an object.
pub(crate) async fn create(
    state: &State,
    call: &mut Call<'_>,
    target: &Target<'_>,
    mut object: Value,
    options: &WriteOptions,
) -> Result<Outcome, ApiError> {
    decode(call, target.definition, &mut object, options)?;
    create_decoded(state, call, target, Begun::post(state, target), object, options).await
}

/// As [`create`], of an object that was read as one of its kind.
pub(crate) async fn create_decoded(
    state: &State,
    call: &mut Call<'_>,
    target: &Target<'_>,
    begun: Begun,
    object: Value,
    options: &WriteOptions,
) -> Result<Outcome, ApiError> {
    let created = create_part(state, call, target, Part::Main, begun, object, options).await;
    // Who goes on after an error may look at the cluster.
    back().await;
    created
}

/// As [`create_decoded`], by a write to a part of the object.
pub(super) async fn create_part(
    state: &State,
    call: &mut Call<'_>,
    target: &Target<'_>,
    part: Part,
    begun: Begun,
    mut object: Value,
    options: &WriteOptions,
) -> Result<Outcome, ApiError> {
    let definition = target.definition;
    aside().await;
    finish_decoding(call, definition, &mut object, Origin::Sent);
    wipe_system_fields(&mut object);
    check_namespace_of(target, &mut object)?;
    begun.namespace.check(target)?;
    let manager = options.manager(call.user_agent);
    definition.field_manager(part).create_in_place(&mut object, &manager, call.now);
    create_complete(state, call, target, begun, object, options).await
}

/// The part of a create after the managed fields.
pub(super) async fn create_complete(
    state: &State,
    call: &mut Call<'_>,
    target: &Target<'_>,
    mut begun: Begun,
    mut object: Value,
    options: &WriteOptions,
) -> Result<Outcome, ApiError> {
    let definition = target.definition;
    let generate = meta(&object, "name").is_empty() && !meta(&object, "generateName").is_empty();
    if generate || admission::mutates(definition, Part::Main) || Claims::has(definition) {
        back().await;
    }
    admission::mutate(state, target, Part::Main, &mut object, None).await?;
    let mut attempts = 0;
    loop {
        attempts += 1;
        let uid = begun.uid.take().unwrap_or_else(|| state.random.uuid());
        fill_system_fields(&mut object, uid, call);
        if generate {
            let name = generated_name(meta(&object, "generateName"), &state.random);
            metadata_mut(&mut object).insert("name".to_owned(), name.into());
        }
        prepare_for_create(definition, &mut object, &call.user);
        // As upstream, before the object is checked.
        let _until_stored = state.claims.allocate(&state.store, target, &mut object, None)?;
        aside().await;
        definition.model.set_zero_values(&mut object);
        let mut warnings = Vec::new();
        let causes = validation::validate_create(definition, &object, &mut warnings);
        check_budget()?;
        warnings.into_iter().for_each(|warning| call.warn(warning));
        refuse(definition, &object, causes)?;
        (definition.model.strategy().canonicalize)(&mut object);
        metadata::normalize(&mut object);
        let revision = meta(&object, "resourceVersion").parse().unwrap_or(0_u64);
        if revision != 0 && !options.dry_run {
            let message = "resourceVersion should not be set on objects to be created";
            return Err(ApiError::new(500, "", message));
        }
        if !options.dry_run {
            metadata_mut(&mut object).remove("resourceVersion");
        }
        let to_store = (!options.dry_run).then(|| {
            let to_store = definition.model.to_stored(&object);
            (object::encode(&to_store), Info::of_written(definition, &to_store))
        });
        // Half of an object must never be stored.
        check_budget()?;
        back().await;
        if let Way::Update(part) = begun.way {
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
        let Some((bytes, info)) = to_store else {
            return match state.store.get(&key) {
                Some(current) => Err(exists(Some(&current))),
                None => {
                    Ok(Outcome { written: Written::Object(as_if_stored(definition, object)), created: true })
                }
            };
        };
        let written = state.store.write(Info::attach(info, Write::create(key, bytes))).await;
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
                return Ok(Outcome { written: stored(definition, event.entry(), object), created: true });
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
    let Names { group, version, plural, .. } = &target.definition.names;
    // The path of a Namespace names it as the namespace too.
    let is_namespace = target.definition.is("", "namespaces");
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

//! Shared steps of create and update: decoding, namespace checks, validation errors.

use std::sync::Arc;

use serde_json::Value;
use settled_aside::discard;
use settled_store::Entry;

use crate::error::{ApiError, Cause, GroupResource};
use crate::kinds::definition::Definition;
use crate::kinds::index;
use crate::metadata;
use crate::object::{self, meta, metadata_mut};
use crate::options::WriteOptions;
use crate::state::State;
use crate::state::call::{Call, Target};
use crate::verbs::strict::{cannot_be_handled, report};

/// What a write left behind.
#[derive(Debug)]
pub(crate) enum Written {
    /// It is stored, or was so already.
    Stored(Arc<Entry>),
    /// It would have been stored, is gone now, or is a view that was stored as another kind.
    Object(Value),
}

/// A write and whether it created the object.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) written: Written,
    pub(crate) created: bool,
}

/// Removes what is not the client's to say.
pub(super) fn wipe_system_fields(object: &mut Value) {
    let metadata = metadata_mut(object);
    for name in ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(name);
    }
}

/// Makes an object whole that is not read from a request: unknown fields go, defaults come.
pub(super) fn complete(
    call: &mut Call<'_>,
    definition: &Definition,
    object: &mut Value,
    options: &WriteOptions,
    origin: Origin,
) -> Result<(), ApiError> {
    decode(call, definition, object, options)?;
    finish_decoding(call, definition, object, origin);
    Ok(())
}

/// The namespace must be there and not on its way out.
pub(super) fn check_namespace(state: &State, target: &Target<'_>) -> Result<(), ApiError> {
    Namespace::find(state, target).check(target)
}

/// Whether a namespace takes new objects.
#[derive(Clone, Copy)]
pub(super) enum Namespace {
    /// It does, or none is needed.
    Active,
    /// There is none.
    Missing,
    /// It is being deleted.
    Terminating,
}

impl Namespace {
    /// Looks at the namespace of an object.
    pub(super) fn find(state: &State, target: &Target<'_>) -> Self {
        if !target.definition.namespaced {
            return Self::Active;
        }
        let key = settled_store::Key::new(&state.namespaces, "", target.namespace);
        match key.ok().and_then(|key| state.store.get(&key)) {
            None => Self::Missing,
            Some(namespace) if index::is_terminating(&namespace) => Self::Terminating,
            Some(_) => Self::Active,
        }
    }

    /// Requires that it takes an object.
    pub(super) fn check(self, target: &Target<'_>) -> Result<(), ApiError> {
        match self {
            Self::Active => return Ok(()),
            Self::Missing => {
                let namespaces = GroupResource { group: "", resource: "namespaces" };
                return Err(ApiError::not_found(namespaces, target.namespace));
            }
            Self::Terminating => {}
        }
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
        Err(error.because([cause]))
    }
}

/// Where an object comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The client sent it whole.
    Sent,
    /// A patch, or the server itself, made it of another.
    Patched,
    /// It was merged with what a client applies.
    Applied,
}

/// What follows the reading of an object: owners that were given twice go, defaults come. Of all but what was sent, upstream
/// sees to the owners later. What is applied is not decoded again, so nulls stay in it.
pub(super) fn finish_decoding(
    call: &mut Call<'_>,
    definition: &Definition,
    object: &mut Value,
    origin: Origin,
) {
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
pub(super) fn as_if_stored(definition: &Definition, mut object: Value) -> Value {
    if let Some(custom) = definition.model.custom().filter(|custom| custom.several) {
        object = custom.to_stored(&object).into_owned();
        custom.read_stored(&mut object, &definition.names.version);
    }
    object
}

/// What was written, as it is answered.
pub(super) fn stored(definition: &Definition, entry: Option<&Arc<Entry>>, mut object: Value) -> Written {
    match entry {
        // The two views of an Event have the same fields under other names: it need not be read and converted again. Events are half of
        // all writes of a busy cluster.
        Some(entry) if definition.is("events.k8s.io", "events") => {
            object::set_resource_version(&mut object, entry.mod_revision().0);
            Written::Object(object)
        }
        Some(entry) => {
            discard(object);
            Written::Stored(entry.clone())
        }
        None => Written::Object(object),
    }
}

pub(super) fn refuse(definition: &Definition, object: &Value, causes: Vec<Cause>) -> Result<(), ApiError> {
    if causes.is_empty() {
        return Ok(());
    }
    // Views of a kind are called as it is.
    let group = definition.model.stored_as().map_or(definition.names.group.as_str(), |stored| stored.group);
    Err(ApiError::invalid(group, &definition.names.kind, meta(object, "name"), causes))
}

/// Reads what a client sent as an object of the kind. Fields that the kind doesn't have are an error, warnings, or nothing.
pub(super) fn decode(
    call: &mut Call<'_>,
    definition: &Definition,
    object: &mut Value,
    options: &WriteOptions,
) -> Result<(), ApiError> {
    let incoming = definition.model.decode(object);
    if let Some(error) = incoming.error {
        return Err(cannot_be_handled(definition, &error));
    }
    let findings = incoming.unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    report(call, definition, findings, options)
}

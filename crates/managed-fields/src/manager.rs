//! Field manager: update and server-side apply of whole objects, as in the API server.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use settled_apimachinery::group_version::GroupVersionKind;
use settled_apimachinery::unstructured::{field, string};
use settled_go as go;

use crate::created::Created;
use crate::entry::{
    Entry, Managed, Operation, encode_managed_fields, print_manager, put_entries, take_managed_fields,
};
use crate::path::Path;
use crate::set::{FieldFilter, FieldSet};
use crate::typed::{Duplicates, ObjectType, TypedValue, ValidationErrors};
use crate::update::{Conflicts, ConvertError, Converter, UpdateError, Updater, VersionedSet};

/// Type information of kinds for a [`FieldManager`].
pub trait ObjectTypes {
    /// The type of a kind in a version; `None` if there is no such version.
    fn object_type(&self, api_version: &str, kind: &str) -> Option<ObjectType>;

    /// An object in another version, with its new `apiVersion`. It is not asked for the version that the object has.
    ///
    /// # Errors
    /// There is no such version, or the conversion fails.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError>;

    /// Sets the defaults of an object that was applied.
    fn set_defaults(&self, _object: &mut Value) {}
}

/// Knows nothing: every field of a map has its own owners, a list has them as a whole, all versions have the same
/// fields.
#[derive(Clone, Copy, Debug, Default)]
pub struct Untyped;

impl ObjectTypes for Untyped {
    fn object_type(&self, _: &str, _: &str) -> Option<ObjectType> {
        Some(ObjectType::deduced())
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        let mut object = object.clone();
        if let Some(object) = object.as_object_mut() {
            object.insert("apiVersion".to_owned(), api_version.into());
        }
        Ok(object)
    }
}

/// One conflict as the `details.causes` of a Status hold it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// `conflict with "kubectl" using apps/v1`.
    pub message: String,
    /// `.spec.replicas`.
    pub field: String,
}

impl Cause {
    /// The reason of every such cause.
    pub const REASON: &'static str = "FieldManagerConflict";
}

/// Why an apply or update failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The request is wrong in itself: status code 400.
    #[error("{0}")]
    BadRequest(String),
    /// Other managers own fields that the configuration wants to change: status code 409.
    #[error("{message}")]
    Conflict {
        /// The message of the Status.
        message: String,
        /// A cause for each field, sorted by manager.
        causes: Vec<Cause>,
    },
    /// The object could not be read or converted. Kubernetes answers with status code 500.
    #[error("{0}")]
    Failed(String),
}

impl ApplyError {
    fn conflict(conflicts: &Conflicts) -> Self {
        let causes: Vec<_> = conflicts
            .iter()
            .map(|conflict| Cause {
                message: format!("conflict with {}", print_manager(&conflict.manager)),
                field: conflict.path.to_string(),
            })
            .collect();
        let count = match causes.len() {
            1 => "1 conflict".to_owned(),
            count => format!("{count} conflicts"),
        };
        let message = format!("Apply failed with {count}: {}", conflicts.text(print_manager));
        Self::Conflict { message, causes }
    }
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Only this manager takes over what it applied on the client's side.
const KUBECTL: &str = "kubectl";
const ANNOTATIONS_LIMIT: usize = 256 * 1024;
const CURRENT: &str = "current-operation";

/// Fields without owner: those that the server sets or that identify the object.
static NEVER_OWNED: LazyLock<FieldSet> = LazyLock::new(|| {
    let metadata = [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ];
    let metadata = metadata.map(|name| Path::fields(["metadata", name]));
    ["apiVersion", "kind", "metadata"].map(|name| Path::fields([name])).into_iter().chain(metadata).collect()
});

/// Applies and updates objects of one kind, in one version, through one subresource.
///
/// ```
/// use serde_json::json;
/// use settled_managed_fields::{ApplyError, FieldManager, Untyped};
///
/// let manager = FieldManager::new(Untyped, "example.com/v1", "Widget");
/// let now = "2024-05-01T10:00:00Z".parse().unwrap();
/// let widget = |size| json!({"apiVersion": "example.com/v1", "kind": "Widget", "spec": {"size": size}});
///
/// let live = manager.apply(&manager.empty(), &widget(1), "alice", false, now).unwrap();
/// assert_eq!(live["metadata"]["managedFields"][0]["manager"], "alice");
///
/// let refused = manager.apply(&live, &widget(2), "bob", false, now).unwrap_err();
/// assert_eq!(refused.to_string(), r#"Apply failed with 1 conflict: conflict with "alice": .spec.size"#);
/// ```
#[derive(Clone, Debug)]
pub struct FieldManager<T> {
    types: T,
    api_version: String,
    kind: String,
    subresource: String,
    /// Empty object of the kind, if it has more than a type.
    empty: Option<Value>,
    filters: BTreeMap<String, FieldFilter>,
    max_update_managers: usize,
    /// Tracked live objects are of their type.
    trusts_live: bool,
    created: Created,
}

/// Converts whole objects by their `apiVersion`.
struct ByApiVersion<'a, T>(&'a T);

impl<T: ObjectTypes> Converter for ByApiVersion<'_, T> {
    fn convert<'a>(
        &self,
        object: &'a TypedValue,
        api_version: &str,
    ) -> Result<Cow<'a, TypedValue>, ConvertError> {
        if !object.value().is_object() {
            return Err(ConvertError::Failed(format!(
                "failed to convert value to unstructured for type {}",
                go::fmt::type_name(object.value())
            )));
        }
        if string(object.value(), "apiVersion") == api_version {
            return Ok(Cow::Borrowed(object));
        }
        let converted = self.0.convert(object.value(), api_version)?;
        let object_type = type_of(self.0, &converted)?;
        TypedValue::new(converted, object_type, Duplicates::Reject)
            .map(Cow::Owned)
            .map_err(|errors| ConvertError::Failed(errors.to_string()))
    }
}

fn type_of(types: &impl ObjectTypes, object: &Value) -> Result<ObjectType, ConvertError> {
    let (api_version, kind) = (string(object, "apiVersion"), string(object, "kind"));
    types
        .object_type(api_version, kind)
        .ok_or_else(|| ConvertError::MissingVersion(print_gvk(api_version, kind)))
}

fn print_gvk(api_version: &str, kind: &str) -> String {
    GroupVersionKind::from_api_version_and_kind(api_version, kind).to_string()
}

/// Namespace, name and kind of an object.
fn describe(object: &Value) -> String {
    let meta = |name: &str| object.pointer(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let kind = print_gvk(string(object, "apiVersion"), string(object, "kind"));
    format!("{}/{}; {kind}", meta("/metadata/namespace"), meta("/metadata/name"))
}

/// The text of an annotation. If one of them is not a text, there are none.
fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    object
        .pointer("/metadata/annotations")
        .and_then(Value::as_object)
        .filter(|all| all.values().all(|value| value.is_string() || value.is_null()))
        .and_then(|all| all.get(name))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Whether an author wants to forget all managers: with an empty list, or a list of one empty entry.
fn is_reset(object: &Value) -> bool {
    match field(field(object, "metadata"), "managedFields").as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

impl<T: ObjectTypes> FieldManager<T> {
    /// A manager for objects of a kind, as the version `api_version` has them.
    pub fn new(types: T, api_version: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            types,
            api_version: api_version.into(),
            kind: kind.into(),
            subresource: String::new(),
            empty: None,
            filters: BTreeMap::new(),
            max_update_managers: 10,
            trusts_live: false,
            created: Created::default(),
        }
    }

    /// For writes to a subresource. Its managers are others than those of the object itself.
    #[must_use]
    pub fn with_subresource(mut self, subresource: impl Into<String>) -> Self {
        self.subresource = subresource.into();
        self
    }

    /// What there is before there is an object: for types of Go, a struct with all its fields. An object that is no more than
    /// that was written by nobody.
    #[must_use]
    pub fn with_empty(mut self, empty: Value) -> Self {
        self.empty = Some(empty);
        self.created = Created::default();
        self
    }

    /// Tracks only the fields of a version that pass a filter: without the status in writes to the object, with nothing
    /// but the status in writes to the status.
    #[must_use]
    pub fn with_filter(mut self, api_version: impl Into<String>, filter: FieldFilter) -> Self {
        self.filters.insert(api_version.into(), filter);
        self.created = Created::default();
        self
    }

    /// Maximum number of update managers, 10 by default. The oldest ones are merged into `ancient-changes`.
    #[must_use]
    pub const fn with_max_update_managers(mut self, max: usize) -> Self {
        self.max_update_managers = max;
        self
    }

    /// For kinds whose type never changes, and whose live objects can only be what was written here: one that has managed fields was
    /// checked against its type when they were written. Updates do not check it again, and of new objects only what differs.
    #[must_use]
    pub const fn with_trusted_live_objects(mut self) -> Self {
        self.trusts_live = true;
        self
    }

    /// Empty object: the live object of a create.
    #[must_use]
    pub fn empty(&self) -> Value {
        self.empty.clone().unwrap_or_else(|| json!({"apiVersion": self.api_version, "kind": self.kind}))
    }

    fn updater(&self) -> Updater<ByApiVersion<'_, T>> {
        let updater = Updater::new(ByApiVersion(&self.types));
        self.filters
            .iter()
            .fold(updater, |updater, (version, filter)| updater.with_filter(version.clone(), filter.clone()))
    }

    fn identifier(&self, manager: &str, operation: Operation) -> String {
        self.entry(manager, operation, None).identifier()
    }

    /// An entry of this version and subresource, without fields.
    fn entry(&self, manager: &str, operation: Operation, time: Option<Timestamp>) -> Entry {
        Entry {
            manager: if manager.is_empty() { "unknown" } else { manager }.to_owned(),
            operation,
            api_version: self.api_version.clone(),
            time,
            subresource: self.subresource.clone(),
            fields: FieldSet::new(),
        }
    }

    /// An object in the version of this manager.
    fn versioned<'a>(&self, object: &'a Value) -> Result<Cow<'a, Value>, ConvertError> {
        if string(object, "apiVersion") == self.api_version {
            return Ok(Cow::Borrowed(object));
        }
        self.types.convert(object, &self.api_version).map(Cow::Owned)
    }

    /// `doing` and `to` go around the description of the object in the message of an error.
    fn typed(
        &self,
        object: &Value,
        duplicates: Duplicates,
        (doing, to): (&str, &str),
    ) -> Result<TypedValue, ApplyError> {
        let failed =
            |why: String| ApplyError::Failed(format!("failed to {doing} ({}){to}: {why}", describe(object)));
        let object_type = type_of(&self.types, object).map_err(|error| failed(error.to_string()))?;
        TypedValue::new(object.clone(), object_type, duplicates)
            .map_err(|errors: ValidationErrors| failed(errors.to_string()))
    }

    fn typed_version(
        &self,
        object: &Value,
        what: &str,
        doing: (&str, &str),
    ) -> Result<TypedValue, ApplyError> {
        let versioned = self.versioned(object).map_err(|error| {
            ApplyError::Failed(format!(
                "failed to convert {what} object ({}) to proper version: {error}",
                describe(object)
            ))
        })?;
        self.typed(&versioned, Duplicates::Allow, doing)
    }

    /// The type of a live object that need not be checked.
    fn trusted_type(&self, live: &Value, managed: &Managed) -> Option<ObjectType> {
        let is_trusted = self.trusts_live
            && !managed.managers.is_empty()
            && string(live, "apiVersion") == self.api_version;
        if !is_trusted {
            return None;
        }
        type_of(&self.types, live).ok()
    }

    /// Makes a typed value of an object, which is put back when that goes. Nothing is copied, unless the object is of another version.
    ///
    /// `beside`: another one, which was checked.
    fn lend<'o>(
        &self,
        object: &'o mut Value,
        beside: Option<&Lent<'_>>,
        what: &str,
        (doing, to): (&str, &str),
    ) -> Result<Lent<'o>, ApplyError> {
        if string(object, "apiVersion") != self.api_version {
            let typed = self.typed_version(object, what, (doing, to))?;
            return Ok(Lent { typed: Some(typed), home: None });
        }
        let object_type = type_of(&self.types, object).map_err(|error| error.to_string());
        let checked = object_type.and_then(|object_type| {
            let checked = match beside.filter(|beside| beside.home.is_some()).map(Lent::value) {
                Some(beside)
                    if Arc::ptr_eq(&beside.object_type().schema, &object_type.schema)
                        && beside.object_type().type_ref == object_type.type_ref =>
                {
                    TypedValue::check_beside(object, beside)
                }
                _ => TypedValue::check(object, &object_type, Duplicates::Allow),
            };
            checked.map(|()| object_type).map_err(|errors| errors.to_string())
        });
        let object_type = checked.map_err(|why| {
            ApplyError::Failed(format!("failed to {doing} ({}){to}: {why}", describe(object)))
        })?;
        Ok(Lent { typed: Some(TypedValue::checked(object.take(), object_type)), home: Some(object) })
    }

    /// Completes an object that was written as a whole (created, replaced or patched) with its managed fields.
    ///
    /// `live` is the object before, or [`FieldManager::empty`] for a create. The managed fields of `new` take the place
    /// of those of `live` if there are any; `[]` and `[{}]` forget all.
    ///
    /// # Errors
    /// One of the objects is not of its type, or cannot be converted.
    pub fn update(
        &self,
        live: &Value,
        new: &Value,
        manager: &str,
        now: Timestamp,
    ) -> Result<Value, ApplyError> {
        let (mut live, mut new) = (live.clone(), new.clone());
        self.update_in_place(&mut live, &mut new, manager, now)?;
        Ok(new)
    }

    /// As [`FieldManager::update`], without copies: `new` gets its managed fields. After an error it has none. `live` stays as it is.
    ///
    /// # Errors
    /// As for [`FieldManager::update`].
    pub fn update_in_place(
        &self,
        live: &mut Value,
        new: &mut Value,
        manager: &str,
        now: Timestamp,
    ) -> Result<(), ApplyError> {
        let is_reset = self.subresource.is_empty() && is_reset(new);
        let given = take_managed_fields(new);
        let stored = live.get("metadata").and_then(|metadata| metadata.get("managedFields"));
        let managed = if is_reset {
            Managed::default()
        } else if given.as_ref() == stored {
            Managed::decode_stored(given.unwrap_or_default()).unwrap_or_default()
        } else {
            // Clients that don't know of managed fields must not delete them by accident.
            let given = given.filter(|_| self.subresource.is_empty());
            let given = given.map(|given| Managed::decode(&json!({"metadata": {"managedFields": given}})));
            match given {
                Some(Ok(managed)) if !managed.managers.is_empty() => managed,
                _ => Managed::decode_stored(stored.cloned().unwrap_or_default()).unwrap_or_default(),
            }
        };
        let managed = self.track_update(live, new, managed, manager, now)?;
        managed.encode(new);
        Ok(())
    }

    /// Completes an object that is created, as [`FieldManager::update`] of [`FieldManager::empty`] does, without copies. An object whose
    /// fields cannot be tracked gets none.
    pub fn create_in_place(&self, new: &mut Value, manager: &str, now: Timestamp) {
        if new.get("metadata").and_then(|metadata| metadata.get("managedFields")).is_none() {
            if let Some(fields) = self.created.find(new) {
                let entry = self.entry(manager, Operation::Update, Some(now));
                return put_entries(new, vec![(entry, fields)]);
            }
            // Then it has none.
            let _untracked = self.update_in_place(&mut self.empty(), new, manager, now);
            return self.created.learn(&self.empty(), new);
        }
        let _untracked = self.update_in_place(&mut self.empty(), new, manager, now);
    }

    /// As [`FieldManager::update`], but an object whose fields cannot be tracked is written without managed fields.
    #[must_use]
    pub fn update_or_forget(&self, live: &Value, new: &Value, manager: &str, now: Timestamp) -> Value {
        let (mut live, mut new) = (live.clone(), new.clone());
        // Then it has none.
        let _untracked = self.update_in_place(&mut live, &mut new, manager, now);
        new
    }

    fn track_update(
        &self,
        live: &mut Value,
        new: &mut Value,
        managed: Managed,
        manager: &str,
        now: Timestamp,
    ) -> Result<Managed, ApplyError> {
        // An object that was created without tracking is tracked from its first apply on.
        let exists = !string(field(live, "metadata"), "uid").is_empty();
        if managed.managers.is_empty() && exists {
            return Ok(managed);
        }
        let mut managed = self.update_managers(live, new, managed, manager, now)?;
        self.cap_update_managers(&mut managed);
        Ok(managed)
    }

    fn update_managers(
        &self,
        live: &mut Value,
        new: &mut Value,
        mut managed: Managed,
        manager: &str,
        now: Timestamp,
    ) -> Result<Managed, ApplyError> {
        let mut times = std::mem::take(&mut managed.times);
        let updated = {
            let (doing_new, doing_live) =
                (("convert new object", " to smd typed"), ("convert live object", " to smd typed"));
            let (new_typed, live_typed);
            if let Some(object_type) = self.trusted_type(live, &managed) {
                let typed = TypedValue::checked(live.take(), object_type);
                live_typed = Lent { typed: Some(typed), home: Some(live) };
                new_typed = self.lend(new, Some(&live_typed), "new", doing_new)?;
            } else {
                new_typed = self.lend(new, None, "new", doing_new)?;
                live_typed = self.lend(live, Some(&new_typed), "live", doing_live)?;
            }
            // The entries of this write and of earlier writes are kept apart, to detect writes without effect.
            self.updater().update(
                live_typed.value(),
                new_typed.value(),
                &self.api_version,
                &managed.managers,
                CURRENT,
            )
        };
        let mut managers = updated.map_err(|error| {
            ApplyError::Failed(format!("failed to update ManagedFields ({}): {error}", describe(new)))
        })?;
        if let Some(mut current) = managers.remove(CURRENT) {
            let mut set = current.set.difference(&NEVER_OWNED);
            if !set.is_empty() {
                let identifier = self.identifier(manager, Operation::Update);
                if let Some(before) = managers.get(&identifier) {
                    set = set.union(&before.set);
                }
                current.set = Arc::new(set);
                managers.insert(identifier.clone(), current);
                times.insert(identifier, Some(now));
            }
        }
        Ok(managed.with(managers, times))
    }

    /// Merges the oldest managers of each version until there are few enough.
    fn cap_update_managers(&self, managed: &mut Managed) {
        let Managed { managers, times, .. } = managed;
        let mut updaters: Vec<_> = managers
            .iter()
            .filter(|(_, owned)| !owned.applied)
            .map(|(identifier, _)| {
                let time = times.get(identifier).copied().flatten();
                (time.map_or(0, Timestamp::as_second), identifier.clone())
            })
            .collect();
        updaters.sort();
        let mut left = updaters.len();
        let mut first_of: BTreeMap<String, String> = BTreeMap::new();
        // Sets of each bucket, merged at the end to avoid repeated copies.
        let mut merged: BTreeMap<String, Vec<FieldSet>> = BTreeMap::new();
        for (_, identifier) in updaters {
            if left <= self.max_update_managers {
                break;
            }
            let Some(owned) = managers.get(&identifier) else { continue };
            let Some(first) = first_of.get(&owned.api_version) else {
                first_of.insert(owned.api_version.clone(), identifier);
                continue;
            };
            let bucket = Entry {
                manager: "ancient-changes".to_owned(),
                operation: Operation::Update,
                api_version: owned.api_version.clone(),
                time: None,
                subresource: String::new(),
                fields: FieldSet::new(),
            };
            let bucket = bucket.identifier();
            if !managers.contains_key(&bucket)
                && let Some(owned) = managers.remove(first)
            {
                managers.insert(bucket.clone(), owned);
            }
            if bucket != identifier
                && let Some(owned) = managers.remove(&identifier)
            {
                managers.entry(bucket.clone()).or_insert_with(|| VersionedSet {
                    set: Arc::default(),
                    api_version: owned.api_version,
                    applied: false,
                });
                merged.entry(bucket.clone()).or_default().push(Arc::unwrap_or_clone(owned.set));
            }
            left -= 1;
            // That of the younger one.
            let time = times.get(&identifier).copied().flatten();
            times.insert(bucket, time);
        }
        for (bucket, mut sets) in merged {
            let Some(bucket) = managers.get_mut(&bucket) else { continue };
            // Of equal elements, that of the youngest stays.
            sets.reverse();
            sets.push(Arc::unwrap_or_clone(std::mem::take(&mut bucket.set)));
            bucket.set = Arc::new(FieldSet::union_of(sets));
        }
    }

    /// Applies a configuration: the new object, with its managed fields.
    ///
    /// `live` is the object before, or [`FieldManager::empty`] if there is none yet.
    ///
    /// # Errors
    /// [`ApplyError::Conflict`] if others own fields that change, unless `force` takes them. The configuration is of
    /// another kind or version, has managed fields, or is not of its type.
    pub fn apply(
        &self,
        live: &Value,
        config: &Value,
        manager: &str,
        force: bool,
        now: Timestamp,
    ) -> Result<Value, ApplyError> {
        let managed = Managed::decode(live)
            .map_err(|error| ApplyError::Failed(format!("failed to decode managed fields: {error}")))?;
        let (api_version, kind) = (string(config, "apiVersion"), string(config, "kind"));
        if api_version != self.api_version || kind != self.kind {
            let given = print_gvk(api_version, kind);
            return Err(ApplyError::BadRequest(format!("invalid object type: {given}")));
        }
        let (mut object, managed) =
            match self.apply_tracked(live, config, managed.clone(), manager, force, now) {
                Err(Refusal::Conflicts(conflicts)) if manager == KUBECTL => {
                    let Some(allowed) = self.own_by_last_applied(live) else {
                        return Err(ApplyError::conflict(&conflicts));
                    };
                    let left: Vec<_> = conflicts
                        .iter()
                        .filter(|conflict| !allowed.contains(&conflict.path))
                        .cloned()
                        .collect();
                    if !left.is_empty() {
                        return Err(ApplyError::conflict(&Conflicts(left)));
                    }
                    self.apply_tracked(live, config, managed, manager, true, now)
                }
                other => other,
            }
            .map_err(|refusal| match refusal {
                Refusal::Conflicts(conflicts) => ApplyError::conflict(&conflicts),
                Refusal::Error(error) => error,
            })?;
        if manager == KUBECTL && !annotation(&object, LAST_APPLIED).is_empty() {
            set_last_applied(&mut object, config);
        }
        managed.encode(&mut object);
        Ok(object)
    }

    fn apply_tracked(
        &self,
        live: &Value,
        config: &Value,
        mut managed: Managed,
        manager: &str,
        force: bool,
        now: Timestamp,
    ) -> Result<(Value, Managed), Refusal> {
        let mut live = Cow::Borrowed(live);
        if managed.managers.is_empty() {
            // Existing fields have been written by someone.
            let (mut empty, mut all) = (self.empty(), Value::clone(&live));
            managed = self
                .update_managers(&mut empty, &mut all, managed, "before-first-apply", now)
                .map_err(|error| {
                    ApplyError::Failed(format!("failed to create manager for existing fields: {error}"))
                })?;
            self.cap_update_managers(&mut managed);
            if live.pointer("/metadata/managedFields").is_some() {
                encode_managed_fields(live.to_mut(), Vec::new());
            }
        }
        if config.pointer("/metadata/managedFields").is_some_and(Value::is_array) {
            let message = "metadata.managedFields must be nil".to_owned();
            return Err(Refusal::Error(ApplyError::BadRequest(message)));
        }
        let config_typed = self.typed(config, Duplicates::Reject, ("create typed patch object", ""))?;
        let live_typed = self.typed_version(&live, "live", ("create typed live object", ""))?;
        let (managers, mut times) =
            (std::mem::take(&mut managed.managers), std::mem::take(&mut managed.times));
        let identifier = self.identifier(manager, Operation::Apply);
        let applied = self
            .updater()
            .apply(&live_typed, &config_typed, &self.api_version, &managers, &identifier, force)
            .map_err(|error| match error {
                UpdateError::Conflicts(conflicts) => Refusal::Conflicts(conflicts),
                other => Refusal::Error(ApplyError::Failed(other.to_string())),
            })?;
        let mut managers = applied.managers;
        if let Some(owned) = managers.get_mut(&identifier) {
            owned.set = Arc::new(owned.set.difference(&NEVER_OWNED));
            if owned.set.is_empty() {
                managers.remove(&identifier);
            }
        }
        let object = match applied.object {
            Some(object) => {
                times.insert(identifier, Some(now));
                let mut object = object.into_value();
                self.types.set_defaults(&mut object);
                object
            }
            None => live.into_owned(),
        };
        Ok((object, managed.with(managers, times)))
    }

    /// Fields of kubectl's client-side apply that have not changed since. An apply can take them over.
    fn own_by_last_applied(&self, live: &Value) -> Option<FieldSet> {
        let last: Value = serde_json::from_str(annotation(live, LAST_APPLIED)).ok()?;
        if string(&last, "apiVersion") != self.api_version {
            return None;
        }
        let live = self.versioned(live).ok()?;
        let live = self.typed(&live, Duplicates::Reject, ("convert live object", "")).ok()?;
        let last = self.typed(&last, Duplicates::Reject, ("convert last applied object", "")).ok()?;
        let changes = last.compare(&live).ok()?;
        let own = last.to_field_set().ok()?;
        Some(own.difference(&changes.modified).difference(&changes.added).difference(&changes.removed))
    }
}

/// A typed value that was made of an object in place.
struct Lent<'o> {
    typed: Option<TypedValue>,
    /// Where the value goes back to.
    home: Option<&'o mut Value>,
}

impl Lent<'_> {
    fn value(&self) -> &TypedValue {
        static NOTHING: LazyLock<TypedValue> =
            LazyLock::new(|| TypedValue::checked(Value::Null, ObjectType::deduced()));
        // It is there until the end.
        self.typed.as_ref().unwrap_or(&NOTHING)
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let (Some(home), Some(typed)) = (self.home.take(), self.typed.take()) {
            *home = typed.into_value();
        }
    }
}

enum Refusal {
    Conflicts(Conflicts),
    Error(ApplyError),
}

impl From<ApplyError> for Refusal {
    fn from(error: ApplyError) -> Self {
        Self::Error(error)
    }
}

/// Keeps the annotation of client-side apply in step, so that one can go back to it.
fn set_last_applied(object: &mut Value, config: &Value) {
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
        without_nulls(annotations);
    }
    let mut text = String::new();
    go::json::push(&config, &mut text);
    // As Go's encoder ends a document.
    text.push('\n');
    let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else {
        return;
    };
    without_nulls(annotations);
    annotations.insert(LAST_APPLIED.to_owned(), text.into());
    let size = |(name, value): (&String, &Value)| name.len() + value.as_str().map_or(0, str::len);
    if annotations.iter().map(size).sum::<usize>() > ANNOTATIONS_LIMIT {
        annotations.remove(LAST_APPLIED);
    }
}

/// Null annotations become empty strings when annotations are written.
fn without_nulls(annotations: &mut Map<String, Value>) {
    for value in annotations.values_mut().filter(|value| value.is_null()) {
        *value = "".into();
    }
}

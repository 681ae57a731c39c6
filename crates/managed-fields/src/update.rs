//! Update and apply of typed objects, and the resulting field ownership.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use settled_go as go;

use crate::path::Path;
use crate::set::{FieldFilter, FieldSet};
use crate::typed::{Comparison, TypedValue, ValidationErrors};
use crate::value;

/// The fields of one manager, in one version of the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedSet {
    /// The fields.
    pub set: Arc<FieldSet>,
    /// The version of the object that the paths are of.
    pub api_version: String,
    /// Whether the manager applied them, as opposed to having written them.
    pub applied: bool,
}

/// The managers of an object and what they own.
pub type Managers = BTreeMap<String, VersionedSet>;

/// Why an object cannot be had in another version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// The version is not served any more. What managers own in it is forgotten.
    #[error("no corresponding type for {0}")]
    MissingVersion(String),
    /// The conversion failed.
    #[error("{0}")]
    Failed(String),
}

/// Converts objects from one version to another.
pub trait Converter {
    /// The object in a version. An object that is of this version already comes back as it is.
    ///
    /// # Errors
    /// There is no such version, or the object cannot be converted.
    fn convert<'a>(
        &self,
        object: &'a TypedValue,
        api_version: &str,
    ) -> Result<Cow<'a, TypedValue>, ConvertError>;
}

/// The converter for objects that have one version, or the same fields in every version.
#[derive(Clone, Copy, Debug, Default)]
pub struct SameVersion;

impl Converter for SameVersion {
    fn convert<'a>(&self, object: &'a TypedValue, _: &str) -> Result<Cow<'a, TypedValue>, ConvertError> {
        Ok(Cow::Borrowed(object))
    }
}

/// A field that an applier wants to have and another manager owns with another value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// The owner.
    pub manager: String,
    /// The field.
    pub path: Path,
}

impl fmt::Display for Conflict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "conflict with {}: {}", go::strconv::quote(&self.manager), self.path)
    }
}

/// All conflicts of an apply, sorted by manager.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conflicts(pub(crate) Vec<Conflict>);

impl Conflicts {
    /// The conflicts, one by one.
    pub fn iter(&self) -> impl Iterator<Item = &Conflict> {
        self.0.iter()
    }

    /// The fields in conflict.
    #[must_use]
    pub fn to_set(&self) -> FieldSet {
        self.0.iter().map(|conflict| conflict.path.clone()).collect()
    }

    /// The text for a list of conflicts, with each manager printed by a function.
    pub(crate) fn text(&self, print: impl Fn(&str) -> String) -> String {
        if let [only] = &self.0[..] {
            return format!("conflict with {}: {}", print(&only.manager), only.path);
        }
        let mut lines = Vec::new();
        let mut last = None;
        for Conflict { manager, path } in &self.0 {
            if last != Some(manager) {
                lines.push(format!("conflicts with {}:", print(manager)));
                last = Some(manager);
            }
            lines.push(format!("- {path}"));
        }
        lines.join("\n")
    }
}

impl fmt::Display for Conflicts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text(go::strconv::quote))
    }
}

/// Why an update or apply failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UpdateError {
    /// Other managers own fields that the configuration wants to change.
    #[error("{0}")]
    Conflicts(Conflicts),
    /// A value does not go with its type.
    #[error("{doing}: {errors}")]
    Invalid {
        /// The failed step.
        doing: String,
        /// The validation errors.
        errors: ValidationErrors,
    },
    /// The object could not be converted to the version of a manager.
    #[error("{doing}{}{error}", if doing.is_empty() { "" } else { ": " })]
    Convert {
        /// The failed step; empty if the error suffices.
        doing: String,
        /// Why it failed.
        error: ConvertError,
    },
    /// The [budget](settled_budget) of the work is used up.
    #[error("the work was stopped before its end")]
    Stopped,
}

/// Fields that a write takes from other managers, in one version.
struct Taken {
    /// The fields that get another value.
    written: FieldSet,
    /// The fields that go.
    removed: FieldSet,
}

impl Taken {
    fn of(changes: Comparison) -> Self {
        Self { written: changes.modified.union(&changes.added), removed: changes.removed }
    }
}

fn invalid(doing: &str) -> impl Fn(ValidationErrors) -> UpdateError {
    move |errors| UpdateError::Invalid { doing: doing.to_owned(), errors }
}

/// Converts, with `None` for a version that is not served any more.
fn convert<'a>(
    converter: &impl Converter,
    object: &'a TypedValue,
    api_version: &str,
    doing: &str,
) -> Result<Option<Cow<'a, TypedValue>>, UpdateError> {
    match converter.convert(object, api_version) {
        Ok(converted) => Ok(Some(converted)),
        Err(ConvertError::MissingVersion(_)) => Ok(None),
        Err(error) => Err(UpdateError::Convert { doing: doing.to_owned(), error }),
    }
}

/// Result of an apply.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The new object; `None` if nothing about it changes.
    pub object: Option<TypedValue>,
    /// The managers. They can change without the object.
    pub managers: Managers,
}

/// Merges what is applied, and keeps track of who owns what.
///
/// ```
/// use serde_json::json;
/// use settled_managed_fields::{Duplicates, Managers, ObjectType, SameVersion, TypedValue, Updater};
///
/// let typed = |value| TypedValue::new(value, ObjectType::deduced(), Duplicates::Reject).unwrap();
/// let updater = Updater::new(SameVersion);
///
/// let empty = typed(json!({}));
/// let first = updater
///     .apply(&empty, &typed(json!({"spec": {"replicas": 1}})), "v1", &Managers::new(), "alice", false)
///     .unwrap();
/// let live = first.object.unwrap();
/// let conflict = updater
///     .apply(&live, &typed(json!({"spec": {"replicas": 2}})), "v1", &first.managers, "bob", false)
///     .unwrap_err();
/// assert_eq!(conflict.to_string(), r#"conflict with "alice": .spec.replicas"#);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Updater<C> {
    converter: C,
    filters: BTreeMap<String, FieldFilter>,
}

impl<C: Converter> Updater<C> {
    /// An updater that tracks all fields.
    pub const fn new(converter: C) -> Self {
        Self { converter, filters: BTreeMap::new() }
    }

    /// Tracks only the fields of a version that pass a filter.
    #[must_use]
    pub fn with_filter(mut self, api_version: impl Into<String>, filter: FieldFilter) -> Self {
        self.filters.insert(api_version.into(), filter);
        self
    }

    fn filtered(&self, comparison: Comparison, api_version: &str) -> Comparison {
        match self.filters.get(api_version) {
            Some(filter) => comparison.filtered(filter),
            None => comparison,
        }
    }

    fn filtered_set(&self, set: FieldSet, api_version: &str) -> FieldSet {
        match self.filters.get(api_version) {
            Some(filter) => filter.apply(&set),
            None => set,
        }
    }

    /// The managers after an object has been written as a whole: created, replaced or patched.
    ///
    /// The manager owns what it changed, and all others lose that.
    ///
    /// # Errors
    /// The two objects are of different types, or a conversion fails.
    pub fn update(
        &self,
        live: &TypedValue,
        new: &TypedValue,
        api_version: &str,
        managers: &Managers,
        manager: &str,
    ) -> Result<Managers, UpdateError> {
        let managers = self.reconcile(live, managers)?;
        let (mut managers, changes) = self.take(live, new, api_version, managers, manager, true)?;
        let before = managers.remove(manager).map(|owned| owned.set).unwrap_or_default();
        let set = before.difference(&changes.removed).union(&changes.modified).union(&changes.added);
        let set = self.filtered_set(set, api_version);
        if !set.is_empty() {
            let owned =
                VersionedSet { set: Arc::new(set), api_version: api_version.to_owned(), applied: false };
            managers.insert(manager.to_owned(), owned);
        }
        Ok(managers)
    }

    /// Merges a configuration into an object.
    ///
    /// The manager owns what its configuration says. What it said last time and does not say any more is removed,
    /// unless another manager owns it as well.
    ///
    /// # Errors
    /// [`UpdateError::Conflicts`] if others own fields that change, unless `force` takes them. Else as for
    /// [`Updater::update`].
    pub fn apply(
        &self,
        live: &TypedValue,
        config: &TypedValue,
        api_version: &str,
        managers: &Managers,
        manager: &str,
        force: bool,
    ) -> Result<Applied, UpdateError> {
        let mut managers = self.reconcile(live, managers)?;
        let merged = live.merge(config).map_err(invalid("failed to merge config"))?;
        let set = config.to_field_set().map_err(invalid("failed to get field set"))?;
        let set = self.filtered_set(set, api_version);
        let owned = VersionedSet { set: Arc::new(set), api_version: api_version.to_owned(), applied: true };
        let last = managers.insert(manager.to_owned(), owned);
        let new = match last {
            Some(last) if !last.set.is_empty() => self.prune(merged, &managers, api_version, &last)?,
            _ => merged,
        };
        let (managers, _) = self.take(live, &new, api_version, managers, manager, force)?;
        let changed = !value::equal(live.value(), new.value());
        Ok(Applied { object: changed.then_some(new), managers })
    }

    /// Takes what changes from everybody but the manager.
    fn take(
        &self,
        live: &TypedValue,
        new: &TypedValue,
        api_version: &str,
        managers: Managers,
        manager: &str,
        force: bool,
    ) -> Result<(Managers, Comparison), UpdateError> {
        let changes = live.compare(new).map_err(invalid("failed to compare objects"))?;
        let changes = self.filtered(changes, api_version);
        let mut by_version = BTreeMap::from([(api_version.to_owned(), Some(Taken::of(changes.clone())))]);
        let mut conflicts = Vec::new();
        let mut left = Managers::new();
        for (name, mut owned) in managers {
            if name == manager {
                if !owned.set.is_empty() {
                    left.insert(name, owned);
                }
                continue;
            }
            if !settled_budget::spend(1) {
                return Err(UpdateError::Stopped);
            }
            if !by_version.contains_key(&owned.api_version) {
                let version = &owned.api_version;
                let before = convert(&self.converter, live, version, "failed to convert old object")?;
                let after = match before {
                    Some(_) => convert(&self.converter, new, version, "failed to convert new object")?,
                    None => None,
                };
                let taken = match (before, after) {
                    (Some(before), Some(after)) => {
                        let changes = before.compare(&after).map_err(invalid("failed to compare objects"))?;
                        Some(Taken::of(self.filtered(changes, version)))
                    }
                    _ => None,
                };
                by_version.insert(version.clone(), taken);
            }
            let Some(Some(taken)) = by_version.get(&owned.api_version) else { continue };
            let lost = owned.set.intersection(&taken.written);
            if !lost.is_empty() {
                if !force {
                    let paths = lost.iter();
                    conflicts.extend(paths.map(|path| Conflict { manager: name.clone(), path }));
                }
                owned.set = Arc::new(owned.set.difference(&lost));
            }
            // Mostly, a write takes nothing from others: then their sets stay the same ones.
            if !owned.set.intersection(&taken.removed).is_empty() {
                owned.set = Arc::new(owned.set.difference(&taken.removed));
            }
            if !owned.set.is_empty() {
                left.insert(name, owned);
            }
        }
        if conflicts.is_empty() {
            Ok((left, changes))
        } else {
            Err(UpdateError::Conflicts(Conflicts(conflicts)))
        }
    }

    /// Removes fields that the manager applied before but not now, and that have no other owner.
    fn prune(
        &self,
        merged: TypedValue,
        managers: &Managers,
        api_version: &str,
        last: &VersionedSet,
    ) -> Result<TypedValue, UpdateError> {
        let doing = "failed to prune fields: failed to convert merged object to last applied version";
        let Some(merged_then) = convert(&self.converter, &merged, &last.api_version, doing)? else {
            return Ok(merged);
        };
        let (schema, type_ref) = (&merged_then.object_type().schema, &merged_then.object_type().type_ref);
        let pruned = merged_then.remove_items(&last.set.with_named_fields(schema, type_ref));
        let pruned = self.add_back_owned(&merged_then, pruned, &last.api_version, managers)?;
        let pruned = self.add_back_dangling(&merged_then, &pruned, last)?;
        match self.converter.convert(&pruned, api_version) {
            Ok(Cow::Owned(converted)) => Ok(converted),
            Ok(Cow::Borrowed(_)) => Ok(pruned),
            Err(error) => Err(UpdateError::Convert { doing: "failed to prune fields".to_owned(), error }),
        }
    }

    /// Brings back what anybody owns, the manager with its new configuration included.
    fn add_back_owned(
        &self,
        merged: &TypedValue,
        mut pruned: TypedValue,
        pruned_version: &str,
        managers: &Managers,
    ) -> Result<TypedValue, UpdateError> {
        let mut by_version: BTreeMap<&str, Vec<FieldSet>> = BTreeMap::new();
        for owned in managers.values() {
            by_version.entry(&owned.api_version).or_default().push(FieldSet::clone(&owned.set));
        }
        // The version that was pruned comes first, because other versions may need what was pruned to be converted.
        let mut versions: Vec<_> =
            by_version.into_iter().map(|(version, sets)| (version, FieldSet::union_of(sets))).collect();
        versions.sort_by_key(|(version, _)| *version != pruned_version);
        let mut merged = Cow::Borrowed(merged);
        for (version, owned) in versions {
            let doing = |what| {
                format!(
                    "failed to prune fields: failed add back owned items: failed to {what} at version {version}"
                )
            };
            let converted = match convert(&self.converter, &merged, version, &doing("convert merged object"))?
            {
                Some(converted) => converted.into_owned(),
                None => continue,
            };
            merged = Cow::Owned(converted);
            let pruned_now = convert(&self.converter, &pruned, version, &doing("convert pruned object"))?;
            let Some(pruned_now) = pruned_now else { continue };
            let merged_set =
                merged.to_field_set().map_err(invalid(&doing("create field set from merged object")))?;
            let pruned_set = pruned_now
                .to_field_set_after_removal()
                .map_err(invalid(&doing("create field set from pruned object")))?;
            let (schema, type_ref) = (&merged.object_type().schema, &merged.object_type().type_ref);
            let kept = pruned_set
                .with_named_fields(schema, type_ref)
                .union(&owned.with_named_fields(schema, type_ref));
            let gone = merged_set.with_named_fields(schema, type_ref).difference(&kept);
            pruned = merged.remove_items(&gone);
        }
        Ok(pruned)
    }

    /// Brings back what went along with a field above it and was not the manager's own.
    fn add_back_dangling(
        &self,
        merged: &TypedValue,
        pruned: &TypedValue,
        last: &VersionedSet,
    ) -> Result<TypedValue, UpdateError> {
        let doing = "failed to prune fields: failed add back dangling items: failed to convert pruned object \
                     to last applied version";
        let Some(pruned) = convert(&self.converter, pruned, &last.api_version, doing)? else {
            return Ok(merged.clone());
        };
        let doing = "failed to prune fields: failed add back dangling items: failed to create field set";
        let pruned_set = pruned.to_field_set_after_removal().map_err(invalid(doing))?;
        let merged_set = merged.to_field_set().map_err(invalid(doing))?;
        let (schema, type_ref) = (&merged.object_type().schema, &merged.object_type().type_ref);
        let gone = merged_set
            .with_named_fields(schema, type_ref)
            .difference(&pruned_set.with_named_fields(schema, type_ref))
            .intersection(&last.set.with_named_fields(schema, type_ref));
        Ok(merged.remove_items(&gone))
    }

    /// Brings what managers own in line with a schema that has changed since.
    fn reconcile(&self, live: &TypedValue, managers: &Managers) -> Result<Managers, UpdateError> {
        let mut reconciled = Managers::new();
        let mut by_version = BTreeMap::new();
        for (name, owned) in managers {
            if !settled_budget::spend(1) {
                return Err(UpdateError::Stopped);
            }
            let version = owned.api_version.as_str();
            if !by_version.contains_key(version) {
                by_version.insert(version, convert(&self.converter, live, version, "")?);
            }
            let Some(Some(live)) = by_version.get(version) else { continue };
            let changed = live
                .reconcile_field_set(&owned.set)
                .map_err(invalid("errors reconciling field set with schema"))?;
            let owned = match changed {
                Some(set) => VersionedSet {
                    set: Arc::new(set),
                    api_version: owned.api_version.clone(),
                    applied: owned.applied,
                },
                None => owned.clone(),
            };
            reconciled.insert(name.clone(), owned);
        }
        Ok(reconciled)
    }
}

//! Definitions: a resource in one version, and the catalog of all that are served.
//!
//! Built-in kinds and custom resources are rows of the same table.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use settled_managed_fields::FieldManager;
use settled_store::{Entry, Resource};
use tokio::sync::watch;

use crate::error::{ApiError, GroupResource};
use crate::kinds::builtin::BuiltinKind;
use crate::kinds::conversion::{self, Conversion};
use crate::kinds::custom::Custom;
use crate::kinds::model::{Builtin, Model, Types};
use crate::kinds::names::{Names, Part, Subresource, api_version, stored_as, version_rank};
use crate::kinds::noop_applies::NoOpApplies;
use crate::kinds::scale_paths::{self, ScalePaths};
use crate::kinds::strategies;
use crate::kinds::table::Columns;
use crate::object::{self, Head};
use crate::selector::SelectableFields;

/// A resource in one version: where it is, what it may do, what its objects look like.
pub(crate) struct Definition {
    pub(crate) names: Names,
    pub(crate) namespaced: bool,
    pub(crate) verbs: Vec<&'static str>,
    pub(crate) subresources: Vec<Subresource>,
    /// A text that every use of the version is answered with.
    pub(crate) deprecation: Option<String>,
    /// What it is called in the store: the same for all versions.
    pub(crate) resource: Resource,
    /// Which fields objects can be selected by: the same for all versions.
    pub(crate) selectable: SelectableFields,
    /// What a table of the objects shows.
    pub(crate) columns: Columns,
    pub(crate) scale: Option<ScalePaths>,
    pub(crate) model: Model,
    api_version: String,
    head: Head,
    managers: [OnceLock<FieldManager<Types>>; 7],
    pub(crate) noop_applies: NoOpApplies,
    /// Shared with the definition that it replaced, if the watches of that go on.
    retired: watch::Sender<bool>,
}

impl Definition {
    #[expect(clippy::too_many_arguments, reason = "a row of a table")]
    pub(crate) fn new(
        names: Names,
        resource: Resource,
        namespaced: bool,
        verbs: Vec<&'static str>,
        subresources: Vec<Subresource>,
        deprecation: Option<String>,
        selectable: SelectableFields,
        columns: Columns,
        scale: Option<ScalePaths>,
        model: Model,
    ) -> Self {
        let api_version = api_version(&names.group, &names.version);
        let head = match model.is_custom() {
            true => Head::custom(&api_version, &names.kind),
            false => Head::new(&api_version, &names.kind),
        };
        Self {
            names,
            namespaced,
            verbs,
            subresources,
            deprecation,
            resource,
            selectable,
            columns,
            scale,
            model,
            api_version,
            head,
            managers: Default::default(),
            noop_applies: NoOpApplies::default(),
            retired: watch::Sender::new(false),
        }
    }

    /// That of a built-in kind.
    pub(crate) fn builtin(row: &'static BuiltinKind) -> Result<Self, settled_store::KeyError> {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let names = Names {
            group: row.group.to_owned(),
            version: row.version.to_owned(),
            kind: row.kind.to_owned(),
            list_kind: row.list_kind.to_owned(),
            plural: row.plural.to_owned(),
            singular: row.singular.to_owned(),
            short_names: owned(row.short_names),
            categories: owned(row.categories),
        };
        let strategy = strategies::find(row.group, row.kind);
        let subresources = row
            .subresources
            .iter()
            .map(|sub| Subresource {
                name: sub.name.to_owned(),
                kind: sub.kind.to_owned(),
                group_version: (sub.group != row.group || sub.version != row.version)
                    .then(|| (sub.group.to_owned(), sub.version.to_owned())),
                verbs: sub.verbs.to_vec(),
            })
            .chain(strategy.adds_status_subresource.then(|| Subresource::status(row.kind)))
            .collect();
        let scale = row.has_subresource("scale").then(ScalePaths::builtin);
        Ok(Self::new(
            names,
            stored_as(row.group, row.plural)?,
            row.namespaced,
            row.verbs.to_vec(),
            subresources,
            strategy.deprecation.map(str::to_owned),
            SelectableFields::builtin(&strategy.field_selectors),
            Columns::builtin(row.group, row.kind),
            scale,
            Model::Builtin(Builtin { row, strategy }),
        ))
    }

    /// `apps/v1`.
    pub(crate) fn api_version(&self) -> &str {
        &self.api_version
    }

    /// Is it this resource, in any version?
    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.names.group == group && self.names.plural == plural
    }

    /// What goes before the stored bytes of an object.
    pub(crate) fn head(&self) -> &Head {
        &self.head
    }

    /// For the texts of errors.
    pub(crate) fn group_resource(&self) -> GroupResource<'_> {
        GroupResource { group: &self.names.group, resource: &self.names.plural }
    }

    /// Was the entry written under an older definition, so that it must be read anew?
    pub(crate) fn needs_completion(&self, entry: &Entry) -> bool {
        match &self.model {
            Model::Builtin(_) => self.model.stored_as().is_some(),
            Model::Custom(custom) => custom.several || custom.changed > entry.mod_revision().0,
        }
    }

    /// A stored object as the definition has it.
    pub(crate) fn read(&self, entry: &Entry) -> Value {
        self.read_at(entry, entry.mod_revision().0)
    }

    /// As [`Definition::read`], with another revision: that of the deletion, for a watcher.
    pub(crate) fn read_at(&self, entry: &Entry, revision: u64) -> Value {
        let (api_version, kind) = match self.model.stored_as() {
            Some(stored) => (stored.api_version(), stored.kind),
            None => (self.api_version.clone(), self.names.kind.as_str()),
        };
        let mut object = object::decode_at(entry.value(), revision, &api_version, kind);
        self.model.read_stored(&mut object);
        if let Some(custom) = self.model.custom()
            && self.needs_completion(entry)
        {
            custom.read_stored(&mut object, &self.names.version);
        }
        object
    }

    /// The custom resource, if a webhook would convert its objects.
    pub(crate) fn converted_by_webhook(&self) -> Option<&Custom> {
        self.model.custom().filter(|custom| custom.conversion == Conversion::Webhook)
    }

    /// Refuses to read an object that a webhook would have to convert.
    pub(crate) fn check_readable(&self, entry: &Entry) -> Result<(), ApiError> {
        let Some(custom) = self.converted_by_webhook() else { return Ok(()) };
        let stored = custom.stored_version(entry);
        if stored == self.names.version {
            return Ok(());
        }
        if !custom.has_version(&stored) {
            let from = api_version(&self.names.group, &stored);
            let message = format!("request to convert CR from an invalid group/version: {from}");
            return Err(ApiError::new(500, "", message));
        }
        Err(self.conversion_failed(&stored))
    }

    /// Refuses to store an object of this version if a webhook would have to convert it to the storage version.
    pub(crate) fn check_storable(&self) -> Result<(), ApiError> {
        match self.converted_by_webhook() {
            Some(custom) if custom.storage_version != self.names.version => {
                Err(self.conversion_failed(&self.names.version))
            }
            _ => Ok(()),
        }
    }

    fn conversion_failed(&self, from: &str) -> ApiError {
        ApiError::new(500, "", conversion::failure(&api_version(&self.names.group, from), &self.names.kind))
    }

    /// Takes over the watches of the definition that this one replaces: they end with this one.
    pub(crate) fn keep_watches_of(&mut self, replaced: &Self) {
        self.retired = replaced.retired.clone();
    }

    /// Ends the watches of a definition that is served no more.
    pub(crate) fn retire(&self) {
        self.retired.send_replace(true);
    }

    /// Is done when the definition is served no more.
    pub(crate) fn retired(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut retired = self.retired.subscribe();
        async move {
            // An error: it is gone altogether.
            let _gone = retired.wait_for(|retired| *retired).await;
        }
    }

    /// A subresource.
    pub(crate) fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|sub| sub.name == name)
    }

    /// The `apiVersion` and the kind of what is sent to a subresource; to the resource itself, if there is no such one.
    pub(crate) fn sent_to(&self, subresource: &str) -> (String, &str) {
        let Some(sub) = self.subresource(subresource) else {
            return (self.api_version.clone(), &self.names.kind);
        };
        let own = || self.api_version.clone();
        let version =
            sub.group_version.as_ref().map_or_else(own, |(group, version)| api_version(group, version));
        (version, &sub.kind)
    }

    /// Is the status written on its own?
    pub(crate) fn has_status(&self) -> bool {
        self.subresource("status").is_some()
    }

    /// Is it the kind whose objects are made when they are asked for?
    pub(crate) fn is_component_status(&self) -> bool {
        self.is("", "componentstatuses")
    }

    /// What there is before there is an object: to Go a struct with all its fields.
    pub(crate) fn empty(&self) -> Value {
        let mut empty = json!({"apiVersion": self.api_version, "kind": self.names.kind});
        self.model.set_zero_values(&mut empty);
        empty
    }

    /// Who keeps the books on who owns which field of a part.
    pub(crate) fn field_manager(&self, part: Part) -> &FieldManager<Types> {
        let subresource = part.subresource();
        let cell = &self.managers[part as usize];
        cell.get_or_init(|| {
            if part == Part::Scale {
                let types = Types::scale();
                return FieldManager::new(types, scale_paths::API_VERSION, scale_paths::KIND)
                    .with_subresource(subresource);
            }
            let types = self.model.types(&self.api_version);
            let mut manager = FieldManager::new(types.clone(), &self.api_version, &self.names.kind)
                .with_empty(self.empty());
            if !self.model.is_custom() {
                manager = manager.with_trusted_live_objects();
            }
            if !subresource.is_empty() {
                manager = manager.with_subresource(subresource);
            }
            if self.has_status() {
                for version in types.versions() {
                    manager = manager.with_filter(version, self.model.owned_filter(part));
                }
            }
            manager
        })
    }
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.names.plural, self.api_version)
    }
}

/// All definitions that are served. It never changes; there is a new one when something does.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    /// By group, version and plural name.
    definitions: BTreeMap<String, BTreeMap<String, BTreeMap<String, Arc<Definition>>>>,
    /// Each resource in its preferred version, computed at first use.
    preferred: OnceLock<Box<[Arc<Definition>]>>,
}

impl Catalog {
    pub(crate) fn insert(&mut self, definition: Arc<Definition>) {
        self.preferred.take();
        self.definitions
            .entry(definition.names.group.clone())
            .or_default()
            .entry(definition.names.version.clone())
            .or_default()
            .insert(definition.names.plural.clone(), definition);
    }

    /// The built-in kinds alone.
    pub(crate) fn builtin(&self) -> Self {
        let mut builtin = Self::default();
        let resources = self.definitions.values().flat_map(BTreeMap::values).flat_map(BTreeMap::values);
        for definition in resources.filter(|definition| !definition.model.is_custom()) {
            builtin.insert(definition.clone());
        }
        builtin
    }

    /// Takes all versions of a resource away.
    pub(crate) fn remove(&mut self, group: &str, plural: &str) {
        self.preferred.take();
        if let Some(versions) = self.definitions.get_mut(group) {
            for resources in versions.values_mut() {
                resources.remove(plural);
            }
            versions.retain(|_, resources| !resources.is_empty());
            if versions.is_empty() {
                self.definitions.remove(group);
            }
        }
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Definition>> {
        self.definitions.get(group)?.get(version)?.get(plural)
    }

    /// The versions of a resource, the preferred one first.
    pub(crate) fn versions_of(&self, group: &str, plural: &str) -> Vec<&Arc<Definition>> {
        let versions = self.versions(group);
        versions.iter().filter_map(|version| self.find(group, version, plural)).collect()
    }

    /// The groups, sorted.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &str> {
        self.definitions.keys().map(String::as_str)
    }

    /// The versions of a group, the preferred one first.
    pub(crate) fn versions(&self, group: &str) -> Vec<&str> {
        let mut versions: Vec<&str> =
            self.definitions.get(group).into_iter().flat_map(BTreeMap::keys).map(String::as_str).collect();
        versions.sort_by_cached_key(|version| version_rank(version));
        versions
    }

    /// The definitions of a group in a version, by plural name.
    pub(crate) fn resources(&self, group: &str, version: &str) -> impl Iterator<Item = &Arc<Definition>> {
        self.definitions
            .get(group)
            .and_then(|versions| versions.get(version))
            .into_iter()
            .flat_map(BTreeMap::values)
    }

    /// Each resource once, in its preferred version.
    pub(crate) fn preferred(&self) -> &[Arc<Definition>] {
        self.preferred.get_or_init(|| {
            let mut seen = std::collections::BTreeSet::new();
            let mut found = Vec::new();
            for group in self.definitions.keys() {
                for version in self.versions(group) {
                    let resources = self.resources(group, version);
                    found.extend(resources.filter(|definition| seen.insert(&definition.resource)).cloned());
                }
            }
            found.into()
        })
    }
}

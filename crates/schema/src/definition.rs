//! Whole CustomResourceDefinitions: `apiextensions.k8s.io/v1` as JSON.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value, json};
use settled_apimachinery::field::{Error as FieldError, Path};
use settled_apimachinery::object_meta::{validate_object_meta, validate_object_meta_update};
use settled_apimachinery::unstructured::{flag, given, string};
use settled_apimachinery::validation;
use settled_go as go;
use settled_go::url;

use crate::node::{Node, Schema};
use crate::props::{self, Dump, Props};
use crate::{metadata, prune, structural, validate};

/// Sets what upstream's `SetDefaults` sets: the singular and list kind, conversion `None`, the port of a conversion webhook,
/// and the first stored version.
pub fn default_definition(crd: &mut Value) {
    let Some(crd) = crd.as_object_mut() else { return };
    let spec = crd.entry("spec").or_insert_with(|| json!({}));
    if spec.is_null() {
        *spec = json!({});
    }
    let storage = storage_version(spec).map(str::to_owned);
    if let Some(spec) = spec.as_object_mut() {
        let names = spec.entry("names").or_insert_with(|| json!({}));
        if let Some(names) = names.as_object_mut() {
            let kind = names.get("kind").and_then(Value::as_str).unwrap_or_default().to_owned();
            let empty = |names: &Map<String, Value>, name: &str| {
                names.get(name).and_then(Value::as_str).unwrap_or_default().is_empty()
            };
            if !kind.is_empty() {
                if empty(names, "singular") {
                    names.insert("singular".to_owned(), kind.to_lowercase().into());
                }
                if empty(names, "listKind") {
                    names.insert("listKind".to_owned(), format!("{kind}List").into());
                }
            }
        }
        let conversion = spec.entry("conversion").or_insert(Value::Null);
        if conversion.is_null() {
            *conversion = json!({"strategy": "None"});
        }
        if let Some(Value::Object(service)) = conversion.pointer_mut("/webhook/clientConfig/service")
            && service.get("port").is_none_or(Value::is_null)
        {
            service.insert("port".to_owned(), 443.into());
        }
    }
    let stored = crd.get("status").and_then(|status| status.get("storedVersions")).and_then(Value::as_array);
    if let (Some(storage), true) = (storage, stored.is_none_or(Vec::is_empty)) {
        store(crd, storage);
    }
}

fn storage_version(spec: &Value) -> Option<&str> {
    let versions = spec.get("versions")?.as_array()?;
    let version = versions.iter().find(|one| one.get("storage") == Some(&Value::Bool(true)))?;
    Some(string(version, "name"))
}

/// Adds a version to those that are stored.
fn store(crd: &mut Map<String, Value>, version: String) {
    let status = crd.entry("status").or_insert_with(|| json!({}));
    if !status.is_object() {
        *status = json!({});
    }
    if let Some(status) = status.as_object_mut() {
        let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
        if let Some(stored) = stored.as_array_mut() {
            let version = Value::from(version);
            if !stored.contains(&version) {
                stored.push(version);
            }
        } else {
            *stored = json!([version]);
        }
    }
}

fn store_storage_version(crd: &mut Map<String, Value>) {
    if let Some(version) = crd.get("spec").and_then(storage_version).map(str::to_owned) {
        store(crd, version);
    }
}

/// What upstream does to a new definition before it validates it: its status is cleared but for the stored version, its
/// generation is 1.
pub fn prepare_for_create(crd: &mut Value) {
    let Some(crd) = crd.as_object_mut() else { return };
    crd.insert("status".to_owned(), json!({}));
    set_generation(crd, 1);
    store_storage_version(crd);
}

/// What upstream does to an update of the definition: its status is the old one with the storage version, its generation
/// rises with a change of the spec.
pub fn prepare_for_update(crd: &mut Value, old: &Value) {
    let Some(crd) = crd.as_object_mut() else { return };
    match old.get("status") {
        Some(status) => crd.insert("status".to_owned(), status.clone()),
        None => crd.remove("status"),
    };
    if crd.get("spec") != old.get("spec") {
        let generation = old.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or_default();
        set_generation(crd, generation + 1);
    }
    store_storage_version(crd);
}

fn set_generation(crd: &mut Map<String, Value>, generation: i64) {
    if let Some(metadata) = crd.entry("metadata").or_insert_with(|| json!({})).as_object_mut() {
        metadata.insert("generation".to_owned(), generation.into());
    }
}

/// Checks a whole definition, with `old` an update of it. Both are as they come from [`default_definition`] and
/// [`prepare_for_create`] or [`prepare_for_update`].
///
/// As upstream, fields of versions that all have alike are named where its internal form has them:
/// `spec.validation.openAPIV3Schema`, `spec.subresources`, `spec.additionalPrinterColumns`, `spec.selectableFields`. Rules in CEL are
/// checked for their form, not compiled. A definition of the wrong shape is for whoever decodes it; here what has the wrong
/// type counts as absent.
pub fn validate_definition(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let crd = match Crd::read(new) {
        Ok(crd) => crd,
        Err(errors) => return errors,
    };
    let old_crd = old.and_then(|old| Crd::read(old).ok());
    let options = old_crd.as_ref().map_or_else(Options::strict, |old| Options::of_update(&crd, old));

    let nil = Path::Nil;
    let at = nil.child("metadata");
    let nothing = Map::new();
    let metadata = new.get("metadata").and_then(Value::as_object).unwrap_or(&nothing);
    if let Some(old) = old {
        let old = old.get("metadata").and_then(Value::as_object).unwrap_or(&nothing);
        if metadata::text_of(metadata, "resourceVersion").is_empty() {
            let at = at.child("resourceVersion");
            errors.push(FieldError::invalid(at, "", "must be specified for an update"));
        }
        validate_object_meta_update(metadata, old, &at, &mut errors);
    } else {
        let full = format!("{}.{}", crd.names.plural, crd.group);
        let name_errors = |name: &str, prefix: bool| {
            let mut why = validation::name_is_dns_subdomain(name, prefix);
            if name != full {
                why.push("must be spec.names.plural+\".\"+spec.group".to_owned());
            }
            why
        };
        validate_object_meta(metadata, false, &name_errors, &at, &mut errors);
    }

    let spec = nil.child("spec");
    validate_spec(&crd, &options, &spec, &mut errors);
    if let Some(old) = &old_crd {
        let mut fixed = |name: &'static str, one: &str, before: &str| {
            if one != before {
                let field = format!("spec.{name}");
                errors.push(FieldError::invalid(field, one, "field is immutable"));
            }
        };
        if old.established {
            fixed("scope", &crd.scope, &old.scope);
            fixed("names.kind", &crd.names.kind, &old.names.kind);
        }
        fixed("group", &crd.group, &old.group);
        fixed("names.plural", &crd.names.plural, &old.names.plural);
    }
    let status = nil.child("status");
    validate_names(&crd.accepted_names, &status.child("acceptedNames"), &mut errors);
    stored_versions(&crd, new, &mut errors);
    approval(&crd.group, metadata, old, &mut errors);
    if crd.preserve_unknown && !old_crd.as_ref().is_some_and(|old| old.preserve_unknown) {
        errors.push(FieldError::invalid(
            spec.child("preserveUnknownFields"),
            true,
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
    errors
}

#[derive(Default)]
struct Names {
    plural: String,
    singular: String,
    kind: String,
    list_kind: String,
    short: Vec<String>,
    categories: Vec<String>,
}

impl Names {
    fn read(names: Option<&Value>) -> Self {
        let Some(names) = names else { return Self::default() };
        let all = |name: &str| {
            let list = names.get(name).and_then(Value::as_array).into_iter().flatten();
            list.map(|one| one.as_str().unwrap_or_default().to_owned()).collect()
        };
        Self {
            plural: string(names, "plural").to_owned(),
            singular: string(names, "singular").to_owned(),
            kind: string(names, "kind").to_owned(),
            list_kind: string(names, "listKind").to_owned(),
            short: all("shortNames"),
            categories: all("categories"),
        }
    }
}

/// What all versions may have alike.
#[derive(Clone, Default)]
struct Shared {
    /// The outer option tells whether there is a `schema` at all.
    schema: Option<Option<Props>>,
    subresources: Option<Value>,
    columns: Option<Vec<Value>>,
    selectable: Option<Vec<Value>>,
}

struct Version {
    name: String,
    served: bool,
    storage: bool,
    deprecated: bool,
    warning: Option<String>,
    own: Shared,
}

struct Crd {
    group: String,
    scope: String,
    names: Names,
    accepted_names: Names,
    versions: Vec<Version>,
    /// There is a list of versions, be it empty.
    has_versions: bool,
    shared: Shared,
    conversion: Option<Value>,
    preserve_unknown: bool,
    established: bool,
    stored: Vec<String>,
}

impl Crd {
    /// Upstream's internal form.
    fn read(crd: &Value) -> Result<Self, Vec<FieldError>> {
        let nothing = Value::Null;
        let spec = crd.get("spec").unwrap_or(&nothing);
        let status = crd.get("status").unwrap_or(&nothing);
        let nil = Path::Nil;
        let at = nil.child("spec");
        let at = at.child("versions");
        let mut versions = Vec::new();
        for (index, one) in spec.get("versions").and_then(Value::as_array).into_iter().flatten().enumerate() {
            let schema = match given(one, "schema") {
                None => None,
                Some(schema) => Some(match given(schema, "openAPIV3Schema") {
                    None => None,
                    Some(schema) => {
                        let at = at.index(index);
                        let at = at.child("schema");
                        Some(Props::read(schema, &at.child("openAPIV3Schema"))?)
                    }
                }),
            };
            let list = |name: &str| one.get(name).and_then(Value::as_array).cloned();
            versions.push(Version {
                name: string(one, "name").to_owned(),
                served: flag(one, "served"),
                storage: flag(one, "storage"),
                deprecated: flag(one, "deprecated"),
                warning: one.get("deprecationWarning").and_then(Value::as_str).map(str::to_owned),
                own: Shared {
                    schema,
                    subresources: given(one, "subresources").cloned(),
                    columns: list("additionalPrinterColumns"),
                    selectable: list("selectableFields"),
                },
            });
        }
        let mut shared = Shared::default();
        if let Some((first, rest)) = versions.split_first() {
            let all = |same: &dyn Fn(&Shared) -> bool| rest.iter().all(|one| same(&one.own));
            let empty = Vec::new();
            let own = &first.own;
            let list = |list: &Option<Vec<Value>>| list.as_ref().unwrap_or(&empty).clone();
            let (schema, subresources, columns, selectable) = (
                all(&|one| one.schema == own.schema),
                all(&|one| one.subresources == own.subresources),
                all(&|one| list(&one.columns) == list(&own.columns)),
                all(&|one| list(&one.selectable) == list(&own.selectable)),
            );
            let own = own.clone();
            shared = Shared {
                schema: own.schema.filter(|_| schema),
                subresources: own.subresources.filter(|_| subresources),
                columns: own.columns.filter(|_| columns),
                selectable: own.selectable.filter(|_| selectable),
            };
            for one in &mut versions {
                one.own.schema.take_if(|_| schema);
                one.own.subresources.take_if(|_| subresources);
                one.own.columns.take_if(|_| columns);
                one.own.selectable.take_if(|_| selectable);
            }
        }
        let conditions = status.get("conditions").and_then(Value::as_array).into_iter().flatten();
        let established = conditions
            .filter(|one| string(one, "type") == "Established")
            .map(|one| string(one, "status") == "True")
            .next()
            .unwrap_or(false);
        let stored = status.get("storedVersions").and_then(Value::as_array).into_iter().flatten();
        Ok(Self {
            group: string(spec, "group").to_owned(),
            scope: string(spec, "scope").to_owned(),
            names: Names::read(spec.get("names")),
            accepted_names: Names::read(status.get("acceptedNames")),
            versions,
            has_versions: spec.get("versions").is_some_and(Value::is_array),
            shared,
            conversion: given(spec, "conversion").cloned(),
            preserve_unknown: flag(spec, "preserveUnknownFields"),
            established,
            stored: stored.map(|one| one.as_str().unwrap_or_default().to_owned()).collect(),
        })
    }

    fn schemas(&self) -> impl Iterator<Item = &Props> {
        let shared = self.shared.schema.iter();
        shared.chain(self.versions.iter().filter_map(|one| one.own.schema.as_ref())).flatten()
    }

    fn any(&self, asked: &dyn Fn(&Props) -> bool) -> bool {
        self.schemas().any(|schema| schema.any(asked))
    }

    fn has_global_schema(&self) -> bool {
        matches!(self.shared.schema, Some(Some(_)))
    }

    fn review_versions(&self) -> Vec<&str> {
        let versions =
            self.conversion.as_ref().and_then(|one| one.pointer("/webhook/conversionReviewVersions"));
        let versions = versions.and_then(Value::as_array).into_iter().flatten();
        versions.map(|one| one.as_str().unwrap_or_default()).collect()
    }

    fn ca_bundle(&self) -> Option<&str> {
        let bundle = self.conversion.as_ref()?.pointer("/webhook/clientConfig/caBundle")?;
        bundle.as_str().filter(|bundle| !bundle.is_empty())
    }

    /// The versions as Go prints them.
    fn dump_versions(&self) -> String {
        let mut out = String::new();
        props::dump_list(&mut out, Some(&self.versions), |one, out| {
            let mut dump = Dump::new(out);
            dump.text("Name", &one.name);
            dump.flag("Served", one.served);
            dump.flag("Storage", one.storage);
            dump.flag("Deprecated", one.deprecated);
            dump.text_or_null("DeprecationWarning", one.warning.as_deref());
            match &one.own.schema {
                None => dump.field("Schema").push_str("null"),
                Some(schema) => {
                    let mut inner = Dump::new(dump.field("Schema"));
                    match schema {
                        None => inner.field("OpenAPIV3Schema").push_str("null"),
                        Some(schema) => props::dump_props(schema, inner.field("OpenAPIV3Schema")),
                    }
                    inner.end();
                }
            }
            match &one.own.subresources {
                None => dump.field("Subresources").push_str("null"),
                Some(one) => {
                    let mut inner = Dump::new(dump.field("Subresources"));
                    let status = if given(one, "status").is_some() { "{}" } else { "null" };
                    inner.field("Status").push_str(status);
                    match given(one, "scale") {
                        None => inner.field("Scale").push_str("null"),
                        Some(scale) => {
                            let mut scaled = Dump::new(inner.field("Scale"));
                            scaled.text("SpecReplicasPath", string(scale, "specReplicasPath"));
                            scaled.text("StatusReplicasPath", string(scale, "statusReplicasPath"));
                            let label = scale.get("labelSelectorPath").and_then(Value::as_str);
                            scaled.text_or_null("LabelSelectorPath", label);
                            scaled.end();
                        }
                    }
                    inner.end();
                }
            }
            let zero = Value::from(0);
            dump.list("AdditionalPrinterColumns", one.own.columns.as_deref(), |one, out| {
                let mut dump = Dump::new(out);
                dump.text("Name", string(one, "name"));
                dump.text("Type", string(one, "type"));
                dump.text("Format", string(one, "format"));
                dump.text("Description", string(one, "description"));
                dump.json("Priority", Some(one.get("priority").unwrap_or(&zero)));
                dump.text("JSONPath", string(one, "jsonPath"));
                dump.end();
            });
            dump.list("SelectableFields", one.own.selectable.as_deref(), |one, out| {
                let mut dump = Dump::new(out);
                dump.text("JSONPath", string(one, "jsonPath"));
                dump.end();
            });
            dump.end();
        });
        out
    }
}

/// What is asked of a definition; an update may keep what was let pass before.
struct Options {
    recognized_review_version: bool,
    schema: bool,
    valid_types: bool,
    structural: bool,
    pruned_defaults: bool,
    atomic_sets: bool,
    map_keys: bool,
    any_ca_bundle: bool,
    /// Versions, or "" for all, that may have too many selectable fields.
    many_selectable: Vec<String>,
}

impl Options {
    fn strict() -> Self {
        Self {
            recognized_review_version: true,
            schema: true,
            valid_types: true,
            structural: true,
            pruned_defaults: true,
            atomic_sets: true,
            map_keys: true,
            any_ca_bundle: true,
            many_selectable: Vec::new(),
        }
    }

    fn of_update(new: &Crd, old: &Crd) -> Self {
        let review = old.review_versions();
        let nil = Path::Nil;
        let too_many = |one: &Option<Vec<Value>>, before: &Option<Vec<Value>>| {
            before.as_ref().is_some_and(|list| list.len() > MAX_SELECTABLE) && one == before
        };
        let mut many_selectable = Vec::new();
        if too_many(&new.shared.selectable, &old.shared.selectable) {
            many_selectable.push(String::new());
        }
        for one in &new.versions {
            let before = old.versions.iter().rfind(|before| before.name == one.name);
            if before.is_some_and(|before| too_many(&one.own.selectable, &before.own.selectable)) {
                many_selectable.push(one.name.clone());
            }
        }
        let bundle_was_wrong = old.ca_bundle().is_some_and(|bundle| wrong_ca_bundle(bundle).is_some());
        Self {
            recognized_review_version: review.is_empty()
                || review.iter().any(|one| matches!(*one, "v1" | "v1beta1")),
            schema: old.has_global_schema()
                || old.versions.iter().all(|one| matches!(one.own.schema, Some(Some(_)))),
            valid_types: !old.any(&|props| !props.kind.is_empty() && !is_type(&props.kind)),
            structural: !old.schemas().any(|props| {
                structural::unsupported(props).is_some() || !structural::validate(props, &nil).is_empty()
            }),
            pruned_defaults: !old.schemas().any(has_unpruned_defaults),
            atomic_sets: !old.any(&|props| wrong_set_item(props).is_some()),
            map_keys: !old.any(&|props| {
                let mut errors = Vec::new();
                list_items(props, &Path::Nil, &mut errors);
                !errors.is_empty()
            }),
            any_ca_bundle: !old.established || bundle_was_wrong,
            many_selectable,
        }
    }
}

const MAX_SELECTABLE: usize = 8;

fn is_type(name: &str) -> bool {
    matches!(name, "string" | "number" | "integer" | "boolean" | "array" | "object")
}

fn has_kubernetes_extensions(props: &Props) -> bool {
    props.embedded
        || props.preserve_unknown.is_some()
        || props.int_or_string
        || props.list_map_keys.as_ref().is_some_and(|keys| !keys.is_empty())
        || props.list_type.is_some()
        || props.rules.as_ref().is_some_and(|rules| !rules.is_empty())
}

fn validate_spec(crd: &Crd, options: &Options, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let group = path.child("group");
    if crd.group.is_empty() {
        errors.push(FieldError::required(group, ""));
    } else {
        let why = validation::is_dns1123_subdomain(&crd.group);
        if !why.is_empty() {
            errors.push(FieldError::invalid(group, crd.group.as_str(), why.join(",")));
        } else if !crd.group.contains('.') {
            let why = "should be a domain with at least one dot";
            errors.push(FieldError::invalid(group, crd.group.as_str(), why));
        }
    }
    one_of(&path.child("scope"), &crd.scope, &["Cluster", "Namespaced"], errors);

    let structural = options.structural || !crd.preserve_unknown;
    let versions = path.child("versions");
    if !crd.has_global_schema() {
        for (index, one) in crd.versions.iter().enumerate() {
            if matches!(one.own.schema, Some(Some(_))) {
                continue;
            }
            let at = versions.index(index);
            let at = at.child("schema");
            let at = at.child("openAPIV3Schema");
            if options.schema {
                errors.push(FieldError::required(at, ""));
            } else if !crd.preserve_unknown && one.served {
                errors.push(FieldError::required(at, "because otherwise all fields are pruned"));
            }
        }
    }
    let has_defaults = crd.any(&|props| props.default.is_some());
    if has_defaults && crd.preserve_unknown {
        errors.push(FieldError::invalid(
            path.child("preserveUnknownFields"),
            true,
            "must be false in order to use defaults in the schema",
        ));
    }
    let structural = structural || has_defaults || crd.any(&has_kubernetes_extensions);

    let per_version = crd.versions.iter().any(|one| one.own.subresources.is_some());
    let status_of = |one: &Option<Value>| one.as_ref().is_some_and(|one| given(one, "status").is_some());
    let mut seen = HashSet::new();
    let mut unique = true;
    for (index, one) in crd.versions.iter().enumerate() {
        unique &= seen.insert(one.name.as_str());
        let at = versions.index(index);
        let why = validation::is_dns1035_label(&one.name);
        if !why.is_empty() {
            errors.push(FieldError::invalid(at.child("name"), one.name.as_str(), why.join(",")));
        }
        let subresources = if per_version {
            let first = crd.versions.iter().find(|other| other.name == one.name);
            first.map_or(&None, |first| &first.own.subresources)
        } else {
            &crd.shared.subresources
        };
        for why in deprecation(one) {
            // A pointer to a text is shown as JSON.
            let shown = go::json::to_string(&one.warning.as_deref().map_or(Value::Null, Value::from));
            errors.push(FieldError::invalid_shown(at.child("deprecationWarning"), shown, why));
        }
        shared(&one.own, &one.name, status_of(subresources), structural, options, &at, errors);
    }
    if !unique {
        errors.push(FieldError::invalid_shown(
            versions,
            crd.dump_versions(),
            "must contain unique version names",
        ));
    }
    if crd.versions.iter().filter(|one| one.storage).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        let shown = match (crd.has_versions, crd.versions.is_empty()) {
            (false, _) => "null".to_owned(),
            (true, true) => "[]".to_owned(),
            (true, false) => crd.dump_versions(),
        };
        errors.push(FieldError::invalid_shown(versions, shown, why));
    }
    if let Some(first) = crd.versions.first().filter(|first| !first.name.is_empty()) {
        let why = validation::is_dns1035_label(&first.name);
        if !why.is_empty() {
            errors.push(FieldError::invalid(path.child("version"), first.name.as_str(), why.join(",")));
        }
    }
    let at = path.child("names");
    for (name, value) in [
        ("plural", &crd.names.plural),
        ("singular", &crd.names.singular),
        ("kind", &crd.names.kind),
        ("listKind", &crd.names.list_kind),
    ] {
        if value.is_empty() {
            errors.push(FieldError::required(at.child(name), ""));
        }
    }
    validate_names(&crd.names, &at, errors);
    let any_status = status_of(&crd.shared.subresources)
        || crd.versions.iter().any(|one| status_of(&one.own.subresources));
    shared_globally(&crd.shared, any_status, structural, options, path, errors);
    validate_conversion(crd, options, &path.child("conversion"), errors);
}

fn one_of(path: &Path<'_>, value: &str, accepted: &[&str], errors: &mut Vec<FieldError>) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !accepted.contains(&value) {
        errors.push(FieldError::not_supported(path, value, accepted.iter().copied()));
    }
}

/// What a version has of its own.
fn shared(
    own: &Shared,
    version: &str,
    status: bool,
    structural: bool,
    options: &Options,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(Some(schema)) = &own.schema {
        let at = path.child("schema");
        validate_schema(schema, status, structural, options, &at, errors);
    }
    subresources(own.subresources.as_ref(), &path.child("subresources"), errors);
    columns(own.columns.as_deref(), &path.child("additionalPrinterColumns"), errors);
    let Some(fields) = own.selectable.as_deref().filter(|fields| !fields.is_empty()) else { return };
    let at = path.child("selectableFields");
    let Some(Some(schema)) = &own.schema else {
        let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
        errors.push(FieldError::invalid(at, "", why));
        return;
    };
    selectable_fields(fields, schema, version, options, path, errors);
}

/// What all versions have.
fn shared_globally(
    shared: &Shared,
    status: bool,
    structural: bool,
    options: &Options,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(Some(schema)) = &shared.schema {
        validate_schema(schema, status, structural, options, &path.child("validation"), errors);
    }
    subresources(shared.subresources.as_ref(), &path.child("subresources"), errors);
    columns(shared.columns.as_deref(), &path.child("additionalPrinterColumns"), errors);
    let Some(fields) = shared.selectable.as_deref().filter(|fields| !fields.is_empty()) else { return };
    let Some(Some(schema)) = &shared.schema else {
        let why = "may only be set when validations.schema is included";
        errors.push(FieldError::invalid(path.child("selectableFields"), "", why));
        return;
    };
    selectable_fields(fields, schema, "", options, path, errors);
}

fn deprecation(version: &Version) -> Vec<String> {
    let Some(warning) = &version.warning else { return Vec::new() };
    if !version.deprecated {
        return vec!["can only be set for deprecated versions".to_owned()];
    }
    let mut why = Vec::new();
    if warning.len() > 256 {
        why.push("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        why.push("must not be an empty string".to_owned());
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, one)| !go::strconv::is_print(*one)) {
        why.push(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        ));
    }
    why
}

fn validate_names(names: &Names, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut check = |name: &str, value: &str, mixed: bool| {
        let why = if mixed {
            validation::is_dns1035_label(&value.to_lowercase())
        } else {
            validation::is_dns1035_label(value)
        };
        if !value.is_empty() && !why.is_empty() {
            let mixed = if mixed { "may have mixed case, but should otherwise match: " } else { "" };
            errors.push(FieldError::invalid(path.child(name), value, format!("{mixed}{}", why.join(","))));
        }
    };
    check("plural", &names.plural, false);
    check("singular", &names.singular, false);
    check("kind", &names.kind, true);
    check("listKind", &names.list_kind, true);
    if !names.kind.is_empty() && names.kind == names.list_kind {
        let why = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(path.child("listKind"), names.list_kind.as_str(), why));
    }
    for (name, list) in [("shortNames", &names.short), ("categories", &names.categories)] {
        for (index, one) in list.iter().enumerate() {
            let why = validation::is_dns1035_label(one);
            if !why.is_empty() {
                let at = path.child(name);
                errors.push(FieldError::invalid(at.index(index), one.as_str(), why.join(",")));
            }
        }
    }
}

fn columns(columns: Option<&[Value]>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    const TYPES: &str = "must be one of boolean,date,integer,number,string";
    const FORMATS: &str = "must be one of byte,date,date-time,double,float,int32,int64,password";
    for (index, one) in columns.unwrap_or_default().iter().enumerate() {
        let at = path.index(index);
        if string(one, "name").is_empty() {
            errors.push(FieldError::required(at.child("name"), ""));
        }
        match string(one, "type") {
            "" => errors.push(FieldError::required(at.child("type"), TYPES)),
            "boolean" | "date" | "integer" | "number" | "string" => {}
            other => errors.push(FieldError::invalid(at.child("type"), other, TYPES)),
        }
        let format = string(one, "format");
        let known = ["", "byte", "date", "date-time", "double", "float", "int32", "int64", "password"];
        if !known.contains(&format) {
            errors.push(FieldError::invalid(at.child("format"), format, FORMATS));
        }
        match string(one, "jsonPath") {
            "" => errors.push(FieldError::required(at.child("JSONPath"), "")),
            path => simple_path(path, &at.child("JSONPath"), &[], "", errors),
        }
    }
}

/// A path that begins with a dot, and with one of the given parts.
fn simple_path(path: &str, at: &Path<'_>, below: &[&str], must: &str, errors: &mut Vec<FieldError>) {
    if !path.starts_with('.') {
        errors.push(FieldError::invalid(at, path, "must be a simple json path starting with ."));
    } else if !below.is_empty() && !below.iter().any(|part| path.starts_with(part)) {
        errors.push(FieldError::invalid(at, path, must));
    }
}

fn subresources(one: Option<&Value>, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let Some(scale) = one.and_then(|one| given(one, "scale")) else { return };
    for (name, part, must) in [
        ("specReplicasPath", ".spec.", "should be a json path under .spec"),
        ("statusReplicasPath", ".status.", "should be a json path under .status"),
    ] {
        let name_at = format!("scale.{name}");
        let at = path.child(&name_at);
        match string(scale, name) {
            "" => errors.push(FieldError::required(at, "")),
            path => simple_path(path, &at, &[part], must, errors),
        }
    }
    let label = string(scale, "labelSelectorPath");
    if !label.is_empty() {
        let must = "should be a json path under either .spec or .status";
        simple_path(label, &path.child("scale.labelSelectorPath"), &[".spec.", ".status."], must, errors);
    }
}

fn selectable_fields(
    fields: &[Value],
    schema: &Props,
    version: &str,
    options: &Options,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if let Some(why) = structural::unsupported(schema) {
        errors.push(FieldError::invalid(path.child("schema.openAPIV3Schema"), "", why));
        return;
    }
    let path = path.child("selectableFields");
    let mut unique = HashSet::new();
    for (index, one) in fields.iter().enumerate() {
        let at = path.index(index);
        let at = at.child("jsonPath");
        let text = string(one, "jsonPath");
        if text.is_empty() {
            errors.push(FieldError::required(at, ""));
            continue;
        }
        let found = match field_path(text, schema, false) {
            Ok(found) => found,
            Err(why) => {
                errors.push(FieldError::invalid(at, text, format!("is an invalid path: {why}")));
                continue;
            }
        };
        if found.first.as_deref() == Some("metadata") {
            errors.push(FieldError::invalid(at, text, "must not point to fields in metadata"));
        }
        if !matches!(found.schema.kind.as_str(), "string" | "boolean" | "integer") {
            errors.push(FieldError::invalid(
                at,
                text,
                "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are \
                 allowed.",
            ));
        }
        if !unique.insert(found.path) {
            errors.push(FieldError::duplicate(at, text));
        }
    }
    if unique.len() > MAX_SELECTABLE && !options.many_selectable.iter().any(|one| one == version) {
        let count = i64::try_from(unique.len()).unwrap_or(i64::MAX);
        errors.push(FieldError::too_many(path, count, 8));
    }
}

struct Found<'p> {
    path: String,
    first: Option<String>,
    schema: &'p Props,
}

/// Upstream's `ValidFieldPath`: where a path like `.spec.list['a b']` leads.
fn field_path<'p>(text: &str, schema: &'p Props, brackets: bool) -> Result<Found<'p>, String> {
    let mut rest = text;
    let mut token = || -> Option<&str> {
        let first = rest.chars().next()?;
        let end = match first {
            '.' | '[' | ']' => 1,
            '\'' => {
                let bytes = rest.as_bytes();
                (1..bytes.len())
                    .find(|at| bytes[*at] == b'\'' && bytes[at - 1] != b'\\')
                    .map_or(rest.len(), |at| at + 1)
            }
            _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at(end);
        rest = after;
        Some(token)
    };
    let end = || "unexpected end of JSON path".to_owned();
    let invalid = || "does not refer to a valid field".to_owned();
    let mut found = Found { path: String::new(), first: None, schema };
    while let Some(one) = token() {
        let name = match one {
            "." => token().ok_or_else(end)?.to_owned(),
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = token().ok_or_else(end)?;
                let inner = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                let Some(inner) = inner else {
                    return Err(format!("expected single quoted string but got {quoted}"));
                };
                inner.replace("\\'", "'")
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        if found.schema.has_properties() {
            found.schema = found.schema.property(&name).ok_or_else(invalid)?;
            found.path = format!("{}.{name}", found.path);
        } else {
            let below = found.schema.additional.as_ref().and_then(|one| one.schema.as_ref());
            found.schema = below.ok_or_else(invalid)?;
            found.path = format!("{}[{name}]", found.path);
        }
        found.first.get_or_insert(name);
        if one == "[" {
            match token().ok_or_else(end)? {
                "]" => {}
                other => return Err(format!("expected ] but got {other}")),
            }
        }
    }
    Ok(found)
}

const AT_ROOT: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength \
                       Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example \
                       XPreserveUnknownFields XValidations]";

fn validate_schema(
    schema: &Props,
    status: bool,
    structural: bool,
    options: &Options,
    path: &Path<'_>,
    all: &mut Vec<FieldError>,
) {
    let mut errors = Vec::new();
    let at = path.child("openAPIV3Schema");
    if status {
        let before = !schema.id.is_empty() || !schema.schema.is_empty() || schema.reference.is_some();
        let wrong_type = !schema.kind.is_empty() && schema.kind != "object";
        let after = schema.nullable
            || schema.default.is_some()
            || schema.enumeration.is_some()
            || schema.max_properties.is_some()
            || schema.min_properties.is_some()
            || schema.all_of.is_some()
            || schema.one_of.is_some()
            || schema.any_of.is_some()
            || schema.not.is_some()
            || schema.additional.is_some()
            || schema.pattern_properties.is_some()
            || schema.dependencies.is_some()
            || schema.additional_items.is_some()
            || schema.definitions.is_some()
            || schema.embedded
            || schema.int_or_string
            || schema.list_map_keys.is_some()
            || schema.list_type.is_some()
            || schema.map_type.is_some();
        if !before && wrong_type {
            let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
            errors.push(FieldError::invalid(path.child("openAPIV3Schema.type"), schema.kind.as_str(), why));
        } else if before || after {
            let why = format!(
                "only {AT_ROOT} fields are allowed at the root of the schema if the status subresource is enabled"
            );
            errors.push(FieldError::invalid_shown(at, schema.dump(), why));
        }
    }
    if schema.nullable {
        let why = "nullable cannot be true at the root";
        errors.push(FieldError::forbidden(path.child("openAPIV3Schema.nullable"), why));
    }
    let mut conversion = None;
    if structural {
        conversion = structural::unsupported(schema);
        if conversion.is_none() {
            let mut wrong = structural::validate(schema, &at);
            if wrong.is_empty() && schema.any(&|one| one.default.is_some()) {
                let built = Schema::new(schema);
                let root = built.root();
                let mut checker = Defaults { options, errors: &mut wrong };
                checker.check(root, root, true, &mut Vec::new(), false, &at);
            }
            errors.append(&mut wrong);
        }
    }
    let context = Context { defaults: Ok(()), inside_meta: false };
    open_api(schema, &context, true, options, &at, &mut errors);
    if errors.is_empty()
        && let Some(why) = conversion
    {
        errors.push(FieldError::invalid(at, "", why));
    }
    all.append(&mut errors);
}

/// One step from a resource down to a value.
#[derive(Clone, Copy)]
enum Step<'a> {
    Child(&'a str),
    Index,
}

/// The value at the end of the steps of a new resource.
fn wrap(steps: &[Step<'_>], value: Value) -> Value {
    steps.iter().rev().fold(value, |value, step| match step {
        Step::Child(name) => Value::Object(Map::from_iter([((*name).to_owned(), value)])),
        Step::Index => Value::Array(vec![value]),
    })
}

fn unwrap<'v>(steps: &[Step<'_>], value: &'v Value) -> Option<&'v Value> {
    steps.iter().try_fold(value, |value, step| match step {
        Step::Child(name) => value.get(*name),
        Step::Index => value.get(0),
    })
}

struct Defaults<'o> {
    options: &'o Options,
    errors: &'o mut Vec<FieldError>,
}

impl Defaults<'_> {
    /// Upstream's `ValidateDefaults`. The surrounding object is made for defaults within metadata.
    fn check<'n>(
        &mut self,
        node: &'n Node,
        root: &'n Node,
        is_root: bool,
        steps: &mut Vec<Step<'n>>,
        inside_meta: bool,
        path: &Path<'_>,
    ) {
        let mut fresh = Vec::new();
        let resource = is_root || node.is_embedded_resource();
        let (root, steps, inside_meta) =
            if resource { (node, &mut fresh, false) } else { (root, steps, inside_meta) };
        if let Some(default) = node.default_value() {
            let at = path.child("default");
            if inside_meta {
                let mut object = wrap(steps, default.clone());
                for (name, value) in [("kind", "Validation"), ("apiVersion", "validation/v1")] {
                    if let Some(members) = object.as_object_mut() {
                        members.entry(name).or_insert_with(|| value.into());
                    }
                }
                if let Some(why) = metadata::wrong_default(&mut object, root) {
                    let why = format!("must result in valid metadata: {why}");
                    self.errors.push(FieldError::invalid(at, default.clone(), why));
                } else {
                    self.errors.extend(validate::check(node, true, &at.to_string(), default, None));
                }
            } else {
                self.default(node, resource, default.clone(), &at);
            }
        }
        if let Some(one) = node.items() {
            steps.push(Step::Index);
            self.check(one, root, false, steps, inside_meta, &path.child("items"));
            steps.pop();
        }
        let properties = path.child("properties");
        for (name, one) in node.properties() {
            let meta = resource && matches!(name, "metadata" | "apiVersion" | "kind");
            steps.push(Step::Child(name));
            self.check(one, root, false, steps, inside_meta || meta, &properties.key(name));
            steps.pop();
        }
    }

    fn default(&mut self, node: &Node, resource: bool, mut default: Value, at: &Path<'_>) {
        let mut pruned = default.clone();
        prune::node(node, &mut pruned, resource);
        let unknown = self.options.pruned_defaults && pruned != default;
        // Upstream rewrites the metadata in place, and shows the value as it is afterwards.
        let malformed = metadata::coerce(&mut default, node, resource, false, at);
        if unknown {
            self.errors.push(FieldError::invalid(at, default.clone(), "must not have unknown fields"));
        }
        if let Some(error) = malformed {
            self.errors.push(error);
            return;
        }
        let mut wrong = Vec::new();
        metadata::validate(&default, node, resource, at, &mut wrong);
        if wrong.is_empty() {
            wrong = validate::check(node, true, &at.to_string(), &default, None);
        }
        self.errors.append(&mut wrong);
    }
}

/// Whether a default of a structural schema holds what the schema does not name.
fn has_unpruned_defaults(props: &Props) -> bool {
    fn unpruned<'n>(node: &'n Node, root: &'n Node, steps: &mut Vec<Step<'n>>) -> bool {
        if let Some(default) = node.default_value() {
            let mut object = wrap(steps, default.clone());
            if object.is_object() {
                // Whatever is malformed is dropped.
                let _dropped = metadata::coerce(&mut object, root, true, true, &Path::Nil);
                prune::node(root, &mut object, true);
                if unwrap(steps, &object) != Some(default) {
                    return true;
                }
            }
        }
        let mut below = |step: Step<'n>, one: &'n Node| {
            steps.push(step);
            let found = unpruned(one, root, steps);
            steps.pop();
            found
        };
        node.additional_properties().is_some_and(|one| below(Step::Child("*"), one))
            || node.items().is_some_and(|one| below(Step::Index, one))
            || node.properties().any(|(name, one)| below(Step::Child(name), one))
    }
    if !props.any(&|one| one.default.is_some())
        || structural::unsupported(props).is_some()
        || !structural::validate(props, &Path::Nil).is_empty()
    {
        return false;
    }
    let schema = Schema::new(props);
    unpruned(schema.root(), schema.root(), &mut Vec::new())
}

/// Where in a schema we are.
#[derive(Clone)]
struct Context {
    /// Why a default may not be set.
    defaults: Result<(), String>,
    inside_meta: bool,
}

fn open_api(
    props: &Props,
    context: &Context,
    is_root: bool,
    options: &Options,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    standard(props, context, options, path, errors);
    if props.unique_items {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(path.child("uniqueItems"), why));
    }
    if let Some(one) = &props.additional {
        let at = path.child("additionalProperties");
        if props.has_properties() && (!one.allows || one.schema.is_some()) {
            errors
                .push(FieldError::forbidden(at, "additionalProperties and properties are mutual exclusive"));
        }
        if let Some(one) = &one.schema {
            let mut inner = context.clone();
            if context.inside_meta {
                inner.defaults = Err("inside additionalProperties applying to object metadata".to_owned());
            }
            open_api(one, &inner, false, options, &at, errors);
        }
    }
    let properties = path.child("properties");
    for (name, one) in props.properties.iter().flatten() {
        let mut inner = context.clone();
        if (is_root || props.embedded) && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            inner.inside_meta = true;
            if is_root {
                inner.defaults = Err(format!("in top-level {name}"));
            }
        }
        open_api(one, &inner, false, options, &properties.key(name), errors);
    }
    let below = |one: &Props, at: &Path<'_>, errors: &mut Vec<FieldError>| {
        open_api(one, context, false, options, at, errors);
    };
    if let Some(one) = &props.not {
        below(one, &path.child("not"), errors);
    }
    for (name, list) in [("allOf", &props.all_of), ("oneOf", &props.one_of), ("anyOf", &props.any_of)] {
        let at = path.child(name);
        for (index, one) in list.iter().flatten().enumerate() {
            below(one, &at.index(index), errors);
        }
    }
    let at = path.child("definitions");
    for (name, one) in props.definitions.iter().flatten() {
        below(one, &at.key(name), errors);
    }
    if let Some(items) = &props.items {
        let at = path.child("items");
        if let Some(one) = &items.schema {
            below(one, &at, errors);
        }
        for (index, one) in items.list.iter().flatten().enumerate() {
            below(one, &at.index(index), errors);
        }
    }
    let at = path.child("dependencies");
    for (name, one) in props.dependencies.iter().flatten() {
        if let Some(one) = &one.schema {
            below(one, &at.key(name), errors);
        }
    }
    extensions(props, options, path, errors);
    for (index, rule) in props.rules.iter().flatten().enumerate() {
        let at = path.child("x-kubernetes-validations");
        rule_form(rule, props, &at.index(index), errors);
    }
}

/// What no schema of a definition may have.
fn standard(
    props: &Props,
    context: &Context,
    options: &Options,
    path: &Path<'_>,
    errors: &mut Vec<FieldError>,
) {
    if options.valid_types && !props.kind.is_empty() && !is_type(&props.kind) {
        let types = ["array", "boolean", "integer", "number", "object", "string"];
        errors.push(FieldError::not_supported(path.child("type"), props.kind.as_str(), types));
    }
    if props.default.is_some()
        && let Err(why) = &context.defaults
    {
        errors.push(FieldError::forbidden(path.child("default"), format!("must not be set {why}")));
    }
    let set = |map: &Option<_>| map.as_ref().is_some_and(|map: &BTreeMap<String, Props>| !map.is_empty());
    for (wrong, name, why) in [
        (!props.id.is_empty(), "id", "id is not supported"),
        (props.additional_items.is_some(), "additionalItems", "additionalItems is not supported"),
        (set(&props.pattern_properties), "patternProperties", "patternProperties is not supported"),
        (set(&props.definitions), "definitions", "definitions is not supported"),
        (props.dependencies.is_some(), "dependencies", "dependencies is not supported"),
        (props.reference.is_some(), "$ref", "$ref is not supported"),
        (props.kind == "null", "type", "type cannot be set to null, use nullable as an alternative"),
        (
            props
                .items
                .as_ref()
                .is_some_and(|items| items.list.as_ref().is_some_and(|list| !list.is_empty())),
            "items",
            "items must be a schema object and not an array",
        ),
        (
            context.inside_meta && props.embedded,
            "x-kubernetes-embedded-resource",
            "must not be used inside of resource meta",
        ),
    ] {
        if wrong {
            errors.push(FieldError::forbidden(path.child(name), why));
        }
    }
}

/// Why the items of a set are no scalars and not atomic: the field.
fn wrong_set_item(props: &Props) -> Option<&'static str> {
    let item = props.item().filter(|_| props.is_list("set"))?;
    match item.kind.as_str() {
        "array" if item.list_type.as_deref().is_some_and(|one| one != "atomic") => {
            Some("x-kubernetes-list-type")
        }
        "object" if item.map_type.as_deref() != Some("atomic") => Some("x-kubernetes-map-type"),
        _ => None,
    }
}

fn extensions(props: &Props, options: &Options, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if props.preserve_unknown == Some(false) {
        let at = path.child("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(at, false, "must be true or undefined"));
    }
    let kind = path.child("type");
    let of_kind = |kind: &Path<'_>, must: &str| {
        if props.kind.is_empty() {
            FieldError::required(kind, must)
        } else {
            FieldError::invalid(kind, props.kind.as_str(), must)
        }
    };
    if let Some(map_type) = &props.map_type {
        if props.kind != "object" {
            errors.push(of_kind(&kind, "must be object if x-kubernetes-map-type is specified"));
        }
        if !matches!(map_type.as_str(), "atomic" | "granular") {
            let at = path.child("x-kubernetes-map-type");
            errors.push(FieldError::not_supported(at, map_type.as_str(), ["atomic", "granular"]));
        }
    }
    let at = path.child("x-kubernetes-list-type");
    let items = path.child("items");
    if let Some(list_type) = &props.list_type {
        if props.kind != "array" {
            errors.push(of_kind(&kind, "must be array if x-kubernetes-list-type is specified"));
        } else if options.atomic_sets
            && let Some(name) = wrong_set_item(props)
        {
            let shown =
                props.item().and_then(|item| item.list_type.as_deref()).map_or(Value::Null, Value::from);
            let must = "must be atomic as item of a list with x-kubernetes-list-type=set";
            errors.push(FieldError::invalid_shown(items.child(name), go::json::to_string(&shown), must));
        }
        if !matches!(list_type.as_str(), "atomic" | "set" | "map") {
            errors.push(FieldError::not_supported(at, list_type.as_str(), ["atomic", "set", "map"]));
        }
    }
    let none = Vec::new();
    let keys = props.list_map_keys.as_ref().unwrap_or(&none);
    let keys_at = path.child("x-kubernetes-list-map-keys");
    if !keys.is_empty() {
        let must = "must be map if x-kubernetes-list-map-keys is non-empty";
        match props.list_type.as_deref() {
            None => errors.push(FieldError::required(at, must)),
            Some("map") => {}
            Some(other) => errors.push(FieldError::invalid(at, other, must)),
        }
    }
    if props.is_list("map") {
        if keys.is_empty() {
            let must = "must not be empty if x-kubernetes-list-type is map";
            errors.push(FieldError::required(keys_at, must));
        }
        match &props.items {
            None => errors
                .push(FieldError::required(items, "must have a schema if x-kubernetes-list-type is map")),
            Some(one) => match &one.schema {
                None => {
                    let mut shown = String::new();
                    props::dump_items(one, &mut shown);
                    let must = "must only have a single schema if x-kubernetes-list-type is map";
                    errors.push(FieldError::invalid_shown(items, shown, must));
                }
                Some(item) if item.kind != "object" => {
                    let must = "must be object if parent array's x-kubernetes-list-type is map";
                    errors.push(FieldError::invalid(items.child("type"), item.kind.as_str(), must));
                }
                Some(item) => map_keys(item, keys, &items, &keys_at, errors),
            },
        }
    }
    if options.map_keys {
        list_items(props, path, errors);
    }
}

fn map_keys(item: &Props, keys: &[String], items: &Path<'_>, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    let mut seen = HashSet::new();
    for key in keys {
        match item.property(key) {
            Some(one) if matches!(one.kind.as_str(), "array" | "object") => {
                let at = items.child("properties");
                let at = at.key(key);
                let must = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(at.child("type"), item.kind.as_str(), must));
            }
            Some(_) => {}
            None => {
                errors.push(FieldError::invalid(at, keys, "entries must all be names of item properties"))
            }
        }
        if !seen.insert(key) {
            errors.push(FieldError::invalid(at, keys, "must not contain duplicate entries"));
        }
    }
}

/// Items of sets and maps are not null, and keys of maps are there.
fn list_items(props: &Props, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let (Some(item), Some(kind @ ("set" | "map"))) = (props.item(), props.list_type.as_deref()) else {
        return;
    };
    let items = path.child("items");
    if item.nullable {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {kind}");
        errors.push(FieldError::forbidden(items.child("nullable"), why));
    }
    if kind == "set" {
        return;
    }
    let properties = items.child("properties");
    for key in props.list_map_keys.iter().flatten() {
        let Some(one) = item.property(key) else { continue };
        let at = properties.key(key);
        if one.default.is_none() && !item.required.iter().flatten().any(|name| name == key) {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(at.child("default"), why));
        }
        if one.nullable {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(at.child("nullable"), why));
        }
    }
}

fn rule_form(rule: &Value, props: &Props, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    let broken = |text: &str| text.contains(['\n', '\r']);
    let (expression, message) = (string(rule, "rule"), string(rule, "message"));
    let (short, short_message) = (expression.trim(), message.trim());
    if short.is_empty() {
        errors.push(FieldError::required(at.child("rule"), "rule is not specified"));
    } else if !message.is_empty() && short_message.is_empty() {
        errors.push(FieldError::invalid(at.child("message"), message, "must be non-empty if specified"));
    } else if broken(short_message) {
        errors.push(FieldError::invalid(at.child("message"), message, "must not contain line breaks"));
    } else if broken(short) && short_message.is_empty() {
        let must = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(at.child("message"), must));
    }
    let message = string(rule, "messageExpression");
    if !message.is_empty() && message.trim().is_empty() {
        let must = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(at.child("messageExpression"), must));
    }
    if let Some(reason) = rule.get("reason").and_then(Value::as_str) {
        let known = ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
        if !known.contains(&reason) {
            errors.push(FieldError::not_supported(at.child("reason"), reason, known));
        }
    }
    let path = string(rule, "fieldPath");
    if path.is_empty() {
        return;
    }
    let at = at.child("fieldPath");
    if path.trim().is_empty() {
        errors.push(FieldError::invalid(at, path, "must be non-empty if specified"));
    }
    if broken(path) {
        errors.push(FieldError::invalid(at, path, "must not contain line breaks"));
    }
    if structural::unsupported(props).is_none() && field_path(path, props, true).is_err() {
        errors.push(FieldError::invalid(at, path, "must be a valid path"));
    }
}

fn validate_conversion(crd: &Crd, options: &Options, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let Some(conversion) = &crd.conversion else { return };
    let strategy = string(conversion, "strategy");
    if crd.preserve_unknown && strategy != "None" {
        let must = "must be None if spec.preserveUnknownFields is true";
        errors.push(FieldError::invalid(path.child("strategy"), strategy, must));
    }
    one_of(&path.child("strategy"), strategy, &["None", "Webhook"], errors);
    let config = conversion.get("webhook").and_then(|webhook| given(webhook, "clientConfig"));
    let at = path.child("webhookClientConfig");
    let review = path.child("conversionReviewVersions");
    let versions = crd.review_versions();
    if strategy != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        if config.is_some() {
            errors.push(FieldError::forbidden(at, why));
        }
        if !versions.is_empty() {
            errors.push(FieldError::forbidden(review, why));
        }
        return;
    }
    match config {
        None => errors.push(FieldError::required(at, "required when strategy is set to Webhook")),
        Some(config) => {
            match (given(config, "url").and_then(Value::as_str), given(config, "service")) {
                (Some(url), None) => webhook_url(url, &at.child("url"), errors),
                (None, Some(service)) => webhook_service(service, &at.child("service"), errors),
                _ => errors.push(FieldError::required(at, "exactly one of url or service is required")),
            }
            if let Some(bundle) = crd.ca_bundle().filter(|_| !options.any_ca_bundle)
                && let Some(why) = wrong_ca_bundle(bundle)
            {
                errors.push(FieldError::invalid(at.child("caBundle"), bundle, why));
            }
        }
    }
    if versions.is_empty() {
        errors.push(FieldError::required(review, ""));
        return;
    }
    let mut seen = HashSet::new();
    let mut accepted = false;
    for (index, one) in versions.iter().enumerate() {
        let at = review.index(index);
        if !seen.insert(*one) {
            errors.push(FieldError::invalid(at, *one, "duplicate version"));
            continue;
        }
        for why in validation::is_dns1035_label(one) {
            errors.push(FieldError::invalid(at, *one, why));
        }
        accepted |= matches!(*one, "v1" | "v1beta1");
    }
    if options.recognized_review_version && !accepted {
        errors.push(FieldError::invalid(review, versions, "must include at least one of v1, v1beta1"));
    }
}

/// What is wrong with where a webhook is: its `url` or its `service`. Fields are named from there.
#[must_use]
pub fn validate_webhook_client(client: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let nil = Path::Nil;
    if let Some(url) = client.get("url").and_then(Value::as_str) {
        webhook_url(url, &nil.child("url"), &mut errors);
    } else if let Some(service) = client.get("service").filter(|service| service.is_object()) {
        webhook_service(service, &nil.child("service"), &mut errors);
    }
    errors
}

fn webhook_url(text: &str, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (bare, fragment) = text.split_once('#').unwrap_or((text, ""));
    let url = match url::parse(bare) {
        Ok(url) => url,
        Err(error) => {
            errors.push(FieldError::required(at, format!("url must be a valid URL: {error}{FORM}")));
            return;
        }
    };
    if url.scheme != "https" {
        let why = format!("'https' is the only allowed URL scheme{FORM}");
        errors.push(FieldError::invalid(at, url.scheme, why));
    }
    if url.host.is_empty() {
        errors.push(FieldError::invalid(at, "", format!("host must be specified{FORM}")));
    }
    if let Some(user) = url.user {
        errors.push(FieldError::invalid(at, user, "user information is not permitted in the URL"));
    }
    if !fragment.is_empty() {
        errors.push(FieldError::invalid(at, fragment, "fragments are not permitted in the URL"));
    }
    if !url.query.is_empty() {
        errors.push(FieldError::invalid(at, url.query, "query parameters are not permitted in the URL"));
    }
}

fn webhook_service(service: &Value, at: &Path<'_>, errors: &mut Vec<FieldError>) {
    // Upstream mistakes each for the other.
    if string(service, "namespace").is_empty() {
        errors.push(FieldError::required(at.child("name"), ""));
    }
    if string(service, "name").is_empty() {
        errors.push(FieldError::required(at.child("namespace"), ""));
    }
    let port = service.get("port").and_then(Value::as_i64).unwrap_or_default();
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(at.child("port"), port, why));
    }
    let path = string(service, "path");
    let at = at.child("path");
    if matches!(path, "" | "/") {
        return;
    }
    if path == "//" {
        errors.push(FieldError::invalid(at, path, "segment[0] may not be empty"));
        return;
    }
    if !path.starts_with('/') {
        errors.push(FieldError::invalid(at, path, "must start with a '/'"));
    }
    let mut rest = path.chars();
    rest.next();
    let rest = rest.as_str();
    for (index, step) in rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate() {
        if step.is_empty() {
            errors.push(FieldError::invalid(at, path, format!("segment[{index}] may not be empty")));
            continue;
        }
        for why in validation::is_dns1123_subdomain(step) {
            errors.push(FieldError::invalid(at, path, format!("segment[{index}]: {why}")));
        }
    }
}

/// Why a bundle in base64 holds no certificates. What is within a certificate is not looked at.
fn wrong_ca_bundle(bundle: &str) -> Option<String> {
    // "-----BEGIN CERTIFICATE-----", at the beginning or wherever a line may begin.
    let begins = [
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t",
        "tLS0tLUJFR0lOIENFUlRJRklDQVRFLS0tLS",
        "LS0tLUJFR0lOIENFUlRJRklDQVRFLS0tLS0",
    ];
    let found = begins.iter().any(|begin| bundle.contains(begin));
    (!found).then(|| "unable to load root certificates: unable to parse bytes as PEM block".to_owned())
}

fn stored_versions(crd: &Crd, new: &Value, errors: &mut Vec<FieldError>) {
    let nil = Path::Nil;
    let status = nil.child("status");
    let at = status.child("storedVersions");
    if crd.stored.is_empty() {
        let shown = new.pointer("/status/storedVersions").cloned().unwrap_or(Value::Null);
        errors.push(FieldError::invalid(at, shown, "must have at least one stored version"));
        return;
    }
    let mut left: BTreeMap<&str, usize> =
        crd.stored.iter().enumerate().map(|(index, one)| (one.as_str(), index)).collect();
    for one in &crd.versions {
        if left.remove(one.name.as_str()).is_none() && one.storage {
            let why = format!("must have the storage version {}", one.name);
            errors.push(FieldError::invalid(at, crd.stored.as_slice(), why));
        }
    }
    for (one, index) in left {
        let why = format!(
            "missing from spec.versions; {one} was previously a storage version, and must remain in spec.versions until a \
             storage migration ensures no data remains persisted in {one} and removes {one} from status.storedVersions"
        );
        errors.push(FieldError::invalid(at.index(index), one, why));
    }
}

const APPROVED: &str = "api-approved.kubernetes.io";

/// Groups of the community need the annotation that their API was approved.
fn approval(group: &str, metadata: &Map<String, Value>, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let protected = ["k8s.io", "kubernetes.io"];
    if !protected
        .iter()
        .any(|one| group == *one || group.strip_suffix(one).is_some_and(|rest| rest.ends_with('.')))
    {
        return;
    }
    #[derive(PartialEq)]
    enum State {
        Missing,
        Bypassed,
        Approved,
        Invalid,
    }
    let state = |annotation: &str| match annotation {
        "" => State::Missing,
        one if one.starts_with("unapproved") => State::Bypassed,
        one => match url::parse_request_uri(one) {
            Ok(url) if !url.host.is_empty() && !url.scheme.is_empty() => State::Approved,
            _ => State::Invalid,
        },
    };
    let text_in = |annotations: Option<&Value>| {
        annotations.and_then(|all| all.get(APPROVED)).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let annotation = text_in(metadata.get("annotations"));
    let new = state(&annotation);
    if old.is_some_and(|old| state(&text_in(old.pointer("/metadata/annotations"))) == new) {
        return;
    }
    let at = format!("metadata.annotations[{APPROVED}]");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    match new {
        State::Missing => {
            let why = format!("protected groups must have approval annotation \"{APPROVED}\", {see}");
            errors.push(FieldError::required(at, why));
        }
        State::Invalid => {
            let why = format!(
                "protected groups must have approval annotation \"{APPROVED}\" with either a URL or a reason starting with \
                 \"unapproved\", {see}"
            );
            errors.push(FieldError::invalid(at, annotation, why));
        }
        State::Bypassed | State::Approved => {}
    }
}

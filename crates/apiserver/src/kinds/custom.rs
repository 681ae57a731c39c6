//! Custom resources: one version of a kind that a CRD describes, its schema, defaults and rules.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use settled_apimachinery::field::{Error as FieldError, ErrorType, Path};
use settled_cel::Validator;
use settled_managed_fields::{
    self as managed, AdditionalProperties, Items, ListRelationship, MapRelationship, SchemaError,
    SchemaSource,
};
use settled_schema::{JsonSchemaProps, ListType, MapType, Node, Schema, Type};
use settled_store::Entry;

use crate::error::Cause;
use crate::kinds::builtin::Decoded;
use crate::kinds::conversion::{self, Conversion};
use crate::object::{metadata_mut, to_bytes};

/// The schema of a version, and of all that have the same: `openAPIV3Schema` as it was written, or null, and what is derived of it.
///
/// It is decoded once, when it is needed first. What is kept is the structural schema, from which rules and types are made; what
/// is only published is read of the text, which takes a tenth of the memory that the decoded schema would.
pub(crate) struct CrdSchema {
    text: Box<[u8]>,
    structural: OnceLock<Option<Schema>>,
    rules: OnceLock<Option<Validator>>,
    types: OnceLock<Option<Arc<managed::Schema>>>,
}

impl CrdSchema {
    pub(crate) fn new(schema: Option<&Value>) -> Self {
        Self {
            text: to_bytes(schema.unwrap_or(&Value::Null)).into(),
            structural: OnceLock::new(),
            rules: OnceLock::new(),
            types: OnceLock::new(),
        }
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The schema with all its fields, to publish it. None where there is no schema.
    pub(crate) fn decode(&self) -> Option<JsonSchemaProps> {
        let schema = self.value();
        // What cannot be decoded was refused when the CRD was written.
        if schema.is_null() { None } else { JsonSchemaProps::parse(&schema).ok() }
    }

    fn value(&self) -> Value {
        // It was written here.
        serde_json::from_slice(&self.text).unwrap_or_default()
    }

    fn structural(&self) -> Option<&Schema> {
        // What does not parse was refused when the CRD was written.
        self.structural.get_or_init(|| Schema::parse(&self.value()).ok()).as_ref()
    }

    /// The CEL rules, compiled.
    fn rules(&self) -> Option<&Validator> {
        self.rules.get_or_init(|| Validator::compile(self.structural()?, "").0).as_ref()
    }

    /// The types of server-side apply. They are the same for all versions of a CRD that share the schema.
    fn types(&self, kind: &str, preserve_unknown: bool) -> Option<&Arc<managed::Schema>> {
        let make = || {
            let root = TypeSource(self.structural()?.root());
            managed::Schema::from_crd(kind, root, preserve_unknown).ok().map(Arc::new)
        };
        self.types.get_or_init(make).as_ref()
    }
}

impl PartialEq for CrdSchema {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// A structural schema, as types of server-side apply are made from it.
#[derive(Clone, Copy)]
struct TypeSource<'s>(&'s Node);

impl<'s> SchemaSource<'s> for TypeSource<'s> {
    fn reference(self) -> &'s str {
        // No structural schema has any.
        ""
    }

    fn type_name(self) -> Option<&'s str> {
        self.0.kind().map(Type::as_str)
    }

    fn format(self) -> &'s str {
        self.0.format()
    }

    fn default_value(self) -> Option<&'s Value> {
        self.0.default_value()
    }

    fn preserves_unknown_fields(self) -> bool {
        self.0.preserves_unknown_fields()
    }

    fn is_embedded_resource(self) -> bool {
        self.0.is_embedded_resource()
    }

    fn properties(self) -> impl Iterator<Item = (&'s str, Self)> {
        self.0.properties().map(|(name, property)| (name, Self(property)))
    }

    fn additional_properties(self) -> AdditionalProperties<Self> {
        match (self.0.additional_properties(), self.0.additional_properties_allowed()) {
            (Some(schema), _) => AdditionalProperties::Schema(Self(schema)),
            (None, Some(allowed)) => AdditionalProperties::Allowed(allowed),
            (None, None) => AdditionalProperties::Absent,
        }
    }

    fn items(self) -> Items<Self> {
        self.0.items().map_or(Items::Absent, |items| Items::Schema(Self(items)))
    }

    fn map_relationship(self) -> Result<Option<MapRelationship>, SchemaError> {
        Ok(self.0.map_type().map(|map_type| match map_type {
            MapType::Atomic => MapRelationship::Atomic,
            MapType::Granular => MapRelationship::Granular,
        }))
    }

    fn list_relationship(self) -> Result<ListRelationship, SchemaError> {
        Ok(match self.0.list_type() {
            None | Some(ListType::Atomic) => ListRelationship::Atomic,
            Some(ListType::Set) => ListRelationship::Set,
            Some(ListType::Map) => ListRelationship::keyed(self.0.list_map_keys()),
        })
    }
}

/// A version of a kind that a CustomResourceDefinition describes.
pub(crate) struct Custom {
    pub(crate) kind: String,
    pub(crate) crd_schema: Arc<CrdSchema>,
    pub(crate) preserve_unknown: bool,
    /// The JSON paths of this version's selectable fields.
    pub(crate) selectable_paths: Vec<String>,
    /// All served versions: `apiVersion` and schema.
    pub(crate) versions: Arc<[(String, Arc<CrdSchema>)]>,
    /// The version that objects are stored in.
    pub(crate) storage_version: String,
    /// The version of what is stored without saying which: the oldest one that may still be there.
    pub(crate) first_stored: String,
    /// How objects get from one version to another.
    pub(crate) conversion: Conversion,
    /// The revision of the definition: objects that are older may have to be read anew.
    pub(crate) changed: u64,
    /// Versions differ in their schemas: an object that was written in one is read anew in another.
    pub(crate) several: bool,
    /// `metadata.generation` of the definition.
    pub(crate) generation: i64,
    /// The names that were accepted.
    pub(crate) names: Value,
    /// The definition is being deleted: nothing new is created.
    pub(crate) terminating: bool,
    pub(crate) types: OnceLock<Types>,
}

/// In the metadata of what is stored: its version, where that is not the one that is taken for granted.
const STORED_VERSION: &str = "storedVersion";

/// The types of all versions, for server-side apply: `apiVersion`, the name of the type, the schema.
pub(crate) type Types = Arc<Vec<(String, String, Arc<managed::Schema>)>>;

impl Custom {
    /// The schema, read when it is needed first.
    pub(crate) fn schema(&self) -> Option<&Schema> {
        self.crd_schema.structural()
    }

    /// How much of the definition the first request has to read, and compile.
    pub(crate) fn unread_bytes(&self) -> usize {
        let is_read = self.crd_schema.structural.get().is_some()
            && self.crd_schema.rules.get().is_some()
            && self.types.get().is_some();
        if is_read { 0 } else { self.versions.iter().map(|(_, schema)| schema.text().len()).sum() }
    }

    /// An object as it is stored: where versions differ, without what the stored one does not have, and it remembers which that is.
    pub(crate) fn to_stored<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        if !self.several {
            return Cow::Borrowed(object);
        }
        let mut object = object.clone();
        if let Some(schema) = self.other(&self.storage_version)
            && !self.preserve_unknown
        {
            schema.prune(&mut object, true);
        }
        // Where a webhook converts, nothing is taken for granted.
        if self.storage_version != self.first_stored || self.conversion == Conversion::Webhook {
            metadata_mut(&mut object).insert(STORED_VERSION.to_owned(), self.storage_version.clone().into());
        }
        Cow::Owned(object)
    }

    /// Reads a stored object as one of this version. Its defaults are those of the version that it is stored as.
    pub(crate) fn read_stored(&self, object: &mut Value, own: &str) {
        let marked = metadata_mut(object).remove(STORED_VERSION);
        let stored = marked.as_ref().and_then(Value::as_str).unwrap_or(&self.first_stored);
        if stored != own
            && let Some(schema) = self.other(stored)
        {
            // What it finds has been found when the object was written.
            let _known = schema.coerce_metadata(object, true, false);
            if !self.preserve_unknown {
                schema.prune(object, true);
            }
            schema.default(object);
            self.decode(object);
        } else {
            self.decode(object);
            self.default(object, false);
        }
    }

    /// The version that a stored object has.
    pub(crate) fn stored_version(&self, entry: &Entry) -> String {
        conversion::stored_version(entry).unwrap_or_else(|| self.first_stored.clone())
    }

    /// Does the definition have a version of this name?
    pub(crate) fn has_version(&self, version: &str) -> bool {
        let name = |api_version: &str| api_version.rsplit_once('/').is_some_and(|(_, name)| name == version);
        self.versions.iter().any(|(api_version, _)| name(api_version))
    }

    /// The schema of a version, by name. None where it is gone.
    fn other(&self, version: &str) -> Option<&Schema> {
        let is_version =
            |api_version: &str| api_version.rsplit_once('/').map_or(api_version, |(_, name)| name) == version;
        self.versions.iter().find(|(api_version, _)| is_version(api_version))?.1.structural()
    }

    /// The schema as it was written.
    pub(crate) fn open_api(&self) -> &CrdSchema {
        &self.crd_schema
    }

    /// Reads an object: what the schema does not name goes.
    pub(crate) fn decode(&self, object: &mut Value) -> Decoded {
        let Some(schema) = self.schema() else { return Decoded::default() };
        let found = match schema.coerce_metadata(object, true, false) {
            Ok(unknown) => unknown,
            Err(errors) => {
                // Of its own metadata upstream shows what Go's decoder says, and no field.
                let error = errors.first().map(|error| {
                    let text = error.to_string();
                    let own = text.strip_prefix("metadata: ").and_then(|rest| rest.split_once(": json: "));
                    own.map_or_else(|| text.clone(), |(_, why)| format!("json: {why}"))
                });
                return Decoded { unknown: Vec::new(), error };
            }
        };
        // In upstream's order: the object's own metadata, what was pruned, the metadata of what is in it.
        let (mut unknown, embedded): (Vec<String>, Vec<String>) =
            found.into_iter().partition(|path| path.starts_with("metadata."));
        if !self.preserve_unknown {
            unknown.extend(schema.prune(object, true));
        }
        unknown.extend(embedded);
        Decoded { unknown, error: None }
    }

    /// The default of the status, if the schema has one.
    pub(crate) fn default_status(&self) -> Option<Value> {
        let status = self.schema()?.property("status")?;
        let mut value = status.root().default_value()?.clone();
        status.default(&mut value);
        Some(value)
    }

    pub(crate) fn default(&self, object: &mut Value, keep_nulls: bool) {
        match self.schema() {
            Some(schema) if keep_nulls => schema.default_among_nulls(object),
            Some(schema) => schema.default(object),
            None => {}
        }
    }

    pub(crate) fn validate(
        &self,
        new: &Value,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Vec<Cause> {
        let Some(schema) = self.schema() else { return Vec::new() };
        self.validate_rules(schema.validate(new, old), new, old, warnings)
    }

    /// As [`Custom::validate`], for a write to the status.
    pub(crate) fn validate_status(&self, new: &Value, old: &Value, warnings: &mut Vec<String>) -> Vec<Cause> {
        let Some(schema) = self.schema() else { return Vec::new() };
        self.validate_rules(schema.validate_status(new, old), new, Some(old), warnings)
    }

    fn validate_rules(
        &self,
        mut errors: Vec<FieldError>,
        new: &Value,
        old: Option<&Value>,
        warnings: &mut Vec<String>,
    ) -> Vec<Cause> {
        // As upstream has it: rules may rely on what these say.
        const BLOCKING: [ErrorType; 5] = [
            ErrorType::NotSupported,
            ErrorType::Required,
            ErrorType::TooLong,
            ErrorType::TooMany,
            ErrorType::TypeInvalid,
        ];
        if let Some(rules) = self.crd_schema.rules() {
            if errors.iter().any(|error| BLOCKING.contains(&error.error_type)) {
                errors.push(FieldError::invalid(Path::Nil, Value::Null, settled_cel::NOT_CHECKED));
            } else {
                let (wrong, ratcheted) = rules.validate_and_warn(new, old);
                errors.extend(wrong);
                warnings.extend(ratcheted.iter().map(ToString::to_string));
            }
        }
        errors.iter().map(Cause::from).collect()
    }

    pub(crate) fn types(&self) -> Types {
        let make = || {
            let types = self.versions.iter().map(|(api_version, schema)| {
                match schema.types(&self.kind, self.preserve_unknown) {
                    Some(schema) => (api_version.clone(), self.kind.clone(), Arc::clone(schema)),
                    None => (api_version.clone(), String::new(), managed::Schema::deduced()),
                }
            });
            Arc::new(types.collect())
        };
        self.types.get_or_init(make).clone()
    }
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Custom").field("kind", &self.kind).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The structural schema gives server-side apply the same types as the JSON.
    #[test]
    fn types_are_those_of_the_json() {
        let text = json!({"type": "string"});
        let item = json!({"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
            "name": text, "port": {"x-kubernetes-int-or-string": true, "default": 80},
        }});
        let schema = json!({"type": "object", "properties": {
            "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": {
                "set": {"type": "array", "items": text, "x-kubernetes-list-type": "set"},
                "map": {
                    "type": "array", "items": item, "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name", "port"],
                },
                "atomic": {"type": "array", "items": text, "x-kubernetes-list-type": "atomic"},
                "granular": {"type": "object", "x-kubernetes-map-type": "granular", "additionalProperties": text},
                "any": {"type": "object", "additionalProperties": true},
                "empty": {"type": "object", "properties": {}},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": text}},
                "free": {"x-kubernetes-preserve-unknown-fields": true},
                "inner": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
                    "kind": {"type": "string", "pattern": "a"}, "spec": {"type": "object"},
                }},
                "time": {"type": "string", "format": "date-time"},
                "bytes": {"type": "string", "format": "byte"},
                "flag": {"type": "boolean"}, "count": {"type": "integer"}, "share": {"type": "number"},
            }},
        }});
        for preserve_unknown in [false, true] {
            let expected = managed::Schema::from_crd("Web", &schema, preserve_unknown).unwrap();
            let read = CrdSchema::new(Some(&schema));
            assert_eq!(**read.types("Web", preserve_unknown).unwrap(), expected);
        }
    }
}

//! Model of a kind: decoding, defaulting, storage version and types, for built-in kinds and custom resources.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use serde_json::Value;
use settled_managed_fields::{ConvertError, FieldFilter, FieldSet, ObjectType, ObjectTypes, Path, Schema};

use settled_patch::PatchTypes;

use crate::kinds::behavior::{Behavior, StatusUpdatePreserves};
use crate::kinds::builtin::{self, BuiltinKind, Decoded};
use crate::kinds::conversion::{self, Conversion};
use crate::kinds::custom::Custom;
use crate::kinds::names::Part;
use crate::kinds::scale_paths;
use crate::kinds::strategy::{FieldPaths, Strategy};
use crate::object::text;

/// How a kind is described.
#[derive(Debug)]
pub(crate) enum Model {
    /// A kind that the server brings.
    Builtin(Builtin),
    /// A kind that a CustomResourceDefinition describes.
    Custom(Box<Custom>),
}

/// A kind that the server brings.
#[derive(Debug)]
pub(crate) struct Builtin {
    pub(crate) row: &'static BuiltinKind,
    pub(crate) strategy: &'static Strategy,
}

impl Model {
    /// What the server knows of the kind beyond its schema.
    pub(crate) fn strategy(&self) -> &'static Strategy {
        static CUSTOM: Strategy = Strategy::CUSTOM;
        match self {
            Self::Builtin(builtin) => builtin.strategy,
            Self::Custom(_) => &CUSTOM,
        }
    }

    pub(crate) fn behavior(&self) -> &'static Behavior {
        &self.strategy().behavior
    }

    /// The custom resource, if it is one.
    pub(crate) fn custom(&self) -> Option<&Custom> {
        match self {
            Self::Builtin(_) => None,
            Self::Custom(custom) => Some(custom),
        }
    }

    pub(crate) const fn is_custom(&self) -> bool {
        matches!(self, Self::Custom(_))
    }

    /// Is it a question to the server, which is answered and not stored?
    pub(crate) fn is_review(&self) -> bool {
        match self {
            Self::Builtin(builtin) => {
                matches!(builtin.row.group, "authentication.k8s.io" | "authorization.k8s.io")
                    && builtin.row.storage_version_hash.is_empty()
            }
            Self::Custom(_) => false,
        }
    }

    /// The schema of a custom kind as its definition has it, empty for built-in kinds.
    pub(crate) fn open_api_text(&self) -> &[u8] {
        self.custom().map_or(b"", |custom| custom.open_api().text())
    }

    /// Reads an object as one of the kind: what the kind does not have goes.
    pub(crate) fn decode(&self, object: &mut Value) -> Decoded {
        match self {
            Self::Builtin(builtin) => builtin::decode(builtin.row, object),
            Self::Custom(custom) => custom.decode(object),
        }
    }

    /// As [`Model::decode`], of what strategic merge made, whose errors are others.
    pub(crate) fn decode_map(&self, object: &mut Value) -> Decoded {
        match self {
            Self::Builtin(builtin) => builtin::decode_map(builtin.row, object),
            Self::Custom(custom) => custom.decode(object),
        }
    }

    /// Sets defaults. Nulls that mean nothing go, unless they are to stay.
    pub(crate) fn default(&self, object: &mut Value, keep_nulls: bool) {
        match self {
            Self::Builtin(builtin) => {
                builtin::default(builtin.row, object);
                (builtin.strategy.set_defaults)(object);
            }
            Self::Custom(custom) => custom.default(object, keep_nulls),
        }
    }

    /// Fills in what a built-in kind always has.
    pub(crate) fn set_zero_values(&self, object: &mut Value) {
        if let Self::Builtin(builtin) = self {
            builtin::set_zero_values(builtin.row, object);
        }
    }

    /// Fills in what a built-in kind's empty object has.
    pub(crate) fn set_empty_values(&self, object: &mut Value) {
        if let Self::Builtin(builtin) = self {
            builtin::set_zero_values(builtin.row, object);
            if let Value::Object(fields) = object {
                (builtin.strategy.set_empty_values)(fields);
            }
        }
    }

    /// The version and kind that objects are stored as, if it is another one.
    pub(crate) fn stored_as(&self) -> Option<&'static BuiltinKind> {
        let Self::Builtin(builtin) = self else { return None };
        let stored = builtin::stored_as(builtin.row);
        (!std::ptr::eq(stored, builtin.row)).then_some(stored)
    }

    /// An object as it is stored.
    pub(crate) fn to_stored<'a>(&self, object: &'a Value) -> Cow<'a, Value> {
        match (self, self.stored_as()) {
            (Self::Builtin(builtin), Some(stored)) => {
                let mut object = object.clone();
                builtin::convert(builtin.row, stored, &mut object);
                Cow::Owned(object)
            }
            (Self::Custom(custom), _) => custom.to_stored(object),
            _ => Cow::Borrowed(object),
        }
    }

    /// A stored object as one of this version.
    pub(crate) fn read_stored(&self, object: &mut Value) {
        if let (Self::Builtin(builtin), Some(stored)) = (self, self.stored_as()) {
            builtin::convert(stored, builtin.row, object);
        }
    }

    /// The types of the kind in all its versions, for server-side apply.
    pub(crate) fn types(&self, api_version: &str) -> Types {
        match self {
            Self::Builtin(builtin) => {
                // Of this kind alone: all of a group's are a hundred times as many, and most kinds are never written.
                let name = builtin.row.schema_name;
                let row = match Schema::from_open_api(&builtin::schemas_of(name), false) {
                    Ok(schema) if schema.contains(name) => (name.to_owned(), Arc::new(schema)),
                    _ => (String::new(), Schema::deduced()),
                };
                let versions = vec![(api_version.to_owned(), row.0, row.1)];
                Types(Arc::new(versions), Conversion::None)
            }
            Self::Custom(custom) => Types(custom.types(), custom.conversion),
        }
    }

    /// How strategic merge sees the kind: the types of its group and version, and the name of its own.
    pub(crate) fn patch_types(&self, api_version: &str) -> (Arc<PatchTypes>, String) {
        static MADE: LazyLock<Mutex<BTreeMap<String, Arc<PatchTypes>>>> = LazyLock::new(Mutex::default);
        let Self::Builtin(builtin) = self else { return Default::default() };
        let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
        let types = made.entry(api_version.to_owned()).or_insert_with(|| {
            let mut types = PatchTypes::default();
            if let Some(schemas) = builtin::schemas(api_version).as_object() {
                types.add_components(schemas);
            }
            Arc::new(types)
        });
        (types.clone(), builtin.row.schema_name.to_owned())
    }

    /// Which fields a write to a part may own, when the status is a part of its own.
    pub(crate) fn owned_filter(&self, part: Part) -> FieldFilter {
        let own = self.strategy().reset_fields.map(|fields| fields(part));
        let paths = own.unwrap_or_else(|| self.default_reset_fields(part));
        let set: FieldSet = paths.iter().map(|path| Path::fields(path.iter().copied())).collect();
        FieldFilter::Exclude(set)
    }

    fn default_reset_fields(&self, part: Part) -> FieldPaths {
        match (part, self.behavior().status_update_preserves) {
            (Part::Main | Part::Ephemeral | Part::Resize, _) => &[&["status"]],
            (Part::Scale | Part::Finalize | Part::Approval, _) => &[],
            (Part::Status, StatusUpdatePreserves::All) => &[&["spec"], &["metadata"]],
            (Part::Status, StatusUpdatePreserves::Labels) => &[&["spec"], &["metadata", "labels"]],
            (Part::Status, StatusUpdatePreserves::Owners) => {
                &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]]
            }
            (Part::Status, StatusUpdatePreserves::Nothing) => &[&["spec"]],
        }
    }
}

/// The types of a kind by version: `apiVersion`, the name of the type, the schema that has it; and how versions are converted.
#[derive(Clone, Debug)]
pub(crate) struct Types(pub(crate) Arc<Vec<(String, String, Arc<Schema>)>>, pub(crate) Conversion);

impl Types {
    /// That of the subresource `scale`.
    pub(crate) fn scale() -> Self {
        // Any of the groups whose kinds can be scaled has it.
        let schemas = builtin::schemas("apps/v1");
        let schema = schemas.as_object().map(|schemas| Schema::from_open_api(schemas, false));
        let (name, schema) = match schema {
            Some(Ok(schema)) => (builtin::SCALE.to_owned(), Arc::new(schema)),
            _ => (String::new(), Schema::deduced()),
        };
        Self(Arc::new(vec![(scale_paths::API_VERSION.to_owned(), name, schema)]), Conversion::None)
    }

    /// All versions.
    pub(crate) fn versions(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(version, _, _)| version.as_str())
    }
}

impl ObjectTypes for Types {
    fn object_type(&self, api_version: &str, _kind: &str) -> Option<ObjectType> {
        let (_, name, schema) = self.0.iter().find(|(version, _, _)| version == api_version)?;
        Some(match name.as_str() {
            "" => ObjectType::deduced(),
            name => ObjectType::named(schema.clone(), name),
        })
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        if !self.versions().any(|version| version == api_version) {
            return Err(ConvertError::MissingVersion(api_version.to_owned()));
        }
        let [from, kind] = ["apiVersion", "kind"].map(|name| text(object, name));
        // As upstream, what has nothing but its type needs no webhook.
        let is_empty = object.as_object().is_some_and(|map| map.len() == 2);
        if self.1 == Conversion::Webhook && from != api_version && !is_empty {
            return Err(ConvertError::Failed(conversion::failure(from, kind)));
        }
        let mut object = object.clone();
        if let Some(map) = object.as_object_mut() {
            map.insert("apiVersion".to_owned(), api_version.into());
        }
        Ok(object)
    }
}

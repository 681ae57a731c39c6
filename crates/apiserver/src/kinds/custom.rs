//! Custom resources: one version of a kind that a CRD describes, its schema, defaults and rules.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use settled_apimachinery::field::{Error as FieldError, ErrorType, Path};
use settled_cel::Validator;
use settled_managed_fields as managed;
use settled_schema::Schema;
use settled_store::Entry;

use crate::error::Cause;
use crate::kinds::builtin::Decoded;
use crate::kinds::conversion::{self, Conversion};
use crate::object::{metadata_mut, to_bytes};

/// `openAPIV3Schema` as it was written, or null. It is read a few times in a server's life, and as text it takes a tenth of the
/// memory that its values would.
#[derive(Clone, PartialEq)]
pub(crate) struct OpenApi(Arc<[u8]>);

impl OpenApi {
    pub(crate) fn new(schema: Option<&Value>) -> Self {
        Self(to_bytes(schema.unwrap_or(&Value::Null)).into())
    }

    pub(crate) fn text(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn value(&self) -> Value {
        // It was written here.
        serde_json::from_slice(&self.0).unwrap_or_default()
    }
}

/// A version of a kind that a CustomResourceDefinition describes.
pub(crate) struct Custom {
    pub(crate) kind: String,
    pub(crate) open_api: OpenApi,
    pub(crate) preserve_unknown: bool,
    /// The JSON paths of this version's selectable fields.
    pub(crate) selectable_paths: Vec<String>,
    /// All served versions: `apiVersion` and schema.
    pub(crate) versions: Arc<[(String, OpenApi)]>,
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
    pub(crate) lazy: Lazy,
}

/// What is read of the schemas when it is needed first.
#[derive(Default)]
pub(crate) struct Lazy {
    parsed: OnceLock<Option<Schema>>,
    /// The schemas of the other versions, for what is stored as one of them.
    others: OnceLock<Vec<(String, Option<Schema>)>>,
    types: OnceLock<Types>,
    rules: OnceLock<Option<Validator>>,
}

/// In the metadata of what is stored: its version, where that is not the one that is taken for granted.
const STORED_VERSION: &str = "storedVersion";

/// The types of all versions, for server-side apply: `apiVersion`, the name of the type, the schema.
type Types = Arc<Vec<(String, String, Arc<managed::Schema>)>>;

impl Custom {
    /// The schema, read when it is needed first.
    pub(crate) fn schema(&self) -> Option<&Schema> {
        // What does not parse was refused when the definition was written.
        self.lazy.parsed.get_or_init(|| Schema::parse(&self.open_api.value()).ok()).as_ref()
    }

    /// How much of the definition the first request has to read, and compile.
    pub(crate) fn unread_bytes(&self) -> usize {
        let is_read = self.lazy.parsed.get().is_some()
            && self.lazy.rules.get().is_some()
            && self.lazy.types.get().is_some();
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
        let read = || {
            let all = self.versions.iter().map(|(api_version, schema)| {
                let name = api_version.rsplit_once('/').map_or(api_version.as_str(), |(_, name)| name);
                (name.to_owned(), Schema::parse(&schema.value()).ok())
            });
            all.collect()
        };
        let others = self.lazy.others.get_or_init(read);
        others.iter().find(|(name, _)| name == version).and_then(|(_, schema)| schema.as_ref())
    }

    /// The schema as it was written.
    pub(crate) fn open_api(&self) -> &OpenApi {
        &self.open_api
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
        if let Some(rules) = self.rules() {
            if errors.iter().any(|error| BLOCKING.contains(&error.error_type)) {
                errors.push(FieldError::invalid(Path::Nil, Value::Null, settled_cel::NOT_CHECKED));
            } else {
                let (wrong, forgiven) = rules.validate_and_warn(new, old);
                errors.extend(wrong);
                warnings.extend(forgiven.iter().map(ToString::to_string));
            }
        }
        causes(&errors)
    }

    /// The CEL rules, compiled when they are needed first.
    fn rules(&self) -> Option<&Validator> {
        self.lazy.rules.get_or_init(|| Validator::compile(&self.open_api.value(), "").0).as_ref()
    }

    pub(crate) fn types(&self) -> Types {
        let make = || {
            let types = self.versions.iter().map(|(api_version, schema)| {
                let read = managed::Schema::from_crd(&self.kind, &schema.value(), self.preserve_unknown);
                match read {
                    Ok(schema) => (api_version.clone(), self.kind.clone(), Arc::new(schema)),
                    Err(_) => (api_version.clone(), String::new(), managed::Schema::deduced()),
                }
            });
            Arc::new(types.collect())
        };
        self.lazy.types.get_or_init(make).clone()
    }
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Custom").field("kind", &self.kind).finish_non_exhaustive()
    }
}

pub(crate) fn causes(errors: &[FieldError]) -> Vec<Cause> {
    errors.iter().map(Cause::from).collect()
}

//! Entries of `metadata.managedFields`, decoded and encoded.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value};
use settled_go as go;

use crate::serialize::FieldsError;
use crate::set::FieldSet;
use crate::update::{Managers, VersionedSet};

/// Operation of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// By server-side apply.
    Apply,
    /// By any other write.
    Update,
}

impl Operation {
    const fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// One entry of `metadata.managedFields`.
///
/// ```
/// use serde_json::json;
/// use settled_managed_fields::{Entry, Operation};
///
/// let entry = Entry::from_value(&json!({
///     "manager": "kubectl", "operation": "Apply", "apiVersion": "apps/v1", "time": "2024-05-01T10:00:00Z",
///     "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {"f:replicas": {}}},
/// }))
/// .unwrap();
/// assert_eq!(entry.operation, Operation::Apply);
/// assert_eq!(entry.fields.to_string(), ".spec.replicas");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name of the manager.
    pub manager: String,
    /// Operation: update or apply.
    pub operation: Operation,
    /// The version of the object that the paths are of.
    pub api_version: String,
    /// When the manager last changed something.
    pub time: Option<Timestamp>,
    /// The subresource that it wrote to; empty for the object itself.
    pub subresource: String,
    /// Owned fields.
    pub fields: FieldSet,
}

/// Why an entry of managedFields cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// The list is not one, or an entry is not an object of texts.
    #[error("managed fields must be a list of objects")]
    Malformed,
    /// The operation is neither of the two.
    #[error("operation must be `Apply` or `Update`")]
    Operation,
    /// The version is missing.
    #[error("apiVersion must not be empty")]
    ApiVersion,
    /// The fields have no type.
    #[error("missing fieldsType in managed fields entry {0}")]
    NoFieldsType(usize),
    /// The fields have another type.
    #[error("invalid fieldsType {0:?} in managed fields entry {1}")]
    FieldsType(String, usize),
    /// The time is not one.
    #[error("invalid time {0:?} in a managed fields entry")]
    Time(String),
    /// The fields are not a set.
    #[error("error decoding set: {0}")]
    Fields(FieldsError),
}

impl Entry {
    /// Reads an entry.
    ///
    /// # Errors
    /// A part of it is missing or unknown.
    pub fn from_value(value: &Value) -> Result<Self, EntryError> {
        Self::at(value, 0)
    }

    fn at(value: &Value, place: usize) -> Result<Self, EntryError> {
        let fields = value.as_object().ok_or(EntryError::Malformed)?;
        let text = |name: &str| match fields.get(name) {
            None | Some(Value::Null) => Ok(""),
            Some(Value::String(text)) => Ok(text.as_str()),
            Some(_) => Err(EntryError::Malformed),
        };
        let operation = match text("operation")? {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return Err(EntryError::Operation),
        };
        let api_version = text("apiVersion")?;
        if api_version.is_empty() {
            return Err(EntryError::ApiVersion);
        }
        match text("fieldsType")? {
            "FieldsV1" => {}
            "" => return Err(EntryError::NoFieldsType(place)),
            other => return Err(EntryError::FieldsType(other.to_owned(), place)),
        }
        let time = match text("time")? {
            "" => None,
            time => Some(time.parse().map_err(|_| EntryError::Time(time.to_owned()))?),
        };
        let set = fields.get("fieldsV1").map_or_else(|| Ok(FieldSet::new()), FieldSet::from_value);
        Ok(Self {
            manager: text("manager")?.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            time,
            subresource: text("subresource")?.to_owned(),
            fields: set.map_err(EntryError::Fields)?,
        })
    }

    /// The entry as it stands in an object.
    #[must_use]
    pub fn to_value(&self) -> Value {
        self.with_fields(self.fields.to_value())
    }

    /// The entry as it stands in an object, with its fields as they stand there.
    fn with_fields(&self, fields: Value) -> Value {
        let mut out = Map::new();
        let mut put = |name: &str, text: &str| {
            if !text.is_empty() {
                out.insert(name.to_owned(), text.into());
            }
        };
        put("manager", &self.manager);
        put("operation", self.operation.name());
        put("apiVersion", &self.api_version);
        put("time", &self.time.map(print_time).unwrap_or_default());
        put("fieldsType", "FieldsV1");
        put("subresource", &self.subresource);
        out.insert("fieldsV1".to_owned(), fields);
        Value::Object(out)
    }

    /// Identifier of the manager as JSON. An applier has the same identifier in every version.
    pub(crate) fn identifier(&self) -> String {
        let version = if self.operation == Operation::Apply { "" } else { &self.api_version };
        let parts = [
            ("manager", self.manager.as_str()),
            ("operation", self.operation.name()),
            ("apiVersion", version),
            ("subresource", &self.subresource),
        ];
        let mut out = String::from("{");
        for (name, text) in parts {
            if !text.is_empty() {
                if out.len() > 1 {
                    out.push(',');
                }
                go::json::push_quoted(name, &mut out);
                out.push(':');
                go::json::push_quoted(text, &mut out);
            }
        }
        out.push('}');
        out
    }

    fn sort_key(&self) -> (Operation, i64, &str, &str, &str) {
        let time = self.time.map_or(0, Timestamp::as_second);
        (self.operation, time, &self.manager, &self.api_version, &self.subresource)
    }
}

/// Whole seconds, as Kubernetes writes times.
pub(crate) fn print_time(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// The managers of an object and when they last changed something, by identifier.
#[derive(Clone, Debug, Default)]
pub(crate) struct Managed {
    pub(crate) managers: Managers,
    pub(crate) times: BTreeMap<String, Option<Timestamp>>,
    /// Sets as they stand in an object that this crate wrote: what does not change is not written anew.
    written: Vec<(Arc<FieldSet>, Value)>,
}

/// Reads `metadata.managedFields` of an object. Without it, there are no entries.
///
/// # Errors
/// One of the entries cannot be read.
pub fn decode_managed_fields(object: &Value) -> Result<Vec<Entry>, EntryError> {
    match object.pointer("/metadata/managedFields") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(entries)) => {
            entries.iter().enumerate().map(|(place, entry)| Entry::at(entry, place)).collect()
        }
        Some(_) => Err(EntryError::Malformed),
    }
}

/// Sorts entries as upstream does and writes them to `metadata.managedFields`, or takes the field away if there are
/// none. An object without metadata gets it.
pub fn encode_managed_fields(object: &mut Value, entries: Vec<Entry>) {
    let entries = entries.into_iter().map(|entry| {
        let fields = entry.fields.to_value();
        (entry, fields)
    });
    put_entries(object, entries.collect());
}

/// Takes `metadata.managedFields` out of an object.
pub(crate) fn take_managed_fields(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata").and_then(Value::as_object_mut)?.remove("managedFields")
}

/// Writes entries, each with its fields as they stand in an object.
pub(crate) fn put_entries(object: &mut Value, mut entries: Vec<(Entry, Value)>) {
    entries.sort_by(|(left, _), (right, _)| left.sort_key().cmp(&right.sort_key()));
    let Some(object) = object.as_object_mut() else { return };
    if entries.is_empty() {
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
        return;
    }
    let metadata = object.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    if let Some(metadata) = metadata.as_object_mut() {
        metadata.insert(
            "managedFields".to_owned(),
            entries.into_iter().map(|(entry, fields)| entry.with_fields(fields)).collect(),
        );
    }
}

impl Managed {
    /// Reads the managers of an object that anybody may have written.
    pub(crate) fn decode(object: &Value) -> Result<Self, EntryError> {
        let mut managed = Self::default();
        for entry in decode_managed_fields(object)? {
            managed.add(entry);
        }
        Ok(managed)
    }

    /// Reads the managers from `metadata.managedFields` of an object that is stored, and so was written here.
    pub(crate) fn decode_stored(entries: Value) -> Result<Self, EntryError> {
        let mut managed = Self::default();
        let entries = match entries {
            Value::Null => return Ok(managed),
            Value::Array(entries) => entries,
            _ => return Err(EntryError::Malformed),
        };
        for (place, mut value) in entries.into_iter().enumerate() {
            let set = managed.add(Entry::at(&value, place)?);
            if let Some(fields) = value.get_mut("fieldsV1") {
                managed.written.push((set, fields.take()));
            }
        }
        Ok(managed)
    }

    fn add(&mut self, entry: Entry) -> Arc<FieldSet> {
        let identifier = entry.identifier();
        self.times.insert(identifier.clone(), entry.time);
        let set = Arc::new(entry.fields);
        let owned = VersionedSet {
            set: Arc::clone(&set),
            api_version: entry.api_version,
            applied: entry.operation == Operation::Apply,
        };
        self.managers.insert(identifier, owned);
        set
    }

    /// These managers and times, with the sets as they stand in an object.
    pub(crate) fn with(self, managers: Managers, times: BTreeMap<String, Option<Timestamp>>) -> Self {
        Self { managers, times, written: self.written }
    }

    pub(crate) fn encode(self, object: &mut Value) {
        let Self { managers, times, mut written } = self;
        let entries = managers.into_iter().map(|(identifier, owned)| {
            let (manager, subresource) = parse_identifier(&identifier);
            let known = written.iter().position(|(set, _)| Arc::ptr_eq(set, &owned.set));
            let fields = match known {
                Some(known) => written.swap_remove(known).1,
                None => owned.set.to_value(),
            };
            let entry = Entry {
                manager,
                operation: if owned.applied { Operation::Apply } else { Operation::Update },
                api_version: owned.api_version,
                time: times.get(&identifier).copied().flatten(),
                subresource,
                fields: FieldSet::new(),
            };
            (entry, fields)
        });
        let entries = entries.collect();
        put_entries(object, entries);
    }
}

/// The manager and subresource of an identifier.
fn parse_identifier(identifier: &str) -> (String, String) {
    let parsed: Value = serde_json::from_str(identifier).unwrap_or_default();
    let text = |name: &str| parsed[name].as_str().unwrap_or_default().to_owned();
    (text("manager"), text("subresource"))
}

/// A manager as conflicts name it: `"kubectl" with subresource "status" using apps/v1`.
pub(crate) fn print_manager(identifier: &str) -> String {
    let Ok(parsed) = serde_json::from_str::<Value>(identifier) else {
        return go::strconv::quote(identifier);
    };
    let text = |name: &str| parsed[name].as_str().unwrap_or_default();
    let mut out = go::strconv::quote(text("manager"));
    if !text("subresource").is_empty() {
        out.push_str(" with subresource ");
        go::strconv::push_quoted(text("subresource"), &mut out);
    }
    if text("operation") == "Update" {
        out.push_str(" using ");
        out.push_str(text("apiVersion"));
    }
    out
}

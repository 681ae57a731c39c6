//! Runs cases of the merge itself.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use settled_managed_fields::{
    Atom, ConvertError, Converter, Duplicates, FieldFilter, FieldSet, ListRelationship, ListType, Managers,
    MapRelationship, MapType, ObjectType, Scalar, Schema, StructField, TypeRef, TypedValue, UpdateError,
    Updater, VersionedSet,
};

/// Reads a schema in upstream's own form.
pub fn schema(value: &Value) -> Arc<Schema> {
    let types = value["types"].as_array().unwrap();
    Arc::new(Schema::new(types.iter().map(|one| (one["name"].as_str().unwrap(), atom(one)))))
}

pub fn atom(value: &Value) -> Atom {
    Atom {
        scalar: value.get("scalar").map(|scalar| match scalar.as_str().unwrap() {
            "numeric" => Scalar::Numeric,
            "string" => Scalar::String,
            "boolean" => Scalar::Boolean,
            _ => Scalar::Untyped,
        }),
        list: value.get("list").map(|list| {
            let relationship = match (list["elementRelationship"].as_str(), list.get("keys")) {
                (Some("associative"), Some(keys)) => ListRelationship::Keyed(
                    keys.as_array().unwrap().iter().map(|key| key.as_str().unwrap().into()).collect(),
                ),
                (Some("associative"), None) => ListRelationship::Set,
                _ => ListRelationship::Atomic,
            };
            Arc::new(ListType { element_type: type_ref(list.get("elementType")), relationship })
        }),
        map: value.get("map").map(|map| {
            let fields = map["fields"].as_array().cloned().unwrap_or_default();
            let mut out = MapType::new(fields.iter().map(|field| {
                let default = field.get("default").cloned();
                let of = StructField { type_ref: type_ref(field.get("type")), default };
                (field["name"].as_str().unwrap(), of)
            }));
            out.element_type = type_ref(map.get("elementType"));
            if map["elementRelationship"] == "atomic" {
                out.relationship = MapRelationship::Atomic;
            }
            Arc::new(out)
        }),
    }
}

fn type_ref(value: Option<&Value>) -> TypeRef {
    let Some(value) = value else { return TypeRef::None };
    let relationship = value.get("elementRelationship").map(|relationship| {
        if relationship == "atomic" { MapRelationship::Atomic } else { MapRelationship::Granular }
    });
    match value.get("namedType") {
        Some(name) => TypeRef::Named { name: name.as_str().unwrap().into(), relationship },
        None => TypeRef::inline(atom(value)),
    }
}

/// Renames fields of the root. The type of a version is named after it.
#[derive(Clone)]
struct Renames {
    schema: Arc<Schema>,
    renames: Value,
}

impl Renames {
    fn type_of(&self, version: &str) -> ObjectType {
        if version == "deduced" {
            ObjectType::deduced()
        } else {
            ObjectType::named(Arc::clone(&self.schema), version)
        }
    }
}

impl Converter for Renames {
    fn convert<'a>(
        &self,
        object: &'a TypedValue,
        version: &str,
    ) -> Result<Cow<'a, TypedValue>, ConvertError> {
        if version == "gone" {
            return Err(ConvertError::MissingVersion("no such version".to_owned()));
        }
        let TypeRef::Named { name: from, .. } = &object.object_type().type_ref else { panic!("no name") };
        if **from == *version || **from == *"__untyped_deduced_" {
            return Ok(Cow::Borrowed(object));
        }
        let mut out = Map::new();
        let fields = object.value().as_object();
        for (name, field) in fields.into_iter().flatten() {
            let mut name = name.clone();
            let back = self.renames[&**from].as_object().into_iter().flatten();
            if let Some((old, _)) = back.clone().find(|(_, new)| **new == name) {
                name = old.clone();
            }
            if let Some(new) = self.renames[version][&name].as_str() {
                name = new.to_owned();
            }
            out.insert(name, field.clone());
        }
        let out = if fields.is_some() { Value::Object(out) } else { Value::Null };
        TypedValue::new(out, self.type_of(version), Duplicates::Allow)
            .map(Cow::Owned)
            .map_err(|errors| ConvertError::Failed(errors.to_string()))
    }
}

fn managers(value: &Value) -> Managers {
    let mut managers = Managers::new();
    for (name, owned) in value.as_object().into_iter().flatten() {
        let set = match &owned["fields"] {
            Value::String(text) => FieldSet::from_json(text),
            other => FieldSet::from_value(other),
        };
        let owned = VersionedSet {
            set: Arc::new(set.unwrap()),
            api_version: owned["version"].as_str().unwrap().to_owned(),
            applied: owned["applied"] == true,
        };
        managers.insert(name.clone(), owned);
    }
    managers
}

/// A case in the middle of its operations.
pub struct State {
    schemas: Vec<Arc<Schema>>,
    renames: Value,
    ignored: BTreeMap<String, FieldSet>,
    pub live: Value,
    version: String,
    pub managers: Managers,
}

impl State {
    pub fn new(case: &Value) -> Self {
        let ignored = case["ignored"].as_object().into_iter().flatten();
        Self {
            schemas: case["schemas"].as_array().unwrap().iter().map(schema).collect(),
            renames: case["renames"].clone(),
            ignored: ignored.map(|(name, set)| (name.clone(), FieldSet::from_value(set).unwrap())).collect(),
            live: case["live"].clone(),
            version: String::new(),
            managers: managers(&case["managers"]),
        }
    }

    pub fn run(&mut self, operation: &Value) -> Value {
        let version = operation["version"].as_str().unwrap();
        if self.version.is_empty() {
            version.clone_into(&mut self.version);
        }
        match self.run_one(operation, version) {
            Ok(answer) => answer,
            Err(UpdateError::Conflicts(conflicts)) => {
                let list: Vec<_> = conflicts
                    .iter()
                    .map(|one| json!({"manager": one.manager, "path": one.path.to_string()}))
                    .collect();
                // Upstream has the managers in random order.
                json!({"conflicts": list, "error": conflicts.to_string()})
            }
            Err(error) => json!({"error": error.to_string()}),
        }
    }

    fn run_one(&mut self, operation: &Value, version: &str) -> Result<Value, UpdateError> {
        let place = operation["schema"].as_u64().unwrap_or(0);
        let schema = Arc::clone(&self.schemas[usize::try_from(place).unwrap()]);
        let converter = Renames { schema, renames: self.renames.clone() };
        let mut updater = Updater::new(converter.clone());
        for (version, set) in &self.ignored {
            updater = updater.with_filter(version.clone(), FieldFilter::Exclude(set.clone()));
        }
        let typed = |value: &Value, version: &str, duplicates, doing| {
            TypedValue::new(value.clone(), converter.type_of(version), duplicates)
                .map_err(|errors| UpdateError::Invalid { doing: String::from(doing), errors })
        };
        let live = typed(&self.live, &self.version, Duplicates::Allow, "live")?;
        let live = converter
            .convert(&live, version)
            .map_err(|error| UpdateError::Convert { doing: "live".to_owned(), error })?
            .into_owned();
        let manager = operation["manager"].as_str().unwrap();
        let object = &operation["object"];
        let mut answer = Map::new();
        let managers;
        if operation["apply"] == true {
            let config = typed(object, version, Duplicates::Reject, "config")?;
            let force = operation["force"] == true;
            let applied = updater.apply(&live, &config, version, &self.managers, manager, force)?;
            managers = applied.managers;
            self.live = match applied.object {
                Some(new) => {
                    let new = new.into_value();
                    // Go leaves out what is null.
                    if !new.is_null() {
                        answer.insert("live".to_owned(), new.clone());
                    }
                    new
                }
                None => {
                    answer.insert("same".to_owned(), true.into());
                    live.into_value()
                }
            };
        } else {
            let new = typed(object, version, Duplicates::Allow, "new")?;
            managers = updater.update(&live, &new, version, &self.managers, manager)?;
            self.live = new.into_value();
            if !self.live.is_null() {
                answer.insert("live".to_owned(), self.live.clone());
            }
        }
        version.clone_into(&mut self.version);
        self.managers.clear();
        let mut states = Map::new();
        for (name, owned) in managers {
            let fields = owned.set.to_json();
            let state = json!({"version": owned.api_version, "applied": owned.applied, "fields": fields});
            states.insert(name.clone(), state);
            let set = FieldSet::from_json(&fields).unwrap();
            self.managers.insert(name, VersionedSet { set: Arc::new(set), ..owned });
        }
        if !states.is_empty() {
            answer.insert("managers".to_owned(), Value::Object(states));
        }
        Ok(Value::Object(answer))
    }
}

pub fn answer(case: &Value) -> Value {
    let mut state = State::new(case);
    case["operations"].as_array().unwrap().iter().map(|operation| state.run(operation)).collect()
}

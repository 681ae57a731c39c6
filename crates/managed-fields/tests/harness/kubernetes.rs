//! Runs cases of whole objects.

use std::sync::Arc;

use serde_json::{Value, json};
use settled_managed_fields::{
    ApplyError, ConvertError, FieldFilter, FieldManager, FieldSet, ObjectType, ObjectTypes, Schema, Untyped,
};

/// Versions v1 and v2 of example.com, with the same fields; all other versions are gone.
#[derive(Clone)]
struct Types(Option<Arc<Schema>>);

impl ObjectTypes for Types {
    fn object_type(&self, api_version: &str, kind: &str) -> Option<ObjectType> {
        let version = api_version.strip_prefix("example.com/")?;
        let known = (version == "v1" || version == "v2") && kind == "Example";
        known.then(|| match &self.0 {
            Some(schema) => ObjectType::named(Arc::clone(schema), format!("example.{version}")),
            None => ObjectType::deduced(),
        })
    }

    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, ConvertError> {
        match api_version {
            "example.com/v1" | "example.com/v2" => Untyped.convert(object, api_version),
            other => Err(ConvertError::MissingVersion(other.to_owned())),
        }
    }
}

pub struct State {
    types: Types,
    ignored: Value,
    pub live: Value,
}

impl State {
    pub fn new(case: &Value) -> Self {
        let schema = case["schemas"][0]
            .as_object()
            .map(|components| Arc::new(Schema::from_open_api(components, case["preserve"] == true).unwrap()));
        Self { types: Types(schema), ignored: case["ignored"].clone(), live: case["live"].clone() }
    }

    pub fn run(&mut self, operation: &Value) -> Value {
        let text = |name: &str| operation[name].as_str().unwrap();
        let mut manager = FieldManager::new(self.types.clone(), text("version"), "Example")
            .with_subresource(text("subresource"));
        for (version, set) in self.ignored.as_object().into_iter().flatten() {
            let set = FieldSet::from_value(set).unwrap();
            manager = manager.with_filter(version.clone(), FieldFilter::Exclude(set));
        }
        let now = jiff::Timestamp::from_second(operation["time"].as_i64().unwrap()).unwrap();
        let (object, name) = (&operation["object"], text("manager"));
        let result = if operation["apply"] == true {
            manager.apply(&self.live, object, name, operation["force"] == true, now)
        } else {
            manager.update(&self.live, object, name, now)
        };
        match result {
            Ok(object) => {
                self.live = object;
                json!({"live": self.live})
            }
            Err(error) => {
                let mut answer = json!({"error": error.to_string()});
                if let ApplyError::Conflict { mut causes, .. } = error {
                    // Upstream has them in random order, so the oracle sorts them.
                    causes.sort_by(|left, right| left.message.cmp(&right.message));
                    answer["conflicts"] = causes
                        .iter()
                        .map(|cause| json!({"manager": cause.message, "path": cause.field}))
                        .collect();
                }
                answer
            }
        }
    }
}

pub fn answer(case: &Value) -> Value {
    let mut state = State::new(case);
    case["operations"].as_array().unwrap().iter().map(|operation| state.run(operation)).collect()
}

//! OpenAPI v2 operations, made of those of version 3.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use serde_json::{Map, Value, json};

use crate::discovery::operations;
use crate::kinds::definition::Definition;
use crate::object;

/// Media types in upstream's order; version 3 has them sorted.
const MEDIA_TYPES: [&str; 8] = [
    "*/*",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/json",
    "application/yaml",
    "application/json;stream=watch",
];
const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

/// `paths`, and the parameters that they share.
#[derive(Default)]
pub(crate) struct Paths {
    pub(crate) paths: Map<String, Value>,
    pub(crate) parameters: BTreeMap<String, Value>,
}

impl Paths {
    /// Adds what can be done with a resource.
    pub(crate) fn add(&mut self, definition: &Definition) {
        let Value::Object(newer) = operations::paths([definition]) else { return };
        let custom = definition.model.is_custom();
        for (path, mut item) in newer {
            for method in METHODS {
                if let Some(operation) = item.get_mut(method) {
                    *operation = self.operation(operation, custom);
                }
            }
            if let Some(Value::Array(shared)) = item.get_mut("parameters") {
                for parameter in shared {
                    *parameter = self.share(parameter_v2(parameter));
                }
            }
            self.paths.insert(path, item);
        }
    }

    fn operation(&mut self, newer: &Value, custom: bool) -> Value {
        let mut operation = json!({"schemes": ["https"]});
        for field in
            ["tags", "description", "operationId", "x-kubernetes-action", "x-kubernetes-group-version-kind"]
        {
            operation[field] = newer.get(field).cloned().unwrap_or_default();
        }
        let body = newer.pointer("/requestBody");
        operation["consumes"] = match body {
            Some(body) => media_types(body).into(),
            None if custom => json!(["application/json", "application/yaml"]),
            None => json!(["*/*"]),
        };
        operation["produces"] = newer.pointer("/responses/200").map(media_types).into();
        let responses = newer.get("responses").and_then(Value::as_object).into_iter().flatten();
        let responses = responses.map(|(code, response)| {
            let mut older = json!({"description": response["description"]});
            if let Some(schema) = schema_of(response) {
                older["schema"] = schema;
            }
            (code.clone(), older)
        });
        operation["responses"] = Value::Object(responses.collect());
        let taken = newer.get("parameters").and_then(Value::as_array).into_iter().flatten();
        let mut parameters: Vec<Value> = taken.map(parameter_v2).collect();
        if let Some(body) = body {
            let mut parameter = json!({"name": "body", "in": "body", "schema": schema_of(body)});
            if body["required"] == true {
                parameter["required"] = true.into();
            }
            parameters.push(parameter);
        }
        parameters.sort_by(|a, b| object::text(a, "name").cmp(object::text(b, "name")));
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into_iter().map(|parameter| self.share(parameter)).collect();
        }
        operation
    }

    /// A reference to the parameter, unless it is of a kind that upstream keeps in place (`collectSharedParameters`).
    fn share(&mut self, parameter: Value) -> Value {
        let own = match (object::text(&parameter, "in"), object::text(&parameter, "name")) {
            // kubectl looks for two of these.
            (_, "name") | ("query", "fieldValidation" | "dryRun") => true,
            ("body", _) => {
                let schema = parameter.pointer("/schema/$ref").and_then(Value::as_str).unwrap_or_default();
                !schema.starts_with("#/definitions/io.k8s.apimachinery")
            }
            _ => false,
        };
        if own {
            return parameter;
        }
        let name = format!("{}-{}", object::text(&parameter, "name"), hash(&parameter));
        let reference = json!({"$ref": format!("#/parameters/{name}")});
        self.parameters.insert(name, parameter);
        reference
    }
}

/// A parameter of version 3 has its type in a schema.
fn parameter_v2(newer: &Value) -> Value {
    let mut older = newer.clone();
    let Some(fields) = older.as_object_mut() else { return older };
    if let Some(Value::Object(schema)) = fields.remove("schema") {
        fields.extend(schema);
    }
    older
}

fn media_types(of: &Value) -> Vec<&'static str> {
    let content = of.get("content").and_then(Value::as_object);
    MEDIA_TYPES
        .into_iter()
        .filter(|media| content.is_some_and(|content| content.contains_key(*media)))
        .collect()
}

fn schema_of(of: &Value) -> Option<Value> {
    let content = of.get("content")?.as_object()?;
    let reference = content.values().next()?.pointer("/schema/$ref")?.as_str()?;
    Some(json!({"$ref": reference.replace("#/components/schemas/", "#/definitions/")}))
}

/// The end of the name of a shared parameter: FNV-1 of its JSON in the order of Go's fields (`base64Hash` upstream).
fn hash(parameter: &Value) -> String {
    const ORDER: [&str; 7] = ["uniqueItems", "type", "description", "name", "in", "required", "schema"];
    let fields = ORDER.iter().filter_map(|name| Some((name, parameter.get(*name)?)));
    let text: Vec<String> = fields.map(|(name, value)| format!("{}:{value}", json!(name))).collect();
    let hash = format!("{{{}}}", text.join(","))
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| hash.wrapping_mul(0x0100_0000_01b3) ^ u64::from(byte));
    URL_SAFE.encode(hash.to_be_bytes().get(..6).unwrap_or_default())
}

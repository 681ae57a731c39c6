//! Schemas of CRDs as servers publish them in OpenAPI (`ToKubeOpenAPI` and `ToStructuralOpenAPIV2` upstream).

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::props::{JsonSchemaProps, SchemaOrBool};

/// Which OpenAPI document a schema is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Lowered to what kubectl's validation understands of version 2.
    V2,
    /// With all that the schema has.
    V3,
}

/// The description of the `metadata` of objects.
pub const METADATA: &str = "Standard object's metadata. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";
const EMBEDDED_API_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object. More \
     info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase. More info: \
     https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

/// The schema of a text.
#[must_use]
pub fn string_schema(description: &str) -> Value {
    json!({"description": description, "type": "string"})
}

/// The schema of a type of `meta/v1`, by reference.
#[must_use]
pub fn meta_v1_schema(name: &str, description: &str) -> Value {
    let target = format!("#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.{name}");
    json!({"description": description, "allOf": [{"$ref": target}]})
}

/// Sets a property of a schema.
pub fn set_property(schema: &mut Value, name: &str, property: Value) {
    if let Some(schema) = schema.as_object_mut() {
        set_property_of(schema, name, property);
    }
}

fn set_property_of(schema: &mut Map<String, Value>, name: &str, property: Value) {
    let properties = schema.entry("properties").or_insert_with(|| json!({}));
    if let Some(properties) = properties.as_object_mut() {
        properties.insert(name.to_owned(), property);
    }
}

impl JsonSchemaProps {
    /// `x-kubernetes-preserve-unknown-fields`.
    #[must_use]
    pub fn preserves_unknown_fields(&self) -> bool {
        self.preserve_unknown == Some(true)
    }

    /// The schema as it is published: in plain OpenAPI as well, what its extensions mean.
    #[must_use]
    pub fn to_open_api(&self, version: Version) -> Value {
        let mut schema = self.to_json_with(&|nested| nested.to_open_api(version));
        if version == Version::V2 {
            self.lower(&mut schema);
        }
        if self.int_or_string {
            schema.remove("type");
            if version == Version::V3 && !self.says_int_or_string() {
                schema.entry("anyOf").or_insert_with(int_or_string);
            }
        }
        let is_open = version == Version::V2 && self.preserves_unknown_fields();
        if self.embedded && !is_open {
            add_type_and_object_meta(&mut schema);
        }
        Value::Object(schema)
    }

    /// Whether its `allOf` has an `anyOf` of integer and string.
    fn says_int_or_string(&self) -> bool {
        let either = int_or_string();
        self.all_of
            .iter()
            .flatten()
            .any(|nested| nested.any_of.as_ref().is_some_and(|list| Self::list_to_json(list) == either))
    }

    /// Takes out of one schema what kubectl misreads in version 2.
    fn lower(&self, schema: &mut Map<String, Value>) {
        let preserves = self.preserves_unknown_fields();
        let is_open = self.nullable || preserves;
        for name in ["allOf", "oneOf", "anyOf", "not", "nullable"] {
            schema.remove(name);
        }
        if is_open {
            schema.remove("items");
            schema.remove("properties");
        }
        let is_array_of_anything = self.type_ == "array" && !schema.contains_key("items");
        if self.nullable || is_array_of_anything || self.type_ == "object" && preserves {
            schema.remove("type");
        }
        // What may be null need not be there.
        let is_nullable = |name: &str| {
            let additional = self.additional.as_ref().and_then(|either| either.schema.as_ref());
            let property = self.property(name).filter(|_| !is_open);
            additional.is_some_and(|schema| schema.nullable) || property.is_some_and(|schema| schema.nullable)
        };
        if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
            required.retain(|name| !name.as_str().is_some_and(is_nullable));
            if required.is_empty() {
                schema.remove("required");
            }
        }
    }

    /// The schema as it is written.
    fn to_json(&self) -> Value {
        Value::Object(self.to_json_with(&Self::to_json))
    }

    fn list_to_json(list: &[Self]) -> Value {
        list.iter().map(Self::to_json).collect()
    }

    /// The schema as it is written, but for items and properties, which `nested` writes.
    fn to_json_with(&self, nested: &dyn Fn(&Self) -> Value) -> Map<String, Value> {
        let mut writer = Writer(Map::new());
        writer.text("id", &self.id);
        writer.text("$schema", &self.schema);
        writer.option("$ref", self.reference.as_deref());
        writer.text("description", &self.description);
        writer.text("type", &self.type_);
        writer.flag("nullable", self.nullable);
        writer.text("format", &self.format);
        writer.text("title", &self.title);
        writer.option("default", self.default.clone());
        writer.number("maximum", self.maximum);
        writer.flag("exclusiveMaximum", self.exclusive_maximum);
        writer.number("minimum", self.minimum);
        writer.flag("exclusiveMinimum", self.exclusive_minimum);
        writer.option("maxLength", self.max_length);
        writer.option("minLength", self.min_length);
        writer.text("pattern", &self.pattern);
        writer.option("maxItems", self.max_items);
        writer.option("minItems", self.min_items);
        writer.flag("uniqueItems", self.unique_items);
        writer.number("multipleOf", self.multiple_of);
        writer.option("enum", self.enumeration.clone());
        writer.option("maxProperties", self.max_properties);
        writer.option("minProperties", self.min_properties);
        writer.option("required", self.required.as_deref());
        writer.option(
            "items",
            self.items.as_ref().and_then(|items| match &items.schema {
                Some(schema) => Some(nested(schema)),
                None => items.list.as_deref().map(Self::list_to_json),
            }),
        );
        writer.option("allOf", self.all_of.as_deref().map(Self::list_to_json));
        writer.option("oneOf", self.one_of.as_deref().map(Self::list_to_json));
        writer.option("anyOf", self.any_of.as_deref().map(Self::list_to_json));
        writer.option("not", self.not.as_deref().map(Self::to_json));
        writer.option("properties", self.properties.as_ref().map(|map| map_to_json(map, nested)));
        writer.option(
            "additionalProperties",
            self.additional.as_deref().map(|either| either_to_json(either, nested)),
        );
        writer.option(
            "patternProperties",
            self.pattern_properties.as_ref().map(|map| map_to_json(map, &Self::to_json)),
        );
        writer.option(
            "dependencies",
            self.dependencies.as_ref().map(|map| {
                let dependencies = map.iter().map(|(name, dependency)| {
                    let schema = dependency.schema.as_deref().map(Self::to_json);
                    (name.clone(), schema.unwrap_or_else(|| json!(dependency.property)))
                });
                Value::Object(dependencies.collect())
            }),
        );
        writer.option(
            "additionalItems",
            self.additional_items.as_deref().map(|either| either_to_json(either, &Self::to_json)),
        );
        writer.option("definitions", self.definitions.as_ref().map(|map| map_to_json(map, &Self::to_json)));
        if let Some((description, url)) = &self.external_docs {
            let mut docs = Writer(Map::new());
            docs.text("description", description);
            docs.text("url", url);
            writer.option("externalDocs", Some(Value::Object(docs.0)));
        }
        writer.option("example", self.example.clone());
        writer.option("x-kubernetes-preserve-unknown-fields", self.preserve_unknown);
        writer.flag("x-kubernetes-embedded-resource", self.embedded);
        writer.flag("x-kubernetes-int-or-string", self.int_or_string);
        writer.option("x-kubernetes-list-map-keys", self.list_map_keys.as_deref());
        writer.option("x-kubernetes-list-type", self.list_type.as_deref());
        writer.option("x-kubernetes-map-type", self.map_type.as_deref());
        writer.option(
            "x-kubernetes-validations",
            self.validations.as_ref().map(|rules| {
                let rules = rules.iter().map(|rule| {
                    let mut writer = Writer(Map::new());
                    writer.option("rule", Some(rule.rule.as_str()));
                    writer.text("message", &rule.message);
                    writer.text("messageExpression", &rule.message_expression);
                    writer.option("reason", rule.reason.as_deref());
                    writer.text("fieldPath", &rule.field_path);
                    writer.option("optionalOldSelf", rule.optional_old_self);
                    Value::Object(writer.0)
                });
                rules.collect::<Value>()
            }),
        );
        writer.0
    }
}

fn int_or_string() -> Value {
    json!([{"type": "integer"}, {"type": "string"}])
}

/// What every object has, and a schema of an embedded resource does not say.
fn add_type_and_object_meta(schema: &mut Map<String, Value>) {
    let required = schema.entry("required").or_insert_with(|| json!([]));
    if let Some(required) = required.as_array_mut() {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|other| other == name) {
                required.push(name.into());
            }
        }
    }
    set_property_of(schema, "apiVersion", string_schema(EMBEDDED_API_VERSION));
    set_property_of(schema, "kind", string_schema(EMBEDDED_KIND));
    set_property_of(schema, "metadata", meta_v1_schema("ObjectMeta", METADATA));
}

fn map_to_json(map: &BTreeMap<String, JsonSchemaProps>, nested: &dyn Fn(&JsonSchemaProps) -> Value) -> Value {
    Value::Object(map.iter().map(|(name, schema)| (name.clone(), nested(schema))).collect())
}

fn either_to_json(either: &SchemaOrBool, nested: &dyn Fn(&JsonSchemaProps) -> Value) -> Value {
    either.schema.as_ref().map_or(Value::Bool(either.allows), nested)
}

/// Writes fields as `encoding/json` does: without those that are empty.
struct Writer(Map<String, Value>);

impl Writer {
    fn option(&mut self, name: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.0.insert(name.to_owned(), value.into());
        }
    }

    fn text(&mut self, name: &str, text: &str) {
        self.option(name, Some(text).filter(|text| !text.is_empty()));
    }

    fn flag(&mut self, name: &str, flag: bool) {
        self.option(name, flag.then_some(true));
    }

    /// Go writes whole floats without a point.
    fn number(&mut self, name: &str, number: Option<f64>) {
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let value = number.map(|number| {
            if number.fract() == 0.0 && number.abs() <= EXACT {
                Value::from(number as i64)
            } else {
                Value::from(number)
            }
        });
        self.option(name, value);
    }
}

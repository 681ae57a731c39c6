//! The decoder of `JSONSchemaProps`: one pass over the JSON makes the tree that everything else is derived from.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use settled_apimachinery::field::{Error as FieldError, ErrorType, Path};

use crate::props::{JsonSchemaProps, SchemaOrArray, SchemaOrBool, SchemaOrStringArray};
use crate::rule::ValidationRule;

/// Schemas nested deeper are refused.
const MAX_DEPTH: usize = 150;

impl JsonSchemaProps {
    /// Decodes an `openAPIV3Schema`.
    ///
    /// # Errors
    ///
    /// Fields of the wrong type, under `openAPIV3Schema`, and schemas that are nested too deep.
    pub fn parse(open_api_v3_schema: &Value) -> Result<Self, Vec<FieldError>> {
        let nil = Path::Nil;
        Self::read(open_api_v3_schema, &nil.child("openAPIV3Schema"))
    }

    /// Decodes a schema. What has the wrong type is reported, and taken as absent.
    pub(crate) fn read(value: &Value, path: &Path<'_>) -> Result<Self, Vec<FieldError>> {
        let mut reader = Reader { errors: Vec::new() };
        let props = reader.props(value, path, 0);
        if reader.errors.is_empty() { Ok(props) } else { Err(reader.errors) }
    }
}

struct Reader {
    errors: Vec<FieldError>,
}

impl Reader {
    fn wrong(&mut self, path: &Path<'_>, value: &Value, expected: &str) {
        // Values are not shown: they may be large.
        let kind = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        let detail = format!("must be {expected}");
        if self.errors.len() < 100 {
            self.errors.push(FieldError::new(ErrorType::TypeInvalid, path, Some(kind.into()), detail));
        }
    }

    fn props(&mut self, value: &Value, path: &Path<'_>, depth: usize) -> JsonSchemaProps {
        let mut props = JsonSchemaProps::default();
        let members = match value {
            Value::Object(members) => members,
            Value::Null => return props,
            other => {
                self.wrong(path, other, "an object");
                return props;
            }
        };
        if depth > MAX_DEPTH {
            self.errors.push(FieldError::new(
                ErrorType::TooMany,
                path,
                None,
                format!("schemas may be nested {MAX_DEPTH} levels deep"),
            ));
            return props;
        }
        let depth = depth + 1;
        for (key, value) in members {
            if value.is_null() {
                continue;
            }
            let at = path.child(key);
            match key.as_str() {
                "id" => props.id = self.text(value, &at),
                "$schema" => props.schema = self.text(value, &at),
                "$ref" => props.reference = Some(self.text(value, &at)),
                "description" => props.description = self.text(value, &at),
                "type" => props.type_ = self.text(value, &at),
                "nullable" => props.nullable = self.flag(value, &at),
                "format" => props.format = self.text(value, &at),
                "title" => props.title = self.text(value, &at),
                "default" => props.default = Some(value.clone()),
                "maximum" => props.maximum = self.number(value, &at),
                "exclusiveMaximum" => props.exclusive_maximum = self.flag(value, &at),
                "minimum" => props.minimum = self.number(value, &at),
                "exclusiveMinimum" => props.exclusive_minimum = self.flag(value, &at),
                "maxLength" => props.max_length = self.count(value, &at),
                "minLength" => props.min_length = self.count(value, &at),
                "pattern" => props.pattern = self.text(value, &at),
                "maxItems" => props.max_items = self.count(value, &at),
                "minItems" => props.min_items = self.count(value, &at),
                "uniqueItems" => props.unique_items = self.flag(value, &at),
                "multipleOf" => props.multiple_of = self.number(value, &at),
                "enum" => props.enumeration = self.values(value, &at),
                "maxProperties" => props.max_properties = self.count(value, &at),
                "minProperties" => props.min_properties = self.count(value, &at),
                "required" => props.required = self.texts(value, &at),
                "items" => {
                    let mut items = SchemaOrArray::default();
                    if value.is_array() {
                        items.list = self.list(value, &at, depth);
                    } else {
                        items.schema = Some(self.props(value, &at, depth));
                    }
                    props.items = Some(Box::new(items));
                }
                "allOf" => props.all_of = self.list(value, &at, depth),
                "oneOf" => props.one_of = self.list(value, &at, depth),
                "anyOf" => props.any_of = self.list(value, &at, depth),
                "not" => props.not = Some(Box::new(self.props(value, &at, depth))),
                "properties" => props.properties = self.map(value, &at, depth),
                "additionalProperties" => props.additional = self.either(value, &at, depth),
                "patternProperties" => props.pattern_properties = self.map(value, &at, depth),
                "dependencies" => props.dependencies = self.dependencies(value, &at, depth),
                "additionalItems" => props.additional_items = self.either(value, &at, depth),
                "definitions" => props.definitions = self.map(value, &at, depth),
                "externalDocs" => {
                    let text =
                        |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
                    props.external_docs = Some((text("description"), text("url")));
                }
                "example" => props.example = Some(value.clone()),
                "x-kubernetes-preserve-unknown-fields" => {
                    props.preserve_unknown = Some(self.flag(value, &at));
                }
                "x-kubernetes-embedded-resource" => props.embedded = self.flag(value, &at),
                "x-kubernetes-int-or-string" => props.int_or_string = self.flag(value, &at),
                "x-kubernetes-list-map-keys" => props.list_map_keys = self.texts(value, &at),
                "x-kubernetes-list-type" => props.list_type = Some(self.text(value, &at)),
                "x-kubernetes-map-type" => props.map_type = Some(self.text(value, &at)),
                "x-kubernetes-validations" => {
                    let rules = self.values(value, &at);
                    props.validations = rules.map(|rules| rules.iter().map(ValidationRule::parse).collect());
                }
                _ => {}
            }
        }
        props
    }

    fn text(&mut self, value: &Value, path: &Path<'_>) -> String {
        if let Value::String(text) = value {
            return text.clone();
        }
        self.wrong(path, value, "a string");
        String::new()
    }

    fn flag(&mut self, value: &Value, path: &Path<'_>) -> bool {
        value.as_bool().unwrap_or_else(|| {
            self.wrong(path, value, "a boolean");
            false
        })
    }

    fn number(&mut self, value: &Value, path: &Path<'_>) -> Option<f64> {
        let number = value.as_f64();
        if number.is_none() {
            self.wrong(path, value, "a number");
        }
        number
    }

    fn count(&mut self, value: &Value, path: &Path<'_>) -> Option<i64> {
        let count = value.as_i64();
        if count.is_none() {
            self.wrong(path, value, "an integer");
        }
        count
    }

    fn values(&mut self, value: &Value, path: &Path<'_>) -> Option<Vec<Value>> {
        if let Value::Array(items) = value {
            return Some(items.clone());
        }
        self.wrong(path, value, "an array");
        None
    }

    fn texts(&mut self, value: &Value, path: &Path<'_>) -> Option<Vec<String>> {
        let Value::Array(items) = value else {
            self.wrong(path, value, "an array of strings");
            return None;
        };
        let mut texts = Vec::with_capacity(items.len());
        for (at, item) in items.iter().enumerate() {
            let text = if item.is_null() { String::new() } else { self.text(item, &path.index(at)) };
            texts.push(text);
        }
        Some(texts)
    }

    fn list(&mut self, value: &Value, path: &Path<'_>, depth: usize) -> Option<Vec<JsonSchemaProps>> {
        let Value::Array(items) = value else {
            self.wrong(path, value, "an array of schemas");
            return None;
        };
        let items = items.iter().enumerate();
        Some(items.map(|(at, item)| self.props(item, &path.index(at), depth)).collect())
    }

    fn map(
        &mut self,
        value: &Value,
        path: &Path<'_>,
        depth: usize,
    ) -> Option<BTreeMap<String, JsonSchemaProps>> {
        let members = self.members(value, path)?;
        let members = members.iter();
        Some(members.map(|(key, nested)| (key.clone(), self.props(nested, &path.key(key), depth))).collect())
    }

    fn members<'v>(&mut self, value: &'v Value, path: &Path<'_>) -> Option<&'v Map<String, Value>> {
        if let Value::Object(members) = value {
            return Some(members);
        }
        self.wrong(path, value, "an object of schemas");
        None
    }

    fn either(&mut self, value: &Value, path: &Path<'_>, depth: usize) -> Option<Box<SchemaOrBool>> {
        match value {
            Value::Bool(allows) => Some(Box::new(SchemaOrBool { allows: *allows, schema: None })),
            Value::Object(_) => {
                let schema = Some(self.props(value, path, depth));
                Some(Box::new(SchemaOrBool { allows: true, schema }))
            }
            _ => {
                self.wrong(path, value, "a boolean or a schema");
                None
            }
        }
    }

    fn dependencies(
        &mut self,
        value: &Value,
        path: &Path<'_>,
        depth: usize,
    ) -> Option<BTreeMap<String, SchemaOrStringArray>> {
        let members = self.members(value, path)?;
        let mut all = BTreeMap::new();
        for (key, nested) in members {
            let at = path.key(key);
            let mut dependency = SchemaOrStringArray::default();
            match nested {
                Value::Object(_) => dependency.schema = Some(Box::new(self.props(nested, &at, depth))),
                Value::Array(_) => dependency.property = self.texts(nested, &at),
                _ => {}
            }
            all.insert(key.clone(), dependency);
        }
        Some(all)
    }
}

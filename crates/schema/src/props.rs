//! A schema as it is written: `JSONSchemaProps`, with all its fields, also those that no structural schema may have.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};
use settled_apimachinery::field::{Error as FieldError, ErrorType, Path};
use settled_go as go;

/// Schemas nested deeper are refused.
pub(crate) const MAX_DEPTH: usize = 150;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Props {
    pub(crate) id: String,
    pub(crate) schema: String,
    pub(crate) reference: Option<String>,
    pub(crate) description: String,
    pub(crate) kind: String,
    pub(crate) nullable: bool,
    pub(crate) format: String,
    pub(crate) title: String,
    pub(crate) default: Option<Value>,
    pub(crate) maximum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_minimum: bool,
    pub(crate) max_length: Option<i64>,
    pub(crate) min_length: Option<i64>,
    pub(crate) pattern: String,
    pub(crate) max_items: Option<i64>,
    pub(crate) min_items: Option<i64>,
    pub(crate) unique_items: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) enumeration: Option<Vec<Value>>,
    pub(crate) max_properties: Option<i64>,
    pub(crate) min_properties: Option<i64>,
    pub(crate) required: Option<Vec<String>>,
    pub(crate) items: Option<Box<Items>>,
    pub(crate) all_of: Option<Vec<Self>>,
    pub(crate) one_of: Option<Vec<Self>>,
    pub(crate) any_of: Option<Vec<Self>>,
    pub(crate) not: Option<Box<Self>>,
    pub(crate) properties: Option<BTreeMap<String, Self>>,
    pub(crate) additional: Option<Box<SchemaOrBool>>,
    pub(crate) pattern_properties: Option<BTreeMap<String, Self>>,
    pub(crate) dependencies: Option<BTreeMap<String, Dependency>>,
    pub(crate) additional_items: Option<Box<SchemaOrBool>>,
    pub(crate) definitions: Option<BTreeMap<String, Self>>,
    pub(crate) external_docs: Option<(String, String)>,
    pub(crate) example: Option<Value>,
    pub(crate) preserve_unknown: Option<bool>,
    pub(crate) embedded: bool,
    pub(crate) int_or_string: bool,
    pub(crate) list_map_keys: Option<Vec<String>>,
    pub(crate) list_type: Option<String>,
    pub(crate) map_type: Option<String>,
    pub(crate) rules: Option<Vec<Value>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Items {
    pub(crate) schema: Option<Props>,
    pub(crate) list: Option<Vec<Props>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SchemaOrBool {
    pub(crate) allows: bool,
    pub(crate) schema: Option<Props>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Dependency {
    pub(crate) schema: Option<Box<Props>>,
    pub(crate) property: Option<Vec<String>>,
}

impl Props {
    /// Reads a schema. What has the wrong type is reported, and taken as absent.
    pub(crate) fn read(value: &Value, path: &Path<'_>) -> Result<Self, Vec<FieldError>> {
        let mut reader = Reader { errors: Vec::new() };
        let props = reader.props(value, path, 0);
        if reader.errors.is_empty() { Ok(props) } else { Err(reader.errors) }
    }

    /// The schema of items, if there is exactly one.
    pub(crate) fn item(&self) -> Option<&Self> {
        self.items.as_ref().and_then(|items| items.schema.as_ref())
    }

    pub(crate) fn has_properties(&self) -> bool {
        self.properties.as_ref().is_some_and(|all| !all.is_empty())
    }

    pub(crate) fn property(&self, name: &str) -> Option<&Self> {
        self.properties.as_ref().and_then(|all| all.get(name))
    }

    pub(crate) fn is_list(&self, kind: &str) -> bool {
        self.list_type.as_deref() == Some(kind)
    }

    /// Whether a schema in here is as asked.
    pub(crate) fn any(&self, asked: &dyn Fn(&Self) -> bool) -> bool {
        let among = |list: &Option<Vec<Self>>| list.iter().flatten().any(|one| one.any(asked));
        let within = |map: &Option<BTreeMap<String, Self>>| {
            map.iter().flat_map(BTreeMap::values).any(|one| one.any(asked))
        };
        let either = |one: &Option<Box<SchemaOrBool>>| {
            one.as_ref().and_then(|one| one.schema.as_ref()).is_some_and(|one| one.any(asked))
        };
        asked(self)
            || self.items.as_ref().is_some_and(|items| {
                items.schema.as_ref().is_some_and(|one| one.any(asked)) || among(&items.list)
            })
            || among(&self.all_of)
            || among(&self.any_of)
            || among(&self.one_of)
            || self.not.as_ref().is_some_and(|one| one.any(asked))
            || within(&self.properties)
            || either(&self.additional)
            || within(&self.pattern_properties)
            || either(&self.additional_items)
            || within(&self.definitions)
            || self
                .dependencies
                .iter()
                .flat_map(BTreeMap::values)
                .any(|one| one.schema.as_ref().is_some_and(|one| one.any(asked)))
    }

    /// The schema as `encoding/json` prints upstream's internal structure.
    pub(crate) fn dump(&self) -> String {
        let mut text = String::new();
        dump_props(self, &mut text);
        text
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

    fn props(&mut self, value: &Value, path: &Path<'_>, depth: usize) -> Props {
        let mut props = Props::default();
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
                "type" => props.kind = self.text(value, &at),
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
                    let mut items = Items::default();
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
                "x-kubernetes-validations" => props.rules = self.values(value, &at),
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

    fn list(&mut self, value: &Value, path: &Path<'_>, depth: usize) -> Option<Vec<Props>> {
        let Value::Array(items) = value else {
            self.wrong(path, value, "an array of schemas");
            return None;
        };
        let items = items.iter().enumerate();
        Some(items.map(|(at, item)| self.props(item, &path.index(at), depth)).collect())
    }

    fn map(&mut self, value: &Value, path: &Path<'_>, depth: usize) -> Option<BTreeMap<String, Props>> {
        let members = self.members(value, path)?;
        let members = members.iter();
        Some(members.map(|(key, one)| (key.clone(), self.props(one, &path.key(key), depth))).collect())
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
    ) -> Option<BTreeMap<String, Dependency>> {
        let members = self.members(value, path)?;
        let mut all = BTreeMap::new();
        for (key, one) in members {
            let at = path.key(key);
            let mut dependency = Dependency::default();
            match one {
                Value::Object(_) => dependency.schema = Some(Box::new(self.props(one, &at, depth))),
                Value::Array(_) => dependency.property = self.texts(one, &at),
                _ => {}
            }
            all.insert(key.clone(), dependency);
        }
        Some(all)
    }
}

/// Writes Go's structures as JSON: all fields, in their order.
pub(crate) struct Dump<'t> {
    text: &'t mut String,
    first: bool,
}

impl<'t> Dump<'t> {
    pub(crate) fn new(text: &'t mut String) -> Self {
        text.push('{');
        Dump { text, first: true }
    }

    /// The text to which the value of a field is written.
    pub(crate) fn field(&mut self, name: &str) -> &mut String {
        if !self.first {
            self.text.push(',');
        }
        self.first = false;
        let _ = write!(self.text, "\"{name}\":");
        self.text
    }

    pub(crate) fn text(&mut self, name: &str, value: &str) {
        go::json::push_quoted(value, self.field(name));
    }

    pub(crate) fn text_or_null(&mut self, name: &str, value: Option<&str>) {
        let text = self.field(name);
        match value {
            Some(value) => go::json::push_quoted(value, text),
            None => text.push_str("null"),
        }
    }

    pub(crate) fn flag(&mut self, name: &str, value: bool) {
        self.field(name).push_str(if value { "true" } else { "false" });
    }

    fn float(&mut self, name: &str, value: Option<f64>) {
        let text = self.field(name);
        match value {
            Some(value) => go::json::push_float(value, text),
            None => text.push_str("null"),
        }
    }

    fn count(&mut self, name: &str, value: Option<i64>) {
        let text = self.field(name);
        let _ = match value {
            Some(value) => write!(text, "{value}"),
            None => write!(text, "null"),
        };
    }

    pub(crate) fn json(&mut self, name: &str, value: Option<&Value>) {
        let shown = value.map_or_else(|| "null".to_owned(), go::json::to_string);
        self.field(name).push_str(&shown);
    }

    pub(crate) fn list<T>(&mut self, name: &str, items: Option<&[T]>, one: impl Fn(&T, &mut String)) {
        dump_list(self.field(name), items, one);
    }

    fn map<T>(&mut self, name: &str, items: Option<&BTreeMap<String, T>>, one: impl Fn(&T, &mut String)) {
        let text = self.field(name);
        let Some(items) = items else {
            text.push_str("null");
            return;
        };
        text.push('{');
        for (at, (key, item)) in items.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            go::json::push_quoted(key, text);
            text.push(':');
            one(item, text);
        }
        text.push('}');
    }

    pub(crate) fn end(self) {
        self.text.push('}');
    }
}

pub(crate) fn dump_list<T>(text: &mut String, items: Option<&[T]>, one: impl Fn(&T, &mut String)) {
    let Some(items) = items else {
        text.push_str("null");
        return;
    };
    text.push('[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        one(item, text);
    }
    text.push(']');
}

#[expect(clippy::ptr_arg, reason = "it is called with items of lists of strings")]
pub(crate) fn dump_text(value: &String, text: &mut String) {
    go::json::push_quoted(value, text);
}

pub(crate) fn dump_props(props: &Props, text: &mut String) {
    let mut dump = Dump::new(text);
    dump.text("ID", &props.id);
    dump.text("Schema", &props.schema);
    dump.text_or_null("Ref", props.reference.as_deref());
    dump.text("Description", &props.description);
    dump.text("Type", &props.kind);
    dump.flag("Nullable", props.nullable);
    dump.text("Format", &props.format);
    dump.text("Title", &props.title);
    dump.json("Default", props.default.as_ref());
    dump.float("Maximum", props.maximum);
    dump.flag("ExclusiveMaximum", props.exclusive_maximum);
    dump.float("Minimum", props.minimum);
    dump.flag("ExclusiveMinimum", props.exclusive_minimum);
    dump.count("MaxLength", props.max_length);
    dump.count("MinLength", props.min_length);
    dump.text("Pattern", &props.pattern);
    dump.count("MaxItems", props.max_items);
    dump.count("MinItems", props.min_items);
    dump.flag("UniqueItems", props.unique_items);
    dump.float("MultipleOf", props.multiple_of);
    dump.list("Enum", props.enumeration.as_deref(), |value, text| text.push_str(&go::json::to_string(value)));
    dump.count("MaxProperties", props.max_properties);
    dump.count("MinProperties", props.min_properties);
    dump.list("Required", props.required.as_deref(), dump_text);
    match &props.items {
        Some(items) => dump_items(items, dump.field("Items")),
        None => dump.field("Items").push_str("null"),
    }
    dump.list("AllOf", props.all_of.as_deref(), dump_props);
    dump.list("OneOf", props.one_of.as_deref(), dump_props);
    dump.list("AnyOf", props.any_of.as_deref(), dump_props);
    match &props.not {
        Some(not) => dump_props(not, dump.field("Not")),
        None => dump.field("Not").push_str("null"),
    }
    dump.map("Properties", props.properties.as_ref(), dump_props);
    dump_either(props.additional.as_deref(), dump.field("AdditionalProperties"));
    dump.map("PatternProperties", props.pattern_properties.as_ref(), dump_props);
    dump.map("Dependencies", props.dependencies.as_ref(), |one, text| {
        let mut dump = Dump::new(text);
        match &one.schema {
            Some(schema) => dump_props(schema, dump.field("Schema")),
            None => dump.field("Schema").push_str("null"),
        }
        dump.list("Property", one.property.as_deref(), dump_text);
        dump.end();
    });
    dump_either(props.additional_items.as_deref(), dump.field("AdditionalItems"));
    dump.map("Definitions", props.definitions.as_ref(), dump_props);
    match &props.external_docs {
        Some((description, url)) => {
            let mut docs = Dump::new(dump.field("ExternalDocs"));
            docs.text("Description", description);
            docs.text("URL", url);
            docs.end();
        }
        None => dump.field("ExternalDocs").push_str("null"),
    }
    dump.json("Example", props.example.as_ref());
    let preserve = props.preserve_unknown.map(Value::Bool);
    dump.json("XPreserveUnknownFields", preserve.as_ref());
    dump.flag("XEmbeddedResource", props.embedded);
    dump.flag("XIntOrString", props.int_or_string);
    dump.list("XListMapKeys", props.list_map_keys.as_deref(), dump_text);
    dump.text_or_null("XListType", props.list_type.as_deref());
    dump.text_or_null("XMapType", props.map_type.as_deref());
    dump.list("XValidations", props.rules.as_deref(), |rule, text| {
        let text_of = |name: &str| rule.get(name).and_then(Value::as_str).unwrap_or_default();
        let mut dump = Dump::new(text);
        dump.text("Rule", text_of("rule"));
        dump.text("Message", text_of("message"));
        dump.text("MessageExpression", text_of("messageExpression"));
        dump.text_or_null("Reason", rule.get("reason").and_then(Value::as_str));
        dump.text("FieldPath", text_of("fieldPath"));
        dump.json("OptionalOldSelf", rule.get("optionalOldSelf"));
        dump.end();
    });
    dump.end();
}

pub(crate) fn dump_items(items: &Items, text: &mut String) {
    let mut dump = Dump::new(text);
    match &items.schema {
        Some(schema) => dump_props(schema, dump.field("Schema")),
        None => dump.field("Schema").push_str("null"),
    }
    dump.list("JSONSchemas", items.list.as_deref(), dump_props);
    dump.end();
}

fn dump_either(one: Option<&SchemaOrBool>, text: &mut String) {
    let Some(one) = one else {
        text.push_str("null");
        return;
    };
    let mut dump = Dump::new(text);
    dump.flag("Allows", one.allows);
    match &one.schema {
        Some(schema) => dump_props(schema, dump.field("Schema")),
        None => dump.field("Schema").push_str("null"),
    }
    dump.end();
}

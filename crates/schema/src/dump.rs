//! Schemas as `encoding/json` prints upstream's internal structures, which is how errors show them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;
use settled_go as go;

use crate::props::{JsonSchemaProps, SchemaOrArray, SchemaOrBool};

impl JsonSchemaProps {
    /// The schema as `encoding/json` prints upstream's internal structure.
    pub(crate) fn dump(&self) -> String {
        let mut text = String::new();
        dump_props(self, &mut text);
        text
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

    pub(crate) fn list<T>(&mut self, name: &str, items: Option<&[T]>, dump_item: impl Fn(&T, &mut String)) {
        dump_list(self.field(name), items, dump_item);
    }

    fn map<T>(
        &mut self,
        name: &str,
        items: Option<&BTreeMap<String, T>>,
        dump_item: impl Fn(&T, &mut String),
    ) {
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
            dump_item(item, text);
        }
        text.push('}');
    }

    pub(crate) fn end(self) {
        self.text.push('}');
    }
}

pub(crate) fn dump_list<T>(text: &mut String, items: Option<&[T]>, dump_item: impl Fn(&T, &mut String)) {
    let Some(items) = items else {
        text.push_str("null");
        return;
    };
    text.push('[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        dump_item(item, text);
    }
    text.push(']');
}

#[expect(clippy::ptr_arg, reason = "it is called with items of lists of strings")]
pub(crate) fn dump_text(value: &String, text: &mut String) {
    go::json::push_quoted(value, text);
}

pub(crate) fn dump_props(props: &JsonSchemaProps, text: &mut String) {
    let mut dump = Dump::new(text);
    dump.text("ID", &props.id);
    dump.text("Schema", &props.schema);
    dump.text_or_null("Ref", props.reference.as_deref());
    dump.text("Description", &props.description);
    dump.text("Type", &props.type_);
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
    dump.map("Dependencies", props.dependencies.as_ref(), |dependency, text| {
        let mut dump = Dump::new(text);
        match &dependency.schema {
            Some(schema) => dump_props(schema, dump.field("Schema")),
            None => dump.field("Schema").push_str("null"),
        }
        dump.list("Property", dependency.property.as_deref(), dump_text);
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
    dump.list("XValidations", props.validations.as_deref(), |rule, text| text.push_str(&rule.shown()));
    dump.end();
}

pub(crate) fn dump_items(items: &SchemaOrArray, text: &mut String) {
    let mut dump = Dump::new(text);
    match &items.schema {
        Some(schema) => dump_props(schema, dump.field("Schema")),
        None => dump.field("Schema").push_str("null"),
    }
    dump.list("JSONSchemas", items.list.as_deref(), dump_props);
    dump.end();
}

fn dump_either(either: Option<&SchemaOrBool>, text: &mut String) {
    let Some(either) = either else {
        text.push_str("null");
        return;
    };
    let mut dump = Dump::new(text);
    dump.flag("Allows", either.allows);
    match &either.schema {
        Some(schema) => dump_props(schema, dump.field("Schema")),
        None => dump.field("Schema").push_str("null"),
    }
    dump.end();
}

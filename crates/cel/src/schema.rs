//! Structural schemas as CEL sees them: types and maximum sizes of values.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use settled_schema::Node;

use crate::rule::Rule;
use crate::types::Type;

/// Maximum request size, the default bound of unbounded values.
pub(crate) const MAX_REQUEST: i64 = 3 * 1024 * 1024;
/// Maximum depth: types of OpenAPI documents may be recursive.
const MAX_DEPTH: usize = 200;

/// The parts of a structural schema that CEL uses.
#[derive(Debug, Default)]
pub(crate) struct Schema {
    pub(crate) type_: String,
    pub(crate) format: String,
    pub(crate) nullable: bool,
    pub(crate) items: Option<Arc<Self>>,
    pub(crate) properties: Option<BTreeMap<String, Arc<Self>>>,
    pub(crate) additional: Option<Arc<Self>>,
    /// Whether `additionalProperties` exists, even if only as `true`.
    pub(crate) has_additional: bool,
    pub(crate) all_of: Vec<Arc<Self>>,
    pub(crate) required: Vec<String>,
    pub(crate) enumeration: Vec<Value>,
    pub(crate) default: Option<Value>,
    pub(crate) max_items: Option<i64>,
    pub(crate) max_length: Option<i64>,
    pub(crate) max_properties: Option<i64>,
    pub(crate) int_or_string: bool,
    pub(crate) embedded: bool,
    pub(crate) preserve_unknown: bool,
    pub(crate) list_type: Option<String>,
    pub(crate) list_keys: Vec<String>,
    pub(crate) map_type: Option<String>,
    pub(crate) rules: Vec<Rule>,
    /// Adds `apiVersion`, `kind` and `metadata` of an embedded resource.
    pub(crate) as_resource: Option<Arc<Self>>,
}

impl Schema {
    pub(crate) fn of(node: &Node) -> Self {
        Self::of_depth(node, 0)
    }

    fn of_depth(node: &Node, depth: usize) -> Self {
        let child = |node: &Node| (depth < MAX_DEPTH).then(|| Arc::new(Self::of_depth(node, depth + 1)));
        let properties = node.has_properties().then(|| {
            let properties = node.properties();
            properties.filter_map(|(name, node)| Some((name.to_owned(), child(node)?))).collect()
        });
        let mut schema = Self {
            type_: node.type_name().to_owned(),
            format: node.format().to_owned(),
            nullable: node.nullable(),
            items: node.items().and_then(child),
            properties,
            additional: node.additional_properties().and_then(child),
            has_additional: node.additional_properties_allowed().is_some(),
            all_of: node.all_of().filter_map(child).collect(),
            required: node.required().map(str::to_owned).collect(),
            enumeration: node.enum_values().to_vec(),
            default: node.default_value().cloned(),
            max_items: node.max_items(),
            max_length: node.max_length(),
            max_properties: node.max_properties(),
            int_or_string: node.is_int_or_string(),
            embedded: node.is_embedded_resource(),
            preserve_unknown: node.preserves_unknown_fields(),
            list_type: node.list_type().map(|list_type| list_type.as_str().to_owned()),
            list_keys: node.list_map_keys().map(str::to_owned).collect(),
            map_type: node.map_type().map(|map_type| map_type.as_str().to_owned()),
            rules: node.rules().to_vec(),
            as_resource: None,
        };
        if schema.embedded {
            schema.as_resource = Some(Arc::new(schema.resource()));
        }
        schema
    }

    /// Adds the standard fields of resources.
    pub(crate) fn resource(&self) -> Self {
        let text = || Arc::new(Self { type_: "string".to_owned(), ..Self::default() });
        let mut properties = self.properties.clone().unwrap_or_default();
        let is = |schema: Option<&Arc<Self>>, type_: &str| schema.is_some_and(|schema| schema.type_ == type_);
        let meta = properties.get("metadata").and_then(|meta| meta.properties.as_ref());
        let has_all = is(properties.get("kind"), "string")
            && is(properties.get("apiVersion"), "string")
            && is(properties.get("metadata"), "object")
            && meta
                .is_some_and(|meta| is(meta.get("name"), "string") && is(meta.get("generateName"), "string"));
        if !has_all {
            properties.insert("kind".to_owned(), text());
            properties.insert("apiVersion".to_owned(), text());
            let meta = ["name", "generateName"].map(|name| (name.to_owned(), text()));
            let meta = Self {
                type_: "object".to_owned(),
                properties: Some(meta.into_iter().collect()),
                ..Self::default()
            };
            properties.insert("metadata".to_owned(), Arc::new(meta));
        }
        Self {
            type_: self.type_.clone(),
            format: self.format.clone(),
            nullable: self.nullable,
            items: self.items.clone(),
            properties: Some(properties),
            additional: self.additional.clone(),
            has_additional: self.has_additional,
            required: self.required.clone(),
            enumeration: self.enumeration.clone(),
            default: self.default.clone(),
            max_items: self.max_items,
            max_length: self.max_length,
            max_properties: self.max_properties,
            int_or_string: self.int_or_string,
            embedded: self.embedded,
            preserve_unknown: self.preserve_unknown,
            list_type: self.list_type.clone(),
            list_keys: self.list_keys.clone(),
            map_type: self.map_type.clone(),
            all_of: Vec::new(),
            rules: Vec::new(),
            as_resource: None,
        }
    }

    /// Schema of a map member.
    pub(crate) fn property(&self, name: &str) -> Option<&Arc<Self>> {
        self.properties.as_ref().and_then(|properties| properties.get(name))
    }

    pub(crate) fn has_rules(&self) -> bool {
        !self.rules.is_empty()
            || self.items.as_ref().is_some_and(|schema| schema.has_rules())
            || self.additional.as_ref().is_some_and(|schema| schema.has_rules())
            || self.properties.iter().flatten().any(|(_, schema)| schema.has_rules())
    }

    fn max_text(&self) -> i64 {
        if self.int_or_string {
            return MAX_REQUEST - 2;
        }
        match self.format.as_str() {
            "duration" | "date-time" => 32,
            "date" => 12,
            _ => MAX_REQUEST - 2,
        }
    }

    /// Maximum number of elements, and so of evaluations of its children's rules. `None` if unbounded.
    pub(crate) fn max_elements(&self) -> Option<u64> {
        let limit = match self.type_.as_str() {
            "object" if self.has_additional => self.max_properties,
            "array" => self.max_items,
            _ => Some(1),
        };
        limit.map(|limit| limit.max(0) as u64)
    }
}

/// A declared type.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) type_: Type,
    pub(crate) fields: BTreeMap<String, Arc<Self>>,
    pub(crate) key: Option<Arc<Self>>,
    pub(crate) element: Option<Arc<Self>>,
    pub(crate) max_elements: i64,
    pub(crate) min_size: i64,
}

/// Objects are unnamed until an expression uses them.
const OBJECT: &str = "object";

impl Declared {
    fn simple(type_: Type, min_size: i64, max_elements: i64) -> Self {
        Self { type_, fields: BTreeMap::new(), key: None, element: None, max_elements, min_size }
    }

    /// `None` for schemas that expressions cannot access.
    pub(crate) fn of(schema: &Schema, is_root: bool) -> Option<Self> {
        const TEXT: i64 = 2;
        if schema.int_or_string {
            let most = schema.max_length.map_or_else(|| schema.max_text(), |length| length.max(0) * 4);
            return Some(Self::simple(Type::Dyn, 1, most));
        }
        let resource = is_root.then(|| schema.resource());
        let schema = resource.as_ref().unwrap_or(schema);
        let most = schema.max_text();
        Some(match (schema.type_.as_str(), schema.format.as_str()) {
            ("array", _) => {
                let items = schema.items.as_ref()?;
                let element = Self::of(items, items.embedded)?;
                let most = (MAX_REQUEST - 2) / (element.min_size + 1);
                Self {
                    type_: Type::list(element.type_.clone()),
                    fields: BTreeMap::new(),
                    key: None,
                    max_elements: schema.max_items.map_or(most, |most| most.max(0)),
                    min_size: 2,
                    element: Some(Arc::new(element)),
                }
            }
            ("object", _) => match &schema.additional {
                Some(values) => {
                    let element = Self::of(values, values.embedded)?;
                    let most = (MAX_REQUEST - 2) / (element.min_size + 6);
                    Self {
                        type_: Type::map(Type::String, element.type_.clone()),
                        fields: BTreeMap::new(),
                        key: Some(Arc::new(Self::simple(Type::String, TEXT, NO_MAX))),
                        max_elements: schema.max_properties.map_or(most, |most| most.max(0)),
                        min_size: 2,
                        element: Some(Arc::new(element)),
                    }
                }
                None => {
                    let mut fields = BTreeMap::new();
                    let mut min_size = 2;
                    for (name, property) in schema.properties.iter().flatten() {
                        let Some(field) = Self::of(property, property.embedded) else { continue };
                        if property.default.as_ref().is_none_or(Value::is_null)
                            && schema.required.contains(name)
                        {
                            min_size += name.len() as i64 + field.min_size + 4;
                        }
                        if let Some(escaped) = escape(name) {
                            fields.insert(escaped, Arc::new(field));
                        }
                    }
                    Self {
                        type_: Type::Struct(OBJECT.into()),
                        fields,
                        key: None,
                        element: None,
                        max_elements: NO_MAX,
                        min_size,
                    }
                }
            },
            ("string", "byte") => {
                Self::simple(Type::Bytes, TEXT, schema.max_length.map_or(most, |length| length.max(0)))
            }
            ("string", "duration") => Self::simple(Type::Duration, 3, most),
            ("string", "date") => Self::simple(Type::Timestamp, 12, most),
            ("string", "date-time") => Self::simple(Type::Timestamp, 21, most),
            ("string", _) => {
                let most = match schema.max_length {
                    Some(length) => length.max(0).saturating_mul(4),
                    None if !schema.enumeration.is_empty() => {
                        let lengths =
                            schema.enumeration.iter().filter_map(|text| text.as_str().map(str::len));
                        lengths.max().unwrap_or_default() as i64
                    }
                    None => most,
                };
                Self::simple(Type::String, TEXT, most)
            }
            ("boolean", _) => Self::simple(Type::Bool, 4, NO_MAX),
            ("number", _) => Self::simple(Type::Double, 1, NO_MAX),
            ("integer", _) => Self::simple(Type::Int, 1, NO_MAX),
            _ => return None,
        })
    }

    /// Assigns names to all nested objects, by their path.
    pub(crate) fn named(&self, name: &str) -> Self {
        let rename = |child: &Option<Arc<Self>>, suffix: &str| {
            child.as_ref().map(|child| Arc::new(child.named(&format!("{name}.{suffix}"))))
        };
        let mut fields = BTreeMap::new();
        let (mut key, mut element) = (self.key.clone(), self.element.clone());
        let type_ = match &self.type_ {
            Type::Struct(kind) if &**kind == OBJECT => {
                for (field, declared) in &self.fields {
                    fields.insert(field.clone(), Arc::new(declared.named(&format!("{name}.{field}"))));
                }
                Type::Struct(name.into())
            }
            Type::List(_) => {
                element = rename(&element, "@idx");
                Type::list(element.as_ref().map_or(Type::Dyn, |element| element.type_.clone()))
            }
            Type::Map(..) => {
                key = rename(&key, "@key");
                element = rename(&element, "@elem");
                let value = element.as_ref().map_or(Type::Dyn, |element| element.type_.clone());
                Type::map(Type::String, value)
            }
            other => other.clone(),
        };
        Self { type_, fields, key, element, max_elements: self.max_elements, min_size: self.min_size }
    }

    /// All nested objects by name.
    pub(crate) fn collect<'d>(&'d self, found: &mut BTreeMap<&'d str, &'d Self>) {
        if let Type::Struct(name) = &self.type_ {
            found.insert(name, self);
        }
        for child in self.fields.values().chain(&self.element) {
            child.collect(found);
        }
    }
}

/// Types without a size upstream, which then assumes empty values.
const NO_MAX: i64 = 0;

/// Escapes a property name for expressions; `None` if that is impossible.
pub(crate) fn escape(name: &str) -> Option<String> {
    const WORDS: [&str; 21] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ];
    if name.is_empty() || name.starts_with(|char: char| char.is_ascii_digit()) {
        return None;
    }
    if WORDS.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name.chars().peekable();
    while let Some(char) = rest.next() {
        match char {
            '_' if rest.peek() == Some(&'_') => {
                rest.next();
                escaped.push_str("__underscores__");
            }
            '.' => escaped.push_str("__dot__"),
            '-' => escaped.push_str("__dash__"),
            '/' => escaped.push_str("__slash__"),
            '_' => escaped.push('_'),
            char if char.is_ascii_alphanumeric() => escaped.push(char),
            _ => return None,
        }
    }
    Some(escaped)
}

/// Unescapes a property name.
pub(crate) fn unescape(name: &str) -> Option<std::borrow::Cow<'_, str>> {
    if !name.contains("__") {
        return Some(name.into());
    }
    if let Some(word) = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"))
        && escape(word).as_deref() == Some(name)
        && !matches!(word, "dot" | "dash" | "slash" | "underscores")
    {
        return Some(word.to_owned().into());
    }
    let mut plain = String::new();
    let mut rest = name;
    while let Some(at) = rest.find("__") {
        plain.push_str(rest.get(..at).unwrap_or_default());
        let tail = rest.get(at..).unwrap_or_default();
        let known = [("__underscores__", "__"), ("__dot__", "."), ("__dash__", "-"), ("__slash__", "/")];
        let (escaped, char) = known.into_iter().find(|(escaped, _)| tail.starts_with(escaped))?;
        plain.push_str(char);
        rest = tail.get(escaped.len()..).unwrap_or_default();
    }
    plain.push_str(rest);
    Some(plain.into())
}

//! Decoding plans: the fields of each type, compiled from its schema when it is first used.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, LazyLock, OnceLock, PoisonError, RwLock};

use serde_json::{Map, Value};

use super::packages::{self, Absent};
use super::steps::{self, Step};

/// A struct.
pub(super) struct Node {
    pub(super) component: String,
    pub(super) fields: BTreeMap<String, Field>,
    /// Those of which something is written if they are absent. Of most fields, nothing is.
    pub(super) filled: Box<[Filled]>,
    /// The names of those that are objects then, before any step.
    pub(super) objects: Box<[String]>,
    /// The fields by their numbers in protobuf.
    pub(super) numbers: Numbers,
    /// Of `defaults.yaml`.
    pub(super) steps: &'static [Step],
}

impl Node {
    /// The struct's name, as Go's errors have it.
    pub(super) fn name(&self) -> &str {
        self.component.rsplit('.').next().unwrap_or_default()
    }
}

/// The fields of a protobuf message.
pub(super) type Numbers = BTreeMap<u32, Place>;

/// Where a field of a protobuf message is in JSON.
pub(super) enum Place {
    /// A field of that name.
    Field(String),
    /// A message whose fields are its holder's own.
    Inline(Numbers),
}

/// A field of a struct.
pub(super) struct Field {
    pub(super) shape: Shape,
    /// None for a pointer: nothing is written if it is absent, and its zero is a value.
    pub(super) absent: Option<Absent>,
    /// The published default, where it is more than Go's zero.
    pub(super) default: Option<Value>,
}

/// The zero of a shape, which Go makes of a `null` among a list's items.
pub(super) fn zero(shape: &Shape) -> Value {
    match shape {
        Shape::String | Shape::Bytes => "".into(),
        Shape::Quantity => "0".into(),
        Shape::Boolean => false.into(),
        Shape::Integer { .. } | Shape::Number | Shape::IntOrString => 0.into(),
        Shape::Struct(_) => Value::Object(Map::new()),
        Shape::Time | Shape::MicroTime | Shape::List(_) | Shape::Map(_) | Shape::Any(_) => Value::Null,
    }
}

/// What is written of a field that is absent. A list of them is sorted by name, as the fields of objects are.
pub(super) struct Filled {
    pub(super) name: String,
    /// Go's zero, or null.
    pub(super) zero: Option<Value>,
    /// With defaults.
    pub(super) default: Option<Value>,
}

impl Filled {
    fn new(name: &str, field: &Field) -> Option<Self> {
        let zero = match field.absent {
            Some(Absent::Zero) => Some(zero(&field.shape)),
            Some(Absent::Null) => Some(Value::Null),
            Some(Absent::Quantity) => Some("0".into()),
            _ => None,
        };
        let default = field.default.clone().or_else(|| zero.clone());
        default.is_some().then(|| Self { name: name.to_owned(), zero, default })
    }
}

/// What a value has to be.
pub(super) enum Shape {
    String,
    Boolean,
    /// Of 32 bits, or 64.
    Integer {
        wide: bool,
    },
    Number,
    /// Base64.
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    Struct(Link),
    List(Box<Self>),
    Map(Box<Self>),
    /// Any JSON, or one of a few forms.
    Any(Free),
}

/// What may be of any form in JSON is a message of its own in protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Free {
    /// JSON in a field of bytes.
    Raw,
    SchemaOrArray,
    SchemaOrBool,
    SchemaOrStringArray,
    /// None: nothing of the sort is sent.
    Other,
}

impl Shape {
    /// The Go type, of which scalars may have names of their own.
    pub(super) fn go_type(&self) -> String {
        match self {
            Self::Boolean => "bool".to_owned(),
            Self::Integer { wide: false } | Self::IntOrString => "int32".to_owned(),
            Self::Integer { wide: true } => "int64".to_owned(),
            Self::Number => "float64".to_owned(),
            Self::Bytes => "[]uint8".to_owned(),
            Self::Struct(link) => {
                let mut parts = link.name.rsplit('.');
                let name = parts.next().unwrap_or_default();
                format!("{}.{name}", parts.next().unwrap_or_default())
            }
            Self::List(items) => format!("[]{}", items.go_type()),
            Self::Map(values) => format!("map[string]{}", values.go_type()),
            Self::String | Self::Time | Self::MicroTime | Self::Quantity | Self::Any(_) => {
                "string".to_owned()
            }
        }
    }
}

/// A struct by name: schemas refer to themselves.
pub(super) struct Link {
    name: String,
    node: OnceLock<Arc<Node>>,
}

impl Link {
    pub(super) fn node(&self) -> &Node {
        self.node.get_or_init(|| node(&self.name))
    }
}

/// The plan of a component. One without a schema has no fields.
pub(super) fn node(component: &str) -> Arc<Node> {
    static NODES: LazyLock<RwLock<HashMap<String, Arc<Node>>>> = LazyLock::new(RwLock::default);
    if let Some(known) = NODES.read().unwrap_or_else(PoisonError::into_inner).get(component) {
        return Arc::clone(known);
    }
    let made = Arc::new(compile(component));
    let mut nodes = NODES.write().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(nodes.entry(component.to_owned()).or_insert(made))
}

fn compile(component: &str) -> Node {
    let absent = packages::absent(component);
    let properties =
        packages::component(component).and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let fields = properties.into_iter().flatten().map(|(name, schema)| {
        let absent = absent.and_then(|rows| rows.get(name)).copied();
        // The documents also name the zeros that Go writes.
        let zero = |value: &Value| {
            let scalar = matches!(value, Value::String(text) if text.is_empty())
                || matches!(value, Value::Bool(false))
                || value.as_i64() == Some(0);
            value.is_object() || absent.is_some() && scalar
        };
        let default = schema.get("default").filter(|value| !zero(value)).cloned();
        (name.clone(), Field { shape: shape(schema), absent, default })
    });
    let fields: BTreeMap<String, Field> = fields.collect();
    Node {
        component: component.to_owned(),
        filled: fields.iter().filter_map(|(name, field)| Filled::new(name, field)).collect(),
        objects: fields
            .iter()
            .filter(|(_, field)| field.absent == Some(Absent::Object))
            .map(|(name, _)| name.clone())
            .collect(),
        fields,
        numbers: packages::numbers(component).map(numbers).unwrap_or_default(),
        steps: steps::steps(component),
    }
}

fn numbers(rows: &Map<String, Value>) -> Numbers {
    let places = rows.iter().filter_map(|(number, place)| {
        let place = match place {
            Value::Object(inner) => Place::Inline(numbers(inner)),
            name => Place::Field(name.as_str()?.to_owned()),
        };
        Some((number.parse().ok()?, place))
    });
    places.collect()
}

fn shape(schema: &Value) -> Shape {
    if let Some(target) = packages::reference(schema) {
        let short = target.rsplit('.').next().unwrap_or_default();
        return match short {
            "Time" => Shape::Time,
            "MicroTime" => Shape::MicroTime,
            "Quantity" => Shape::Quantity,
            "IntOrString" => Shape::IntOrString,
            _ => {
                let structured =
                    packages::component(target).is_some_and(|schema| schema.get("properties").is_some());
                // A struct without fields still drops what it doesn't know; free forms say nothing about fields either.
                let free = free(short);
                if structured || free == Free::Other && packages::component(target).is_some_and(is_object) {
                    Shape::Struct(Link { name: target.to_owned(), node: OnceLock::new() })
                } else {
                    Shape::Any(free)
                }
            }
        };
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("string") if schema.get("format").and_then(Value::as_str) == Some("byte") => Shape::Bytes,
        Some("string") => Shape::String,
        Some("boolean") => Shape::Boolean,
        Some("integer") => {
            Shape::Integer { wide: schema.get("format").and_then(Value::as_str) != Some("int32") }
        }
        Some("number") => Shape::Number,
        Some("array") => Shape::List(Box::new(schema.get("items").map_or(Shape::Any(Free::Other), shape))),
        Some("object") => match schema.get("additionalProperties") {
            Some(values) => Shape::Map(Box::new(shape(values))),
            None => Shape::Any(Free::Other),
        },
        _ => Shape::Any(Free::Other),
    }
}

/// Components whose content is any JSON.
fn free(component: &str) -> Free {
    match component {
        "FieldsV1" | "RawExtension" | "JSON" => Free::Raw,
        "JSONSchemaPropsOrArray" => Free::SchemaOrArray,
        "JSONSchemaPropsOrBool" => Free::SchemaOrBool,
        "JSONSchemaPropsOrStringArray" => Free::SchemaOrStringArray,
        _ => Free::Other,
    }
}

fn is_object(schema: &Value) -> bool {
    schema.get("type").and_then(Value::as_str) == Some("object")
}

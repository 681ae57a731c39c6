//! Typed values from JSON nodes.
//!
//! Reading text and checking it is done by [`ObjectView`], once for all types. A reader that is generic over its
//! input, as those of `serde_json`, is compiled again for every type of Kubernetes: that was a fifth of a program with many of them.

use std::borrow::Cow;

use kstatus::{Elements, Entries, Key, Node, NodeKind as Kind};
use serde::de::value::StringDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error as _, Expected, IntoDeserializer as _,
    MapAccess, SeqAccess, Unexpected, VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Value};

use crate::ObjectView;
use crate::projection::Selection;

/// How deep values may be nested: reading recurses. As `serde_json`.
const MAX_DEPTH: u8 = 128;

/// Reads a value from JSON. Of a member that stands twice, types that forbid it report an error.
///
/// ```
/// use settled_controller::{ObjectView, typed};
/// let pod = ObjectView::parse(br#"{"metadata":{"name":"web"},"status":{"phase":"Running"}}"#)?;
/// let pod: k8s_openapi::api::core::v1::Pod = typed::from_node(pod.root())?;
/// assert_eq!(pod.metadata.name.as_deref(), Some("web"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The value is not of this type, or is nested deeper than 128 levels; the path of the field is in the message.
pub fn from_node<T: DeserializeOwned>(node: Node<'_>) -> Result<T, Error> {
    selected_from_node(node, Selection::All)
}

/// Reads a value of which some is left out.
pub(crate) fn selected_from_node<'de, T: DeserializeOwned>(
    node: Node<'de>,
    selection: Selection<'de>,
) -> Result<T, Error> {
    T::deserialize(Reader { node, levels: MAX_DEPTH, selection })
}

/// Reads an object from text.
///
/// # Errors
/// The text is not a JSON object, or the object is not of this type.
pub fn from_slice<T: DeserializeOwned>(json: &[u8]) -> Result<T, Error> {
    match ObjectView::parse(json) {
        Ok(object) => from_node(object.root()),
        Err(error) => Err(Error::custom(error)),
    }
}

/// Reads a value from a parsed one.
///
/// # Errors
/// The value is not of this type; the path of the field is in the message.
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T, Error> {
    from_node(Node::Value(value))
}

/// A value that is read.
#[derive(Clone, Copy)]
struct Reader<'de> {
    node: Node<'de>,
    /// How many levels there may be below it.
    levels: u8,
    /// What is read of it.
    selection: Selection<'de>,
}

impl<'de> Reader<'de> {
    /// A value that is no list and no map.
    fn scalar<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.scalar_value() {
            Scalar::Null => visitor.visit_unit(),
            Scalar::Bool(value) => visitor.visit_bool(value),
            Scalar::Signed(value) => visitor.visit_i64(value),
            Scalar::Unsigned(value) => visitor.visit_u64(value),
            Scalar::Float(value) => visitor.visit_f64(value),
            Scalar::Text(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Scalar::Text(Cow::Owned(text)) => visitor.visit_string(text),
            Scalar::None => Err(self.unexpected(&visitor)),
        }
    }

    fn scalar_value(self) -> Scalar<'de> {
        match self.node.kind() {
            Kind::Null => Scalar::Null,
            Kind::Bool => self.node.as_bool().map_or(Scalar::None, Scalar::Bool),
            Kind::Int => match self.node.as_int() {
                Some(value) => u64::try_from(value).map_or(Scalar::Signed(value), Scalar::Unsigned),
                None => Scalar::None,
            },
            Kind::Float => match self.unsigned() {
                Some(value) => Scalar::Unsigned(value),
                None => self.node.as_float().map_or(Scalar::None, Scalar::Float),
            },
            Kind::String => self.node.as_str().map_or(Scalar::None, Scalar::Text),
            Kind::List | Kind::Map => Scalar::None,
        }
    }

    /// A number that fits 64 bits without a sign only.
    fn unsigned(self) -> Option<u64> {
        match self.node {
            Node::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            Node::Value(value) => value.as_u64(),
        }
    }

    #[cold]
    fn unexpected(self, expected: &dyn Expected) -> Error {
        let text;
        let found = match self.scalar_value() {
            Scalar::Null => Unexpected::Unit,
            Scalar::Bool(value) => Unexpected::Bool(value),
            Scalar::Signed(value) => Unexpected::Signed(value),
            Scalar::Unsigned(value) => Unexpected::Unsigned(value),
            Scalar::Float(value) => Unexpected::Float(value),
            Scalar::Text(value) => {
                text = value;
                Unexpected::Str(&text)
            }
            Scalar::None if self.node.kind() == Kind::List => Unexpected::Seq,
            Scalar::None => Unexpected::Map,
        };
        Error::invalid_type(found, expected)
    }

    fn text(self) -> Option<Cow<'de, str>> {
        self.node.as_str()
    }

    /// The levels that there may be inside of it.
    fn inside(self) -> Result<u8, Error> {
        self.levels.checked_sub(1).ok_or_else(|| Error::custom("recursion limit exceeded"))
    }
}

/// What a value without parts is.
enum Scalar<'de> {
    Null,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(Cow<'de, str>),
    /// It has parts.
    None,
}

macro_rules! scalars {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.scalar(visitor)
        })*
    };
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Error;

    scalars! {
        deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8 deserialize_u16
        deserialize_u32 deserialize_u64 deserialize_u128 deserialize_f32 deserialize_f64 deserialize_unit
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node.kind() {
            Kind::List => self.deserialize_seq(visitor),
            Kind::Map => self.deserialize_map(visitor),
            _ => self.scalar(visitor),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.text() {
            Some(Cow::Borrowed(text)) => visitor.visit_borrowed_str(text),
            Some(Cow::Owned(text)) => visitor.visit_string(text),
            None => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.node.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.scalar(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node.kind() {
            Kind::List => {
                let levels = self.inside()?;
                let count = self.node.elements().count();
                let (elements, selection) = (self.node.elements(), self.selection);
                visitor.visit_seq(Items { elements, count, read: 0, levels, selection })
            }
            _ => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.node.kind() {
            Kind::Map => {
                let (entries, levels, selection) = (self.node.entries(), self.inside()?, self.selection);
                visitor.visit_map(Fields { entries, next: None, levels, selection })
            }
            _ => Err(self.unexpected(&visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.text() {
            Some(text) => visitor.visit_enum(text.into_owned().into_deserializer()),
            None => {
                let selection = self.selection;
                let mut members = self.node.members().filter_map(|(name, node)| {
                    let selection = selection.member(|| Cow::Borrowed(&*name))?;
                    Some((name, node, selection))
                });
                match (members.next(), members.next()) {
                    (Some((name, node, selection)), None) => {
                        let value = Self { node, levels: self.inside()?, selection };
                        visitor.visit_enum(Variant { name: name.into_owned(), value })
                    }
                    _ => Err(self.unexpected(&visitor)),
                }
            }
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }
}

/// The elements of a list.
struct Items<'de> {
    elements: Elements<'de>,
    /// How many there are. Lists that grow while they are read take up to four times their space, for as long as they are kept.
    count: usize,
    read: usize,
    levels: u8,
    selection: Selection<'de>,
}

impl Items<'_> {
    #[cold]
    fn within(&self, error: &Error) -> Error {
        within(&format!("[{}]", self.read - 1), error)
    }
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(element) = self.elements.next() else { return Ok(None) };
        self.read += 1;
        match seed.deserialize(Reader { node: element, levels: self.levels, selection: self.selection }) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(self.within(&error)),
        }
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.count - self.read)
    }
}

/// The members of a map.
struct Fields<'de> {
    entries: Entries<'de>,
    /// The member whose key was read.
    next: Option<(Key<'de>, Node<'de>, Selection<'de>)>,
    levels: u8,
    selection: Selection<'de>,
}

impl<'de> Fields<'de> {
    fn key(&mut self) -> Option<Name<'de>> {
        self.next = loop {
            let Some((key, node)) = self.entries.next() else { break None };
            if let Some(selection) = self.selection.member(|| key.text()) {
                break Some((key, node, selection));
            }
        };
        self.next.map(|(key, ..)| Name(key))
    }

    fn value(&self) -> Result<Reader<'de>, Error> {
        match self.next {
            Some((_, node, selection)) => Ok(Reader { node, levels: self.levels, selection }),
            None => Err(Error::custom("a value is read before its key")),
        }
    }

    #[cold]
    fn within(&self, error: &Error) -> Error {
        within(&self.next.map(|(key, ..)| key.text()).unwrap_or_default(), error)
    }
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Error;

    fn next_key_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        match self.key() {
            Some(key) => seed.deserialize(key).map(Some),
            None => Ok(None),
        }
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let value = self.value()?;
        match seed.deserialize(value) {
            Ok(value) => Ok(value),
            Err(error) => Err(self.within(&error)),
        }
    }
}

/// The key of a member.
struct Name<'de>(Key<'de>);

/// Keys that are numbers are written as text.
macro_rules! numbers {
    ($($method:ident)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let text = self.0.text();
            match (text.parse::<u64>(), text.parse::<i64>()) {
                (Ok(number), _) => visitor.visit_u64(number),
                (_, Ok(number)) => visitor.visit_i64(number),
                _ => visitor.visit_str(&text),
            }
        })*
    };
}

impl<'de> Deserializer<'de> for Name<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(&self.0.text())
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    numbers! {
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32
        deserialize_u64 deserialize_u128
    }

    forward_to_deserialize_any! {
        bool f32 f64 char str string bytes byte_buf option unit unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// A variant with content.
struct Variant<'de> {
    name: String,
    value: Reader<'de>,
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Error;
    type Variant = Reader<'de>;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Reader<'de>), Error> {
        let name: StringDeserializer<Error> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self.value))
    }
}

impl<'de> VariantAccess<'de> for Reader<'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        serde::Deserialize::deserialize(self)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _len: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_seq(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.deserialize_map(visitor)
    }
}

/// The error of a value below `place`.
#[cold]
fn within(place: &str, error: &Error) -> Error {
    let text = error.to_string();
    // What is deeper down has added its place already.
    match text.strip_prefix(PATH) {
        Some(rest) if rest.starts_with('[') => Error::custom(format_args!("{PATH}{place}{rest}")),
        Some(rest) => Error::custom(format_args!("{PATH}{place}.{rest}")),
        None => Error::custom(format_args!("{PATH}{place}: {text}")),
    }
}

/// How messages with a path begin.
const PATH: &str = "field ";

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::{Pod, Secret, Service};
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    use kube::core::DynamicObject;
    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq, Serialize)]
    enum Shape {
        Empty,
        Circle(f64),
        Line(i32, i32),
        Box { wide: u64 },
    }

    #[derive(Debug, Deserialize, PartialEq, Serialize)]
    #[serde(rename_all = "camelCase")]
    struct All {
        shapes: Vec<Shape>,
        letter: char,
        pair: (bool, Option<i8>),
        by_name: BTreeMap<String, u16>,
        by_number: BTreeMap<i16, bool>,
        unit: (),
        large: u64,
        small: i64,
        fraction: f32,
        any: Value,
        #[serde(default)]
        absent: Option<String>,
    }

    /// From the text and from the parsed value.
    fn read<T: DeserializeOwned>(value: &Value) -> [Result<T, String>; 2] {
        let text = value.to_string();
        let view = ObjectView::parse(text.as_bytes()).unwrap();
        [from_node(view.root()), from_value(value)].map(|read| read.map_err(|error| error.to_string()))
    }

    #[track_caller]
    fn same<T: DeserializeOwned + PartialEq + std::fmt::Debug>(value: &Value) {
        let wanted: T = serde_json::from_value(value.clone()).unwrap();
        for read in read::<T>(value) {
            assert_eq!(read.as_ref(), Ok(&wanted));
        }
    }

    #[test]
    fn as_serde_json_reads() {
        same::<All>(&json!({
            "shapes": ["Empty", {"Circle": 2}, {"Circle": 0.5}, {"Line": [1, -2]}, {"Box": {"wide": 3}}],
            "letter": "\u{e9}", "pair": [true, null], "byName": {"1": 1, "a\"b": 65535}, "byNumber": {"-3": true, "12": false}, "unit": null,
            "large": u64::MAX, "small": i64::MIN, "fraction": 1.5e3, "any": {"a": [1, -1, 1.25, "x\ny", null, true, u64::MAX, {}]},
            "more": {"ignored": [1]},
        }));
        same::<Pod>(&json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web", "labels": {"a\tb": "\u{1f600}"}, "creationTimestamp": "2026-11-24T01:02:03Z"},
            "spec": {"containers": [{"name": "web", "resources": {"limits": {"cpu": "100m"}},
                "livenessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 5}}]},
        }));
        same::<Service>(&json!({"metadata": {}, "spec": {"ports": [{"port": 80, "targetPort": 8080}]}}));
        same::<Secret>(&json!({"metadata": {}, "data": {"key": "YWJj"}}));
        same::<DynamicObject>(
            &json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "x"}, "spec": {"n": 1.0}}),
        );
    }

    #[test]
    fn errors_name_the_field() {
        let cases = [
            (
                json!({"spec": {"containers": [{"name": 1}]}}),
                "field spec.containers[0].name: invalid type: integer `1`, expected a string",
            ),
            (json!({"spec": []}), "field spec: invalid type: sequence, expected"),
            (
                json!({"spec": {"containers": [], "hostNetwork": "yes"}}),
                "field spec.hostNetwork: invalid type: string \"yes\", expected a boolean",
            ),
            (
                json!({"spec": {"containers": [], "priority": 4_294_967_296_u64}}),
                "field spec.priority: invalid value: integer `4294967296`, expected i32",
            ),
            (json!({"metadata": {"labels": {"a": null}}}), "field metadata.labels.a: invalid type: "),
        ];
        for (value, wanted) in cases {
            for error in read::<Pod>(&value) {
                let error = error.unwrap_err();
                assert!(error.starts_with(wanted), "{error}");
            }
        }
        for error in read::<All>(&json!({"shapes": [{}]})) {
            assert_eq!(error.unwrap_err(), "field shapes[0]: invalid type: map, expected enum Shape");
        }
        for error in read::<All>(&json!({"shapes": [{"Circle": 1, "Line": [1, 2]}]})) {
            assert_eq!(error.unwrap_err(), "field shapes[0]: invalid type: map, expected enum Shape");
        }
        for error in read::<All>(&json!({"shapes": ["Triangle"]})) {
            assert!(error.unwrap_err().starts_with("field shapes[0]: unknown variant `Triangle`"));
        }
    }

    /// Such an object may come from any cluster; the stack is not for it to fill.
    #[test]
    fn deep_values_are_an_error() {
        let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
        for (depth, is_read) in [(1, true), (126, true), (127, true), (128, false), (1000, false)] {
            let text = nested(depth);
            let read = from_slice::<Value>(text.as_bytes());
            assert_eq!(read.is_ok(), is_read, "{depth}");
            assert_eq!(serde_json::from_str::<Value>(&text).is_ok(), depth < 127, "{depth}");
            if let Err(error) = read {
                assert!(error.to_string().ends_with(": recursion limit exceeded"), "{error}");
            }
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e9..1e9).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|map| Value::from(map.into_iter().collect::<serde_json::Map<_, _>>())),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_value_is_read_as_it_is(value in any_value()) {
            let object = json!({"value": value});
            for read in read::<Value>(&object) {
                prop_assert_eq!(read.as_ref(), Ok(&object));
            }
        }

        /// Text and number at once.
        #[test]
        fn any_value_is_read_as_a_port(value in any_value()) {
            let wanted: Option<IntOrString> = serde_json::from_value(value.clone()).ok();
            let object = json!({"value": value});
            for read in read::<BTreeMap<String, IntOrString>>(&object) {
                prop_assert_eq!(read.ok().and_then(|mut map| map.remove("value")), wanted.clone());
            }
        }
    }
}

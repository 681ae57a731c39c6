//! Structural schemas: what is kept of `JSONSchemaProps`, small and shared.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use settled_apimachinery::field::{Error as FieldError, ErrorType, Path};

use crate::formats::Format;
use crate::pattern::Pattern;
use crate::props::JsonSchemaProps;
use crate::rule::ValidationRule;
use crate::structural;

/// The type that a schema asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A map.
    Object,
    /// A list.
    Array,
    /// A text.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
}

impl Type {
    /// As it is written in a schema.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    fn read(name: &str) -> Option<Self> {
        Some(match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            _ => return None,
        })
    }
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListType {
    /// The list is one value.
    Atomic,
    /// No item is there twice.
    Set,
    /// Items are told apart by keys.
    Map,
}

impl ListType {
    /// As it is written in a schema.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Atomic => "atomic",
            Self::Set => "set",
            Self::Map => "map",
        }
    }
}

/// `x-kubernetes-map-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapType {
    /// The map is one value.
    Atomic,
    /// Each member is a value.
    Granular,
}

impl MapType {
    /// As it is written in a schema.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Atomic => "atomic",
            Self::Granular => "granular",
        }
    }
}

/// A schema: what may stand in a custom resource. Cheap to clone; threads share it.
///
/// ```
/// use serde_json::json;
/// use settled_schema::Schema;
///
/// let schema = Schema::parse(&json!({
///     "type": "object",
///     "properties": {"spec": {
///         "type": "object",
///         "properties": {"replicas": {"type": "integer", "minimum": 0, "default": 1}},
///     }},
/// })).unwrap();
///
/// let mut object = json!({"apiVersion": "example.com/v1", "kind": "Web", "spec": {"colour": "red"}});
/// assert_eq!(schema.prune(&mut object, true), ["spec.colour"]);
/// schema.default(&mut object);
/// assert_eq!(object["spec"], json!({"replicas": 1}));
///
/// object["spec"]["replicas"] = json!(-1);
/// let errors = schema.validate(&object, None);
/// assert_eq!(
///     errors[0].to_string(),
///     "spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0",
/// );
/// ```
#[derive(Clone, Debug)]
pub struct Schema {
    root: Child,
}

impl Schema {
    /// Reads the `openAPIV3Schema` of a version.
    ///
    /// # Errors
    ///
    /// What is malformed or not structural, under `openAPIV3Schema`. A definition that
    /// [`validate_definition`](crate::validate_definition) accepts has none.
    pub fn parse(open_api_v3_schema: &Value) -> Result<Self, Vec<FieldError>> {
        let nil = Path::Nil;
        let path = nil.child("openAPIV3Schema");
        let props = JsonSchemaProps::read(open_api_v3_schema, &path)?;
        if let Some(why) = structural::unsupported(&props) {
            return Err(vec![FieldError::invalid(path, "", why)]);
        }
        let errors = structural::validate(&props, &path);
        if errors.is_empty() { Ok(Self::new(&props)) } else { Err(errors) }
    }

    /// `NewStructural`: the structural schema of a version, which [`validate_definition`](crate::validate_definition) has checked.
    ///
    /// # Errors
    ///
    /// Fields that no structural schema may have.
    pub fn new_structural(props: &JsonSchemaProps) -> Result<Self, FieldError> {
        match structural::unsupported(props) {
            Some(detail) => Err(FieldError::invalid(Path::Nil.child("openAPIV3Schema"), "", detail)),
            None => Ok(Self::new(props)),
        }
    }

    /// Reads a schema of an OpenAPI v3 document, as Kubernetes publishes them for its own kinds.
    ///
    /// `resolve` gets the text of a `$ref` (`#/components/schemas/io.k8s.api.core.v1.Pod`) and gives that schema. Types may
    /// be recursive; those that are stay in memory as long as the program runs, so read them once. Nothing has to be structural.
    /// Objects without any schema of their members (`RawExtension`) keep all of them.
    ///
    /// # Errors
    ///
    /// What is malformed, or a `$ref` that `resolve` does not know.
    pub fn parse_with(
        schema: &Value,
        resolve: &dyn Fn(&str) -> Option<Value>,
    ) -> Result<Self, Vec<FieldError>> {
        let nil = Path::Nil;
        let path = nil.child("schema");
        let props = JsonSchemaProps::read(schema, &path)?;
        let mut builder =
            Builder { resolve: Some(resolve), named: HashMap::new(), open: Vec::new(), errors: Vec::new() };
        let root = builder.child(&props);
        if builder.errors.is_empty() { Ok(Self { root }) } else { Err(builder.errors) }
    }

    /// A schema that has been checked.
    pub(crate) fn new(props: &JsonSchemaProps) -> Self {
        let mut builder =
            Builder { resolve: None, named: HashMap::new(), open: Vec::new(), errors: Vec::new() };
        Self { root: builder.child(props) }
    }

    /// The schema of the whole object.
    pub fn root(&self) -> &Node {
        self.root.get()
    }

    /// The schema of a field of the root, as a schema of its own: that of `status`, for what is written to the subresource.
    pub fn property(&self, name: &str) -> Option<Self> {
        self.root().property_child(name).map(|child| Self { root: child.clone() })
    }

    /// Whether a default is set anywhere.
    pub fn has_defaults(&self) -> bool {
        self.root().has_defaults
    }

    /// Calls `visit` with every node that has rules (`x-kubernetes-validations`), and where it is: `spec.list[*].name`.
    /// Types that contain themselves are visited once.
    pub fn walk_rules(&self, visit: &mut dyn FnMut(&str, &Node)) {
        walk(self.root(), "", &mut Vec::new(), visit);
    }
}

fn walk<'n>(node: &'n Node, at: &str, above: &mut Vec<&'n Node>, visit: &mut dyn FnMut(&str, &Node)) {
    if above.iter().any(|ancestor| std::ptr::eq(*ancestor, node)) {
        return;
    }
    above.push(node);
    if !node.rules().is_empty() {
        visit(at, node);
    }
    for (name, child) in node.properties() {
        let at = if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") };
        walk(child, &at, above, visit);
    }
    if let Some(child) = node.items() {
        walk(child, &format!("{at}[*]"), above, visit);
    }
    if let Some(child) = node.additional_properties() {
        walk(child, &format!("{at}[*]"), above, visit);
    }
    above.pop();
}

/// A schema below another: its own, or one with a name.
#[derive(Clone)]
pub(crate) enum Child {
    Own(Arc<Node>),
    Named(Slot),
}

impl Child {
    pub(crate) fn get(&self) -> &Node {
        match self {
            Self::Own(node) => node,
            // Filled when the schema is read.
            Self::Named(slot) => slot.get_or_init(Arc::default),
        }
    }
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(node) => node.fmt(f),
            // It may contain itself.
            Self::Named(_) => f.write_str("…"),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) enum Additional {
    #[default]
    None,
    Allowed(bool),
    Schema(Child),
}

/// One schema in the tree of a [`Schema`].
#[derive(Debug, Default)]
pub struct Node {
    pub(crate) kind: Option<Type>,
    pub(crate) nullable: bool,
    pub(crate) preserve_unknown: bool,
    pub(crate) embedded: bool,
    pub(crate) int_or_string: bool,
    has_defaults: bool,
    list_type: Option<ListType>,
    map_type: Option<MapType>,
    items: Option<Child>,
    properties: Box<[(Box<str>, Child)]>,
    pub(crate) additional: Additional,
    pub(crate) required: Box<[Box<str>]>,
    pub(crate) default: Option<Box<Value>>,
    rare: Option<Box<Rare>>,
    pub(crate) limits: Option<Box<Limits>>,
}

/// What few schemas have.
#[derive(Debug, Default)]
struct Rare {
    list_map_keys: Box<[Box<str>]>,
    rules: Box<[ValidationRule]>,
    /// `properties` is there and names none.
    has_no_properties: bool,
}

/// What a value is checked for beyond its type.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    pub(crate) format: Box<str>,
    pub(crate) known_format: Option<Format>,
    pub(crate) pattern: Option<Pattern>,
    pub(crate) maximum: Option<f64>,
    pub(crate) minimum: Option<f64>,
    pub(crate) exclusive_maximum: bool,
    pub(crate) exclusive_minimum: bool,
    pub(crate) unique_items: bool,
    pub(crate) multiple_of: Option<f64>,
    pub(crate) max_length: Option<i64>,
    pub(crate) min_length: Option<i64>,
    pub(crate) max_items: Option<i64>,
    pub(crate) min_items: Option<i64>,
    pub(crate) max_properties: Option<i64>,
    pub(crate) min_properties: Option<i64>,
    pub(crate) enumeration: Box<[Value]>,
    pub(crate) all_of: Box<[Child]>,
    pub(crate) any_of: Box<[Child]>,
    pub(crate) one_of: Box<[Child]>,
    pub(crate) not: Option<Child>,
}

impl Node {
    /// The type that is asked for; none for `x-kubernetes-int-or-string` and fields that take anything.
    pub fn kind(&self) -> Option<Type> {
        self.kind
    }

    /// The type as it is written, or "".
    pub fn type_name(&self) -> &'static str {
        self.kind.map_or("", Type::as_str)
    }

    /// The schemas of fields, sorted by name.
    pub fn properties(&self) -> impl ExactSizeIterator<Item = (&str, &Self)> {
        self.properties.iter().map(|(name, child)| (&**name, child.get()))
    }

    /// Whether `properties` is there, be it empty.
    pub fn has_properties(&self) -> bool {
        !self.properties.is_empty() || self.rare.as_ref().is_some_and(|rare| rare.has_no_properties)
    }

    /// The schema of a field.
    pub fn property(&self, name: &str) -> Option<&Self> {
        self.property_child(name).map(Child::get)
    }

    fn property_child(&self, name: &str) -> Option<&Child> {
        let at = self.properties.binary_search_by(|(property, _)| (**property).cmp(name)).ok()?;
        self.properties.get(at).map(|(_, child)| child)
    }

    /// The schema of items.
    pub fn items(&self) -> Option<&Self> {
        self.items.as_ref().map(Child::get)
    }

    /// The schema of members that are no [`properties`](Self::properties).
    pub fn additional_properties(&self) -> Option<&Self> {
        match &self.additional {
            Additional::Schema(child) => Some(child.get()),
            _ => None,
        }
    }

    /// Whether there is an `additionalProperties`: a schema, or a word on whether others are allowed.
    pub fn additional_properties_allowed(&self) -> Option<bool> {
        match &self.additional {
            Additional::None => None,
            Additional::Allowed(allowed) => Some(*allowed),
            Additional::Schema(_) => Some(true),
        }
    }

    /// The schema of a member, by name or as any other.
    pub fn member(&self, name: &str) -> Option<&Self> {
        self.property(name).or_else(|| self.additional_properties())
    }

    /// Names of fields that must be there.
    pub fn required(&self) -> impl ExactSizeIterator<Item = &str> {
        self.required.iter().map(|name| &**name)
    }

    /// Whether null is a value.
    pub fn nullable(&self) -> bool {
        self.nullable
    }

    /// What stands for a value that is not there.
    pub fn default_value(&self) -> Option<&Value> {
        self.default.as_deref()
    }

    /// `x-kubernetes-preserve-unknown-fields`.
    pub fn preserves_unknown_fields(&self) -> bool {
        self.preserve_unknown
    }

    /// `x-kubernetes-embedded-resource`.
    pub fn is_embedded_resource(&self) -> bool {
        self.embedded
    }

    /// `x-kubernetes-int-or-string`.
    pub fn is_int_or_string(&self) -> bool {
        self.int_or_string
    }

    /// `x-kubernetes-list-type`.
    pub fn list_type(&self) -> Option<ListType> {
        self.list_type
    }

    /// `x-kubernetes-map-type`.
    pub fn map_type(&self) -> Option<MapType> {
        self.map_type
    }

    /// `x-kubernetes-list-map-keys`.
    pub fn list_map_keys(&self) -> impl ExactSizeIterator<Item = &str> {
        self.rare.as_ref().map_or(&[][..], |rare| &rare.list_map_keys).iter().map(|key| &**key)
    }

    /// `x-kubernetes-validations`, as they are written.
    pub fn rules(&self) -> &[ValidationRule] {
        self.rare.as_ref().map_or(&[], |rare| &rare.rules)
    }

    /// The format, or "".
    pub fn format(&self) -> &str {
        self.limits.as_ref().map_or("", |limits| &limits.format)
    }

    /// The values that are allowed; empty where all are.
    pub fn enum_values(&self) -> &[Value] {
        self.limits.as_ref().map_or(&[], |limits| &limits.enumeration)
    }

    /// The pattern of a text, as it is written.
    pub fn pattern(&self) -> Option<&str> {
        self.limits.as_ref()?.pattern.as_ref().map(Pattern::source)
    }

    /// The most characters of a text.
    pub fn max_length(&self) -> Option<i64> {
        self.limits.as_ref()?.max_length
    }

    /// The fewest characters of a text.
    pub fn min_length(&self) -> Option<i64> {
        self.limits.as_ref()?.min_length
    }

    /// The most items of a list.
    pub fn max_items(&self) -> Option<i64> {
        self.limits.as_ref()?.max_items
    }

    /// The fewest items of a list.
    pub fn min_items(&self) -> Option<i64> {
        self.limits.as_ref()?.min_items
    }

    /// The most members of a map.
    pub fn max_properties(&self) -> Option<i64> {
        self.limits.as_ref()?.max_properties
    }

    /// The fewest members of a map.
    pub fn min_properties(&self) -> Option<i64> {
        self.limits.as_ref()?.min_properties
    }

    /// The largest number, and whether it is excluded.
    pub fn maximum(&self) -> Option<(f64, bool)> {
        let limits = self.limits.as_ref()?;
        Some((limits.maximum?, limits.exclusive_maximum))
    }

    /// The smallest number, and whether it is excluded.
    pub fn minimum(&self) -> Option<(f64, bool)> {
        let limits = self.limits.as_ref()?;
        Some((limits.minimum?, limits.exclusive_minimum))
    }

    /// The schemas of `allOf`, which only validate.
    pub fn all_of(&self) -> impl ExactSizeIterator<Item = &Self> {
        self.limits.as_ref().map_or(&[][..], |limits| &limits.all_of).iter().map(Child::get)
    }

    /// Whether a default is set here or below.
    pub fn has_defaults(&self) -> bool {
        self.has_defaults
    }
}

type Slot = Arc<OnceLock<Arc<Node>>>;

type Resolve<'r> = &'r dyn Fn(&str) -> Option<Value>;

struct Builder<'r> {
    resolve: Option<Resolve<'r>>,
    named: HashMap<String, Slot>,
    /// Names that are being read and hold for the same value: none of them may come again.
    open: Vec<String>,
    errors: Vec<FieldError>,
}

impl Builder<'_> {
    fn child(&mut self, props: &JsonSchemaProps) -> Child {
        if self.resolve.is_some() {
            let reference = match (&props.reference, props.all_of.as_deref()) {
                (Some(name), _) => Some(name),
                // How Kubernetes writes a reference with a description or a default beside it.
                (None, Some([only])) if props.type_.is_empty() && !props.has_properties() => {
                    only.reference.as_ref()
                }
                _ => None,
            };
            if let Some(name) = reference {
                return self.named(name);
            }
        }
        Child::Own(Arc::new(self.node(props)))
    }

    fn named(&mut self, name: &str) -> Child {
        if self.open.iter().any(|open| open == name) {
            self.errors.push(FieldError::invalid("$ref", name, "is nothing but itself"));
        }
        if let Some(slot) = self.named.get(name) {
            return Child::Named(Arc::clone(slot));
        }
        self.open.push(name.to_owned());
        let slot = Arc::new(OnceLock::new());
        self.named.insert(name.to_owned(), Arc::clone(&slot));
        let nil = Path::Nil;
        let read = self.resolve.and_then(|resolve| resolve(name)).map_or_else(
            || {
                let detail = "names no schema that is known";
                Err(vec![FieldError::new(ErrorType::NotFound, "$ref", Some(name.into()), detail)])
            },
            |value| JsonSchemaProps::read(&value, &nil.child(name)),
        );
        match read {
            Ok(props) if props.reference.is_none() => {
                let node = Arc::new(self.node(&props));
                // Nobody else has the slot yet.
                slot.get_or_init(|| node);
            }
            // A name for another name.
            Ok(props) => {
                let detail = "refers to another reference";
                self.errors.push(FieldError::invalid("$ref", props.reference.unwrap_or_default(), detail));
            }
            Err(errors) => self.errors.extend(errors),
        }
        self.open.pop();
        Child::Named(slot)
    }

    fn node(&mut self, props: &JsonSchemaProps) -> Node {
        // What is below holds for other values.
        let open = std::mem::take(&mut self.open);
        let properties: Box<[_]> = props
            .properties
            .iter()
            .flatten()
            .map(|(name, nested)| (name.as_str().into(), self.child(nested)))
            .collect();
        let items = props.item().map(|item| self.child(item));
        let additional = match props.additional.as_deref() {
            None => Additional::None,
            Some(either) => either
                .schema
                .as_ref()
                .map_or(Additional::Allowed(either.allows), |nested| Additional::Schema(self.child(nested))),
        };
        self.open = open;
        let own = |child: &Child| matches!(child, Child::Own(node) if node.has_defaults);
        let has_defaults = props.default.is_some()
            || properties.iter().any(|(_, child)| own(child))
            || items.as_ref().is_some_and(own)
            || matches!(&additional, Additional::Schema(child) if own(child));
        let opaque = self.resolve.is_some()
            && properties.is_empty()
            && items.is_none()
            && matches!(additional, Additional::None)
            && matches!(props.type_.as_str(), "" | "object");
        let list_map_keys: Box<[Box<str>]> =
            props.list_map_keys.iter().flatten().map(|key| key.as_str().into()).collect();
        let rules: Box<[ValidationRule]> = props.validations.iter().flatten().cloned().collect();
        let has_no_properties = props.properties.as_ref().is_some_and(BTreeMap::is_empty);
        let rare = !list_map_keys.is_empty() || !rules.is_empty() || has_no_properties;
        Node {
            kind: Type::read(&props.type_),
            nullable: props.nullable,
            preserve_unknown: props.preserve_unknown == Some(true) || opaque,
            embedded: props.embedded,
            int_or_string: props.int_or_string,
            has_defaults,
            list_type: match props.list_type.as_deref() {
                Some("set") => Some(ListType::Set),
                Some("map") => Some(ListType::Map),
                Some("atomic") => Some(ListType::Atomic),
                _ => None,
            },
            map_type: match props.map_type.as_deref() {
                Some("atomic") => Some(MapType::Atomic),
                Some("granular") => Some(MapType::Granular),
                _ => None,
            },
            items,
            properties,
            additional,
            required: props.required.iter().flatten().map(|name| name.as_str().into()).collect(),
            default: props.default.clone().map(Box::new),
            rare: rare.then(|| Box::new(Rare { list_map_keys, rules, has_no_properties })),
            limits: self.limits(props),
        }
    }

    fn limits(&mut self, props: &JsonSchemaProps) -> Option<Box<Limits>> {
        let mut children = |list: &Option<Vec<JsonSchemaProps>>| -> Box<[Child]> {
            list.iter().flatten().map(|nested| self.child(nested)).collect()
        };
        let (all_of, any_of, one_of) =
            (children(&props.all_of), children(&props.any_of), children(&props.one_of));
        let limits = Limits {
            known_format: Format::named(&props.format),
            format: props.format.as_str().into(),
            pattern: (!props.pattern.is_empty()).then(|| Pattern::new(&props.pattern)),
            maximum: props.maximum,
            minimum: props.minimum,
            exclusive_maximum: props.exclusive_maximum,
            exclusive_minimum: props.exclusive_minimum,
            unique_items: props.unique_items,
            multiple_of: props.multiple_of,
            max_length: props.max_length,
            min_length: props.min_length,
            max_items: props.max_items,
            min_items: props.min_items,
            max_properties: props.max_properties,
            min_properties: props.min_properties,
            enumeration: props.enumeration.iter().flatten().cloned().collect(),
            all_of,
            any_of,
            one_of,
            not: props.not.as_deref().map(|not| self.child(not)),
        };
        let none = limits.format.is_empty()
            && limits.pattern.is_none()
            && limits.maximum.is_none()
            && limits.minimum.is_none()
            && !limits.unique_items
            && limits.multiple_of.is_none()
            && limits.max_length.is_none()
            && limits.min_length.is_none()
            && limits.max_items.is_none()
            && limits.min_items.is_none()
            && limits.max_properties.is_none()
            && limits.min_properties.is_none()
            && limits.enumeration.is_empty()
            && limits.all_of.is_empty()
            && limits.any_of.is_empty()
            && limits.one_of.is_empty()
            && limits.not.is_none();
        (!none).then(|| Box::new(limits))
    }
}

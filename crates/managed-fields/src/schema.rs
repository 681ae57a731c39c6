//! Schemas: the type information that structured merge needs.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde_json::Value;

/// Types by name.
///
/// A schema is made from OpenAPI with [`Schema::from_open_api`] or [`Schema::from_crd`], by hand with
/// [`Schema::new`], or is [`Schema::deduced`], which knows nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    types: BTreeMap<Arc<str>, Atom>,
}

/// The name of the type that takes anything as one field.
pub(crate) const UNTYPED_ATOMIC: &str = "__untyped_atomic_";
/// The name of the type that takes anything: maps by field, lists as one.
pub(crate) const UNTYPED_DEDUCED: &str = "__untyped_deduced_";

/// Atom: a scalar, a list, a map, or a combination.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Atom {
    /// It can be a scalar.
    pub scalar: Option<Scalar>,
    /// It can be a list.
    pub list: Option<Arc<ListType>>,
    /// It can be a map.
    pub map: Option<Arc<MapType>>,
}

impl Atom {
    /// Only a scalar.
    #[must_use]
    pub const fn scalar(scalar: Scalar) -> Self {
        Self { scalar: Some(scalar), list: None, map: None }
    }

    /// Only a list.
    #[must_use]
    pub fn list(list: ListType) -> Self {
        Self { scalar: None, list: Some(Arc::new(list)), map: None }
    }

    /// Only a map.
    #[must_use]
    pub fn map(map: MapType) -> Self {
        Self { scalar: None, list: None, map: Some(Arc::new(map)) }
    }

    /// Possible forms. Two atoms of the same type are equal if these are.
    pub(crate) const fn shape(&self) -> (bool, bool, bool) {
        (self.scalar.is_some(), self.list.is_some(), self.map.is_some())
    }

    /// Only that of the three which the value is, if the type allows it; for null, all of them.
    pub(crate) fn for_value(&self, value: Option<&Value>) -> Cow<'_, Self> {
        let none = Self::default;
        let only = match value {
            Some(Value::Number(_) | Value::String(_) | Value::Bool(_)) if self.scalar.is_some() => {
                if self.list.is_none() && self.map.is_none() {
                    return Cow::Borrowed(self);
                }
                Self { scalar: self.scalar, ..none() }
            }
            Some(Value::Array(_)) if self.list.is_some() => {
                if self.scalar.is_none() && self.map.is_none() {
                    return Cow::Borrowed(self);
                }
                Self { list: self.list.clone(), ..none() }
            }
            Some(Value::Object(_)) if self.map.is_some() => {
                if self.scalar.is_none() && self.list.is_none() {
                    return Cow::Borrowed(self);
                }
                Self { map: self.map.clone(), ..none() }
            }
            _ => return Cow::Borrowed(self),
        };
        Cow::Owned(only)
    }
}

/// The kinds of scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// An integer or a float.
    Numeric,
    /// A text.
    String,
    /// True or false.
    Boolean,
    /// Any of them.
    Untyped,
}

/// Relationship of the fields of a map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MapRelationship {
    /// Each field has its own owners.
    #[default]
    Granular,
    /// The map has its owners as a whole.
    Atomic,
}

/// Relationship of the items of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ListRelationship {
    /// The list has its owners as a whole.
    #[default]
    Atomic,
    /// Each item has its own owners. Items are scalars and known by their values.
    Set,
    /// Each item has its own owners. Items are maps and known by these fields.
    Keyed(Vec<Arc<str>>),
}

impl ListRelationship {
    /// That of items which are known by these fields.
    pub fn keyed<'k>(keys: impl IntoIterator<Item = &'k str>) -> Self {
        Self::Keyed(keys.into_iter().map(Arc::from).collect())
    }
}

/// A map or struct.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MapType {
    fields: Arc<BTreeMap<Arc<str>, StructField>>,
    /// The type of fields that are not named; [`TypeRef::None`] if there must be none.
    pub element_type: TypeRef,
    /// Relationship of the fields.
    pub relationship: MapRelationship,
}

impl MapType {
    /// A map with these named fields and no others.
    pub fn new<N: Into<Arc<str>>>(fields: impl IntoIterator<Item = (N, StructField)>) -> Self {
        let fields = fields.into_iter().map(|(name, field)| (name.into(), field)).collect();
        Self { fields: Arc::new(fields), ..Self::default() }
    }

    /// A map of any names to values of a type.
    #[must_use]
    pub fn of(element_type: TypeRef) -> Self {
        Self { element_type, ..Self::default() }
    }

    /// The named fields.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &StructField)> {
        self.fields.iter().map(|(name, field)| (&**name, field))
    }

    /// A named field.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&StructField> {
        self.fields.get(name)
    }

    /// The type of a field, named or not.
    #[must_use]
    pub fn type_of(&self, name: &str) -> &TypeRef {
        self.field(name).map_or(&self.element_type, |field| &field.type_ref)
    }

    /// Whether nothing is known about its fields.
    pub(crate) fn is_untyped_deduced(&self) -> bool {
        self.fields.is_empty()
            && match &self.element_type {
                TypeRef::Named { name, .. } => &**name == UNTYPED_DEDUCED,
                TypeRef::Inline(atom) => atom.scalar == Some(Scalar::Untyped),
                TypeRef::None => false,
            }
    }
}

/// A named field of a map.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StructField {
    /// Its type.
    pub type_ref: TypeRef,
    /// Its default. It counts only for keys of associative lists.
    pub default: Option<Value>,
}

impl From<TypeRef> for StructField {
    fn from(type_ref: TypeRef) -> Self {
        Self { type_ref, default: None }
    }
}

/// A list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListType {
    /// The type of its items.
    pub element_type: TypeRef,
    /// Relationship of the items.
    pub relationship: ListRelationship,
}

/// A type by its name, or itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum TypeRef {
    /// No type: there must be no such field.
    #[default]
    None,
    /// A type of the [`Schema`].
    Named {
        /// Its name.
        name: Arc<str>,
        /// Takes the place of the relationship of the named map or list, if there is one.
        relationship: Option<MapRelationship>,
    },
    /// The type itself.
    Inline(Arc<Atom>),
}

impl TypeRef {
    /// A type of the schema.
    pub fn named(name: impl Into<Arc<str>>) -> Self {
        Self::Named { name: name.into(), relationship: None }
    }

    /// A type without a name.
    #[must_use]
    pub fn inline(atom: Atom) -> Self {
        Self::Inline(Arc::new(atom))
    }

    /// The type of which nothing is known: maps by field, lists as one.
    #[must_use]
    pub fn deduced() -> Self {
        Self::named(UNTYPED_DEDUCED)
    }

    /// The type that takes anything as one field.
    #[must_use]
    pub fn atomic() -> Self {
        Self::named(UNTYPED_ATOMIC)
    }
}

static DEDUCED: LazyLock<Arc<Schema>> = LazyLock::new(|| Arc::new(Schema::new::<Arc<str>>([])));

impl Schema {
    /// A schema of these types, and of those that [`TypeRef::deduced`] and [`TypeRef::atomic`] name.
    ///
    /// ```
    /// use settled_managed_fields::{Atom, ListRelationship, ListType, MapType, Scalar, Schema, TypeRef};
    ///
    /// let text = TypeRef::inline(Atom::scalar(Scalar::String));
    /// let names = ListType { element_type: text, relationship: ListRelationship::Set };
    /// let schema = Schema::new([(
    ///     "example",
    ///     Atom::map(MapType::new([("names", TypeRef::inline(Atom::list(names)).into())])),
    /// )]);
    /// assert!(schema.contains("example"));
    /// ```
    pub fn new<N: Into<Arc<str>>>(types: impl IntoIterator<Item = (N, Atom)>) -> Self {
        let mut types: BTreeMap<Arc<str>, Atom> =
            types.into_iter().map(|(name, atom)| (name.into(), atom)).collect();
        for (name, of) in
            [(UNTYPED_ATOMIC, MapRelationship::Atomic), (UNTYPED_DEDUCED, MapRelationship::Granular)]
        {
            types.entry(name.into()).or_insert_with(|| Atom {
                scalar: Some(Scalar::Untyped),
                list: Some(Arc::new(ListType { element_type: TypeRef::atomic(), ..ListType::default() })),
                map: Some(Arc::new(MapType { relationship: of, ..MapType::of(TypeRef::named(name)) })),
            });
        }
        Self { types }
    }

    /// The schema without any types of its own, for objects of [`TypeRef::deduced`].
    #[must_use]
    pub fn deduced() -> Arc<Self> {
        Arc::clone(&DEDUCED)
    }

    /// Whether there is a type of this name.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.types.contains_key(name)
    }

    /// The names and types, sorted by name.
    pub fn types(&self) -> impl Iterator<Item = (&str, &Atom)> {
        self.types.iter().map(|(name, atom)| (&**name, atom))
    }

    /// Resolves a type reference; `None` if there is no type with this name.
    #[must_use]
    pub fn resolve<'s>(&'s self, type_ref: &'s TypeRef) -> Option<Cow<'s, Atom>> {
        static NOTHING: Atom = Atom { scalar: None, list: None, map: None };
        match type_ref {
            TypeRef::None => Some(Cow::Borrowed(&NOTHING)),
            TypeRef::Inline(atom) => Some(Cow::Borrowed(atom)),
            TypeRef::Named { name, relationship: None } => self.types.get(name).map(Cow::Borrowed),
            TypeRef::Named { name, relationship: Some(relationship) } => {
                let (mut atom, relationship) = (self.types.get(name)?.clone(), *relationship);
                if let Some(map) = &atom.map {
                    let mut map = (**map).clone();
                    map.relationship = relationship;
                    atom.map = Some(Arc::new(map));
                } else if let Some(list) = &atom.list {
                    // There is no granular list, so this leaves it as it is.
                    let mut list = (**list).clone();
                    list.relationship = match relationship {
                        MapRelationship::Atomic => ListRelationship::Atomic,
                        MapRelationship::Granular => list.relationship,
                    };
                    atom.list = Some(Arc::new(list));
                } else {
                    return None;
                }
                Some(Cow::Owned(atom))
            }
        }
    }
}

//! Typed values.

mod compare;
mod element;
mod fields;
mod merge;
mod reconcile;
mod remove;
mod validate;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

pub use self::compare::Comparison;
use crate::MAX_DEPTH;
use crate::schema::{Atom, Schema, TypeRef};
use crate::set::FieldSet;

/// Validation error of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationError {
    /// The place, as `.spec.ports[name="web"]`. It is empty at the root.
    pub path: String,
    /// Message.
    pub message: String,
}

impl fmt::Display for ValidationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(formatter, "{}: ", self.path)?;
        }
        formatter.write_str(&self.message)
    }
}

/// Validation errors of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidationErrors(Vec<ValidationError>);

impl ValidationErrors {
    pub(crate) fn one(message: impl Into<String>) -> Self {
        Self(vec![ValidationError { path: String::new(), message: message.into() }])
    }

    pub(crate) fn too_deep() -> Self {
        Self::one(format!("the value is nested more than {MAX_DEPTH} levels deep"))
    }

    /// The [budget](settled_budget) of the work is used up.
    fn stopped() -> Self {
        Self::one("the work was stopped before its end")
    }

    fn unresolved(type_ref: &TypeRef) -> Self {
        let name = match type_ref {
            TypeRef::Named { name, .. } => name,
            _ => "inlined type",
        };
        Self::one(format!("schema error: no type found matching: {name}"))
    }

    fn invalid_atom(type_ref: &TypeRef) -> Self {
        Self::one(match type_ref {
            TypeRef::Named { name, .. } => format!("schema error: invalid atom: named type: {name}"),
            _ => "schema error: invalid atom: inlined".to_owned(),
        })
    }

    fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// The same errors, one level further up.
    fn below(mut self, element: &dyn fmt::Display) -> Self {
        for error in &mut self.0 {
            error.path.insert_str(0, &element.to_string());
        }
        self
    }

    fn into_result<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }

    /// The errors, one by one.
    pub fn iter(&self) -> impl Iterator<Item = &ValidationError> {
        self.0.iter()
    }
}

impl fmt::Display for ValidationErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = &self.0[..] {
            return only.fmt(formatter);
        }
        formatter.write_str("errors:")?;
        self.0.iter().try_for_each(|error| write!(formatter, "\n  {error}"))
    }
}

impl std::error::Error for ValidationErrors {}

/// Whether a list may hold two items of the same key or value.
///
/// Objects that are stored may, because nothing kept their authors from it. Configurations that are applied must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duplicates {
    /// It may.
    Allow,
    /// It is an error.
    Reject,
}

/// A type of a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectType {
    /// The schema.
    pub schema: Arc<Schema>,
    /// Which of its types.
    pub type_ref: TypeRef,
}

impl ObjectType {
    /// A type by its name.
    pub fn named(schema: Arc<Schema>, name: impl Into<Arc<str>>) -> Self {
        Self { schema, type_ref: TypeRef::named(name) }
    }

    /// The type of which nothing is known: each field of a map has its own owners, a list has them as a whole.
    #[must_use]
    pub fn deduced() -> Self {
        Self { schema: Schema::deduced(), type_ref: TypeRef::deduced() }
    }
}

/// A value with its type, which it has been checked against.
///
/// ```
/// use serde_json::json;
/// use settled_managed_fields::{Duplicates, ObjectType, TypedValue};
///
/// let live = json!({"spec": {"replicas": 1, "paused": true}});
/// let live = TypedValue::new(live, ObjectType::deduced(), Duplicates::Allow).unwrap();
/// let config = json!({"spec": {"replicas": 3}});
/// let config = TypedValue::new(config, ObjectType::deduced(), Duplicates::Reject).unwrap();
///
/// let merged = live.merge(&config).unwrap();
/// assert_eq!(*merged.value(), json!({"spec": {"replicas": 3, "paused": true}}));
/// assert_eq!(live.compare(&merged).unwrap().modified.to_string(), ".spec.replicas");
/// ```
#[derive(Clone, Debug)]
pub struct TypedValue {
    value: Value,
    object_type: ObjectType,
}

impl TypedValue {
    /// Checks a value against its type.
    ///
    /// # Errors
    /// The value is not of its type, or is nested more than [`MAX_DEPTH`] levels deep.
    pub fn new(
        value: Value,
        object_type: ObjectType,
        duplicates: Duplicates,
    ) -> Result<Self, ValidationErrors> {
        Self::check(&value, &object_type, duplicates)?;
        Ok(Self { value, object_type })
    }

    /// A value that was checked.
    pub(crate) fn checked(value: Value, object_type: ObjectType) -> Self {
        Self { value, object_type }
    }

    /// Checks a value against a type.
    pub(crate) fn check(
        value: &Value,
        object_type: &ObjectType,
        duplicates: Duplicates,
    ) -> Result<(), ValidationErrors> {
        validate::validate(value, None, &object_type.schema, &object_type.type_ref, duplicates)
    }

    /// Checks a value against the type of one that was checked: what is equal in both is not looked at again.
    pub(crate) fn check_beside(value: &Value, checked: &Self) -> Result<(), ValidationErrors> {
        let ObjectType { schema, type_ref } = &checked.object_type;
        validate::validate(value, Some(&checked.value), schema, type_ref, Duplicates::Allow)
    }

    /// The value.
    #[must_use]
    pub const fn value(&self) -> &Value {
        &self.value
    }

    /// The value alone.
    #[must_use]
    pub fn into_value(self) -> Value {
        self.value
    }

    /// The type.
    #[must_use]
    pub const fn object_type(&self) -> &ObjectType {
        &self.object_type
    }

    fn with_value(&self, value: Value) -> Self {
        Self { value, object_type: self.object_type.clone() }
    }

    fn check_type(&self, other: &Self) -> Result<(), ValidationErrors> {
        let (own, other) = (&self.object_type, &other.object_type);
        if !Arc::ptr_eq(&own.schema, &other.schema) && own.schema != other.schema {
            return Err(ValidationErrors::one("expected objects with types from the same schema"));
        }
        if own.type_ref != other.type_ref {
            return Err(ValidationErrors::one(format!(
                "expected objects of the same type, but got {:?} and {:?}",
                own.type_ref, other.type_ref
            )));
        }
        Ok(())
    }

    /// The fields that the value says something about: those that its author would own.
    ///
    /// # Errors
    /// The type has a hole where the value has a field.
    pub fn to_field_set(&self) -> Result<FieldSet, ValidationErrors> {
        fields::to_field_set(&self.value, &self.object_type.schema, &self.object_type.type_ref, false)
    }

    /// [`TypedValue::to_field_set`] of a value that fields were removed from: a list whose items have lost their names
    /// still has items.
    pub(crate) fn to_field_set_after_removal(&self) -> Result<FieldSet, ValidationErrors> {
        fields::to_field_set(&self.value, &self.object_type.schema, &self.object_type.type_ref, true)
    }

    /// This value with everything that another says about it.
    ///
    /// # Errors
    /// The two are of different types.
    pub fn merge(&self, config: &Self) -> Result<Self, ValidationErrors> {
        self.check_type(config)?;
        let ObjectType { schema, type_ref } = &self.object_type;
        let merged = merge::merge(schema, type_ref, &self.value, &config.value)?;
        Ok(self.with_value(merged))
    }

    /// Compares this value with another.
    ///
    /// # Errors
    /// The two are of different types.
    pub fn compare(&self, new: &Self) -> Result<Comparison, ValidationErrors> {
        self.check_type(new)?;
        let ObjectType { schema, type_ref } = &self.object_type;
        compare::compare(schema, type_ref, &self.value, &new.value)
    }

    /// The value without these fields.
    #[must_use]
    pub fn remove_items(&self, items: &FieldSet) -> Self {
        let ObjectType { schema, type_ref } = &self.object_type;
        self.with_value(remove::remove(&self.value, items, schema, type_ref))
    }

    /// Only these fields of the value, and the lists and maps that they stand in.
    ///
    /// With `keys`, an item of an associative list keeps the fields that name it.
    ///
    /// ```
    /// # use serde_json::json;
    /// # use settled_managed_fields::{Duplicates, FieldSet, ObjectType, Path, TypedValue};
    /// let live = json!({"spec": {"replicas": 1, "paused": true}});
    /// let live = TypedValue::new(live, ObjectType::deduced(), Duplicates::Allow).unwrap();
    /// let owned: FieldSet = [Path::fields(["spec", "paused"])].into_iter().collect();
    /// assert_eq!(*live.extract_items(&owned, false).value(), json!({"spec": {"paused": true}}));
    /// ```
    #[must_use]
    pub fn extract_items(&self, items: &FieldSet, keys: bool) -> Self {
        let ObjectType { schema, type_ref } = &self.object_type;
        let extracted = if keys && let Ok(own) = self.to_field_set() {
            remove::extract(&self.value, &items.union(&remove::key_fields(items, &own)), schema, type_ref)
        } else {
            remove::extract(&self.value, items, schema, type_ref)
        };
        self.with_value(extracted)
    }

    /// A set of fields that was written when the schema was another one: where a map or list has become atomic since,
    /// its owner owns it as a whole. `None` if nothing is to be changed.
    ///
    /// # Errors
    /// A type is named that the schema does not have.
    pub fn reconcile_field_set(&self, set: &FieldSet) -> Result<Option<FieldSet>, ValidationErrors> {
        reconcile::reconcile(set, &self.object_type.schema, &self.object_type.type_ref)
    }
}

/// Dispatches on an atom: maps first, then scalars, then lists.
enum Kind<'a> {
    Map(&'a crate::schema::MapType),
    Scalar(crate::schema::Scalar),
    List(&'a crate::schema::ListType),
}

impl<'a> Kind<'a> {
    fn of(atom: &'a Atom, type_ref: &TypeRef) -> Result<Self, ValidationErrors> {
        match atom {
            Atom { map: Some(map), .. } => Ok(Self::Map(map)),
            Atom { scalar: Some(scalar), .. } => Ok(Self::Scalar(*scalar)),
            Atom { list: Some(list), .. } => Ok(Self::List(list)),
            _ => Err(ValidationErrors::invalid_atom(type_ref)),
        }
    }
}

fn resolve<'s>(schema: &'s Schema, type_ref: &'s TypeRef) -> Result<Cow<'s, Atom>, ValidationErrors> {
    schema.resolve(type_ref).ok_or_else(|| ValidationErrors::unresolved(type_ref))
}

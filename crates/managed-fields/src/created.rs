//! Fields of objects that were created of late: who creates many of a kind writes the same fields each time.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value};

use crate::value;

/// How many objects are remembered.
const OBJECTS: usize = 24;
/// Objects of more bytes, roughly, are not remembered.
const MAX_BYTES: usize = 64 * 1024;

/// Objects that were created of late, with their fields.
#[derive(Debug, Default)]
pub(crate) struct Created(Mutex<VecDeque<Known>>);

/// The form of an object, and the fields that an object of that form has.
#[derive(Debug)]
struct Known {
    form: Form,
    fields: Value,
}

/// What an object has in common with all that have the same fields: everything but the texts, numbers and booleans that stand below
/// names only. In lists, they may be names of items.
#[derive(Debug)]
enum Form {
    Map(Vec<(Box<str>, Self)>),
    Text,
    Number,
    Boolean,
    /// This very value.
    Exactly(Value),
    /// Of a form, and another value than what was there before.
    Unlike(Box<Self>, Value),
}

impl Form {
    /// `before`: what is there without the object's author. What is equal to that is not written.
    fn of(value: &Value, before: Option<&Value>) -> Self {
        let form = match value {
            Value::Object(fields) => {
                let below = |(name, value): (&String, &Value)| {
                    (name.as_str().into(), Self::of(value, before.and_then(|before| before.get(name))))
                };
                return Self::Map(fields.iter().map(below).collect());
            }
            Value::String(_) => Self::Text,
            Value::Number(_) => Self::Number,
            Value::Bool(_) => Self::Boolean,
            other => return Self::Exactly(other.clone()),
        };
        match before {
            Some(before) if value::equal(before, value) => Self::Exactly(value.clone()),
            Some(before) if !before.is_object() && !before.is_array() => {
                Self::Unlike(Box::new(form), before.clone())
            }
            _ => form,
        }
    }

    fn fits(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Map(known), Value::Object(fields)) => Self::fit(known, fields),
            (Self::Text, Value::String(_))
            | (Self::Number, Value::Number(_))
            | (Self::Boolean, Value::Bool(_)) => true,
            (Self::Exactly(known), value) => known == value,
            (Self::Unlike(form, before), value) => form.fits(value) && !value::equal(before, value),
            _ => false,
        }
    }

    fn fit(known: &[(Box<str>, Self)], fields: &Map<String, Value>) -> bool {
        known.len() == fields.len()
            && known
                .iter()
                .zip(fields)
                .all(|((name, form), (other, value))| **name == **other && form.fits(value))
    }
}

/// A copy has not seen any: it may become the manager of other types.
impl Clone for Created {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Created {
    /// The fields of an object as they stand in one, if it has the form of another one.
    pub(crate) fn find(&self, object: &Value) -> Option<Value> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = known.iter().position(|known| known.form.fits(object))?;
        // The ones that are asked for stay.
        let found = known.remove(place)?;
        let fields = found.fields.clone();
        known.push_front(found);
        Some(fields)
    }

    /// Remembers an object that has been completed.
    pub(crate) fn learn(&self, empty: &Value, object: &Value) {
        let Some(Value::Object(fields)) = Self::only(object) else { return };
        if left_after(object, MAX_BYTES) == 0 {
            return;
        }
        let form = match Form::of(object, Some(empty)) {
            Form::Map(members) => Form::Map(members.into_iter().map(without_managers).collect()),
            other => other,
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.truncate(OBJECTS - 1);
        known.push_front(Known { form, fields: Value::Object(fields.clone()) });
    }

    /// The fields of an object's only manager.
    fn only(object: &Value) -> Option<&Value> {
        match object.get("metadata")?.get("managedFields")?.as_array()?.as_slice() {
            [only] => only.get("fieldsV1"),
            _ => None,
        }
    }
}

/// Metadata as they were before the object was completed.
fn without_managers((name, form): (Box<str>, Form)) -> (Box<str>, Form) {
    let form = match form {
        Form::Map(mut members) if *name == *"metadata" => {
            members.retain(|(name, _)| **name != *"managedFields");
            Form::Map(members)
        }
        other => other,
    };
    (name, form)
}

/// What is left of a number of bytes after a value, roughly: 0 if it is larger.
fn left_after(value: &Value, left: usize) -> usize {
    let left = left.saturating_sub(16);
    match value {
        _ if left == 0 => 0,
        Value::String(text) => left.saturating_sub(text.len()),
        Value::Array(items) => items.iter().fold(left, |left, item| left_after(item, left)),
        Value::Object(fields) => {
            fields.iter().fold(left, |left, (name, value)| left_after(value, left.saturating_sub(name.len())))
        }
        _ => left,
    }
}

//! JSON decoding with duplicate fields, as upstream's strict decoder finds them.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The most duplicate fields that are named.
const MAX_DUPLICATES: usize = 64;

/// A body and the fields that were given more than once, as paths. The last one counts.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) value: Value,
    pub(crate) duplicates: Vec<String>,
}

/// Reads JSON. Integers that Go's `int64` can't hold become floats, as they do there.
///
/// # Errors
/// The text is no JSON, or nested more than 128 levels deep.
pub(crate) fn json(text: &[u8]) -> Result<Decoded, serde_json::Error> {
    // To check all of the text at once takes less time than each of its strings. If it is not UTF-8, the error has to say where.
    match str::from_utf8(text) {
        Ok(text) => read(&mut serde_json::Deserializer::from_str(text)),
        Err(_) => read(&mut serde_json::Deserializer::from_slice(text)),
    }
}

fn read<'de, R: serde_json::de::Read<'de>>(
    deserializer: &mut serde_json::Deserializer<R>,
) -> Result<Decoded, serde_json::Error> {
    let found = Found::default();
    let value = Seed(&found).deserialize(&mut *deserializer)?;
    deserializer.end()?;
    Ok(Decoded { value, duplicates: found.duplicates.into_inner() })
}

#[derive(Default)]
struct Found {
    path: RefCell<Vec<Step>>,
    duplicates: RefCell<Vec<String>>,
}

enum Step {
    Name(String),
    Index(usize),
}

impl Found {
    fn duplicate(&self) {
        let mut duplicates = self.duplicates.borrow_mut();
        if duplicates.len() == MAX_DUPLICATES {
            return;
        }
        let mut text = String::new();
        for step in self.path.borrow().iter() {
            match step {
                Step::Name(name) if text.is_empty() => text.push_str(name),
                Step::Name(name) => {
                    text.push('.');
                    text.push_str(name);
                }
                Step::Index(index) => text.push_str(&format!("[{index}]")),
            }
        }
        if !duplicates.contains(&text) {
            duplicates.push(text);
        }
    }
}

#[derive(Clone, Copy)]
struct Seed<'a>(&'a Found);

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        #[expect(clippy::cast_precision_loss, reason = "as Go reads it")]
        let float = || Number::from_f64(value as f64).map_or(Value::Null, Value::Number);
        Ok(i64::try_from(value).map_or_else(|_| float(), Value::from))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("the number is too large"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            self.0.path.borrow_mut().push(Step::Index(list.len()));
            let item = items.next_element_seed(self)?;
            self.0.path.borrow_mut().pop();
            match item {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            self.0.path.borrow_mut().push(Step::Name(name.clone()));
            if map.contains_key(&name) {
                self.0.duplicate();
            }
            let value = members.next_value_seed(self).map_err(A::Error::custom)?;
            self.0.path.borrow_mut().pop();
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

/// Why Go can't read a text as a JSON object.
pub(crate) fn no_object(body: &[u8]) -> Option<String> {
    if let Some(why) = syntax(body) {
        return Some(why);
    }
    let given = match json(body).ok()?.value {
        Value::Object(_) | Value::Null => return None,
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
    };
    Some(format!("json: cannot unmarshal {given} into Go value of type map[string]interface {{}}"))
}

/// What Go finds wrong with a text that is no JSON.
pub(crate) fn syntax(body: &[u8]) -> Option<String> {
    let error = settled_patch::decode_merge_patch(body).err()?.to_string();
    error.strip_prefix("error decoding patch: ").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_named_and_the_last_one_counts() {
        let decoded = json(br#"{"a":1,"b":[{"c":1,"c":2}],"a":18446744073709551615}"#).unwrap();
        assert_eq!(decoded.duplicates, ["b[0].c", "a"]);
        assert_eq!(
            decoded.value,
            serde_json::json!({"a": 18_446_744_073_709_551_615.0_f64, "b": [{"c": 2}]})
        );
        assert!(json(b"{} {}").is_err());
        assert!(json("[".repeat(10_000).as_bytes()).is_err());
    }
}

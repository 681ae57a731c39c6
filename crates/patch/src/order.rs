//! Lists with merge keys: lookup and order of items.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::{Map, Value};
use settled_go::fmt::{plain_map, type_name};

use crate::error::PatchError;
use crate::stable;

/// Merge key of items.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Key {
    Null,
    Bool(bool),
    Int(i64),
    /// Bits of a float; both zeros are equal.
    Float(u64),
    Text(String),
    /// Upstream panics when comparing two maps or two lists.
    Map,
    List,
}

impl Key {
    pub(crate) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(flag) => Self::Bool(*flag),
            Value::Number(number) => match number.as_i64() {
                Some(int) => Self::Int(int),
                None => Self::Float((number.as_f64().unwrap_or_default() + 0.0).to_bits()),
            },
            Value::String(text) => Self::Text(text.clone()),
            Value::Array(_) => Self::List,
            Value::Object(_) => Self::Map,
        }
    }

    pub(crate) const fn comparable(&self) -> bool {
        !matches!(self, Self::Map | Self::List)
    }

    /// Whether two keys are equal.
    pub(crate) fn same(&self, other: &Self) -> Result<bool, PatchError> {
        match self == other {
            true if !self.comparable() => Err(incomparable()),
            same => Ok(same),
        }
    }
}

pub(crate) fn incomparable() -> PatchError {
    PatchError::panics("maps and lists are not compared, and are no keys of lists")
}

const LIST: &str = "[]interface {}";
const MAP: &str = "map[string]interface {}";

pub(crate) fn bad_type(expected: &str, actual: &Value) -> PatchError {
    // The type of nil is nil in Go, which `%s` cannot print.
    let actual = if actual.is_null() { "%!s(<nil>)" } else { type_name(actual) };
    PatchError::Internal(format!("expected a {expected}, but received a {actual}"))
}

pub(crate) fn not_a_list(actual: &Value) -> PatchError {
    bad_type(LIST, actual)
}

pub(crate) fn no_merge_key(map: &Map<String, Value>, merge_key: &str) -> PatchError {
    PatchError::Internal(format!("map: {} does not contain declared merge key: {merge_key}", plain_map(map)))
}

/// An item of a list with a merge key, which must be a map.
pub(crate) fn item(value: &Value) -> Result<&Map<String, Value>, PatchError> {
    value.as_object().ok_or_else(|| bad_type(MAP, value))
}

/// The merge key of an item.
pub(crate) fn keyed(value: &Value, merge_key: &str) -> Result<Key, PatchError> {
    let map = item(value)?;
    map.get(merge_key).map(Key::of).ok_or_else(|| no_merge_key(map, merge_key))
}

/// Index of items by key. The first item with a key counts.
pub(crate) struct Finder {
    first: HashMap<Key, usize>,
    /// The first item that is not a map. Lookups that reach it fail.
    bad: Option<usize>,
}

impl Finder {
    pub(crate) fn of(list: &[Value], merge_key: &str) -> Self {
        let mut finder = Self { first: HashMap::new(), bad: None };
        for (place, value) in list.iter().enumerate() {
            match value {
                Value::Object(map) => {
                    if let Some(key) = map.get(merge_key) {
                        finder.add(Key::of(key), place);
                    }
                }
                _ => finder.bad = finder.bad.or(Some(place)),
            }
        }
        finder
    }

    pub(crate) fn add(&mut self, key: Key, place: usize) {
        self.first.entry(key).or_insert(place);
    }

    pub(crate) fn find(&self, key: &Key) -> Result<Option<usize>, PatchError> {
        let found = self.first.get(key).copied();
        match (found, self.bad) {
            (Some(place), Some(bad)) if bad < place => Err(bad_item(bad)),
            (None, Some(bad)) => Err(bad_item(bad)),
            (Some(_), _) if !key.comparable() => Err(incomparable()),
            _ => Ok(found),
        }
    }
}

fn bad_item(place: usize) -> PatchError {
    PatchError::Internal(format!("value for key {place} is not a map"))
}

/// Item order from a `$setElementOrder` list.
pub(crate) struct Order {
    first: HashMap<Key, usize>,
    /// Error in the list.
    error: Option<PatchError>,
}

impl Order {
    pub(crate) fn of(list: &[Value], merge_key: &str, maps: bool) -> Self {
        let mut order = Self { first: HashMap::new(), error: None };
        let mut add = |key, place| match order.first.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(place);
            }
            Entry::Occupied(_) => {}
        };
        for (place, value) in list.iter().enumerate() {
            if !maps {
                add(Key::of(value), place);
                continue;
            }
            match keyed(value, merge_key) {
                Ok(key) => add(key, place),
                Err(error) => {
                    order.error = Some(error);
                    break;
                }
            }
        }
        order
    }

    pub(crate) fn of_keys(keys: Vec<Key>, error: Option<PatchError>) -> Self {
        let mut first = HashMap::new();
        for (place, key) in keys.into_iter().enumerate() {
            first.entry(key).or_insert(place);
        }
        Self { first, error }
    }

    fn index(&self, key: &Key) -> Result<Option<usize>, PatchError> {
        match self.first.get(key) {
            Some(_) if !key.comparable() => Err(incomparable()),
            found => Ok(found.copied()),
        }
    }
}

/// Items to sort.
#[derive(Clone, Copy)]
pub(crate) struct Items<'a> {
    pub(crate) merge_key: &'a str,
    /// Whether the items are maps. Otherwise they are their own keys.
    pub(crate) maps: bool,
}

impl Items<'_> {
    fn key(self, value: &Value) -> Key {
        match value {
            Value::Object(map) if self.maps => map.get(self.merge_key).map_or(Key::Null, Key::of),
            _ if self.maps => Key::Null,
            value => Key::of(value),
        }
    }
}

/// Splits a list into items that are in another list and items that are not.
pub(crate) fn partition(
    list: Vec<Value>,
    by: &[Value],
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    if merge_key.is_empty() {
        let by: HashMap<Key, usize> = by.iter().map(|value| (Key::of(value), 0)).collect();
        if !by.keys().all(Key::comparable) {
            return Err(incomparable());
        }
        for value in list {
            let key = Key::of(&value);
            if !key.comparable() {
                return Err(incomparable());
            }
            if by.contains_key(&key) { inside.push(value) } else { outside.push(value) }
        }
    } else {
        let by = Finder::of(by, merge_key);
        for value in list {
            let key = keyed(&value, merge_key)?;
            if by.find(&key)?.is_some() { inside.push(value) } else { outside.push(value) }
        }
    }
    Ok((inside, outside))
}

/// Sorts the items of the patch by one list, the items only on the server by another, and merges both by the latter.
pub(crate) fn normalized(
    patch: Vec<Value>,
    server_only: Vec<Value>,
    patch_order: &Order,
    server_order: &Order,
    items: Items<'_>,
) -> Result<Vec<Value>, PatchError> {
    let patch = sorted(patch, patch_order, items)?;
    let server_only = sorted(server_only, server_order, items)?;
    let mut woven = Vec::with_capacity(patch.len() + server_only.len());
    let places = |list: &[Value]| -> Result<Vec<_>, PatchError> {
        list.iter().map(|value| server_order.index(&items.key(value))).collect()
    };
    // If either list is empty, nothing is compared.
    let (left, right) = if patch.is_empty() || server_only.is_empty() {
        (Vec::new(), Vec::new())
    } else {
        (places(&server_only)?, places(&patch)?)
    };
    let mut right = right.into_iter();
    let mut patch = patch.into_iter();
    let mut next = right.next();
    for (place, value) in server_only.into_iter().enumerate() {
        while let Some(theirs) = next {
            match (left.get(place).copied().flatten(), theirs) {
                (Some(ours), Some(theirs)) if ours < theirs => break,
                _ => {
                    woven.extend(patch.next());
                    next = right.next();
                }
            }
        }
        woven.push(value);
    }
    woven.extend(patch);
    Ok(woven)
}

fn sorted(list: Vec<Value>, order: &Order, items: Items<'_>) -> Result<Vec<Value>, PatchError> {
    let mut deleted = Vec::new();
    let mut kept = Vec::with_capacity(list.len());
    if items.maps {
        for value in &list {
            keyed(value, items.merge_key)?;
        }
        if let Some(error) = &order.error {
            return Err(error.clone());
        }
        for value in list {
            if value.get("$patch").and_then(Value::as_str) == Some("delete") {
                deleted.push(value);
            } else {
                kept.push(value);
            }
        }
    } else {
        kept = list;
    }
    if kept.len() > 1 {
        let places = kept.iter().map(|value| order.index(&items.key(value)));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        let mut pairs: Vec<_> = places.into_iter().zip(kept).collect();
        if pairs.iter().all(|(place, _)| place.is_some()) {
            pairs.sort_by_key(|(place, _)| *place);
        } else {
            stable::sort(&mut pairs, &|(left, _), (right, _)| match (left, right) {
                (Some(left), Some(right)) => left < right,
                _ => true,
            });
        }
        kept = pairs.into_iter().map(|(_, value)| value).collect();
    }
    kept.append(&mut deleted);
    Ok(kept)
}

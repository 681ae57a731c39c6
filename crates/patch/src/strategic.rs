//! Strategic merge patch.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};
use settled_go::fmt::{plain_list, plain_map, text, type_name};

use crate::error::PatchError;
use crate::json::too_deep;
use crate::order::{
    Finder, Items, Key, Order, incomparable, item, keyed, no_merge_key, normalized, not_a_list, partition,
};
use crate::schema::{FieldType, StrategicSchema, field, kind, list_field, strategy};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

const BAD_PRIMITIVE_LIST: &str = "invalid patch format of primitive list";
const BAD_RETAIN_KEYS: &str = "invalid patch format of retainKeys";
const BAD_SET_ORDER: &str = "invalid patch format of setElementOrder list";

type Object = Map<String, Value>;

/// Applies a strategic merge patch to an object whose type is a schema component.
///
/// Where upstream iterates over a map in random order and the order matters, keys are sorted here: the first of two
/// errors is reported, and `$deleteFromPrimitiveList/x` precedes `x`.
///
/// # Errors
/// [`PatchError::BadRequest`]: the patch is not a map, a directive is malformed, or the nesting is too deep.
/// [`PatchError::Invalid`]: a list of lists would have to be merged.
/// [`PatchError::Internal`]: errors that upstream does not classify, such as unknown directives and fields, items
/// without merge key, lists of mixed types.
///
/// See [`PatchTypes`](crate::PatchTypes) for an example.
pub fn strategic_merge(
    object: &Value,
    patch: &Value,
    types: &impl StrategicSchema,
    root: &str,
) -> Result<Value, PatchError> {
    if too_deep(object) || too_deep(patch) {
        return Err(PatchError::too_deep());
    }
    let Value::Object(object) = object else {
        return Err(PatchError::BadRequest("invalid JSON document".to_owned()));
    };
    let patch = match patch {
        Value::Null => Object::new(),
        Value::Object(patch) => patch.clone(),
        _ => return Err(PatchError::BadRequest("invalid JSON document".to_owned())),
    };
    if !types.has(root) {
        return Err(PatchError::Internal(format!("the schema has no component {root}")));
    }
    let at = FieldType::Struct { component: root.into(), pointer: false };
    merge_map(object.clone(), patch, types, &at).map(Value::Object)
}

fn merge_map(
    mut original: Object,
    mut patch: Object,
    types: &impl StrategicSchema,
    at: &FieldType,
) -> Result<Object, PatchError> {
    if !settled_budget::spend(1) {
        return Err(PatchError::stopped());
    }
    if let Some(directive) = patch.get(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(DIRECTIVE);
                Ok(patch)
            }
            Some("delete") => Ok(Object::new()),
            _ => Err(bad_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    merge_ordered_lists(&mut original, &mut patch, types, at)?;
    for (name, value) in patch {
        let (name, deletes) = match without_prefix(&name, DELETE_FROM_LIST, BAD_PRIMITIVE_LIST)? {
            None => (name, false),
            Some("") => (name, true),
            Some(rest) => (rest.to_owned(), true),
        };
        if value.is_null() {
            original.remove(&name);
            continue;
        }
        let merged = match (original.remove(&name), value) {
            (Some(Value::Object(original)), Value::Object(patch)) => {
                let found = field(types, at, &name)?;
                if strategy(found)? == "replace" {
                    Some(Value::Object(patch))
                } else {
                    Some(Value::Object(merge_map(original, patch, types, &found.field_type)?))
                }
            }
            (Some(Value::Array(original)), Value::Array(patch)) => {
                let (found, items) = list_field(types, at, &name)?;
                let list = List { types, items: &items, merge_key: &found.merge_key, deletes };
                let merges = strategy(found)? == "merge" || deletes;
                Some(Value::Array(if merges { list.merge(original, patch)?.0 } else { patch }))
            }
            (original, value) => {
                let same_type = original.as_ref().is_some_and(|original| same_type(original, &value));
                if deletes && !same_type {
                    original
                } else {
                    without_directives(if same_type { value } else { without_nulls(value) })
                }
            }
        };
        if let Some(merged) = merged {
            original.insert(name, merged);
        }
    }
    Ok(original)
}

fn bad_directive(directive: &Value, patch: &Object) -> PatchError {
    PatchError::Internal(format!("unknown patch type: {} in map: {}", text(directive), plain_map(patch)))
}

/// Whether two values have the same Go type.
fn same_type(left: &Value, right: &Value) -> bool {
    type_name(left) == type_name(right)
}

/// The name after `PREFIX/`, if the key has this prefix.
fn without_prefix<'n>(name: &'n str, prefix: &str, error: &str) -> Result<Option<&'n str>, PatchError> {
    match name.strip_prefix(prefix) {
        None => Ok(None),
        Some(rest) => {
            rest.strip_prefix('/').map(Some).ok_or_else(|| PatchError::BadRequest(error.to_owned()))
        }
    }
}

/// Applies `$retainKeys`: removes all other fields.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), PatchError> {
    let Some(retained) = patch.remove(RETAIN_KEYS) else { return Ok(()) };
    let Value::Array(retained) = retained else {
        return Err(PatchError::BadRequest(BAD_RETAIN_KEYS.to_owned()));
    };
    if retained.iter().any(|key| key.is_array() || key.is_object()) {
        return Err(incomparable());
    }
    let retained: HashSet<&str> = retained.iter().filter_map(Value::as_str).collect();
    for (name, value) in &*patch {
        let about_a_list = name.starts_with(DELETE_FROM_LIST) || name.starts_with(SET_ORDER);
        if !value.is_null() && !about_a_list && !retained.contains(name.as_str()) {
            return Err(PatchError::BadRequest(BAD_RETAIN_KEYS.to_owned()));
        }
    }
    original.retain(|name, _| retained.contains(name.as_str()));
    Ok(())
}

/// Merges the lists ordered by `$setElementOrder`, and removes them from the patch.
fn merge_ordered_lists(
    original: &mut Object,
    patch: &mut Object,
    types: &impl StrategicSchema,
    at: &FieldType,
) -> Result<(), PatchError> {
    let names: Vec<String> = patch.keys().filter(|name| name.starts_with(SET_ORDER)).cloned().collect();
    for directive in names {
        let Some(order) = patch.remove(&directive) else { continue };
        let Value::Array(order) = order else {
            return Err(not_a_list(&order));
        };
        let name = without_prefix(&directive, SET_ORDER, BAD_SET_ORDER)?.unwrap_or_default();
        let ours = optional_list(original.get(name))?;
        let theirs = optional_list(patch.get(name))?;
        let (found, items) = list_field(types, at, name)?;
        let merges = strategy(found)? == "merge";
        let merge_key = found.merge_key.as_str();
        check_order(theirs.unwrap_or_default(), &order, merge_key)?;
        let element = element_is_map(&[ours.unwrap_or_default(), theirs.unwrap_or_default()]);
        if ours.is_none() && theirs.is_none() {
            continue;
        }
        let maps = matches!(element, Ok(true));
        let list = List { types, items: &items, merge_key, deletes: false };
        let (merged, server_order) = match (taken(original, name), taken(patch, name)) {
            (Some(ours), Some(theirs)) if merges => list.merge(ours, theirs)?,
            (Some(ours), Some(theirs)) => {
                let server_order = Order::of(&ours, merge_key, maps);
                (theirs, server_order)
            }
            (Some(ours), None) => {
                let server_order = Order::of(&ours, merge_key, maps);
                (ours, server_order)
            }
            (None, theirs) => {
                let kept = theirs.unwrap_or_default().into_iter().filter_map(without_directives);
                (kept.collect(), Order::of(&[], merge_key, maps))
            }
        };
        let (inside, outside) = partition(merged, &order, merge_key)?;
        let items = Items { merge_key, maps: element? };
        let patch_order = Order::of(&order, merge_key, items.maps);
        let both = normalized(inside, outside, &patch_order, &server_order, items)?;
        original.insert(name.to_owned(), Value::Array(both));
    }
    Ok(())
}

fn optional_list(value: Option<&Value>) -> Result<Option<&[Value]>, PatchError> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items)),
        Some(other) => Err(not_a_list(other)),
    }
}

fn taken(map: &mut Object, name: &str) -> Option<Vec<Value>> {
    match map.remove(name) {
        Some(Value::Array(items)) => Some(items),
        _ => None,
    }
}

/// Checks that all items of the patch are in `$setElementOrder`, in the same order.
fn check_order(patch: &[Value], order: &[Value], merge_key: &str) -> Result<(), PatchError> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut left = Vec::with_capacity(patch.len());
    for value in patch {
        if merge_key.is_empty() || item(value)?.get(DIRECTIVE).and_then(Value::as_str) != Some("delete") {
            left.push(value);
        }
    }
    let mut left = left.into_iter().peekable();
    let mut order_left = order.iter();
    while let Some(value) = left.peek() {
        if order_left.as_slice().is_empty() {
            break;
        }
        if value.get(DIRECTIVE).is_some() {
            left.next();
            continue;
        }
        let Some(wanted) = order_left.next() else { break };
        let same = if merge_key.is_empty() {
            Key::of(value).same(&Key::of(wanted))?
        } else {
            let (ours, theirs) = (item(value)?, item(wanted)?);
            let ours = ours.get(merge_key).ok_or_else(|| no_merge_key(ours, merge_key))?;
            let theirs = theirs.get(merge_key).ok_or_else(|| no_merge_key(theirs, merge_key))?;
            Key::of(ours).same(&Key::of(theirs))?
        };
        if same {
            left.next();
        }
    }
    if left.peek().is_some() {
        return Err(PatchError::Internal(format!(
            "The order in patch list:\n{}\n doesn't match {SET_ORDER} list:\n{}\n",
            plain_list(patch),
            plain_list(order)
        )));
    }
    Ok(())
}

/// Whether the items are maps. All items must have the same type.
fn element_is_map(lists: &[&[Value]]) -> Result<bool, PatchError> {
    let mut all = lists.iter().copied().flatten();
    let Some(first) = all.next() else {
        return Err(PatchError::Internal("no elements in any of the given slices".to_owned()));
    };
    match first {
        Value::Null => Err(PatchError::panics("a list to be merged begins with null")),
        Value::Array(_) => Err(PatchError::Invalid("lists of lists are not supported".to_owned())),
        _ if all.all(|value| same_type(first, value)) => Ok(first.is_object()),
        _ => {
            let shown: Vec<String> = lists.iter().map(|list| plain_list(list)).collect();
            Err(PatchError::Internal(format!("list element types are not identical: [{}]", shown.join(" "))))
        }
    }
}

/// Lists with the strategy `merge`.
struct List<'a, S> {
    types: &'a S,
    items: &'a FieldType,
    merge_key: &'a str,
    /// Whether the patch contains deletions.
    deletes: bool,
}

impl<S: StrategicSchema> List<'_, S> {
    /// The merged list, and the order of the original list after upstream's in-place changes.
    fn merge(&self, original: Vec<Value>, patch: Vec<Value>) -> Result<(Vec<Value>, Order), PatchError> {
        if original.is_empty() && patch.is_empty() {
            return Ok((original, Order::of_keys(Vec::new(), None)));
        }
        let merge_key = self.merge_key;
        let items = Items { merge_key, maps: element_is_map(&[&original, &patch])? };
        if !items.maps {
            let seen = Order::of(&original, merge_key, false);
            if self.deletes {
                let deleted: HashSet<Key> = patch.iter().map(Key::of).collect();
                let kept = original.into_iter().filter(|value| !deleted.contains(&Key::of(value)));
                return Ok((kept.collect(), seen));
            }
            let server_order = Order::of(&original, merge_key, false);
            let mut met = HashSet::new();
            let both = original.into_iter().chain(patch.iter().cloned());
            let merged = both.filter(|value| met.insert(Key::of(value))).collect();
            let (inside, outside) = partition(merged, &patch, merge_key)?;
            let patch_order = Order::of(&patch, merge_key, false);
            return Ok((normalized(inside, outside, &patch_order, &server_order, items)?, seen));
        }
        if merge_key.is_empty() {
            return Err(PatchError::Internal(format!(
                "cannot merge lists without merge key for {}",
                kind(self.items)
            )));
        }
        let Special { mut merged, mut seen, mut appended_at, unkeyed, patch } =
            self.special(original, patch)?;
        let server_order = Order::of(&merged, merge_key, true);
        let patch_order = Order::of(&patch, merge_key, true);
        // The items of the patch are exhausted, but their keys are still compared.
        let mut by = Vec::with_capacity(patch.len());
        let mut finder = Finder::of(&merged, merge_key);
        for value in patch {
            let key = keyed(&value, merge_key)?;
            let key_alone = [(merge_key.to_owned(), value[merge_key].clone())];
            by.push(Value::Object(key_alone.into_iter().collect()));
            match (finder.find(&key)?, value) {
                (Some(place), Value::Object(value)) => {
                    let Value::Object(original) = merged[place].take() else { continue };
                    merged[place] = Value::Object(merge_map(original, value, self.types, self.items)?);
                }
                (_, value) => {
                    if let Some(place) = seen.get_mut(appended_at) {
                        *place = key.clone();
                        appended_at += 1;
                    }
                    finder.add(key, merged.len());
                    merged.push(value);
                }
            }
        }
        let (inside, outside) = partition(merged, &by, merge_key)?;
        Ok((normalized(inside, outside, &patch_order, &server_order, items)?, Order::of_keys(seen, unkeyed)))
    }

    /// Applies items with `$patch`.
    fn special(&self, original: Vec<Value>, patch: Vec<Value>) -> Result<Special, PatchError> {
        let merge_key = self.merge_key;
        let key_of = |value: &Value| value.get(merge_key).map_or(Key::Null, Key::of);
        let mut seen: Vec<Key> = original.iter().map(key_of).collect();
        let mut places: HashMap<Key, Vec<usize>> = HashMap::new();
        let mut left: Vec<Option<Value>> = original.into_iter().map(Some).collect();
        let (mut plain, mut replace, mut indexed) = (Vec::new(), false, false);
        // The last remaining item, and the number of remaining items.
        let (mut last, mut length) = (left.len(), left.len());
        let mut stale = Vec::new();
        for value in patch {
            let Value::Object(map) = value else { continue };
            let Some(directive) = map.get(DIRECTIVE) else {
                plain.push(Value::Object(map));
                continue;
            };
            match directive.as_str() {
                Some("delete") => {
                    let key = map.get(merge_key).map(Key::of).ok_or_else(|| no_merge_key(&map, merge_key))?;
                    if !indexed {
                        indexed = true;
                        for (place, value) in left.iter().enumerate() {
                            if let Some(value) = value.as_ref().and_then(|value| value.get(merge_key)) {
                                places.entry(Key::of(value)).or_default().push(place);
                            }
                        }
                    }
                    let Some(deleted) = places.remove(&key) else { continue };
                    if !key.comparable() {
                        return Err(incomparable());
                    }
                    for place in deleted {
                        // Upstream shifts the following items to the left, and the last item stays in place.
                        while last > 0 && left[last - 1].is_none() {
                            last -= 1;
                        }
                        length -= 1;
                        stale.push((length, last - 1));
                        left[place] = None;
                    }
                }
                Some("replace") => replace = true,
                Some("merge") => {
                    return Err(PatchError::Internal(
                        "merging lists cannot yet be specified in the patch".to_owned(),
                    ));
                }
                _ => return Err(bad_directive(directive, &map)),
            }
        }
        if length < left.len() {
            let mut moved: Vec<Key> = Vec::with_capacity(left.len());
            moved.extend(
                left.iter().zip(&seen).filter(|(value, _)| value.is_some()).map(|(_, key)| key.clone()),
            );
            moved.extend(stale.iter().rev().map(|(_, from)| seen[*from].clone()));
            seen = moved;
        }
        let left: Vec<Value> = left.into_iter().flatten().collect();
        Ok(if replace {
            let unkeyed = left.iter().find_map(|value| keyed(value, merge_key).err());
            Special { merged: plain, appended_at: seen.len(), seen, unkeyed, patch: Vec::new() }
        } else {
            Special { merged: left, seen, appended_at: length, unkeyed: None, patch: plain }
        })
    }
}

/// A list with merge keys after applying items with `$patch`.
struct Special {
    merged: Vec<Value>,
    /// Keys of the original list after upstream's in-place changes.
    seen: Vec<Key>,
    /// Position of appended items.
    appended_at: usize,
    /// Error in the rest of the original list, which is not merged.
    unkeyed: Option<PatchError>,
    /// The items without `$patch`.
    patch: Vec<Value>,
}

/// Removes values with `$patch`; `None` if the value itself has it.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => Some(Value::Object(
            map.into_iter()
                .filter_map(|(name, value)| without_directives(value).map(|value| (name, value)))
                .collect(),
        )),
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        scalar => Some(scalar),
    }
}

/// Removes nulls from the maps of a value.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name, without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        scalar => scalar,
    }
}

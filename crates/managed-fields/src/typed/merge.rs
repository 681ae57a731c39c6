//! Merge of two typed values.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::compare::either_scalar;
use super::element::item_element;
use super::{Kind, ValidationErrors, resolve};
use crate::MAX_DEPTH;
use crate::path::PathElement;
use crate::schema::{Atom, ListRelationship, ListType, MapRelationship, MapType, Schema, TypeRef};

pub(super) fn merge(
    schema: &Schema,
    type_ref: &TypeRef,
    live: &Value,
    config: &Value,
) -> Result<Value, ValidationErrors> {
    walk(schema, type_ref, Some(live), Some(config), 0).map(Option::unwrap_or_default)
}

fn walk(
    schema: &Schema,
    type_ref: &TypeRef,
    live: Option<&Value>,
    config: Option<&Value>,
    depth: usize,
) -> Result<Option<Value>, ValidationErrors> {
    if depth > MAX_DEPTH {
        return Err(ValidationErrors::too_deep());
    }
    if !settled_budget::spend(1) {
        return Err(ValidationErrors::stopped());
    }
    let atom = resolve(schema, type_ref)?;
    let (live_atom, config_atom) = (atom.for_value(live), atom.for_value(config));
    let sides = Sides { schema, type_ref, live, config, depth };
    if config.is_none() {
        sides.merge(&live_atom)
    } else if live.is_none() || live_atom.shape() == config_atom.shape() {
        sides.merge(&config_atom)
    } else {
        // The live value counts only as far as it may be wrong.
        match (sides.merge(&live_atom), sides.merge(&config_atom)) {
            (Ok(_), merged) => merged,
            (Err(errors), Ok(_)) => Err(errors),
            (Err(mut errors), Err(others)) => {
                errors.append(others);
                Err(errors)
            }
        }
    }
}

struct Sides<'a> {
    schema: &'a Schema,
    type_ref: &'a TypeRef,
    live: Option<&'a Value>,
    config: Option<&'a Value>,
    depth: usize,
}

impl Sides<'_> {
    fn leaf(&self) -> Option<Value> {
        self.config.or(self.live).cloned()
    }

    fn merge(&self, atom: &Atom) -> Result<Option<Value>, ValidationErrors> {
        match Kind::of(atom, self.type_ref)? {
            Kind::Scalar(scalar) => {
                either_scalar(scalar, self.live, self.config)?;
                Ok(self.leaf())
            }
            Kind::Map(map) => {
                let live = self.live.and_then(Value::as_object);
                let config = self.config.and_then(Value::as_object);
                let empty = |side: Option<&Map<_, _>>| side.is_none_or(Map::is_empty);
                // If both are empty or null, the difference between the two is kept.
                if map.relationship == MapRelationship::Atomic || (empty(live) && empty(config)) {
                    return Ok(self.leaf());
                }
                self.maps(map, live, config)
            }
            Kind::List(list) => {
                let live = self.live.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                let config = self.config.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                if list.relationship == ListRelationship::Atomic || (live.is_empty() && config.is_empty()) {
                    return Ok(self.leaf());
                }
                self.lists(list, live, config)
            }
        }
    }

    fn maps(
        &self,
        map: &MapType,
        live: Option<&Map<String, Value>>,
        config: Option<&Map<String, Value>>,
    ) -> Result<Option<Value>, ValidationErrors> {
        let mut out = Map::new();
        let mut errors = ValidationErrors::default();
        let mut visit = |name: &String, live, config| match walk(
            self.schema,
            map.type_of(name),
            live,
            config,
            self.depth + 1,
        ) {
            Ok(Some(merged)) => {
                out.insert(name.clone(), merged);
            }
            Ok(None) => {}
            Err(below) => errors.append(below.below(&PathElement::field(name.as_str()))),
        };
        for (name, value) in live.into_iter().flatten() {
            visit(name, Some(value), config.and_then(|config| config.get(name)));
        }
        for (name, value) in config.into_iter().flatten() {
            if live.is_none_or(|live| !live.contains_key(name)) {
                visit(name, None, Some(value));
            }
        }
        errors.into_result((!out.is_empty()).then_some(Value::Object(out)))
    }

    fn item(
        &self,
        list: &ListType,
        live: Option<&Value>,
        config: Option<&Value>,
    ) -> Result<Option<Value>, ValidationErrors> {
        if self.depth >= MAX_DEPTH {
            return Err(ValidationErrors::too_deep());
        }
        // Upstream drops the errors of items, so what cannot be merged goes without a word.
        Ok(walk(self.schema, &list.element_type, live, config, self.depth + 1).unwrap_or(None))
    }

    /// Items of the live list keep their order, and so do those of the configuration. Where the two orders of shared
    /// items differ, that of the configuration wins.
    fn lists(
        &self,
        list: &ListType,
        live: &[Value],
        config: &[Value],
    ) -> Result<Option<Value>, ValidationErrors> {
        let mut errors = ValidationErrors::default();
        let config = Index::new(self.schema, list, config, false, &mut errors);
        let live = Index::new(self.schema, list, live, true, &mut errors);
        errors.into_result(())?;

        let mut shared: VecDeque<&PathElement> =
            config.elements.iter().filter(|element| live.by_element.contains_key(*element)).collect();
        let mut next_shared = shared.pop_front();
        let mut taken: BTreeSet<&PathElement> = BTreeSet::new();
        let mut out = Vec::with_capacity(live.elements.len().max(config.elements.len()));
        let (mut l, mut c) = (0, 0);
        while l < live.elements.len() || c < config.elements.len() {
            if let (Some(element), Some(other)) = (live.elements.get(l), config.elements.get(c)) {
                if element == other {
                    taken.insert(element);
                    out.extend(self.item(list, live.get(element), config.get(element))?);
                    l += 1;
                    c += 1;
                    next_shared = shared.pop_front();
                    continue;
                }
                if config.by_element.contains_key(element) && next_shared.is_some_and(|next| next != element)
                {
                    // A shared item, but not the one whose turn it is.
                    l += 1;
                    continue;
                }
            }
            if let Some(element) = live.elements.get(l) {
                if !config.by_element.contains_key(element) {
                    // By its place: of duplicates, each is kept.
                    out.extend(self.item(list, live.items.get(l).copied(), None)?);
                    l += 1;
                    continue;
                } else if taken.contains(element) {
                    l += 1;
                }
            }
            if let Some(element) = config.elements.get(c) {
                taken.insert(element);
                out.extend(self.item(list, live.get(element), config.get(element))?);
                c += 1;
                if next_shared == Some(element) {
                    next_shared = shared.pop_front();
                }
            }
        }
        Ok((!out.is_empty()).then_some(Value::Array(out)))
    }
}

/// The items of a list by their path elements.
struct Index<'a> {
    elements: Vec<PathElement>,
    items: Vec<&'a Value>,
    by_element: BTreeMap<PathElement, &'a Value>,
}

static NULL: Value = Value::Null;

impl<'a> Index<'a> {
    fn new(
        schema: &Schema,
        list: &ListType,
        items: &'a [Value],
        duplicates: bool,
        errors: &mut ValidationErrors,
    ) -> Self {
        let mut index = Self {
            elements: Vec::with_capacity(items.len()),
            items: Vec::new(),
            by_element: BTreeMap::new(),
        };
        for (place, item) in items.iter().enumerate() {
            let element = match item_element(schema, list, item) {
                Ok(element) => element,
                Err(reason) => {
                    errors.append(ValidationErrors::one(format!("element {place}: {reason}")));
                    continue;
                }
            };
            if let Some(first) = index.by_element.get_mut(&element) {
                if !duplicates {
                    errors.append(ValidationErrors::one(format!("duplicate entries for key {element}")));
                    continue;
                }
                // Duplicates are not merged with anything.
                *first = &NULL;
            } else {
                index.by_element.insert(element.clone(), item);
            }
            index.elements.push(element);
            index.items.push(item);
        }
        index
    }

    fn get(&self, element: &PathElement) -> Option<&'a Value> {
        self.by_element.get(element).copied()
    }
}

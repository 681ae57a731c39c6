//! Lists: from an object, constant, or computed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::data::Data;
use super::{Const, Key, Map, Val};
use crate::budget::{Budget, Fault, Result};

/// Storage of the elements.
#[derive(Clone, Debug)]
pub(crate) enum Items<'a, D> {
    Data(D),
    Constant(&'a [Const]),
    Made(Arc<Vec<Val<'a, D>>>),
}

/// List semantics by `x-kubernetes-list-type`.
#[derive(Clone, Copy, Debug)]
pub enum ListKind<'a> {
    /// Computed, or from data without a schema.
    Plain,
    /// `atomic`.
    Atomic,
    /// `set`: unordered, without duplicates.
    Set,
    /// `map`: by these keys.
    Keyed(&'a [String]),
}

/// A list.
#[derive(Clone, Debug)]
pub struct List<'a, D> {
    pub(crate) items: Items<'a, D>,
    pub(crate) kind: ListKind<'a>,
}

/// Iterator over a list.
#[derive(Debug)]
pub enum Iter<'a, D: Data<'a>> {
    /// From an object.
    Data(D::Items),
    /// Constant.
    Constant(std::slice::Iter<'a, Const>),
    /// Computed, with the next index.
    Made(Arc<Vec<Val<'a, D>>>, usize),
}

impl<'a, D: Data<'a>> Iterator for Iter<'a, D> {
    type Item = Result<Val<'a, D>>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Data(items) => items.next(),
            Self::Constant(items) => items.next().map(|item| Ok(item.lift())),
            Self::Made(items, next) => {
                *next += 1;
                items.get(*next - 1).cloned().map(Ok)
            }
        }
    }
}

impl<'a, D: Data<'a>> List<'a, D> {
    /// A list of an object.
    pub fn of_data(data: D) -> Self {
        Self { items: Items::Data(data), kind: data.list_kind() }
    }

    pub(crate) fn made(items: Vec<Val<'a, D>>) -> Self {
        Self { items: Items::Made(Arc::new(items)), kind: ListKind::Plain }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.items {
            Items::Data(data) => data.count(),
            Items::Constant(items) => items.len(),
            Items::Made(items) => items.len(),
        }
    }

    /// Steps of searching an element.
    pub fn steps(&self) -> u64 {
        match &self.items {
            Items::Data(data) => data.steps(),
            _ => 0,
        }
    }

    pub(crate) fn get(&self, at: usize) -> Option<Result<Val<'a, D>>> {
        match &self.items {
            Items::Data(data) => data.item(at),
            Items::Constant(items) => items.get(at).map(|item| Ok(item.lift())),
            Items::Made(items) => items.get(at).cloned().map(Ok),
        }
    }

    /// Iterates over the elements.
    pub fn iter(&self) -> Iter<'a, D> {
        match &self.items {
            Items::Data(data) => Iter::Data(data.items()),
            Items::Constant(items) => Iter::Constant(items.iter()),
            Items::Made(items) => Iter::Made(Arc::clone(items), 0),
        }
    }

    /// Whether it is from an object with a schema, and so compares as upstream's wrapper.
    pub(crate) fn is_of_object(&self) -> bool {
        !matches!(self.kind, ListKind::Plain)
    }

    pub(crate) fn contains(&self, value: &Val<'a, D>, budget: &Budget) -> Result<bool> {
        let mut fault = None;
        for item in self.iter() {
            match item.and_then(|item| item.equals(value, budget)) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(limit) if limit.is_final() => return Err(limit),
                Err(error) => fault = fault.or(Some(error)),
            }
        }
        fault.map_or(Ok(false), Err)
    }

    pub(crate) fn plus(&self, other: &Self, budget: &Budget) -> Result<Self> {
        let count = self.len() + other.len();
        budget.step(count as u64)?;
        budget.allocate(64 * count)?;
        let mut items = self.iter().collect::<Result<Vec<_>>>()?;
        match self.kind {
            ListKind::Plain | ListKind::Atomic => items.extend(other.iter().collect::<Result<Vec<_>>>()?),
            ListKind::Set => {
                let mut known: BTreeSet<Key> = items.iter().filter_map(Key::of).collect();
                for item in other.iter() {
                    let item = item?;
                    if Key::of(&item).is_none_or(|key| known.insert(key)) {
                        items.push(item);
                    }
                }
            }
            ListKind::Keyed(keys) => {
                let mut places: BTreeMap<String, usize> = BTreeMap::new();
                for (at, item) in items.iter().enumerate() {
                    places.insert(list_key(item, keys), at);
                }
                for item in other.iter() {
                    let item = item?;
                    match places.get(&list_key(&item, keys)).and_then(|at| items.get_mut(*at)) {
                        Some(place) => *place = item,
                        None => items.push(item),
                    }
                }
            }
        }
        Ok(Self { items: Items::Made(Arc::new(items)), kind: self.kind })
    }

    pub(crate) fn equals(&self, other: &Self, budget: &Budget, depth: usize) -> Result<bool> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match self.kind {
            ListKind::Plain | ListKind::Atomic => {
                for (a, b) in self.iter().zip(other.iter()) {
                    match a.and_then(|a| a.equals_at(&b?, budget, depth)) {
                        Ok(true) => {}
                        // Computed lists treat incomparable elements as equal, as cel-go does.
                        Err(Fault::Error(_)) if D::IS_TYPED && !self.is_of_object() => {}
                        other => return other,
                    }
                }
                Ok(true)
            }
            ListKind::Set => {
                let known: BTreeSet<Key> = self.iter().filter_map(|item| Key::of(&item.ok()?)).collect();
                for item in other.iter() {
                    if Key::of(&item?).is_none_or(|key| !known.contains(&key)) {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            ListKind::Keyed(keys) => {
                let mut mine = BTreeMap::new();
                for item in self.iter() {
                    let item = item?;
                    mine.insert(list_key(&item, keys), item);
                }
                for item in other.iter() {
                    let item = item?;
                    let Some(same) = mine.get(&list_key(&item, keys)) else { return Ok(false) };
                    if !same.equals_at(&item, budget, depth)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }
}

/// Key of an element of a list of type `map`.
fn list_key<'a, D: Data<'a>>(item: &Val<'a, D>, keys: &[String]) -> String {
    match item {
        Val::Map(Map::Data(data)) => data.list_key(keys),
        _ => "\u{0}".repeat(keys.len()),
    }
}
